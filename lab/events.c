#include "lab/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS  1000000000.0
#define AT_MOST_NS (365ull * 86400 * 1000000000)

static const char *const names[LAB_EVENT_KINDS] = {"kill", "stop", "start", "leave", "partition"};

const char *lab_event_name(enum lab_event_kind kind)
{
    return names[kind];
}

struct reading {
    struct lab_schedule schedule;
    size_t nodes;
    const struct node_tree *where; // the part that is looked at
    struct base_reason *why;
};

static bool lasts(enum lab_event_kind kind)
{
    return kind == LAB_STOP || kind == LAB_PARTITION;
}

// Behind those of the same time.
static enum base_error put(struct reading *r, const struct lab_event *event)
{
    struct lab_schedule *s = &r->schedule;
    if (s->count == LAB_EVENTS_MOST)
        return base_fail(r->why, BASE_ELIMIT, "found more than %u events", LAB_EVENTS_MOST);
    struct lab_event *larger = reallocarray(s->items, s->count + 1, sizeof *larger);
    if (!larger)
        return base_fail(r->why, BASE_ENOMEM, "no memory for the events of an experiment");
    s->items = larger;
    size_t at = s->count++;
    for (; at && larger[at - 1].at_ns > event->at_ns; at--)
        larger[at] = larger[at - 1];
    larger[at] = *event;
    return BASE_OK;
}

static enum base_error read_duration(struct reading *r, const struct node_tree *tree, uint64_t *value_ns)
{
    char found[NODE_TREE_FOUND_BYTES];
    uint64_t value = 0;
    r->where = tree;
    node_tree_found(tree, found);
    if (!node_tree_duration(tree, &value) || value > AT_MOST_NS)
        return base_fail(r->why, BASE_EINVAL,
                         "%s: found %s, expected a duration: a whole number and ms, s, m or h", tree->name,
                         found);
    *value_ns = value;
    return BASE_OK;
}

static enum base_error read_node(struct reading *r, const char *what, const struct node_tree *tree,
                                 size_t *node)
{
    char found[NODE_TREE_FOUND_BYTES];
    uint64_t value = 0;
    r->where = tree;
    node_tree_found(tree, found);
    if (!node_tree_integer(tree, &value) || value >= r->nodes)
        return base_fail(r->why, BASE_EINVAL, "%s: found %s, expected a node from 0 to %zu", what, found,
                         r->nodes - 1);
    *node = (size_t)value;
    return BASE_OK;
}

// One node, or a list of nodes; an event for each.
static enum base_error read_nodes(struct reading *r, const struct node_tree *tree, struct lab_event *event)
{
    enum base_error error = BASE_OK;
    struct lab_set seen = {0};
    const struct node_tree *items = tree->kind == NODE_TREE_LIST ? tree->items : tree;
    size_t count = tree->kind == NODE_TREE_LIST ? tree->count : 1;
    r->where = tree;
    if (!count)
        return base_fail(r->why, BASE_EINVAL, "%s: found an empty list, expected nodes", tree->name);
    for (size_t i = 0; i < count && !error; i++) {
        error = read_node(r, tree->name, &items[i], &event->node);
        if (!error && lab_set_has(&seen, event->node))
            error = base_fail(r->why, BASE_EINVAL, "%s: found node %zu twice, expected it once", tree->name,
                              event->node);
        if (!error)
            error = put(r, event);
        if (!error)
            lab_set_add(&seen, event->node);
    }
    return error;
}

static enum base_error read_group(struct reading *r, const struct node_tree *tree, uint16_t group,
                                  struct lab_event *event)
{
    size_t node = 0;
    enum base_error error = BASE_OK;
    r->where = tree;
    if (tree->kind != NODE_TREE_LIST || !tree->count)
        return base_fail(r->why, BASE_EINVAL,
                         "partition: found a group that is no list of nodes, expected such as [0, 1]");
    for (size_t i = 0; i < tree->count && !error; i++) {
        error = read_node(r, "partition", &tree->items[i], &node);
        if (!error && event->group[node])
            error = base_fail(r->why, BASE_EINVAL,
                              "partition: found node %zu twice, expected it in one group", node);
        if (!error)
            event->group[node] = group;
    }
    return error;
}

