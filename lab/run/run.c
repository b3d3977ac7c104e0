#include "lab/run/run.h"

#include "base/plural.h"
#include "lab/processes/supervisor.h"
#include "lab/record/directory.h"
#include "lab/record/results.h"
#include "lab/report/report.h"
#include "lab/summary/samples.h"
#include "lab/summary/summary.h"
#include "lab/sweep/sweep.h"
#include "lab/term/environment.h"
#include "node/queue/clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096u

struct run {
    const struct lab_run_options *options;
    struct lab_experiment experiment;
    struct lab_directory directory;
    struct lab_cluster cluster;
    struct lab_workbench bench;
    struct lab_baselines baselines;
    struct lab_signals signals;
    struct lab_display display;
    struct lab_summary summary;
    char program[PATH_BYTES];
    bool interrupted, failed;
};

// P2PML_NODE, or the p2pml-node beside this program.
static enum base_error find_program(char program[PATH_BYTES], struct base_reason *why)
{
    const char *named = getenv("P2PML_NODE");
    int used = 0;
    if (named && named[0])
        used = snprintf(program, PATH_BYTES, "%s", named);
    else {
        char own[PATH_BYTES];
        ssize_t bytes = readlink("/proc/self/exe", own, sizeof own - 1);
        if (bytes < 0)
            return base_fail(why, BASE_EIO,
                             "cannot find out where p2pml lies: %s; name p2pml-node in P2PML_NODE",
                             strerror(errno));
        own[bytes] = 0;
        char *slash = strrchr(own, '/');
        used = snprintf(program, PATH_BYTES, "%.*s/p2pml-node", slash ? (int)(slash - own) : 0, own);
    }
    if (used < 0 || used >= (int)PATH_BYTES)
        return base_fail(why, BASE_ELIMIT, "the path of p2pml-node is too long");
    if (access(program, X_OK))
        return base_fail(why, BASE_ENOTFOUND,
                         "'%s' cannot be executed (%s): expected p2pml-node there; name it in P2PML_NODE",
                         program, strerror(errno));
    return BASE_OK;
}

static enum base_error run_cluster(struct run *run, struct base_reason *why)
{
    char **environment = lab_environment_for_nodes(environ);
    if (!environment)
        return base_fail(why, BASE_ENOMEM, "no memory for the environment of the nodes");
    const struct lab_supervisor_options options = {.program = run->program,
                                                   .environment = environment,
                                                   .time_limit_ns = run->experiment.experiment.time_limit_ns,
                                                   .stop_grace_ns = run->experiment.experiment.stop_grace_ns,
                                                   .signals = &run->signals,
                                                   .display = &run->display};
    enum base_error error = lab_supervisor_run(&options, &run->cluster, why);
    free(environment);
    run->interrupted = run->cluster.interrupted;
    run->failed = run->cluster.overtime;
    for (size_t i = 0; i < run->cluster.count; i++)
        run->failed = run->failed || lab_node_failed(&run->cluster.nodes[i]);
    return error;
}

// The trained models, compared with the baselines. After an interruption only the results so far.
static enum base_error analyse(struct run *run, struct base_reason *why)
{
    enum base_error error = lab_workbench_open(&run->bench, why);
    if (!error && lab_average_nodes(&run->bench, &run->cluster, &run->summary.average))
        error = base_fail(why, BASE_ENOMEM, "no memory to average the models of the nodes");
    lab_baselines_plan(&run->experiment, &run->baselines);
    if (error || run->interrupted || run->cluster.overtime)
        return error;
    error = lab_baselines_run(&run->bench, &run->signals, &run->display, &run->baselines, why);
    run->interrupted = error == BASE_ESTATE;
    return run->interrupted ? BASE_OK : error;
}

static const char never_met[] =
    "no node has reached another one: each has trained alone, so nothing was averaged, and this run is not "
    "complete. The logs of the nodes say what came of their calls; they use 127.0.0.1, so look whether the "
    "loopback interface is up (ip link set lo up), and whether a firewall stops it\n";

