// Runs of the lock-step engine, for tests of lab/methods.
#ifndef TEST_SUPPORT_LAB_ROUNDS_RUN_H
#define TEST_SUPPORT_LAB_ROUNDS_RUN_H

#include "lab/methods/rounds.h"
#include "test/support/lab_world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define POINTS 1024u

struct outcome {
    struct lab_rounds_result result;
    struct lab_sample points[POINTS]; // of all rounds, since train.eval_rounds is 1
    size_t n_points;
    uint64_t stop_after; // rounds
};

static inline bool note(void *context, uint64_t round, uint64_t rounds, const struct lab_sample *point)
{
    struct outcome *o = context;
    (void)rounds;
    if (o->n_points < POINTS)
        o->points[o->n_points++] = *point;
    return round != o->stop_after;
}

static inline enum base_error try_run(const char *text, size_t threads, struct outcome *o,
                                      struct base_reason *why)
{
    struct lab_experiment e;
    struct lab_workbench bench = {0};
    struct lab_rounds_options options = {.experiment = &e, .progress = note, .context = o};
    enum base_error error = lab_world_load(text, &e, why);
    if (!error)
        error = lab_rounds_check(&e, why);
    if (!error)
        error = lab_pool_create(threads, &options.pool, why);
    if (!error && !e.sim.vector) {
        options.bench = &bench;
        error = lab_workbench_load(&e, &bench, why);
        if (!error)
            error = lab_workbench_open(&bench, why);
        if (!error)
            error = lab_shard_trainers_create(&e, &bench, &options.shard_trainers, why);
    }
    if (!error)
        error = lab_rounds_run(&options, &o->result, why);
    lab_shard_trainers_destroy(options.shard_trainers);
    lab_workbench_close(&bench);
    lab_pool_destroy(options.pool);
    lab_experiment_free(&e);
    return error;
}

// The text begins with "experiment:" and the number of nodes; further lines are appended.
static inline struct outcome *run_on(size_t threads, const char *format, ...)
{
    char text[2048];
    struct base_reason why;
    struct outcome *o = calloc(1, sizeof *o);
    va_list arguments;
    assert_non_null(o);
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (try_run(text, threads, o, &why))
        fail_msg("%s\n%s", why.text, text);
    return o;
}

static inline void done(struct outcome *o)
{
    lab_rounds_result_free(&o->result);
    free(o);
}

#define VECTORS                                                                                              \
    "experiment: {nodes: %d, seed: 3}\nsim: {vector: %d}\naverage: {method: %s, local_steps: 2%s}\n"         \
    "topology: {kind: %s}\ntrain: {steps: %d, eval_rounds: 1}\n"

static inline struct outcome *vectors(int nodes, int d, const char *method, const char *more,
                                      const char *graph, int rounds)
{
    return run_on(2, VECTORS, nodes, d, method, more, graph, 2 * rounds);
}

static inline double distance(const float *a, const float *b, size_t d)
{
    double sum = 0;
    for (size_t k = 0; k < d; k++)
        sum += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
    return sqrt(sum);
}

#endif
