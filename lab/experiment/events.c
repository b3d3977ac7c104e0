#include "lab/experiment/events.h"

#include "base/array.h"
#include "lab/experiment/parts.h"

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
    uint64_t rounds;               // of the training
    const struct node_tree *where; // the part that is being read
    struct base_reason *why;
};

static bool lasts(enum lab_event_kind kind)
{
    return kind == LAB_STOP || kind == LAB_PARTITION;
}

bool lab_event_lasts(const struct lab_event *event)
{
    return lasts(event->kind);
}

static uint64_t begin_of(const struct lab_event *event) // in its unit
{
    return event->by_round ? event->at_round : event->at_ns;
}

static uint64_t end_of(const struct lab_event *event)
{
    return begin_of(event) + (event->by_round ? event->for_rounds : event->for_ns);
}

bool lab_event_due(const struct lab_event *event, const struct lab_moment *moment, bool end)
{
    return (event->by_round ? moment->round : moment->since_ns) >= (end ? end_of(event) : begin_of(event));
}

uint64_t lab_cluster_round(uint64_t *rounds, size_t count)
{
    if (!count)
        return 0;
    qsort(rounds, count, sizeof *rounds, base_order_u64);
    return rounds[(count - 1) / 2];
}

static const char *when(bool by_round, uint64_t moment, char text[LAB_EVENT_WHEN_BYTES])
{
    if (by_round)
        snprintf(text, LAB_EVENT_WHEN_BYTES, "round %" PRIu64, moment);
    else
        snprintf(text, LAB_EVENT_WHEN_BYTES, "%g s", (double)moment / SECOND_NS);
    return text;
}

const char *lab_event_when(const struct lab_event *event, char text[LAB_EVENT_WHEN_BYTES])
{
    return when(event->by_round, begin_of(event), text);
}

// Events at times come before events at rounds, because their common order is unknown.
static bool is_later(const struct lab_event *event, const struct lab_event *other)
{
    return event->by_round == other->by_round ? begin_of(event) > begin_of(other) : event->by_round;
}

enum base_error lab_schedule_add(struct lab_schedule *s, const struct lab_event *event,
                                 struct base_reason *why)
{
    if (s->count == LAB_EVENTS_MAX)
        return base_fail(why, BASE_ELIMIT, "found more than %u events", LAB_EVENTS_MAX);
    struct lab_event *larger = reallocarray(s->items, s->count + 1, sizeof *larger);
    if (!larger)
        return base_fail(why, BASE_ENOMEM, "no memory for the events of an experiment");
    s->items = larger;
    size_t at = s->count++;
    for (; at && is_later(&larger[at - 1], event); at--)
        larger[at] = larger[at - 1];
    larger[at] = *event;
    return BASE_OK;
}

static enum base_error put(struct reading *r, const struct lab_event *event)
{
    return lab_schedule_add(&r->schedule, event, r->why);
}

static enum base_error read_duration(struct reading *r, const struct node_tree *tree, uint64_t *value_ns)
{
    char found[NODE_TREE_FOUND_BYTES];
    uint64_t value = 0;
    r->where = tree;
    node_tree_found(tree, found);
    if (!node_tree_duration(tree, &value) || value > AT_MOST_NS)
        return base_fail(r->why, BASE_EINVAL,
                         "%s: found %s, expected a duration: a whole number and ms, s, m or h, or {%s}",
                         tree->name, found, strcmp(tree->name, "at") == 0 ? "round: 200" : "rounds: 20");
    *value_ns = value;
    return BASE_OK;
}

// {round: 200}, {rounds: 20}
static enum base_error read_rounds(struct reading *r, const struct node_tree *map, const char *word,
                                   uint64_t most, uint64_t *value)
{
    char found[NODE_TREE_FOUND_BYTES];
    const struct node_tree *number = node_tree_entry(map, word);
    r->where = map;
    if (map->count != 1 || !number)
        return base_fail(r->why, BASE_EINVAL, "%s: found a map, expected only {%s: NUMBER}", map->name, word);
    node_tree_found(number, found);
    if (!node_tree_integer(number, value) || !*value || *value > most)
        return base_fail(r->why, BASE_EINVAL,
                         "%s: %s: found %s, expected a number from 1 to %" PRIu64
                         ": the training has %" PRIu64 " rounds (train.steps / average.local_steps)",
                         map->name, word, found, most, r->rounds);
    return BASE_OK;
}