static enum base_error read_groups(struct reading *r, const struct node_tree *tree, struct lab_event *event)
{
    enum base_error error = BASE_OK;
    r->where = tree;
    if (tree->kind != NODE_TREE_LIST || tree->count < 2)
        return base_fail(r->why, BASE_EINVAL,
                         "partition: expected at least two groups of nodes, such as [[0, 1], [2, 3]]");
    for (size_t i = 0; i < tree->count && !error; i++)
        error = read_group(r, &tree->items[i], (uint16_t)(i + 1), event); // none is empty: at most the nodes
    return error ? error : put(r, event);
}

// The entry that says what happens: exactly one.
static enum base_error find_kind(struct reading *r, const struct node_tree *map,
                                 const struct node_tree **what, enum lab_event_kind *kind)
{
    *what = NULL;
    for (size_t i = 0; i < map->count; i++) {
        const struct node_tree *entry = &map->items[i];
        size_t known = 0;
        while (known < LAB_EVENT_KINDS && strcmp(names[known], entry->name) != 0)
            known++;
        r->where = entry;
        if (known < LAB_EVENT_KINDS && *what)
            return base_fail(r->why, BASE_EINVAL, "found both %s and %s in one event, expected one of them",
                             (*what)->name, entry->name);
        if (known < LAB_EVENT_KINDS) {
            *what = entry;
            *kind = (enum lab_event_kind)known;
        } else if (strcmp(entry->name, "at") != 0 && strcmp(entry->name, "for") != 0)
            return base_fail(r->why, BASE_EINVAL,
                             "found the unknown word \"%.64s\", expected at, for, kill, stop, start, leave "
                             "or partition",
                             entry->name);
    }
    r->where = map;
    return *what ? BASE_OK
                 : base_fail(r->why, BASE_EINVAL,
                             "found an event that says not what happens, expected one of kill, stop, start, "
                             "leave and partition in it");
}

static enum base_error read_event(struct reading *r, const struct node_tree *map)
{
    struct lab_event event = {.part = map};
    const struct node_tree *what = NULL, *at = node_tree_entry(map, "at"),
                           *time = node_tree_entry(map, "for");
    enum base_error error = find_kind(r, map, &what, &event.kind);
    if (error)
        return error;
    if (!at)
        return base_fail(r->why, BASE_EINVAL, "%s: found no time, expected one such as at: 10s", what->name);
    if (lasts(event.kind) && !time)
        return base_fail(r->why, BASE_EINVAL, "%s: found no end, expected how long, such as for: 5s",
                         what->name);
    if (!lasts(event.kind) && time)
        return base_fail(r->why, BASE_EINVAL, "%s: found for, expected it only with stop and partition",
                         what->name);
    error = read_duration(r, at, &event.at_ns);
    if (!error && time)
        error = read_duration(r, time, &event.for_ns);
    if (!error && time && !event.for_ns)
        error = base_fail(r->why, BASE_EINVAL, "for: found 0, expected a time");
    if (error)
        return error;
    return event.kind == LAB_PARTITION ? read_groups(r, what, &event) : read_nodes(r, what, &event);
}

// What a node does at a moment of the schedule.
struct fate {
    bool runs;
    uint64_t until_ns;            // stopped until then
    const struct lab_event *last; // what brought it there; NULL: it is so from the beginning
};

static const char *describe(const struct fate *fate, char text[96])
{
    static const char *const done[] = {"killed at", "going on after its stop at", "started at",
                                       "asked to leave at"};
    if (fate->last)
        snprintf(text, 96, "%s %g s", done[fate->last->kind], (double)fate->last->at_ns / SECOND_NS);
    else
        snprintf(text, 96, "there from the beginning");
    return text;
}

