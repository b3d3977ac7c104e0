#include "lab/summary/outcome.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>

#define WENT_AWAY_S 10.0  // a witness that ends within this time without a report is not counted
#define EXCUSED_S   20.0  // a death of the node within this time after an event is explained by the event
#define TOGETHER_S  1.0   // the views of neighbours with a restarted node are within this time
#define SAME_S      0.005 // a view may be written this much before the death that caused it

static bool concerns(const struct lab_event *event, size_t node)
{
    return event->kind != LAB_PARTITION && event->node == node;
}

// In unix seconds; for an event at rounds that has not ended, its beginning.
static double end_of(const struct lab_event *event, const struct lab_happening *happening)
{
    return isnan(happening->end_time) ? happening->time + (double)event->for_ns / 1e9 : happening->end_time;
}

// The beginning of the next event of the same subject: later reports belong to that event.
static double until_of(const struct lab_cluster *cluster, size_t index)
{
    const struct lab_event *event = &cluster->schedule->items[index];
    double time = cluster->happenings[index].time;
    for (size_t i = index + 1; i < cluster->schedule->count; i++) {
        const struct lab_event *later = &cluster->schedule->items[i];
        bool same =
            event->kind == LAB_PARTITION ? later->kind == LAB_PARTITION : concerns(later, event->node);
        if (same && cluster->happenings[i].time >= time)
            return cluster->happenings[i].time;
    }
    return INFINITY;
}

static bool went_away(const struct lab_cluster *cluster, size_t node, double time)
{
    for (size_t i = 0; i < cluster->schedule->count; i++) {
        const struct lab_event *event = &cluster->schedule->items[i];
        double at = cluster->happenings[i].time;
        if (concerns(event, node) && event->kind != LAB_START && at >= time - SAME_S &&
            at < time + WENT_AWAY_S)
            return true;
    }
    return false;
}

// The nodes that the event removed from this witness, or added.
static struct lab_set members_of(const struct lab_event *event, size_t witness, size_t count)
{
    struct lab_set set = {0};
    if (event->kind != LAB_PARTITION)
        lab_set_add(&set, event->node);
    for (size_t i = 0; i < count && event->kind == LAB_PARTITION; i++)
        if (lab_event_cuts(event, witness, i))
            lab_set_add(&set, i);
    return set;
}

static void witness_signs(const struct lab_cluster *cluster, size_t index, struct lab_witness *witness)
{
    static const unsigned kinds[LAB_EVENT_KINDS] = {
        LAB_SIGN(LAB_DEAD), LAB_SIGN(LAB_SUSPECT) | LAB_SIGN(LAB_DEAD),
        LAB_SIGN(LAB_JOIN) | LAB_SIGN(LAB_ALIVE), LAB_SIGN(LAB_LEFT) | LAB_SIGN(LAB_DEAD),
        LAB_SIGN(LAB_DEAD)};
    const struct lab_event *event = &cluster->schedule->items[index];
    const struct lab_happening *happening = &cluster->happenings[index];
    const struct lab_journal *journal = &cluster->nodes[witness->node].journal;
    const struct lab_set members = members_of(event, witness->node, cluster->count);
    double from = happening->time, until = until_of(cluster, index), end = happening->end_time;
    double detected = lab_journal_all(journal, kinds[event->kind], &members, from, until), dead = NAN,
           view = detected;
    witness->detected = detected - from;
    if (lab_event_lasts(event)) {
        dead = lab_journal_all(journal, LAB_SIGN(LAB_DEAD), &members, from, until);
        view = dead;
        if (!isnan(detected))
            witness->recovered =
                lab_journal_all(journal, LAB_SIGN(LAB_ALIVE) | LAB_SIGN(LAB_JOIN), &members, end, until) -
                end;
    }
    witness->dead = dead - from;
    if (event->kind == LAB_START)
        witness->rewired = lab_journal_view(journal, &members, true, from, until) - from;
    else
        witness->rewired = lab_journal_view(journal, &members, false, view - SAME_S, until) - from;
    if (witness->rewired < 0)
        witness->rewired = 0;
}

// A gap in which an event removed the node itself does not count.
static bool was_away(const struct lab_cluster *cluster, size_t node, double from, double to)
{
    for (size_t i = 0; i < cluster->schedule->count; i++) {
        const struct lab_happening *happening = &cluster->happenings[i];
        if (concerns(&cluster->schedule->items[i], node) &&
            ((happening->time >= from && happening->time <= to) ||
             (happening->end_time >= from && happening->end_time <= to)))
            return true;
    }
    return false;
}