// Reads the beginning and, if the event lasts, its length: both as times or both in rounds.
static enum base_error read_moments(struct reading *r, const struct node_tree *at,
                                    const struct node_tree *length, struct lab_event *event)
{
    uint64_t most = r->rounds > 1 ? r->rounds - 1 : 1; // nothing follows the last round
    event->by_round = at->kind == NODE_TREE_MAP;
    r->where = length;
    if (length && event->by_round != (length->kind == NODE_TREE_MAP))
        return base_fail(r->why, BASE_EINVAL,
                         "for: found %s, but at is in %s; expected the same unit, such as for: %s",
                         event->by_round ? "a time" : "rounds", event->by_round ? "rounds" : "time",
                         event->by_round ? "{rounds: 20}" : "5s");
    enum base_error error = event->by_round ? read_rounds(r, at, "round", most, &event->at_round)
                                            : read_duration(r, at, &event->at_ns);
    if (error || !length)
        return error;
    error = event->by_round ? read_rounds(r, length, "rounds", r->rounds, &event->for_rounds)
                            : read_duration(r, length, &event->for_ns);
    if (!error && end_of(event) == begin_of(event))
        error = base_fail(r->why, BASE_EINVAL, "for: found 0, expected a time above 0");
    if (!error && event->by_round && end_of(event) > r->rounds && event->at_round < r->rounds)
        event->for_rounds = r->rounds - event->at_round; // no later round comes
    return error;
}

// Reads one node, or a list of nodes, and adds an event for each.
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
        error = lab_part_node(&items[i], tree->name, r->nodes, &event->node, &r->where, r->why);
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
                         "partition: found a group that is not a list of nodes, expected one such as [0, 1]");
    for (size_t i = 0; i < tree->count && !error; i++) {
        error = lab_part_node(&tree->items[i], "partition", r->nodes, &node, &r->where, r->why);
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
        error = read_group(r, &tree->items[i], (uint16_t)(i + 1), event); // no group is empty
    return error ? error : put(r, event);
}

// Finds the entry with the action; there must be exactly one.
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
                             "found an event without an action, expected one of kill, stop, start, leave and "
                             "partition");
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
        return base_fail(r->why, BASE_EINVAL,
                         "%s: found no time, expected one such as at: 10s or at: {round: 200}", what->name);
    if (lasts(event.kind) && !time)
        return base_fail(r->why, BASE_EINVAL, "%s: found no end, expected a length such as for: 5s",
                         what->name);
    if (!lasts(event.kind) && time)
        return base_fail(r->why, BASE_EINVAL, "%s: found \"for\", expected it only with stop and partition",
                         what->name);
    error = read_moments(r, at, time, &event);
    if (error)
        return error;
    return event.kind == LAB_PARTITION ? read_groups(r, what, &event) : read_nodes(r, what, &event);
}

// The state of a node at a moment of the schedule.
struct fate {
    bool runs;
    uint64_t until;               // stopped until then, in the unit of `last`
    const struct lab_event *last; // the event that caused the state; NULL: since the start
};

static const char *describe(const struct fate *fate, char text[96])
{
    static const char *const done[] = {"killed at", "resumed after its stop at", "started at",
                                       "asked to leave at"};
    char moment[LAB_EVENT_WHEN_BYTES];
    if (fate->last)
        snprintf(text, 96, "%s %s", done[fate->last->kind], lab_event_when(fate->last, moment));
    else
        snprintf(text, 96, "present from the start");
    return text;
}

