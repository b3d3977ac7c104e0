#include "lab/experiment/churn.h"

#include "base/rng.h"

#define RUN_AT_MIN 2u
#define STREAM     0x636875726eu // a stream of random numbers of its own

struct drawing {
    uint64_t away_until[LAB_NODES_MAX]; // round of the restart
    struct lab_set named;               // in the file
    size_t nodes;
};

static struct lab_set names_of(const struct lab_schedule *schedule)
{
    struct lab_set set = {0};
    for (size_t i = 0; i < schedule->count; i++)
        if (schedule->items[i].kind != LAB_PARTITION)
            lab_set_add(&set, schedule->items[i].node);
    return set;
}

// The nodes that may go down at this round, in order; none if too few would remain.
static size_t candidates(const struct drawing *d, uint64_t round, size_t found[LAB_NODES_MAX])
{
    size_t count = 0, running = 0;
    for (size_t i = 0; i < d->nodes; i++) {
        if (d->away_until[i] >= round)
            continue;
        running++;
        if (!lab_set_has(&d->named, i))
            found[count++] = i;
    }
    return running > RUN_AT_MIN ? count : 0;
}

static enum base_error add_pair(const struct lab_churn *churn, size_t node, uint64_t round, uint64_t back,
                                struct lab_schedule *schedule, struct base_reason *why)
{
    const struct lab_event gone = {.kind = churn->how == LAB_CHURN_LEAVE ? LAB_LEAVE : LAB_KILL,
                                   .by_round = true,
                                   .at_round = round,
                                   .node = node};
    const struct lab_event again = {.kind = LAB_START, .by_round = true, .at_round = back, .node = node};
    enum base_error error = lab_schedule_add(schedule, &gone, why);
    return error ? error : lab_schedule_add(schedule, &again, why);
}

enum base_error lab_churn_add(const struct lab_churn *churn, uint64_t seed, size_t nodes, uint64_t rounds,
                              struct lab_schedule *schedule, struct base_reason *why)
{
    struct base_rng rng;
    struct drawing d = {.named = names_of(schedule), .nodes = nodes};
    enum base_error error = BASE_OK;
    base_rng_seed_stream(&rng, seed, STREAM);
    for (uint64_t round = churn->every; churn->every && round < rounds && !error; round += churn->every) {
        size_t found[LAB_NODES_MAX], count = candidates(&d, round, found);
        uint64_t back = round + churn->back_min + base_rng_below(&rng, churn->back_max - churn->back_min + 1);
        uint64_t which = base_rng_below(&rng, count ? count : 1);
        if (!count || back >= rounds)
            continue;
        d.away_until[found[which]] = back;
        error = add_pair(churn, found[which], round, back, schedule, why);
    }
    return error;
}