// False for a line that a node writes while it lingers after its last round: the line repeats that round.
static bool is_round(const struct lab_history *history, size_t i)
{
    return history->marks[i].round != history->marks[i - 1].round;
}

static void witness_stall(const struct lab_cluster *cluster, const struct lab_history *history, double from,
                          double to, struct lab_witness *witness)
{
    double *gaps = calloc(history->count + 1, sizeof *gaps), longest = NAN;
    size_t count = 0;
    for (size_t i = 1; i < history->count && gaps; i++) {
        double begin = history->marks[i - 1].time, end = history->marks[i].time;
        if (!(end >= begin) || !is_round(history, i) || was_away(cluster, witness->node, begin, end))
            continue;
        gaps[count++] = end - begin;
        if (end >= from && begin <= to && !(longest >= end - begin))
            longest = end - begin;
    }
    double usual = base_median(gaps, count);
    witness->longest_gap = longest;
    if (usual > 0 && !isnan(longest))
        witness->stalled_rounds = longest > usual ? longest / usual - 1 : 0;
    free(gaps);
}

static void witness_accuracy(const struct lab_history *history, double from, double to,
                             struct lab_witness *witness)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct lab_mark *mark = &history->marks[i];
        if (isnan(mark->accuracy))
            continue;
        witness->accuracy_end = mark->accuracy;
        if (mark->time <= from)
            witness->accuracy_before = mark->accuracy;
        else if (mark->time <= to && !(witness->accuracy_lowest <= mark->accuracy))
            witness->accuracy_lowest = mark->accuracy;
    }
}

static void sum_up_stalls(struct lab_outcome *outcome)
{
    for (size_t i = 0; i < outcome->count; i++) {
        const struct lab_witness *witness = &outcome->witnesses[i];
        if (isnan(witness->stalled_rounds) || outcome->stalled_rounds >= witness->stalled_rounds)
            continue;
        outcome->stalled_rounds = witness->stalled_rounds;
        outcome->stalled_seconds = witness->longest_gap;
        outcome->stalled_node = witness->node;
    }
}

static void sum_up_accuracies(struct lab_outcome *outcome)
{
    double before = 0, lowest = 0, end = 0, count = 0;
    for (size_t i = 0; i < outcome->count; i++) {
        const struct lab_witness *witness = &outcome->witnesses[i];
        if (isnan(witness->accuracy_before) || isnan(witness->accuracy_lowest))
            continue;
        before += witness->accuracy_before;
        lowest += witness->accuracy_lowest;
        end += witness->accuracy_end;
        count++;
    }
    if (count > 0) {
        outcome->accuracy_before = before / count;
        outcome->accuracy_lowest = lowest / count;
        outcome->accuracy_end = end / count;
    }
}

// values[of], NAN: not seen.
static struct lab_times times_of(double *values, size_t of)
{
    struct lab_times times = {.of = of, .median = NAN, .last = NAN};
    for (size_t i = 0; i < of; i++)
        if (!isnan(values[i]))
            values[times.seen++] = values[i];
    times.median = base_median(values, times.seen);
    if (times.seen)
        times.last = values[times.seen - 1];
    return times;
}

// A later view may have the node for another reason, such as the death of a third node.
static void keep_first(double *values, size_t count)
{
    double first = INFINITY;
    for (size_t i = 0; i < count; i++)
        first = values[i] < first ? values[i] : first;
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] < first + TOGETHER_S ? values[i] : NAN;
}

static void sum_up_times(const struct lab_event *event, struct lab_outcome *outcome)
{
    double detected[LAB_NODES_MAX], rewired[LAB_NODES_MAX], recovered[LAB_NODES_MAX];
    size_t saw = 0;
    for (size_t i = 0; i < outcome->count; i++) {
        const struct lab_witness *witness = &outcome->witnesses[i];
        detected[i] = witness->detected;
        rewired[i] = witness->rewired;
        recovered[i] = witness->recovered;
        saw += isnan(witness->detected) ? 0 : 1;
        outcome->declared_dead += isnan(witness->dead) ? 0 : 1;
    }
    outcome->detected = times_of(detected, outcome->count);
    if (event->kind == LAB_START)
        keep_first(rewired, outcome->count);
    outcome->rewired = times_of(rewired, outcome->count);
    outcome->recovered = times_of(recovered, outcome->count);
    outcome->recovered.of = lab_event_lasts(event) ? saw : 0; // a node without a report has nothing to revise
    if (event->kind == LAB_STOP)
        outcome->rewired.of = outcome->declared_dead;
    else if (event->kind == LAB_START)
        outcome->rewired.of = outcome->rewired.seen; // only its neighbours
}

