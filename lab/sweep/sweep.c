#include "lab/sweep/sweep.h"

#include "base/file.h"
#include "base/log.h"
#include "base/plural.h"
#include "lab/record/directory.h"
#include "lab/record/results.h"
#include "lab/report/report.h"
#include "lab/sweep/sweep_keep.h"
#include "lab/sweep/sweep_progress.h"
#include "lab/sweep/sweep_workers.h"
#include "lab/term/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sweep {
    const struct lab_run_options *options;
    const struct lab_experiment *experiment;
    bool simulated;
    struct lab_sweep_plan plan;
    struct lab_directory directory;
    struct lab_signals signals;
    struct lab_display display;
    bool interrupted;
};

bool lab_sweep_is(const struct lab_experiment *experiment)
{
    return experiment->sweep.count || experiment->experiment.repeats > 1;
}

static int fail(const struct base_reason *why, int status)
{
    fprintf(stderr, "p2pml: %s\n", why->text);
    return status;
}

// The cores divided by the threads of the run that uses the most.
static size_t runs_at_once(const struct sweep *sweep)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t cores = processors > 0 ? (size_t)processors : 1, threads = 1;
    if (!sweep->simulated)
        return 1; // its nodes are processes themselves, and take all cores
    for (size_t i = 0; i < sweep->plan.n_runs; i++) {
        size_t wanted = sweep->plan.runs[i].threads ? sweep->plan.runs[i].threads : cores;
        threads = wanted > threads ? wanted : threads;
    }
    return threads < cores ? cores / threads : 1;
}

static enum base_error find_kept(struct sweep *sweep, struct base_reason *why)
{
    char *runs = lab_path("%s/" LAB_RUNS, sweep->directory.path);
    enum base_error error = base_directory_make(runs, 0777, why);
    for (size_t i = 0; i < sweep->plan.n_runs && !error; i++) {
        struct lab_sweep_run *run = &sweep->plan.runs[i];
        if (lab_sweep_run_is_complete(run, &run->seconds))
            run->state = LAB_SWEEP_COMPLETE;
    }
    free(runs);
    return error;
}

static void say_begin(const struct sweep *sweep, size_t at_once)
{
    size_t kept = lab_sweep_count(&sweep->plan, LAB_SWEEP_COMPLETE);
    fprintf(stderr, "%s: %zu runs in %s, %zu at a time", sweep->experiment->experiment.name,
            sweep->plan.n_runs, sweep->directory.path, at_once);
    if (kept)
        fprintf(stderr, "; %zu are complete and kept", kept);
    fputs("\n", stderr);
}

static enum base_error work(struct sweep *sweep, struct base_reason *why)
{
    const char *named = getenv("P2PML_LAB");
    char **environment = lab_environment(environ, true);
    struct lab_sweep_workers workers = {
        .program = named && named[0] ? named : "/proc/self/exe",
        .command = sweep->simulated ? "sim" : "run",
        .environment = environment,
        .directory = sweep->directory.path,
        .name = sweep->experiment->experiment.name,
        .at_once = runs_at_once(sweep),
        .plan = &sweep->plan,
        .signals = &sweep->signals,
        .display = &sweep->display,
    };
    if (!environment)
        return base_fail(why, BASE_ENOMEM, "no memory for the environment of the runs");
    enum base_error error = find_kept(sweep, why);
    if (!error) {
        say_begin(sweep, workers.at_once);
        lab_display_start(stderr, &sweep->display);
        error = lab_sweep_workers_work(&workers, why);
    }
    sweep->interrupted = workers.interrupted;
    free(environment);
    return error;
}

// Writes the results so far, also after a stop or a failure.
static int conclude(const struct sweep *sweep, int status, struct base_reason *why)
{
    size_t failed = lab_sweep_count(&sweep->plan, LAB_SWEEP_FAILED);
    if (lab_results_write(sweep->directory.path, stdout, why) ||
        (lab_sweep_count(&sweep->plan, LAB_SWEEP_COMPLETE) && lab_report_write(sweep->directory.path, why)))
        status = fail(why, LAB_EXIT_FAILED);
    if (failed)
        fprintf(stderr, "p2pml: %zu of %zu runs failed; the same command runs these again\n", failed,
                sweep->plan.n_runs);
    if (sweep->interrupted)
        return LAB_EXIT_INTERRUPTED;
    return failed ? LAB_EXIT_FAILED : status;
}

static int perform(struct sweep *sweep, struct base_reason *why)
{
    enum base_error error = lab_directory_open(sweep->experiment->experiment.out, sweep->options->fresh, true,
                                               &sweep->directory, why);
    if (error)
        return fail(why, error == BASE_ESTATE ? LAB_EXIT_USAGE : LAB_EXIT_FAILED);
    int status = LAB_EXIT_FAILED;
    if (lab_signals_open(&sweep->signals, why)) {
        fail(why, status);
        goto out;
    }
    error = work(sweep, why);
    if (error)
        fail(why, status);
    status = conclude(sweep, error ? LAB_EXIT_FAILED : LAB_EXIT_DONE, why);
    lab_signals_close(&sweep->signals);
out:
    lab_directory_close(&sweep->directory);
    return status;
}

static int say_fine(const struct lab_sweep_plan *plan)
{
    size_t seeds = plan->n_runs / plan->n_points;
    return printf("experiment is fine: %zu runs, %zu points with %zu seed%s each\n", plan->n_runs,
                  plan->n_points, seeds, base_plural(seeds)) > 0
               ? LAB_EXIT_DONE
               : LAB_EXIT_FAILED;
}

int lab_sweep(const struct lab_run_options *options, const struct lab_experiment *experiment, bool simulated)
{
    struct base_reason why = {""};
    struct sweep sweep = {
        .options = options, .experiment = experiment, .simulated = simulated, .directory = {NULL, -1}};
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT,
                       ""); // the same warning from every run, which logs it itself
    if (lab_sweep_plan_make(&options->source, experiment, simulated, &sweep.plan, &why))
        return fail(&why, LAB_EXIT_USAGE);
    int status = options->check ? say_fine(&sweep.plan) : perform(&sweep, &why);
    lab_sweep_plan_free(&sweep.plan);
    return status;
}
