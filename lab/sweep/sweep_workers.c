#include "lab/sweep/sweep_workers.h"

#include "lab/processes/supervisor.h"
#include "lab/sweep/sweep_keep.h"
#include "lab/sweep/sweep_progress.h"
#include "lab/term/process.h"
#include "node/queue/clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS    (200 * NODE_MILLISECOND_NS)
#define MORE_NS    (10 * NODE_SECOND_NS) // for a run to write its summary after its nodes have ended
#define LOG_BYTES  2048u
#define LABELS_MAX 8u // runs that are named in a line

struct job {
    struct lab_process process;
    size_t run;
    uint64_t start_ns;
};
struct work {
    struct lab_sweep_workers *workers;
    struct job *jobs; // [at_once]
    size_t n_jobs, next;
    unsigned stops;
    bool asked, killed;
    uint64_t kill_ns;
};

static struct lab_sweep_run *run_of(const struct work *work, const struct job *job)
{
    return &work->workers->plan->runs[job->run];
}

static double seconds_since(uint64_t start_ns)
{
    return (double)(node_clock_ns() - start_ns) / (double)NODE_SECOND_NS;
}

static enum base_error write_list(const struct work *work, struct base_reason *why)
{
    return lab_sweep_list_write(work->workers->plan, work->workers->directory, work->workers->name, why);
}

static enum base_error remove_old(const char *path, struct base_reason *why)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return BASE_OK;
    return base_fail(why, BASE_EIO, "cannot remove '%s' of an earlier run: %s", path, strerror(errno));
}

static enum base_error start(struct work *work, size_t index, struct base_reason *why)
{
    struct lab_sweep_run *run = &work->workers->plan->runs[index];
    char *arguments[] = {(char *)work->workers->program,
                         (char *)work->workers->command,
                         run->file,
                         (char *)"--out",
                         run->directory,
                         NULL};
    struct job *job = &work->jobs[work->n_jobs];
    enum base_error error = lab_sweep_run_prepare(run, why);
    if (!error)
        error = remove_old(run->log, why);
    if (!error)
        error = remove_old(run->output, why);
    *job = (struct job){.run = index, .start_ns = node_clock_ns()};
    if (!error)
        error = lab_process_start(work->workers->program, arguments, work->workers->environment, run->output,
                                  run->log, &job->process, why);
    work->n_jobs += !error;
    return error;
}

static enum base_error start_waiting(struct work *work, struct base_reason *why)
{
    const struct lab_sweep_plan *plan = work->workers->plan;
    enum base_error error = BASE_OK;
    for (; work->next < plan->n_runs && work->n_jobs < work->workers->at_once && !error; work->next++)
        if (plan->runs[work->next].state == LAB_SWEEP_WAITING)
            error = start(work, work->next, why);
    return error;
}

static void say_failure(const struct work *work, const struct job *job)
{
    char status[LAB_STATUS_BYTES], log[LOG_BYTES];
    const struct lab_sweep_run *run = run_of(work, job);
    lab_process_describe(&job->process, status);
    lab_log_end(run->log, log, sizeof log);
    lab_display_say(work->workers->display, "%s failed: %s%s; the end of %s:\n%s", run->label, status,
                    lab_process_succeeded(&job->process) ? ", but left no complete summary" : "", run->log,
                    log[0] ? log : "    (it is empty)\n");
}

static void say_end(const struct work *work, const struct lab_sweep_run *run)
{
    const struct lab_sweep_plan *plan = work->workers->plan;
    char took[LAB_SPAN_BYTES];
    if (work->workers->display->terminal)
        return;
    lab_sweep_print_span(run->seconds, took);
    lab_display_say(work->workers->display, "%zu of %zu complete: %s, %s\n",
                    lab_sweep_count(plan, LAB_SWEEP_COMPLETE), plan->n_runs, run->label, took);
}

