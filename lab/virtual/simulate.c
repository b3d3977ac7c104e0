#include "lab/virtual/simulate.h"

#include "lab/record/directory.h"
#include "lab/record/results.h"
#include "lab/report/report.h"
#include "lab/summary/summary.h"
#include "lab/sweep/sweep.h"
#include "lab/virtual/simulate_rounds.h"
#include "node/queue/clock.h"

#include <math.h>
#include <stdlib.h>

struct act {
    const struct lab_run_options *options;
    struct lab_experiment experiment;
    struct lab_directory directory;
    struct lab_cluster cluster;
    struct lab_workbench bench;
    struct lab_pool *pool;
    struct lab_baselines baselines;
    struct lab_signals signals;
    struct lab_display display;
    struct lab_rounds_result rounds;
    struct lab_summary summary;
    bool interrupted, failed;
};

static void complain(const struct base_reason *why)
{
    fprintf(stderr, "p2pml: %s\n", why->text);
}

static double now_seconds(void)
{
    return (double)node_clock_ns() / (double)NODE_SECOND_NS;
}

// The properties of a model that is only a vector.
static void pretend_bench(struct act *act)
{
    act->bench = (struct lab_workbench){.parameters = act->experiment.sim.vector};
    lab_experiment_view(&act->experiment, &act->bench.view);
    snprintf(act->bench.description, sizeof act->bench.description, "Gaussian vectors");
}

static enum base_error open_bench(struct act *act, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    if (act->experiment.sim.vector)
        pretend_bench(act);
    else
        error = lab_workbench_open(&act->bench, why);
    if (error)
        return error;
    size_t threads = act->experiment.sim.threads;
    if (act->bench.kernels && !act->bench.kernels->shares_host)
        threads = 1; // one device
    act->bench.threads = threads;
    return lab_pool_create(threads, &act->pool, why);
}

static enum base_error run_engine(struct act *act, struct base_reason *why)
{
    struct lab_simulated simulated = {0};
    const struct lab_simulate_options options = {.experiment = &act->experiment,
                                                 .bench = &act->bench,
                                                 .directory = act->directory.path,
                                                 .pool = act->pool,
                                                 .signals = &act->signals,
                                                 .display = &act->display};
    bool nodes = lab_experiment_engine(&act->experiment) == LAB_ENGINE_NODES;
    act->summary.engine = nodes ? "nodes" : "rounds";
    enum base_error error =
        lab_cluster_pretend(&act->experiment, act->directory.path, nodes, &act->cluster, why);
    if (!error && nodes)
        error = lab_simulate_nodes(&options, &act->cluster, &simulated, why);
    else if (!error)
        error = lab_simulate_rounds(&options, &act->cluster, &simulated, &act->rounds, why);
    if (error) {
        lab_average_free(&simulated.average);
        return error;
    }
    act->summary.average = simulated.average;
    act->summary.virtual_seconds = simulated.virtual_seconds;
    act->summary.steps = simulated.steps;
    act->summary.edges = act->rounds.edges;
    act->summary.n_edges = act->rounds.n_edges;
    return BASE_OK;
}

static enum base_error run_baselines(struct act *act, struct base_reason *why)
{
    if (!act->experiment.sim.vector)
        lab_baselines_plan(&act->experiment, &act->baselines);
    if (act->interrupted || act->failed || !act->baselines.count)
        return BASE_OK;
    enum base_error error =
        lab_baselines_run(&act->bench, &act->signals, &act->display, &act->baselines, why);
    act->interrupted = error == BASE_ESTATE;
    return act->interrupted ? BASE_OK : error;
}

