// A local step of a simulated node beside that of a lone trainer, in processor time: the experiment on the
// nodes engine with one thread, for one round and for many, in turn with the bare loop of one of its own
// trainers. The time of a node's step is the difference of the two runs over the difference of their steps,
// so that start and end do not count. Prints the medians and the median of the ratios. Usage:
// bench_lab_virtual EXPERIMENT.yaml DIRECTORY [KEY=VALUE...]; files of the runs go into DIRECTORY.
#include "lab/record/nodes.h"
#include "lab/virtual/simulate_nodes.h"
#include "test/support/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURNS      9u
#define STEPS      192u // of the longer run
#define BARE_STEPS 200u // before, between and after the two runs
#define SETTINGS   64
#define TEXT       64

struct setting {
    char steps[TEXT];
    const char *list[SETTINGS];
    size_t count;
};

static const char *const always[] = {"sim.threads=1", "train.eval_rounds=0", "experiment.baselines=[]"};

static struct lab_experiment_source source_of(int argc, char **argv, uint64_t steps, struct setting *s)
{
    s->count = 0;
    for (int i = 3; i < argc && s->count < SETTINGS - 8; i++)
        s->list[s->count++] = argv[i];
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        s->list[s->count++] = always[i];
    snprintf(s->steps, sizeof s->steps, "train.steps=%llu", (unsigned long long)steps);
    s->list[s->count++] = s->steps;
    return (struct lab_experiment_source){.path = argv[1], .settings = s->list, .n_settings = s->count};
}

struct run {
    struct lab_experiment experiment;
    struct lab_workbench bench;
    struct lab_pool *pool;
};

static enum base_error open_run(const struct lab_experiment_source *source, struct run *run,
                                struct base_reason *why)
{
    enum base_error error = lab_experiment_load(source, &run->experiment, why);
    if (!error)
        error = lab_workbench_load(&run->experiment, &run->bench, why);
    if (!error)
        error = lab_workbench_open(&run->bench, why);
    if (!error)
        error = lab_pool_create(1, &run->pool, why);
    return error;
}

static void close_run(struct run *run)
{
    lab_pool_destroy(run->pool);
    lab_workbench_close(&run->bench);
    lab_experiment_free(&run->experiment);
}

struct place {
    const char *directory;
    struct lab_signals signals;
    FILE *quiet;
};

// The time of a whole run, and its steps.
static enum base_error simulate(const struct run *run, struct place *place, double *ns, uint64_t *steps,
                                struct base_reason *why)
{
    struct lab_cluster cluster = {0};
    struct lab_display display;
    struct lab_simulated simulated = {0};
    const struct lab_simulate_options options = {.experiment = &run->experiment,
                                                 .bench = &run->bench,
                                                 .directory = place->directory,
                                                 .pool = run->pool,
                                                 .signals = &place->signals,
                                                 .display = &display};
    lab_display_start(place->quiet, &display);
    enum base_error error = lab_cluster_pretend(&run->experiment, place->directory, true, &cluster, why);
    const double begin = bench_clock(CLOCK_THREAD_CPUTIME_ID);
    if (!error)
        error = lab_simulate_nodes(&options, &cluster, &simulated, why);
    *ns = bench_clock(CLOCK_THREAD_CPUTIME_ID) - begin;
    *steps = simulated.steps;
    lab_average_free(&simulated.average);
    lab_cluster_free(&cluster);
    return error;
}

