#include "lab/run/perform.h"

#include "base/plural.h"
#include "lab/record/results.h"
#include "lab/report/report.h"
#include "lab/sweep/sweep.h"
#include "node/queue/clock.h"

#include <math.h>
#include <stdlib.h>

static void complain(const struct base_reason *why)
{
    fprintf(stderr, "p2pml: %s\n", why->text);
}

static double now_seconds(void)
{
    return (double)node_clock_ns() / (double)NODE_SECOND_NS;
}

// Trains baselines only after a run that was not interrupted.
static enum base_error compare(struct run *run, struct base_reason *why)
{
    enum base_error error = run->kind->average ? run->kind->average(run, why) : BASE_OK;
    if (!run->experiment.sim.vector)
        lab_baselines_plan(&run->experiment, &run->baselines);
    if (error || run->interrupted || run->cluster.overtime || !run->baselines.count)
        return error;
    error = lab_baselines_run(&run->bench, &run->signals, &run->display, &run->baselines, why);
    run->interrupted = error == BASE_ESTATE;
    return run->interrupted ? BASE_OK : error;
}

static void complain_of(const char *what, const char *cure)
{
    if (what)
        fprintf(stderr, "p2pml: %s. %s\n", what, cure);
}

static const char cure_of_work[] =
    "Steps that are missing were not computed but came with another node's model: give each node more of a "
    "processor (fewer nodes, fewer other programs) or more time (average.mode=sync). A node without exchanges "
    "trained alone: its log says why";
static const char cure_of_trouble[] =
    "A node that has diverged needs a smaller train.rate, or other data; another one's log says why it ended";
static const char cure_of_unmerged[] =
    "Nodes keep their own models if they cannot reach each other in the time that node.linger gives";

static const char cure_of_unlearned[] =
    "train.rate is too high or too low, the steps are too few, or targets and features do not belong together";

// Says how the run ended. Real nodes are to take the steps that their file asks for, and to end with one
// model; a simulation shows what a slow node or link does, which is no fault of the run: it is named only.
static void judge(struct run *run, bool error)
{
    struct lab_summary *s = &run->summary;
    if (run->has_nodes && !run->interrupted) {
        s->shortfall = lab_shortfall_text(&run->cluster, &run->bench.view);
        s->trouble = lab_trouble_text(&run->cluster);
        s->unmerged = lab_unmerged_text(&run->cluster, &run->bench.view, s->average.consensus);
    }
    if (run->has_nodes)
        s->unlearned = lab_unlearned_text(&run->bench, &s->average.score);
    const bool lacks = s->trouble || (!run->kind->simulated && (s->shortfall || s->unmerged));
    const bool failed = run->failed || error;
    run->failed = failed || lacks;
    s->status = run->interrupted ? "interrupted" : failed ? "failed" : lacks ? "incomplete" : "complete";
    if (lacks && !failed)
        fputs("p2pml: the run is incomplete:\n", stderr);
    complain_of(s->shortfall, cure_of_work);
    complain_of(s->trouble, cure_of_trouble);
    complain_of(s->unmerged, cure_of_unmerged);
    complain_of(s->unlearned, cure_of_unlearned);
}

// Writes summary.json, the results and the report even after an error, up to the first that cannot be
// written. Reports the first error.
static enum base_error conclude(struct run *run, double start, struct base_reason *why)
{
    struct lab_summary *summary = &run->summary;
    struct lab_history histories[LAB_NODES_MAX];
    struct base_reason ignored;
    const char *directory = run->directory.path;
    char *path = lab_path("%s/summary.json", directory), *points = lab_path("%s/rounds.jsonl", directory);
    lab_histories_read(&run->cluster, histories);
    summary->histories = histories;
    summary->experiment = &run->experiment;
    summary->cluster = &run->cluster;
    summary->bench = &run->bench;
    summary->baselines = &run->baselines;
    summary->file = run->options->source.path;
    summary->directory = directory;
    summary->version = run->options->version;
    summary->kind = run->kind->command;
    summary->points = points;
    enum base_error error = run->kind->sum_up(run, points, why);
    if (!error)
        error = lab_average_write(&summary->average, &run->bench, directory, why);
    judge(run, error != BASE_OK);
    summary->seconds = now_seconds() - start;
    enum base_error written = lab_summary_write(summary, path, error ? &ignored : why);
    summary->unwritten = written != BASE_OK;
    if (!written)
        written = lab_results_write(directory, NULL, error ? &ignored : why);
    if (!written)
        written = lab_report_write(directory, error ? &ignored : why);
    lab_summary_print(summary, stdout);
    free(summary->shortfall);
    free(summary->trouble);
    free(summary->unmerged);
    free(summary->unlearned);
    summary->shortfall = summary->trouble = summary->unmerged = summary->unlearned = NULL;
    lab_histories_free(histories);
    summary->histories = NULL;
    summary->points = NULL;
    free(points);
    free(path);
    return error ? error : written;
}