static enum base_error check_event(struct reading *r, const struct lab_event *event, struct fate *fate)
{
    char text[96], moment[LAB_EVENT_WHEN_BYTES], other[LAB_EVENT_WHEN_BYTES];
    bool wants = event->kind != LAB_START;
    r->where = event->part;
    lab_event_when(event, moment);
    if (fate->last && fate->last->by_round != event->by_round)
        return base_fail(
            r->why, BASE_EINVAL,
            "%s: found node %zu at %s beside an event at %s, expected all events of one node at times or "
            "all at rounds: their order would be unknown",
            names[event->kind], event->node, moment, lab_event_when(fate->last, other));
    if (fate->runs && begin_of(event) < fate->until)
        return base_fail(r->why, BASE_EINVAL,
                         "%s: found node %zu at %s, while it is stopped, expected a time from %s on",
                         names[event->kind], event->node, moment, when(event->by_round, fate->until, other));
    if (fate->runs != wants)
        return base_fail(r->why, BASE_EINVAL, "%s: found node %zu at %s, which is %s, expected %s",
                         names[event->kind], event->node, moment, describe(fate, text),
                         wants ? "one that runs then" : "one that was killed or has left earlier");
    fate->runs = event->kind == LAB_STOP || event->kind == LAB_START;
    fate->until = end_of(event);
    fate->last = event;
    return BASE_OK;
}

static enum base_error check_partition(struct reading *r, const struct lab_event *event,
                                       const struct lab_event **last)
{
    char moment[LAB_EVENT_WHEN_BYTES], other[LAB_EVENT_WHEN_BYTES];
    lab_event_when(event, moment);
    if (*last && (*last)->by_round != event->by_round)
        return base_fail(
            r->why, BASE_EINVAL,
            "partition: found one at %s beside one at %s, expected all at times or all at rounds", moment,
            lab_event_when(*last, other));
    if (*last && begin_of(event) < end_of(*last))
        return base_fail(r->why, BASE_EINVAL,
                         "partition: found one at %s, while another lasts, expected a time from %s on",
                         moment, when(event->by_round, end_of(*last), other));
    *last = event;
    return BASE_OK;
}

// Rounds advance only while a node runs. If all events are at rounds, the running nodes are known.
static enum base_error check_somebody_runs(struct reading *r)
{
    const struct lab_schedule *s = &r->schedule;
    char moment[LAB_EVENT_WHEN_BYTES], other[LAB_EVENT_WHEN_BYTES];
    size_t running = r->nodes;
    for (size_t i = 0; i < r->nodes; i++)
        running -= lab_set_has(&s->late, i);
    for (size_t i = 0; i < s->count && s->items[0].by_round; i++) {
        const struct lab_event *event = &s->items[i];
        r->where = event->part;
        if (!running && begin_of(event) > begin_of(event - 1))
            return base_fail(
                r->why, BASE_EINVAL,
                "%s: found %s, but no node runs after %s, so it never happens; expected a running node, or "
                "all these events at times",
                names[event->kind], lab_event_when(event, moment), lab_event_when(event - 1, other));
        running += event->kind == LAB_START;
        running -= event->kind == LAB_KILL || event->kind == LAB_LEAVE;
    }
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
    struct fate fates[LAB_NODES_MAX] = {0};
    struct lab_schedule *s = &r->schedule;
    const struct lab_event *cut = NULL;
    enum base_error error = BASE_OK;
    bool any = false;
    find_late(s);
    for (size_t i = 0; i < r->nodes; i++) {
        fates[i].runs = !lab_set_has(&s->late, i);
        any = any || fates[i].runs;
    }
    if (!any)
        return base_fail(r->why, BASE_EINVAL,
                         "found every node started by an event, expected one that is present from the start");
    for (size_t i = 0; i < s->count && !error; i++) {
        const struct lab_event *event = &s->items[i];
        r->where = event->part;
        error = event->kind == LAB_PARTITION ? check_partition(r, event, &cut)
                                             : check_event(r, event, &fates[event->node]);
    }
    return error ? error : check_somebody_runs(r);
}

enum base_error lab_schedule_read(const struct node_tree *events, size_t nodes, uint64_t rounds,
                                  struct lab_schedule *schedule, const struct node_tree **where,
                                  struct base_reason *why)
{
    struct reading r = {.nodes = nodes, .rounds = rounds, .where = events, .why = why};
    enum base_error error = BASE_OK;
    BASE_ASSERT(nodes && nodes <= LAB_NODES_MAX);
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