static double bare(struct train_trainer *trainer, bool drift, uint64_t steps)
{
    const double begin = bench_clock(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t i = 0; i < steps; i++) {
        struct kernels_loss loss;
        size_t rows;
        train_trainer_step(trainer, drift, &loss, &rows);
    }
    return (bench_clock(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)steps;
}

// The trainers of all nodes in turn, a round each: the same steps, with models that others have evicted from
// the cache.
static double in_turn(struct lab_shard_trainers *trainers, const struct lab_experiment *experiment)
{
    const uint64_t nodes = experiment->experiment.nodes, steps = experiment->node.average.local_steps;
    double sum = 0;
    for (size_t i = 0; i < 4 * nodes; i++)
        sum += bare(lab_shard_trainer_trainer(trainers, i % nodes), experiment->node.average.drift_correction,
                    steps);
    return sum / (double)(4 * nodes);
}

struct figures {
    double step[TURNS], bare[TURNS], turn[TURNS], part[TURNS];
};

static enum base_error measure(const struct run *brief, const struct run *whole, struct place *place,
                               struct figures *figures, struct base_reason *why)
{
    struct lab_shard_trainers *trainers = NULL;
    enum base_error error = lab_shard_trainers_create(&whole->experiment, &whole->bench, &trainers, why);
    const bool drift = brief->experiment.node.average.drift_correction;
    for (size_t i = 0; i < TURNS && !error; i++) {
        double few_ns = 0, many_ns = 0;
        uint64_t few = 0, many = 0;
        struct train_trainer *trainer = lab_shard_trainer_trainer(trainers, 0);
        double before = bare(trainer, drift, BARE_STEPS);
        error = simulate(brief, place, &few_ns, &few, why);
        before += bare(trainer, drift, BARE_STEPS);
        if (!error)
            error = simulate(whole, place, &many_ns, &many, why);
        figures->turn[i] = in_turn(trainers, &whole->experiment);
        figures->bare[i] = (before + bare(trainer, drift, BARE_STEPS)) / 3;
        figures->step[i] = (many_ns - few_ns) / (double)(many - few);
        figures->part[i] = figures->bare[i] / figures->step[i];
    }
    lab_shard_trainers_destroy(trainers);
    return error;
}

// The number of steps of a round; 0 with the reason.
static uint64_t round_of(int argc, char **argv, struct base_reason *why)
{
    struct setting setting;
    struct lab_experiment experiment;
    const struct lab_experiment_source source = source_of(argc, argv, STEPS, &setting);
    uint64_t steps = 0;
    if (!lab_experiment_load(&source, &experiment, why))
        steps = experiment.node.average.local_steps;
    lab_experiment_free(&experiment);
    return steps;
}

static enum base_error open_at(int argc, char **argv, uint64_t steps, struct run *run,
                               struct base_reason *why)
{
    struct setting setting;
    const struct lab_experiment_source source = source_of(argc, argv, steps, &setting);
    return open_run(&source, run, why);
}

int main(int argc, char **argv)
{
    struct base_reason why = {""};
    struct run brief = {0}, whole = {0};
    struct place place = {.directory = argc > 2 ? argv[2] : NULL, .quiet = fopen("/dev/null", "w")};
    struct figures figures;
    if (argc < 3 || !place.quiet) {
        fputs("usage: bench_lab_virtual EXPERIMENT.yaml DIRECTORY [KEY=VALUE...]\n", stderr);
        return 2;
    }
    const uint64_t round = round_of(argc, argv, &why);
    enum base_error error = round ? open_at(argc, argv, round, &brief, &why) : BASE_EINVAL;
    if (!error)
        error = open_at(argc, argv, round + STEPS, &whole, &why);
    if (!error)
        error = lab_signals_open(&place.signals, &why);
    if (!error)
        error = measure(&brief, &whole, &place, &figures, &why);
    if (error)
        fprintf(stderr, "bench_lab_virtual: %s\n", why.text);
    else
        printf("step_ms %.4f bare_ms %.4f in_turn_ms %.4f ratio %.3f\n",
               bench_median(figures.step, TURNS) / 1e6, bench_median(figures.bare, TURNS) / 1e6,
               bench_median(figures.turn, TURNS) / 1e6, bench_median(figures.part, TURNS));
    close_run(&brief);
    close_run(&whole);
    fclose(place.quiet);
    return error ? 1 : 0;
}