static enum base_error conclude(struct run *run, double start, struct base_reason *why)
{
    struct lab_summary *summary = &run->summary;
    struct lab_history histories[LAB_NODES_MAX];
    struct lab_samples_span span = {.seconds = NAN};
    struct base_reason ignored;
    const struct lab_samples_source source = {&run->cluster, &run->bench, &summary->average};
    char *path = lab_path("%s/summary.json", run->directory.path);
    char *points = lab_path("%s/rounds.jsonl", run->directory.path);
    enum base_error error = run->bench.model ? lab_samples_write(&source, points, &span, why) : BASE_OK;
    if (!error)
        error = lab_average_write(&summary->average, &run->bench, run->directory.path, why);
    lab_histories_read(&run->cluster, histories);
    summary->histories = histories;
    summary->experiment = &run->experiment;
    summary->cluster = &run->cluster;
    summary->bench = &run->bench;
    summary->baselines = &run->baselines;
    summary->file = run->options->source.path;
    summary->directory = run->directory.path;
    summary->version = run->options->version;
    summary->status = run->interrupted ? "interrupted" : run->failed ? "failed" : "complete";
    if (!run->interrupted && span.steps > 0 && lab_never_met(summary)) {
        run->failed = true;
        summary->status = "failed";
        fprintf(stderr, "p2pml: %s", never_met);
    }
    summary->kind = "run";
    summary->virtual_seconds = span.seconds;
    summary->steps = span.steps;
    summary->threads = run->cluster.count;
    summary->points = points;
    summary->seconds = (double)node_clock_ns() / (double)NODE_SECOND_NS - start;
    enum base_error written = lab_summary_write(summary, path, error ? &ignored : why);
    if (!written)
        written = lab_results_write(run->directory.path, NULL, error ? &ignored : why);
    if (!written)
        written = lab_report_write(run->directory.path, error ? &ignored : why);
    error = error ? error : written;
    lab_summary_print(summary, stdout);
    lab_histories_free(histories);
    summary->histories = NULL;
    summary->points = NULL;
    free(points);
    free(path);
    return error;
}

static void complain(const struct base_reason *why)
{
    fprintf(stderr, "p2pml: %s\n", why->text);
}

// With the directory ours and the signals watched.
static void perform(struct run *run, struct base_reason *why)
{
    double start = (double)node_clock_ns() / (double)NODE_SECOND_NS;
    run->summary.time = lab_unix_seconds();
    run->summary.average = (struct lab_average){.score = lab_score_unknown(), .consensus = NAN};
    if (lab_cluster_prepare(&run->experiment, run->directory.path, &run->cluster, why) ||
        run_cluster(run, why)) {
        run->failed = true;
        complain(why);
        return;
    }
    if (analyse(run, why)) {
        run->failed = true;
        complain(why);
    }
    if (conclude(run, start, why)) {
        run->failed = true;
        complain(why);
    }
}

static int status_of(const struct run *run)
{
    if (run->interrupted)
        return LAB_EXIT_INTERRUPTED;
    return run->failed ? LAB_EXIT_FAILED : LAB_EXIT_DONE;
}

// The experiment has been read.
static int run_experiment(struct run *run, struct base_reason *why)
{
    int status = LAB_EXIT_FAILED;
    enum base_error error = find_program(run->program, why);
    if (!error)
        error = lab_workbench_load(&run->experiment, &run->bench, why);
    if (!error) {
        error = lab_directory_open(run->experiment.experiment.out, run->options->fresh, &run->directory, why);
        if (error == BASE_ESTATE)
            status = LAB_EXIT_USAGE;
    }
    if (!error)
        error = lab_signals_open(&run->signals, why);
    if (error) {
        complain(why);
        goto out;
    }
    lab_display_start(stderr, &run->display);
    fprintf(stderr, "%s: %zu node%s in %s\n", run->experiment.experiment.name,
            (size_t)run->experiment.experiment.nodes, base_plural(run->experiment.experiment.nodes),
            run->directory.path);
    perform(run, why);
    lab_signals_close(&run->signals);
    status = status_of(run);
out:
    lab_average_free(&run->summary.average);
    lab_cluster_free(&run->cluster);
    lab_workbench_close(&run->bench);
    lab_directory_close(&run->directory);
    return status;
}

int lab_run(const struct lab_run_options *options)
{
    struct base_reason why = {""};
    struct run *run = calloc(1, sizeof *run);
    int status = LAB_EXIT_USAGE;
    if (!run) {
        fputs("p2pml: out of memory\n", stderr);
        return LAB_EXIT_FAILED;
    }
    run->options = options;
    run->directory.lock = -1;
    const struct lab_sweep_options sweep = {
        .source = options->source, .fresh = options->fresh, .check = options->check};
    if (lab_experiment_load(&options->source, &run->experiment, &why))
        complain(&why);
    else if (lab_sweep_is(&run->experiment))
        status = lab_sweep(&sweep, &run->experiment);
    else if (lab_experiment_check_run(&run->experiment, &why))
        complain(&why);
    else if (options->check)
        status = puts("experiment is fine") >= 0 ? LAB_EXIT_DONE : LAB_EXIT_FAILED;
    else {
        lab_experiment_warn_ignored(&run->experiment, false);
        status = run_experiment(run, &why);
    }
    lab_experiment_free(&run->experiment);
    free(run);
    return status;
}