static void conclude(struct work *work, const struct job *job)
{
    struct lab_sweep_run *run = run_of(work, job);
    double total = NAN;
    run->seconds = seconds_since(job->start_ns);
    if (lab_process_succeeded(&job->process) && lab_sweep_run_is_complete(run, &total))
        run->state = LAB_SWEEP_COMPLETE;
    else
        run->state = work->asked ? LAB_SWEEP_INTERRUPTED : LAB_SWEEP_FAILED;
    if (run->state == LAB_SWEEP_FAILED)
        say_failure(work, job);
    else if (run->state == LAB_SWEEP_COMPLETE)
        say_end(work, run);
}

// True when a run has ended.
static bool reap(struct work *work)
{
    size_t kept = 0;
    for (size_t i = 0; i < work->n_jobs; i++) {
        struct job job = work->jobs[i];
        if (lab_process_reap(&job.process))
            conclude(work, &job);
        else
            work->jobs[kept++] = job;
    }
    bool any = kept < work->n_jobs;
    work->n_jobs = kept;
    return any;
}

static void signal_all(const struct work *work, int number)
{
    for (size_t i = 0; i < work->n_jobs; i++)
        lab_process_signal(&work->jobs[i].process, number);
}

static void ask_to_stop(struct work *work)
{
    uint64_t grace_ns = 0;
    for (size_t i = 0; i < work->n_jobs; i++)
        if (run_of(work, &work->jobs[i])->stop_grace_ns > grace_ns)
            grace_ns = run_of(work, &work->jobs[i])->stop_grace_ns;
    work->asked = true;
    work->kill_ns = node_clock_ns() + grace_ns + MORE_NS;
    signal_all(work, SIGTERM);
}

static void decide(struct work *work)
{
    if (work->stops && !work->asked) {
        work->workers->interrupted = true;
        lab_display_say(work->workers->display,
                        "interrupted: stopping the runs; the same command continues the sweep\n");
        ask_to_stop(work);
    } else if (work->asked && !work->killed && (work->stops > 1 || node_clock_ns() >= work->kill_ns)) {
        work->killed = true;
        lab_display_say(work->workers->display, "killing the runs that have not ended\n");
        signal_all(work, SIGKILL);
    }
}

static void show(const struct work *work, bool now)
{
    struct lab_sweep_running running[LABELS_MAX];
    char line[LAB_SWEEP_LINE_BYTES];
    size_t count = work->n_jobs < LABELS_MAX ? work->n_jobs : LABELS_MAX;
    if (!work->workers->display->terminal)
        return;
    for (size_t i = 0; i < count; i++)
        running[i] = (struct lab_sweep_running){work->jobs[i].run, seconds_since(work->jobs[i].start_ns)};
    lab_sweep_line(work->workers->plan, running, count, work->workers->at_once, line);
    lab_display_line(work->workers->display, line, now);
}

// Does one turn. An error is one of this program, not of a run, and ends all runs; they are still reaped.
static enum base_error go_on(struct work *work, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    if (!work->asked)
        error = start_waiting(work, why);
    if (error)
        return error;
    show(work, false);
    work->stops += lab_signals_wait(work->workers->signals, LOOK_NS);
    bool ended = reap(work);
    decide(work);
    return ended ? write_list(work, why) : BASE_OK;
}

static bool any_waits(const struct work *work)
{
    for (size_t i = work->next; !work->asked && i < work->workers->plan->n_runs; i++)
        if (work->workers->plan->runs[i].state == LAB_SWEEP_WAITING)
            return true;
    return false;
}

enum base_error lab_sweep_workers_work(struct lab_sweep_workers *workers, struct base_reason *why)
{
    struct work work = {.workers = workers, .jobs = calloc(workers->at_once, sizeof *work.jobs)};
    if (!work.jobs)
        return base_fail(why, BASE_ENOMEM, "no memory for the runs of a sweep");
    enum base_error error = write_list(&work, why);
    while (!error && (work.n_jobs || any_waits(&work)))
        error = go_on(&work, why);
    if (error)
        ask_to_stop(&work);
    while (work.n_jobs) {
        work.stops += lab_signals_wait(workers->signals, LOOK_NS);
        reap(&work);
        decide(&work);
    }
    show(&work, true);
    lab_display_keep(workers->display);
    free(work.jobs);
    return error;
}
