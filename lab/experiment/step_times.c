#include "lab/experiment/step_times.h"

#include "base/rng.h"
#include "lab/experiment/parts.h"

#include <stdlib.h>

#define FACTOR_MIN 1e-3
#define FACTOR_MAX 1e3
#define PART_MIN   0.1 // of the mean time
#define NODE_BITS  40u // of a stream number that hold the round; the node is above them
#define SEED_SALT  0x9ace5ull
#define ASSUMED_NS 1000000u // of a step without a measurement

static const char *const entries[] = {"node", "factor"};

static enum base_error read_straggler(const struct node_tree *map, size_t nodes, bool *slow, double *factors,
                                      const struct node_tree **where, struct base_reason *why)
{
    double factor = 1;
    enum base_error error = lab_part_entries(map, "a straggler", entries, 2, where, why);
    if (error)
        return error;
    const struct node_tree *node = node_tree_entry(map, "node"), *by = node_tree_entry(map, "factor");
    if (!node || !by) {
        *where = map;
        return base_fail(why, BASE_EINVAL, "expected node and factor, such as {node: 3, factor: 5}");
    }
    error = lab_part_nodes(node, "node", nodes, slow, where, why);
    if (!error)
        error = lab_part_real(by, FACTOR_MIN, FACTOR_MAX, &factor, where, why);
    for (size_t i = 0; i < nodes && !error; i++)
        if (slow[i])
            factors[i] = factor;
    return error;
}

static enum base_error read_stragglers(const struct node_tree *tree, size_t nodes, double *factors,
                                       const struct node_tree **where, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    *where = tree;
    for (size_t i = 0; i < tree->count && !error; i++) {
        bool *slow = calloc(nodes, sizeof *slow);
        error = slow ? read_straggler(&tree->items[i], nodes, slow, factors, where, why)
                     : base_fail(why, BASE_ENOMEM, "no memory for the stragglers");
        free(slow);
    }
    return error;
}

enum base_error lab_step_times_of(const struct lab_experiment *e, struct lab_step_times *step_times,
                                  struct base_reason *why)
{
    const struct node_tree *where = NULL;
    size_t nodes = e->experiment.nodes;
    struct lab_step_times read = {.seed = (e->node.train.seed + e->experiment.seed) ^ SEED_SALT,
                                  .step_ns = (double)(e->sim.step_time_ns ? e->sim.step_time_ns : ASSUMED_NS),
                                  .jitter = e->sim.step_jitter,
                                  .factor = calloc(nodes, sizeof *read.factor)};
    if (!read.factor)
        return base_fail(why, BASE_ENOMEM, "no memory for the stragglers");
    for (size_t i = 0; i < nodes; i++)
        read.factor[i] = 1;
    enum base_error error = read_stragglers(&e->sim.stragglers, nodes, read.factor, &where, why);
    if (error) {
        lab_step_times_free(&read);
        return lab_experiment_at_part(e, "sim.stragglers", where, why, error);
    }
    *step_times = read;
    return BASE_OK;
}

void lab_step_times_free(struct lab_step_times *step_times)
{
    free(step_times->factor);
    *step_times = (struct lab_step_times){0};
}

uint64_t lab_step_times_round_ns(const struct lab_step_times *step_times, size_t node, uint64_t round,
                                 uint64_t steps)
{
    double part = 1;
    if (step_times->jitter > 0) {
        struct base_rng rng;
        base_rng_seed_stream(&rng, step_times->seed, (uint64_t)node << NODE_BITS ^ round);
        part += step_times->jitter * base_rng_normal(&rng);
        part = part < PART_MIN ? PART_MIN : part;
    }
    return (uint64_t)((double)steps * step_times->step_ns * step_times->factor[node] * part);
}