static enum base_error conclude(struct act *act, double start, struct base_reason *why)
{
    struct lab_summary *summary = &act->summary;
    struct lab_history *histories = calloc(LAB_NODES_MAX, sizeof *histories);
    char *path = lab_path("%s/summary.json", act->directory.path);
    char *points = lab_path("%s/rounds.jsonl", act->directory.path);
    if (histories && act->cluster.schedule->count)
        lab_histories_read(&act->cluster, histories);
    summary->histories = histories;
    summary->experiment = &act->experiment;
    summary->cluster = &act->cluster;
    summary->bench = &act->bench;
    summary->baselines = &act->baselines;
    summary->file = act->options->source.path;
    summary->directory = act->directory.path;
    summary->version = act->options->version;
    summary->status = act->interrupted ? "interrupted" : act->failed ? "failed" : "complete";
    summary->kind = "sim";
    summary->threads = lab_pool_threads(act->pool);
    summary->points = points;
    summary->seconds = now_seconds() - start;
    enum base_error error = lab_average_write(&summary->average, &act->bench, act->directory.path, why);
    if (!error)
        error = lab_summary_write(summary, path, why);
    if (!error)
        error = lab_results_write(act->directory.path, NULL, why);
    if (!error)
        error = lab_report_write(act->directory.path, why);
    lab_summary_print(summary, stdout);
    if (histories)
        lab_histories_free(histories);
    free(histories);
    free(points);
    free(path);
    return error;
}

// With the directory ours and the signals watched.
static enum base_error perform(struct act *act, struct base_reason *why)
{
    double start = now_seconds();
    act->summary.time = lab_unix_seconds();
    act->summary.average = (struct lab_average){.score = lab_score_unknown(), .consensus = NAN};
    enum base_error error = open_bench(act, why);
    if (!error)
        error = run_engine(act, why);
    if (error)
        return error;
    act->interrupted = act->cluster.interrupted;
    act->failed = act->cluster.overtime;
    enum base_error compared = run_baselines(act, why);
    if (compared) {
        act->failed = true;
        complain(why);
    }
    return conclude(act, start, why);
}

// The experiment has been read.
static int simulate(struct act *act, struct base_reason *why)
{
    const struct lab_experiment *e = &act->experiment;
    int status = LAB_EXIT_FAILED;
    enum base_error error = e->sim.vector ? BASE_OK : lab_workbench_load(e, &act->bench, why);
    if (!error) {
        error = lab_directory_open(e->experiment.out, act->options->fresh, &act->directory, why);
        if (error == BASE_ESTATE)
            status = LAB_EXIT_USAGE;
    }
    if (!error)
        error = lab_signals_open(&act->signals, why);
    if (!error) {
        lab_display_start(stderr, &act->display);
        fprintf(stderr, "%s: %zu simulated nodes in %s\n", e->experiment.name, (size_t)e->experiment.nodes,
                act->directory.path);
        error = perform(act, why);
        lab_signals_close(&act->signals);
        status = act->interrupted       ? LAB_EXIT_INTERRUPTED
                 : act->failed || error ? LAB_EXIT_FAILED
                                        : LAB_EXIT_DONE;
    }
    if (error)
        complain(why);
    lab_average_free(&act->summary.average);
    lab_rounds_result_free(&act->rounds);
    lab_cluster_free(&act->cluster);
    lab_pool_destroy(act->pool);
    lab_workbench_close(&act->bench);
    lab_directory_close(&act->directory);
    return status;
}

static enum base_error check_rounds(const struct lab_experiment *e, struct base_reason *why)
{
    return lab_experiment_engine(e) == LAB_ENGINE_ROUNDS ? lab_rounds_check(e, why) : BASE_OK;
}

int lab_simulate(const struct lab_run_options *options)
{
    struct base_reason why = {""};
    struct act *act = calloc(1, sizeof *act);
    int status = LAB_EXIT_USAGE;
    if (!act) {
        fputs("p2pml: out of memory\n", stderr);
        return LAB_EXIT_FAILED;
    }
    act->options = options;
    act->directory.lock = -1;
    const struct lab_sweep_options sweep = {
        .source = options->source, .simulated = true, .fresh = options->fresh, .check = options->check};
    if (lab_experiment_load(&options->source, &act->experiment, &why))
        complain(&why);
    else if (lab_sweep_is(&act->experiment))
        status = lab_sweep(&sweep, &act->experiment);
    else if (lab_experiment_check_sim(&act->experiment, &why) || check_rounds(&act->experiment, &why))
        complain(&why);
    else if (options->check)
        status = puts("experiment is fine") >= 0 ? LAB_EXIT_DONE : LAB_EXIT_FAILED;
    else {
        lab_experiment_warn_ignored(&act->experiment, true);
        status = simulate(act, &why);
    }
    lab_experiment_free(&act->experiment);
    free(act);
    return status;
}
