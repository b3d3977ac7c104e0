// The events of a run in summary.json: every key in every event, null where it does not apply.
#include "lab/summary/summary_json.h"

#include <math.h>

static json_t *times_json(const struct lab_times *times)
{
    return json_pack("{s:i, s:i, s:o, s:o}", "seen", (int)times->seen, "of", (int)times->of, "median",
                     lab_json_real(times->median), "last", lab_json_real(times->last));
}

static json_t *witness_json(const struct lab_cluster *cluster, const struct lab_witness *w)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "node",
                     cluster->nodes[w->node].name, "detected", lab_json_real(w->detected), "declared_dead",
                     lab_json_real(w->dead), "rewired", lab_json_real(w->rewired), "recovered",
                     lab_json_real(w->recovered), "longest_gap", lab_json_real(w->longest_gap),
                     "stalled_rounds", lab_json_real(w->stalled_rounds), "accuracy_before",
                     lab_json_real(w->accuracy_before), "accuracy_lowest", lab_json_real(w->accuracy_lowest),
                     "accuracy_end", lab_json_real(w->accuracy_end));
}

static json_t *witnesses_json(const struct lab_cluster *cluster, const struct lab_outcome *outcome)
{
    json_t *array = json_array();
    for (size_t i = 0; i < outcome->count; i++)
        json_array_append_new(array, witness_json(cluster, &outcome->witnesses[i]));
    return array;
}

static json_t *group_json(const struct lab_cluster *cluster, const struct lab_event *event, unsigned group)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cluster->count; i++)
        if (event->group[i] == group)
            json_array_append_new(array, json_string(cluster->nodes[i].name));
    return array;
}

static json_t *groups_json(const struct lab_cluster *cluster, const struct lab_event *event)
{
    unsigned most = 0;
    if (event->kind != LAB_PARTITION)
        return json_null();
    for (size_t i = 0; i < cluster->count; i++)
        most = event->group[i] > most ? event->group[i] : most;
    json_t *array = json_array();
    for (unsigned group = 1; group <= most; group++)
        json_array_append_new(array, group_json(cluster, event, group));
    return array;
}

static json_t *integer_or_null(uint64_t value)
{
    return value ? json_integer((json_int_t)value) : json_null();
}

// The configured duration in seconds; of an event in rounds, the measured one.
static double seconds_of(const struct lab_event *event, const struct lab_happening *happening)
{
    if (event->by_round)
        return happening->end_time - happening->time;
    return event->for_ns ? (double)event->for_ns / 1e9 : NAN;
}

static json_t *head_json(const struct lab_cluster *cluster, size_t index)
{
    const struct lab_event *event = &cluster->schedule->items[index];
    const struct lab_happening *happening = &cluster->happenings[index];
    json_t *node = event->kind == LAB_PARTITION ? json_null() : json_string(cluster->nodes[event->node].name);
    json_t *instead = happening->instead ? json_string(happening->instead) : json_null();
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "event", lab_event_name(event->kind),
        "node", node, "groups", groups_json(cluster, event), "at",
        lab_json_real(lab_event_seconds(cluster, index)), "for", lab_json_real(seconds_of(event, happening)),
        "happened", !isnan(happening->time), "instead", instead, "time", lab_json_real(happening->time),
        "end_time", lab_json_real(happening->end_time), "at_round", integer_or_null(event->at_round),
        "for_rounds", integer_or_null(event->for_rounds), "round", integer_or_null(happening->round));
}

static json_t *effects_json(const struct lab_cluster *cluster, const struct lab_event *event,
                            const struct lab_outcome *o)
{
    json_t *stalled =
        json_pack("{s:o, s:o, s:o}", "rounds", lab_json_real(o->stalled_rounds), "seconds",
                  lab_json_real(o->stalled_seconds), "node",
                  isnan(o->stalled_rounds) ? json_null() : json_string(cluster->nodes[o->stalled_node].name));
    json_t *accuracy = json_pack("{s:o, s:o, s:o, s:o}", "before", lab_json_real(o->accuracy_before),
                                 "lowest", lab_json_real(o->accuracy_lowest), "cost",
                                 lab_json_real(o->accuracy_before - o->accuracy_lowest), "end",
                                 lab_json_real(o->accuracy_end));
    json_t *dead = lab_event_lasts(event) ? json_integer((json_int_t)o->declared_dead) : json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "detected", times_json(&o->detected),
                     "rewired", times_json(&o->rewired), "recovered", times_json(&o->recovered),
                     "declared_dead_by", dead, "first_round", lab_json_real(o->first_round), "stalled",
                     stalled, "accuracy", accuracy, "witnesses", witnesses_json(cluster, o));
}

static json_t *event_json(const struct lab_cluster *cluster, size_t index,
                          const struct lab_history *histories)
{
    const struct lab_event *event = &cluster->schedule->items[index];
    struct lab_outcome outcome;
    lab_outcome_of(cluster, index, histories, &outcome);
    json_t *object = head_json(cluster, index);
    json_t *effects = effects_json(cluster, event, &outcome);
    if (object && effects)
        json_object_update(object, effects);
    json_decref(effects);
    return object;
}

json_t *lab_events_json(const struct lab_cluster *cluster, const struct lab_history *histories)
{
    json_t *array = json_array();
    for (size_t i = 0; i < cluster->schedule->count; i++)
        json_array_append_new(array, event_json(cluster, i, histories));
    return array;
}
