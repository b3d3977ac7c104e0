#include "lab/compute/baselines.h"

#include "node/learn/data.h"
#include "node/queue/clock.h"
#include "node/setup.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS     (100 * NODE_MILLISECOND_NS)
#define THREADS_MAX 64u

struct workers { // shared by the threads
    const struct lab_workbench *bench;
    struct lab_baselines *baselines;
    atomic_size_t next, done; // the next run to take; runs that have ended
    atomic_bool stop;
};

static void plan(struct lab_baselines *baselines, enum lab_baseline kind, size_t shard, uint64_t steps)
{
    baselines->runs[baselines->count++] =
        (struct lab_baseline_run){.kind = kind, .shard = shard, .steps = steps, .score = lab_score_unknown()};
}

// The longest first, so that the threads end at about the same time.
void lab_baselines_plan(const struct lab_experiment *experiment, struct lab_baselines *baselines)
{
    uint64_t steps = experiment->node.train.steps, nodes = experiment->experiment.nodes;
    *baselines = (struct lab_baselines){0};
    if (lab_experiment_wants(experiment, LAB_CENTRAL_TOTAL))
        plan(baselines, LAB_CENTRAL_TOTAL, 0, steps * nodes);
    if (lab_experiment_wants(experiment, LAB_CENTRAL))
        plan(baselines, LAB_CENTRAL, 0, steps);
    for (size_t i = 0; i < nodes && lab_experiment_wants(experiment, LAB_LONE); i++)
        plan(baselines, LAB_LONE, i, steps);
}

// False: stopped before the end.
static bool take_steps(struct workers *workers, struct train_trainer *trainer, uint64_t steps)
{
    struct kernels_loss loss;
    size_t rows;
    while (train_trainer_steps_done(trainer) < steps) {
        if (atomic_load_explicit(&workers->stop, memory_order_relaxed))
            return false;
        train_trainer_step(trainer, false, &loss, &rows);
    }
    train_trainer_settle(trainer);
    return true;
}

static enum base_error train(struct workers *workers, const struct node_config *config,
                             const struct train_dataset *data, struct lab_baseline_run *run)
{
    char name[LAB_NODE_NAME_BYTES];
    struct train_model *model = NULL;
    struct train_trainer *trainer = NULL;
    float *start = malloc(workers->bench->parameters * sizeof *start);
    enum base_error error = start ? BASE_OK : base_fail(&run->why, BASE_ENOMEM, "no memory for a model");
    if (!error)
        error = node_setup_model(config, data, workers->bench->kernels, &model, &run->why);
    if (error)
        goto out;
    if (run->kind == LAB_LONE)
        lab_node_name(run->shard, name); // so that it sees its examples in the order of that node
    else
        snprintf(name, sizeof name, "central");
    error = node_setup_start(config, model, start, &run->why);
    if (!error)
        error = node_setup_trainer(config, name, model, data, start, &trainer, &run->why);
    if (error)
        goto out;
    run->examples = data->examples;
    if (take_steps(workers, trainer, run->steps)) {
        train_trainer_fetch(trainer);
        error = lab_score_model(workers->bench, model, train_trainer_model(trainer), &run->score);
        run->done = !error;
    }
out:
    train_trainer_destroy(trainer);
    train_model_destroy(model);
    free(start);
    return error;
}

static void run_one(struct workers *workers, struct lab_baseline_run *run)
{
    struct node_config config = workers->bench->view; // a view: nothing of it is freed
    struct train_dataset own = {0};
    enum base_error error = BASE_OK;
    uint64_t start_ns = node_clock_ns();
    config.train.steps = run->steps; // the schedule is in fractions of it
    config.train.weight = 1;         // weighs shards against each other; each run here is alone
    config.train.proximal = 0;       // pulls towards the start of a round; there are no rounds here
    if (run->kind == LAB_LONE)
        error = node_data_load(&config, run->shard, &own, NULL, &run->why);
    if (!error)
        error = train(workers, &config, run->kind == LAB_LONE ? &own : &workers->bench->train, run);
    if (error && !run->why.text[0])
        (void)base_fail(&run->why, error, "%s", base_error_name(error));
    train_dataset_destroy(&own);
    run->seconds = (double)(node_clock_ns() - start_ns) / (double)NODE_SECOND_NS;
}

static void *work(void *argument)
{
    struct workers *workers = argument;
    (void)pthread_setname_np(pthread_self(), "baseline");
    for (size_t i; (i = atomic_fetch_add(&workers->next, 1)) < workers->baselines->count;) {
        if (!atomic_load(&workers->stop))
            run_one(workers, &workers->baselines->runs[i]);
        atomic_fetch_add(&workers->done, 1);
    }
    return NULL;
}

static size_t threads_for(const struct lab_workbench *bench, size_t runs)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t threads = processors > 0 ? (size_t)processors : 1;
    if (bench->threads)
        threads = bench->threads;
    if (!bench->kernels->shares_host)
        threads = 1; // one device
    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    return threads < runs ? threads : runs;
}

static void wait_for_all(struct workers *workers, struct lab_signals *signals, struct lab_display *display)
{
    char line[LAB_LINE_BYTES];
    for (size_t done = 0; done < workers->baselines->count;) {
        if (lab_signals_wait(signals, LOOK_NS))
            atomic_store(&workers->stop, true);
        done = atomic_load(&workers->done);
        snprintf(line, sizeof line, "baselines: %zu of %zu done", done, workers->baselines->count);
        lab_display_line(display, line, done == workers->baselines->count);
    }
    lab_display_keep(display);
}

static enum base_error outcome(const struct workers *workers, struct base_reason *why)
{
    const struct lab_baselines *baselines = workers->baselines;
    if (atomic_load(&workers->stop))
        return base_fail(why, BASE_ESTATE, "interrupted");
    for (size_t i = 0; i < baselines->count; i++)
        if (!baselines->runs[i].done)
            return base_fail(why, BASE_EINVAL, "the baseline %s failed: %s",
                             lab_baseline_name(baselines->runs[i].kind), baselines->runs[i].why.text);
    return BASE_OK;
}

enum base_error lab_baselines_run(const struct lab_workbench *bench, struct lab_signals *signals,
                                  struct lab_display *display, struct lab_baselines *baselines,
                                  struct base_reason *why)
{
    struct workers workers = {.bench = bench, .baselines = baselines};
    pthread_t threads[THREADS_MAX];
    size_t started = 0, wanted = threads_for(bench, baselines->count);
    uint64_t start_ns = node_clock_ns();
    while (started < wanted && pthread_create(&threads[started], NULL, work, &workers) == 0)
        started++;
    if (!started && wanted)
        return base_fail(why, BASE_EIO, "cannot start a thread for the baselines");
    wait_for_all(&workers, signals, display);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    baselines->seconds = (double)(node_clock_ns() - start_ns) / (double)NODE_SECOND_NS;
    return outcome(&workers, why);
}
