// The effects of a run's events, as text.
#include "lab/summary/summary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// "    2.1 s  round 200  node-05 was killed"; an event that did not happen has no time.
static void print_name(const struct lab_cluster *cluster, size_t index, FILE *out)
{
    static const char *const done[LAB_EVENT_KINDS] = {"was killed", "was stopped", "was started",
                                                      "was asked to leave", "the network was partitioned"};
    const struct lab_event *event = &cluster->schedule->items[index];
    const struct lab_happening *happening = &cluster->happenings[index];
    double seconds = lab_event_seconds(cluster, index);
    uint64_t round = isnan(happening->time) ? event->at_round : happening->round;
    if (isnan(seconds))
        fputs("      -    ", out);
    else
        fprintf(out, "  %5.1f s  ", seconds);
    if (round)
        fprintf(out, "round %" PRIu64 "  ", round);
    if (event->kind == LAB_PARTITION)
        fprintf(out, "%s", done[event->kind]);
    else
        fprintf(out, "%s %s", cluster->nodes[event->node].name, done[event->kind]);
    if (event->for_ns)
        fprintf(out, " for %g s", (double)event->for_ns / 1e9);
    if (event->for_rounds)
        fprintf(out, " for %" PRIu64 " rounds", event->for_rounds);
}

// "known as dead by 7 of 7, the last after 0.62 s, half of them after 0.55 s"
static void print_times(const char *what, const struct lab_times *times, FILE *out)
{
    if (!times->of)
        return;
    fprintf(out, "           %s by %zu of %zu", what, times->seen, times->of);
    if (times->seen)
        fprintf(out, ", the last after %.2f s, half of them after %.2f s", times->last, times->median);
    fputc('\n', out);
}

static void print_signs(const struct lab_event *event, const struct lab_outcome *o, FILE *out)
{
    static const char *const seen[LAB_EVENT_KINDS] = {"known as dead", "suspected", "found", "known as gone",
                                                      "all beyond the cut known as dead"};
    print_times(seen[event->kind], &o->detected, out);
    if (event->kind == LAB_STOP)
        fprintf(out, "           declared dead by %zu of %zu\n", o->declared_dead, o->count);
    if (event->kind == LAB_START && o->rewired.seen)
        fprintf(out, "           a neighbour again after %.2f s\n", o->rewired.last);
    else if (event->kind != LAB_START && o->rewired.of)
        print_times("graph closed around it", &o->rewired, out);
    if (!isnan(o->first_round))
        fprintf(out, "           its first round after %.2f s\n", o->first_round);
    print_times("known as alive after its end", &o->recovered, out);
}

static void print_effects(const struct lab_cluster *cluster, const struct lab_outcome *o, const char *measure,
                          FILE *out)
{
    char before[LAB_NUMBER_BYTES], lowest[LAB_NUMBER_BYTES], end[LAB_NUMBER_BYTES];
    if (!isnan(o->stalled_rounds))
        fprintf(out,
                "           the longest round of the others took %.2f s (%s), %.1f times its usual length\n",
                o->stalled_seconds, cluster->nodes[o->stalled_node].name, o->stalled_rounds + 1);
    if (isnan(o->accuracy_before))
        return;
    const bool r2 = strcmp(measure, "R2") == 0;
    lab_print_accuracy(o->accuracy_before, r2, before);
    lab_print_accuracy(o->accuracy_lowest, r2, lowest);
    lab_print_accuracy(o->accuracy_end, r2, end);
    fprintf(out, "           their %s: %s before, %s at the lowest after it, %s at the end\n", measure,
            before, lowest, end);
}

static void print_event(const struct lab_cluster *cluster, size_t index, const struct lab_history *histories,
                        const char *measure, FILE *out)
{
    const struct lab_event *event = &cluster->schedule->items[index];
    const struct lab_happening *happening = &cluster->happenings[index];
    struct lab_outcome outcome;
    print_name(cluster, index, out);
    if (isnan(happening->time)) {
        fprintf(out, ": did not happen: %s\n",
                happening->instead ? happening->instead : "the reason is unknown");
        return;
    }
    fputc('\n', out);
    lab_outcome_of(cluster, index, histories, &outcome);
    print_signs(event, &outcome, out);
    print_effects(cluster, &outcome, measure, out);
}

static void print_goodput(const struct lab_cluster *cluster, const struct lab_history *histories, FILE *out)
{
    struct lab_goodput total, lowest;
    char share[LAB_NUMBER_BYTES], least_share[LAB_NUMBER_BYTES];
    size_t least;
    lab_goodput_total(cluster, histories, &total, &least);
    if (isnan(total.share))
        return;
    lab_goodput_of(cluster, least, histories, &lowest);
    lab_print_percent(total.share, share);
    lab_print_percent(lowest.share, least_share);
    fprintf(out, "  goodput: living nodes did %s of the rounds of the cluster; %s did the fewest, %s\n",
            share, cluster->nodes[least].name, least_share);
}

void lab_events_print(const struct lab_cluster *cluster, const struct lab_history *histories,
                      const char *measure, FILE *out)
{
    size_t deaths = lab_false_deaths(cluster);
    if (cluster->schedule->count)
        fprintf(out, "\n  events, in seconds after all nodes trained, and rounds of the cluster\n");
    for (size_t i = 0; i < cluster->schedule->count; i++)
        print_event(cluster, i, histories, measure, out);
    if (cluster->schedule->count)
        print_goodput(cluster, histories, out);
    if (deaths)
        fprintf(out, "  living nodes were declared dead %zu times, and no event explains it\n", deaths);
}
