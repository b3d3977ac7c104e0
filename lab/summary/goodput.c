#include "lab/summary/goodput.h"

#include <math.h>

// Rounds of the cluster at the end of the run.
static uint64_t last_round(const struct lab_cluster *cluster)
{
    uint64_t rounds[LAB_NODES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < cluster->count; i++)
        if (cluster->nodes[i].starts && cluster->nodes[i].gone == LAB_HERE)
            rounds[count++] = cluster->nodes[i].tail.row.round;
    uint64_t round = lab_cluster_round(rounds, count);
    return round > cluster->round ? round : cluster->round;
}

// Rounds of the cluster while the node should have been running: from the start, or from the event that
// brought it back, to the event that removed it, or to the end.
static uint64_t living_rounds(const struct lab_cluster *cluster, size_t node, uint64_t last)
{
    bool runs = !lab_set_has(&cluster->schedule->late, node);
    uint64_t since = 0, living = 0;
    for (size_t i = 0; i < cluster->schedule->count; i++) {
        const struct lab_event *event = &cluster->schedule->items[i];
        const struct lab_happening *happening = &cluster->happenings[i];
        if (event->kind == LAB_PARTITION || event->node != node || isnan(happening->time))
            continue;
        if (runs && event->kind != LAB_START)
            living += happening->round - since;
        runs = event->kind == LAB_START || (event->kind == LAB_STOP && !isnan(happening->end_time));
        since = event->kind == LAB_STOP ? happening->end_round : happening->round;
    }
    return living + (runs && last > since ? last - since : 0);
}

static uint64_t rounds_done(const struct lab_history *history)
{
    uint64_t count = 0, highest = 0;
    for (size_t i = 0; i < history->count; i++)
        if (history->marks[i].round > highest) {
            highest = history->marks[i].round;
            count++;
        }
    return count;
}

static double share_of(const struct lab_goodput *goodput)
{
    return goodput->living ? (double)goodput->counted / (double)goodput->living : NAN;
}

void lab_goodput_of(const struct lab_cluster *cluster, size_t node, const struct lab_history *histories,
                    struct lab_goodput *goodput)
{
    uint64_t done = rounds_done(&histories[node]);
    goodput->living = living_rounds(cluster, node, last_round(cluster));
    goodput->counted = done < goodput->living ? done : goodput->living; // a fast node is ahead of the cluster
    goodput->share = share_of(goodput);
}

void lab_goodput_total(const struct lab_cluster *cluster, const struct lab_history *histories,
                       struct lab_goodput *total, size_t *least)
{
    double lowest = INFINITY;
    *total = (struct lab_goodput){0};
    *least = 0;
    for (size_t i = 0; i < cluster->count; i++) {
        struct lab_goodput goodput;
        lab_goodput_of(cluster, i, histories, &goodput);
        total->living += goodput.living;
        total->counted += goodput.counted;
        if (goodput.share < lowest) {
            lowest = goodput.share;
            *least = i;
        }
    }
    total->share = share_of(total);
}
