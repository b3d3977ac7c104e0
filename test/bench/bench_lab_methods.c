// One experiment on the lock-step engine, without the files of `p2pml sim`: the samples as they come, then
// what it took to reach each target, and the speed. Usage: bench_lab_methods EXPERIMENT.yaml [KEY=VALUE...]
#include "lab/methods/rounds.h"
#include "test/support/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct watch {
    const struct lab_experiment *experiment;
    double averaged[LAB_TARGETS_MAX], worst[LAB_TARGETS_MAX]; // bytes; NAN: not reached yet
    double averaged_time[LAB_TARGETS_MAX];
    uint64_t seen;
};

static bool look(void *context, uint64_t round, uint64_t rounds, const struct lab_sample *p)
{
    struct watch *watch = context;
    (void)round;
    (void)rounds;
    if (p->round == watch->seen)
        return true;
    watch->seen = p->round;
    printf("round %llu step %llu time %.3f bytes %llu accuracy %.4f worst %.4f consensus %.4g loss %.4f\n",
           (unsigned long long)p->round, (unsigned long long)p->step, p->time, (unsigned long long)p->bytes,
           p->accuracy, p->worst, p->consensus, p->train_loss);
    for (size_t i = 0; i < watch->experiment->targets.count; i++) {
        double target = watch->experiment->targets.items[i];
        if (isnan(watch->averaged[i]) && p->accuracy >= target) {
            watch->averaged[i] = (double)p->bytes;
            watch->averaged_time[i] = p->time;
        }
        if (isnan(watch->worst[i]) && p->worst >= target)
            watch->worst[i] = (double)p->bytes;
    }
    return true;
}

static enum base_error run(const struct lab_experiment *experiment, struct base_reason *why)
{
    struct lab_workbench bench = {0};
    struct lab_rounds_result result = {0};
    struct watch watch = {.experiment = experiment, .seen = UINT64_MAX};
    struct lab_rounds_options options = {.experiment = experiment, .progress = look, .context = &watch};
    bool trains = experiment->sim.vector == 0;
    double begin = bench_now_s();
    for (size_t i = 0; i < LAB_TARGETS_MAX; i++)
        watch.averaged[i] = watch.worst[i] = watch.averaged_time[i] = NAN;
    enum base_error error = lab_rounds_check(experiment, why);
    if (!error && trains)
        error = lab_workbench_load(experiment, &bench, why);
    if (!error && trains)
        error = lab_workbench_open(&bench, why);
    if (!error && trains)
        error = lab_shard_trainers_create(experiment, &bench, &options.shard_trainers, why);
    if (!error)
        error = lab_pool_create((size_t)experiment->sim.threads, &options.pool, why);
    options.bench = trains ? &bench : NULL;
    if (!error)
        error = lab_rounds_run(&options, &result, why);
    if (!error) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        for (size_t i = 0; i < experiment->targets.count; i++)
            printf("to %g: averaged %.3f MB, %.1f s; worst %.3f MB\n", experiment->targets.items[i],
                   watch.averaged[i] / 1e6, watch.averaged_time[i], watch.worst[i] / 1e6);
        printf("end: accuracy %.4f worst %.4f consensus %.4g MB %.3f rounds %llu virtual %.3f s wall %.2f s "
               "memory %ld MiB\n",
               result.last.accuracy, result.last.worst, result.last.consensus,
               (double)result.last.bytes / 1e6, (unsigned long long)result.rounds, result.seconds,
               bench_now_s() - begin, usage.ru_maxrss / 1024);
    }
    lab_rounds_result_free(&result);
    lab_pool_destroy(options.pool);
    lab_shard_trainers_destroy(options.shard_trainers);
    lab_workbench_close(&bench);
    return error;
}

int main(int argc, char **argv)
{
    struct lab_experiment experiment;
    struct base_reason why = {""};
    if (argc < 2) {
        fprintf(stderr, "usage: bench_lab_methods EXPERIMENT.yaml [KEY=VALUE...]\n");
        return 2;
    }
    const struct lab_experiment_source source = {
        .path = argv[1], .settings = (const char *const *)argv + 2, .n_settings = (size_t)argc - 2};
    enum base_error error = lab_experiment_load(&source, &experiment, &why);
    if (!error)
        error = run(&experiment, &why);
    lab_experiment_free(&experiment);
    if (error)
        fprintf(stderr, "bench_lab_methods: %s\n", why.text);
    return error ? 1 : 0;
}