static enum base_error check_event(struct reading *r, const struct lab_event *event, struct fate *fate)
{
    char text[96];
    bool wants = event->kind != LAB_START;
    double at = (double)event->at_ns / SECOND_NS;
    r->where = event->part;
    if (fate->runs && event->at_ns < fate->until_ns)
        return base_fail(r->why, BASE_EINVAL,
                         "%s: found node %zu at %g s, when it is stopped, expected a time from %g s on",
                         names[event->kind], event->node, at, (double)fate->until_ns / SECOND_NS);
    if (fate->runs != wants)
        return base_fail(r->why, BASE_EINVAL, "%s: found node %zu at %g s, which is %s, expected %s",
                         names[event->kind], event->node, at, describe(fate, text),
                         wants ? "one that runs then" : "one that was killed or has left before");
    fate->runs = event->kind == LAB_STOP || event->kind == LAB_START;
    fate->until_ns = event->at_ns + event->for_ns;
    fate->last = event;
    return BASE_OK;
}

static void find_late(struct lab_schedule *schedule)
{
    struct lab_set seen = {0};
    for (size_t i = 0; i < schedule->count; i++) {
        const struct lab_event *event = &schedule->items[i];
        if (event->kind == LAB_PARTITION)
            continue;
        if (event->kind == LAB_START && !lab_set_has(&seen, event->node))
            lab_set_add(&schedule->late, event->node);
        lab_set_add(&seen, event->node);
    }
}

static enum base_error check_order(struct reading *r)
{
    struct fate fates[LAB_NODES_MOST] = {0};
    struct lab_schedule *s = &r->schedule;
    uint64_t cut_until_ns = 0;
    enum base_error error = BASE_OK;
    bool any = false;
    find_late(s);
    for (size_t i = 0; i < r->nodes; i++) {
        fates[i].runs = !lab_set_has(&s->late, i);
        any = any || fates[i].runs;
    }
    if (!any)
        return base_fail(
            r->why, BASE_EINVAL,
            "found every node started by an event, expected one that is there from the beginning");
    for (size_t i = 0; i < s->count && !error; i++) {
        const struct lab_event *event = &s->items[i];
        r->where = event->part;
        if (event->kind != LAB_PARTITION)
            error = check_event(r, event, &fates[event->node]);
        else if (event->at_ns < cut_until_ns)
            error =
                base_fail(r->why, BASE_EINVAL,
                          "partition: found one at %g s, when another lasts, expected a time from %g s on",
                          (double)event->at_ns / SECOND_NS, (double)cut_until_ns / SECOND_NS);
        else
            cut_until_ns = event->at_ns + event->for_ns;
    }
    return error;
}

enum base_error lab_schedule_read(const struct node_tree *events, size_t nodes, struct lab_schedule *schedule,
                                  const struct node_tree **where, struct base_reason *why)
{
    struct reading r = {.nodes = nodes, .where = events, .why = why};
    enum base_error error = BASE_OK;
    BASE_ASSERT(nodes && nodes <= LAB_NODES_MOST);
    for (size_t i = 0; i < events->count && !error; i++)
        error = read_event(&r, &events->items[i]);
    r.where = error ? r.where : events;
    if (!error && r.schedule.count)
        error = check_order(&r);
    if (error)
        lab_schedule_free(&r.schedule);
    *where = r.where;
    *schedule = r.schedule;
    return error;
}

bool lab_event_cuts(const struct lab_event *event, size_t one, size_t other)
{
    return event->group[one] && event->group[other] && event->group[one] != event->group[other];
}

void lab_schedule_free(struct lab_schedule *schedule)
{
    free(schedule->items);
    *schedule = (struct lab_schedule){0};
}
