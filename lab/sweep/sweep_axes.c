// The key `sweep`: from its lists and maps to axes.
#include "lab/sweep/sweep_private.h"

#include <stdlib.h>
#include <string.h>

#define PLACE_BYTES 512u

struct reading {
    const struct lab_experiment *base;
    struct lab_sweep_plan *plan;
    struct base_reason *why;
};

// Keys that all runs of a sweep share, with the reason.
static const struct {
    const char *key, *because;
} refused[] = {
    {"experiment.out", "each run has its own directory in that of the sweep"},
    {"experiment.name", "all runs of a sweep are of one experiment"},
    {"experiment.repeats", "it is the number of seeds of every point"},
    {"events", "all runs share them so that they can be compared; write one file per schedule"},
    {"sweep", "there are no sweeps inside a sweep"},
};

static enum base_error at(const struct reading *r, const struct node_tree *part, const char *key,
                          enum base_error error)
{
    char place[PLACE_BYTES];
    node_schema_origin_of(&r->base->schema, r->base, "sweep", part, place, sizeof place);
    return base_fail_context(r->why, error, "%s: sweep%s%s", place, key ? ": " : "", key ? key : "");
}

static enum base_error no_memory(const struct reading *r)
{
    return base_fail(r->why, BASE_ENOMEM, "no memory for a sweep");
}

static enum base_error check_shared(const struct reading *r, const struct node_tree *list)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(refused[i].key, list->name) == 0)
            return at(r, list, list->name,
                      base_fail(r->why, BASE_EINVAL, "cannot be swept: %s", refused[i].because));
    return BASE_OK;
}

// Refuses a key that is swept already, or given by --set or a variable, which would have no effect.
static enum base_error check_key(const struct reading *r, const struct node_tree *list)
{
    enum base_error error = check_shared(r, list);
    for (size_t i = 0; i < r->plan->n_axes && !error; i++)
        if (strcmp(r->plan->axes[i].key, list->name) == 0)
            error =
                at(r, list, list->name,
                   base_fail(r->why, BASE_EINVAL, "swept a second time, the first is at %s; expected it once",
                             r->plan->axes[i].origins[0]));
    for (size_t i = 0; i < r->base->schema.count && !error; i++) {
        if (strcmp(r->base->schema.keys[i].name, list->name) != 0)
            continue;
        const char *origin = node_schema_origin(&r->base->schema, r->base, list->name);
        if (strcmp(origin, "--set") == 0 || strncmp(origin, "P2PML_", 6) == 0)
            error = at(
                r, list, list->name,
                base_fail(r->why, BASE_EINVAL,
                          "swept here and given by %s, expected only one of them; --set sweep=[...] replaces "
                          "the sweep",
                          origin));
    }
    return error;
}

// A list of texts as a text for --set, "[a, b]"; NULL: not a list of texts, or out of memory.
static char *list_text(const struct node_tree *list)
{
    size_t bytes = 3;
    for (size_t i = 0; i < list->count; i++) {
        const struct node_tree *item = &list->items[i];
        if (item->kind != NODE_TREE_TEXT || strpbrk(item->text, ",[]"))
            return NULL;
        bytes += strlen(item->text) + 2;
    }
    char *text = malloc(bytes), *end = text;
    if (!text)
        return NULL;
    *end++ = '[';
    for (size_t i = 0; i < list->count; i++) {
        end = stpcpy(end, i ? ", " : "");
        end = stpcpy(end, list->items[i].text);
    }
    memcpy(end, "]", 2);
    return text;
}

static enum base_error add_value(const struct reading *r, struct lab_sweep_axis *axis,
                                 const struct node_tree *value)
{
    char place[PLACE_BYTES], found[NODE_TREE_FOUND_BYTES];
    char *text = value->kind == NODE_TREE_TEXT   ? strdup(value->text)
                 : value->kind == NODE_TREE_LIST ? list_text(value)
                                                 : NULL;
    if (!text) {
        node_tree_found(value, found);
        return at(
            r, value, axis->key,
            base_fail(r->why, BASE_EINVAL,
                      "found %s, expected a value as --set takes it; lists and maps as a text in quotes, "
                      "such as \"[{node: 3, factor: 5}]\"",
                      found));
    }
    node_schema_origin_of(&r->base->schema, r->base, "sweep", value, place, sizeof place);
    char *origin = strdup(place);
    if (!origin) {
        free(text);
        return no_memory(r);
    }
    axis->values[axis->count] = text;
    axis->origins[axis->count++] = origin;
    return BASE_OK;
}