static bool is_witness(const struct lab_cluster *cluster, size_t index, size_t node)
{
    const struct lab_event *event = &cluster->schedule->items[index];
    if (!lab_set_has(&cluster->happenings[index].present, node) || concerns(event, node))
        return false;
    const struct lab_set members = members_of(event, node, cluster->count);
    return !lab_set_is_empty(&members);
}

static double first_round(const struct lab_history *history, double from, double until)
{
    for (size_t i = 0; i < history->count; i++)
        if (history->marks[i].time > from && history->marks[i].time < until)
            return history->marks[i].time - from;
    return NAN;
}

void lab_outcome_of(const struct lab_cluster *cluster, size_t index, const struct lab_history *histories,
                    struct lab_outcome *outcome)
{
    const struct lab_event *event = &cluster->schedule->items[index];
    double from = cluster->happenings[index].time;
    double to = end_of(event, &cluster->happenings[index]) + LAB_WINDOW_S;
    *outcome = (struct lab_outcome){.first_round = NAN,
                                    .stalled_rounds = NAN,
                                    .stalled_seconds = NAN,
                                    .accuracy_before = NAN,
                                    .accuracy_lowest = NAN,
                                    .accuracy_end = NAN};
    for (size_t i = 0; i < cluster->count && !isnan(from); i++) {
        struct lab_witness *witness = &outcome->witnesses[outcome->count];
        if (!is_witness(cluster, index, i))
            continue;
        *witness = (struct lab_witness){i, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
        witness_signs(cluster, index, witness);
        if (isnan(witness->detected) && went_away(cluster, i, from))
            continue;
        if (histories) {
            witness_stall(cluster, &histories[i], from, to, witness);
            witness_accuracy(&histories[i], from, to, witness);
        }
        outcome->count++;
    }
    sum_up_times(event, outcome);
    sum_up_stalls(outcome);
    sum_up_accuracies(outcome);
    if (histories && event->kind == LAB_START && !isnan(from))
        outcome->first_round = first_round(&histories[event->node], from, until_of(cluster, index));
}

double lab_event_seconds(const struct lab_cluster *cluster, size_t index)
{
    const struct lab_event *event = &cluster->schedule->items[index];
    return event->by_round ? cluster->happenings[index].time - cluster->train_time
                           : (double)event->at_ns / 1e9;
}

// A partition excuses the death of every node: the cause may lie outside the node itself.
static bool is_excused(const struct lab_cluster *cluster, size_t node, double time)
{
    for (size_t i = 0; i < cluster->schedule->count; i++) {
        const struct lab_event *event = &cluster->schedule->items[i];
        const struct lab_happening *happening = &cluster->happenings[i];
        if ((event->kind == LAB_PARTITION || concerns(event, node)) && time >= happening->time &&
            time < end_of(event, happening) + EXCUSED_S)
            return true;
    }
    return false;
}

bool lab_death_is_false(const struct lab_cluster *cluster, const struct lab_sign *sign)
{
    const struct lab_node *node = &cluster->nodes[sign->kind == LAB_VIEW ? 0 : sign->member];
    return sign->kind == LAB_DEAD && node->gone == LAB_HERE && node->starts &&
           !(node->end_time <= sign->time + SAME_S) && !is_excused(cluster, sign->member, sign->time);
}

size_t lab_false_deaths(const struct lab_cluster *cluster)
{
    size_t count = 0;
    for (size_t i = 0; i < cluster->count; i++)
        for (size_t k = 0; k < cluster->nodes[i].journal.count; k++)
            count += lab_death_is_false(cluster, &cluster->nodes[i].journal.signs[k]);
    return count;
}

void lab_histories_read(const struct lab_cluster *cluster, struct lab_history histories[LAB_NODES_MAX])
{
    for (size_t i = 0; i < LAB_NODES_MAX; i++) {
        histories[i] = (struct lab_history){0};
        if (i < cluster->count && cluster->schedule->count)
            lab_history_read(cluster->nodes[i].tail.file.path, &histories[i]);
    }
}

void lab_histories_free(struct lab_history histories[LAB_NODES_MAX])
{
    for (size_t i = 0; i < LAB_NODES_MAX; i++)
        lab_history_free(&histories[i]);
}
