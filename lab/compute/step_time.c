#include "lab/compute/step_time.h"

#include "base/array.h"
#include "node/queue/clock.h"
#include "node/setup.h"

#include <stdlib.h>
#include <time.h>

#define STEPS_LEAST 5u // the first one is a warm-up
#define STEPS_MOST  201u
#define LONG_NS     (250 * NODE_MILLISECOND_NS)
#define LEAST_NS    1000u
#define DIGITS      1000u // a rounded time has three digits

uint64_t lab_step_time_round(uint64_t ns)
{
    uint64_t unit = 1;
    while (ns / unit >= DIGITS)
        unit *= 10;
    ns = (ns + unit / 2) / unit * unit;
    return ns < LEAST_NS ? LEAST_NS : ns;
}

// The CPU time of this thread; where a device or further threads do part of the work, the time that passes.
static uint64_t now_ns(const struct lab_workbench *bench)
{
    struct timespec time;
    const bool alone = bench->kernels->shares_host && bench->view.device.threads == 1;
    if (!alone || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time))
        return node_clock_ns();
    return (uint64_t)time.tv_sec * NODE_SECOND_NS + (uint64_t)time.tv_nsec;
}

static uint64_t median_step(const struct lab_workbench *bench, struct train_trainer *trainer)
{
    uint64_t steps[STEPS_MOST];
    size_t count = 0;
    const uint64_t begin_ns = node_clock_ns();
    while (count < STEPS_MOST && (count < STEPS_LEAST || node_clock_ns() - begin_ns < LONG_NS)) {
        struct kernels_loss loss;
        size_t rows;
        const uint64_t before_ns = now_ns(bench);
        train_trainer_step(trainer, bench->view.average.drift_correction, &loss, &rows);
        steps[count++] = now_ns(bench) - before_ns;
    }
    qsort(steps + 1, count - 1, sizeof *steps, base_order_u64);
    return steps[1 + (count - 1) / 2];
}

enum base_error lab_step_time_measure(const struct lab_workbench *bench, uint64_t *step_ns,
                                      struct base_reason *why)
{
    char name[LAB_NODE_NAME_BYTES];
    struct train_model *model = NULL;
    struct train_trainer *trainer = NULL;
    float *start = malloc(bench->parameters * sizeof *start);
    enum base_error error =
        start ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory to measure the time of a step");
    if (!error)
        error = node_setup_model(&bench->view, &bench->train, bench->kernels, &model, why);
    if (!error)
        error = node_setup_start(&bench->view, model, start, why);
    if (!error)
        error = node_setup_trainer(&bench->view, lab_node_name(0, name), model, &bench->train, start,
                                   &trainer, why);
    if (!error)
        *step_ns = lab_step_time_round(median_step(bench, trainer));
    train_trainer_destroy(trainer);
    train_model_destroy(model);
    free(start);
    return error;
}