static enum base_error read_key(const struct reading *r, const struct node_tree *list, size_t entry)
{
    struct lab_sweep_plan *plan = r->plan;
    char found[NODE_TREE_FOUND_BYTES];
    enum base_error error = check_key(r, list);
    if (error)
        return error;
    node_tree_found(list, found);
    if (list->kind != NODE_TREE_LIST || !list->count)
        return at(r, list, list->name,
                  base_fail(r->why, BASE_EINVAL, "found %s, expected a list of values, such as [1/32, 1/100]",
                            list->kind == NODE_TREE_LIST ? "an empty list" : found));
    struct lab_sweep_axis *larger = reallocarray(plan->axes, plan->n_axes + 1, sizeof *larger);
    if (!larger)
        return no_memory(r);
    plan->axes = larger;
    struct lab_sweep_axis *axis = &larger[plan->n_axes++];
    *axis = (struct lab_sweep_axis){.key = strdup(list->name),
                                    .values = calloc(list->count, sizeof *axis->values),
                                    .origins = calloc(list->count, sizeof *axis->origins),
                                    .entry = entry};
    if (!axis->key || !axis->values || !axis->origins)
        return no_memory(r);
    for (size_t i = 0; i < list->count && !error; i++)
        error = add_value(r, axis, &list->items[i]);
    return error;
}

static enum base_error read_entry(const struct reading *r, const struct node_tree *map, size_t entry)
{
    enum base_error error = BASE_OK;
    size_t first = r->plan->n_axes;
    if (map->kind != NODE_TREE_MAP || !map->count)
        return at(
            r, map, NULL,
            base_fail(
                r->why, BASE_EINVAL,
                "found an entry without keys, expected one such as {topology.kind: [ring, butterfly]}"));
    for (size_t i = 0; i < map->count && !error; i++)
        error = read_key(r, &map->items[i], entry);
    for (size_t i = first + 1; i < r->plan->n_axes && !error; i++) {
        const struct lab_sweep_axis *one = &r->plan->axes[first], *other = &r->plan->axes[i];
        if (one->count != other->count)
            error = at(
                r, &map->items[i - first], other->key,
                base_fail(
                    r->why, BASE_EINVAL,
                    "found %zu values, expected %zu, as in %s: lists in one entry advance together; a key in "
                    "an entry of its own multiplies",
                    other->count, one->count, one->key));
    }
    return error;
}

// The last entry changes fastest.
static enum base_error count_points(const struct reading *r)
{
    struct lab_sweep_plan *plan = r->plan;
    size_t points = 1;
    for (size_t end = plan->n_axes; end;) {
        size_t first = end - 1, count = plan->axes[first].count;
        while (first && plan->axes[first - 1].entry == plan->axes[end - 1].entry)
            first--;
        for (size_t i = first; i < end; i++)
            plan->axes[i].stride = points;
        if (count > LAB_SWEEP_RUNS_MAX / points)
            return at(r, &r->base->sweep, NULL,
                      base_fail(r->why, BASE_ELIMIT, "found more than %u points, the maximum of a sweep",
                                LAB_SWEEP_RUNS_MAX));
        points *= count;
        end = first;
    }
    plan->n_points = points;
    return BASE_OK;
}

enum base_error lab_sweep_axes_read(const struct lab_experiment *base, struct lab_sweep_plan *plan,
                                    struct base_reason *why)
{
    const struct reading r = {base, plan, why};
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < base->sweep.count && !error; i++)
        error = read_entry(&r, &base->sweep.items[i], i);
    return error ? error : count_points(&r);
}