// The directory is locked and signals are watched.
static enum base_error train_and_conclude(struct run *run, struct base_reason *why)
{
    double start = now_seconds();
    run->summary.time = lab_unix_seconds();
    run->summary.average = (struct lab_average){.score = lab_score_unknown(), .consensus = NAN};
    enum base_error error = run->kind->train(run, why);
    run->interrupted = run->cluster.interrupted;
    run->failed = run->failed || run->cluster.overtime;
    if (error)
        return error;
    if (compare(run, why)) {
        run->failed = true;
        complain(why);
    }
    return conclude(run, start, why);
}

static int status_of(const struct run *run)
{
    if (run->interrupted)
        return LAB_EXIT_INTERRUPTED;
    return run->failed ? LAB_EXIT_FAILED : LAB_EXIT_DONE;
}

// The experiment has been read and checked.
static int perform(struct run *run, struct base_reason *why)
{
    const struct lab_experiment *e = &run->experiment;
    int status = LAB_EXIT_FAILED;
    enum base_error error = run->kind->load(run, why);
    if (!error) {
        error = lab_directory_open(e->experiment.out, run->options->fresh, false, &run->directory, why);
        if (error == BASE_ESTATE)
            status = LAB_EXIT_USAGE;
    }
    if (!error)
        error = lab_signals_open(&run->signals, why);
    if (!error) {
        lab_display_start(stderr, &run->display);
        fprintf(stderr, "%s: %zu %snode%s in %s\n", e->experiment.name, (size_t)e->experiment.nodes,
                run->kind->simulated ? "simulated " : "", base_plural(e->experiment.nodes),
                run->directory.path);
        error = train_and_conclude(run, why);
        run->failed = run->failed || error;
        lab_signals_close(&run->signals);
        status = status_of(run);
    }
    if (error)
        complain(why);
    lab_average_free(&run->summary.average);
    lab_rounds_result_free(&run->rounds);
    lab_cluster_free(&run->cluster);
    lab_pool_destroy(run->pool);
    lab_workbench_close(&run->bench);
    lab_directory_close(&run->directory);
    return status;
}

// Data and first weights can be wrong like any key.
static int check_files(struct run *run, struct base_reason *why)
{
    int status = LAB_EXIT_USAGE;
    if (run->kind->load(run, why))
        complain(why);
    else
        status = puts("experiment is fine") >= 0 ? LAB_EXIT_DONE : LAB_EXIT_FAILED;
    lab_workbench_close(&run->bench);
    return status;
}

int run_perform(const struct run_kind *kind, const struct lab_run_options *options)
{
    struct base_reason why = {""};
    struct run *run = calloc(1, sizeof *run);
    int status = LAB_EXIT_USAGE;
    if (!run) {
        fputs("p2pml: out of memory\n", stderr);
        return LAB_EXIT_FAILED;
    }
    run->kind = kind;
    run->options = options;
    run->directory.lock = -1;

    if (lab_experiment_load(&options->source, &run->experiment, &why))
        complain(&why);
    else if (lab_sweep_is(&run->experiment))
        status = lab_sweep(options, &run->experiment, kind->simulated);
    else if (kind->check(&run->experiment, &why))
        complain(&why);
    else if (options->check)
        status = check_files(run, &why);
    else {
        lab_experiment_warn_ignored(&run->experiment, kind->simulated);
        status = perform(run, &why);
    }
    lab_experiment_free(&run->experiment);
    free(run);
    return status;
}
