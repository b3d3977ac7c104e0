#include "lab/record/journal.h"

#include "base/array.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[LAB_SIGN_KINDS] = {"join", "suspect", "alive", "dead", "left", "view"};

// "node-07" -> 7, "node-123" -> 123; `count`: no node of the run.
static size_t by_name(const char *name, size_t count)
{
    static const char prefix[] = "node-";
    uint64_t index = 0;
    size_t bytes = name ? strlen(name) : 0, head = sizeof prefix - 1;
    if (bytes <= head || bytes > head + 4 || memcmp(name, prefix, head) != 0)
        return count;
    for (const char *digit = name + head; *digit; digit++) {
        if (*digit < '0' || *digit > '9')
            return count;
        index = 10 * index + (uint64_t)(*digit - '0');
    }
    return index < count ? (size_t)index : count;
}

// Finds a member by its id, which is authenticated; a name is only claimed.
static size_t member_of(const json_t *object, const struct lab_ids *ids)
{
    const char *hex = json_string_value(json_object_get(object, "id"));
    size_t named = by_name(json_string_value(json_object_get(object, "member")), ids->count), i = 0;
    if (!hex || (named < ids->count && strcmp(ids->hex[named], hex) == 0))
        return named;
    while (i < ids->count && strcmp(ids->hex[i], hex) != 0)
        i++;
    return i;
}

static struct lab_set *neighbours_of(const json_t *object, const struct lab_ids *ids) // NULL: no memory
{
    const json_t *list = json_object_get(object, "neighbours");
    struct lab_set *set = calloc(1, sizeof *set);
    for (size_t i = 0; i < json_array_size(list) && set; i++) {
        size_t index = by_name(json_string_value(json_array_get(list, i)), ids->count);
        if (index < ids->count)
            lab_set_add(set, index);
    }
    return set;
}

static bool take_object(struct lab_journal *journal, const json_t *object)
{
    const json_t *time = json_object_get(object, "time");
    const char *event = json_string_value(json_object_get(object, "event"));
    struct lab_sign sign = {.time = json_number_value(time)};
    size_t kind = 0;
    if (!event || !json_is_number(time))
        return false;
    while (kind < LAB_SIGN_KINDS && strcmp(names[kind], event) != 0)
        kind++;
    if (kind == LAB_SIGN_KINDS) // an event of another kind
        return true;
    sign.kind = (enum lab_sign_kind)kind;
    if (sign.kind == LAB_VIEW && !(sign.neighbours = neighbours_of(object, journal->ids)))
        return false;
    if (sign.kind != LAB_VIEW && (sign.member = member_of(object, journal->ids)) == journal->ids->count)
        return false;
    if (journal->count < LAB_SIGNS_MAX &&
        base_array_add(&journal->signs, &journal->count, &sign, sizeof sign))
        return true;
    free(sign.neighbours);
    return false;
}

static bool take_line(void *context, const char *line, size_t bytes)
{
    json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
    bool good = json_is_object(object) && take_object(context, object);
    json_decref(object);
    return good;
}

void lab_journal_start(const char *path, const struct lab_ids *ids, struct lab_journal *journal)
{
    *journal = (struct lab_journal){.ids = ids};
    lab_lines_start(path, &journal->file);
}

void lab_journal_read(struct lab_journal *journal)
{
    lab_lines_read(&journal->file, take_line, journal);
}

void lab_journal_again(struct lab_journal *journal)
{
    lab_journal_read(journal);
    lab_lines_again(&journal->file);
}

void lab_journal_close(struct lab_journal *journal)
{
    lab_lines_close(&journal->file);
    for (size_t i = 0; i < journal->count; i++)
        free(journal->signs[i].neighbours);
    free(journal->signs);
    journal->signs = NULL;
    journal->count = 0;
}

double lab_journal_all(const struct lab_journal *journal, unsigned kinds, const struct lab_set *members,
                       double from, double until)
{
    struct lab_set missing = *members;
    double last = NAN;
    for (size_t i = 0; i < journal->count && !lab_set_is_empty(&missing); i++) {
        const struct lab_sign *sign = &journal->signs[i];
        if (sign->kind == LAB_VIEW || !(kinds & LAB_SIGN(sign->kind)) || sign->time < from ||
            sign->time >= until || !lab_set_has(&missing, sign->member))
            continue;
        lab_set_remove(&missing, sign->member);
        last = last >= sign->time ? last : sign->time;
    }
    return lab_set_is_empty(&missing) ? last : NAN;
}

double lab_journal_view(const struct lab_journal *journal, const struct lab_set *members, bool present,
                        double from, double until)
{
    for (size_t i = 0; i < journal->count; i++) {
        const struct lab_sign *sign = &journal->signs[i];
        if (sign->kind == LAB_VIEW && lab_set_meets(sign->neighbours, members) == present &&
            sign->time >= from && sign->time < until)
            return sign->time;
    }
    return NAN;
}
