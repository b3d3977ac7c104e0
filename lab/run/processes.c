// The nodes of a run as processes on this host.
#include "lab/processes/supervisor.h"
#include "lab/run/perform.h"
#include "lab/summary/samples.h"
#include "lab/term/environment.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// P2PML_NODE, or the p2pml-node beside this program.
static enum base_error find_program(char program[RUN_PATH_BYTES], struct base_reason *why)
{
    const char *named = getenv("P2PML_NODE");
    int used = 0;
    if (named && named[0])
        used = snprintf(program, RUN_PATH_BYTES, "%s", named);
    else {
        char own[RUN_PATH_BYTES];
        ssize_t bytes = readlink("/proc/self/exe", own, sizeof own - 1);
        if (bytes < 0)
            return base_fail(why, BASE_EIO,
                             "cannot find the path of p2pml: %s; set P2PML_NODE to the path of p2pml-node",
                             strerror(errno));
        own[bytes] = 0;
        char *slash = strrchr(own, '/');
        used = snprintf(program, RUN_PATH_BYTES, "%.*s/p2pml-node", slash ? (int)(slash - own) : 0, own);
    }
    if (used < 0 || used >= (int)RUN_PATH_BYTES)
        return base_fail(why, BASE_ELIMIT, "the path of p2pml-node is too long");
    if (access(program, X_OK))
        return base_fail(
            why, BASE_ENOTFOUND,
            "'%s' cannot be executed (%s): expected p2pml-node there; set P2PML_NODE to its path", program,
            strerror(errno));
    return BASE_OK;
}

static enum base_error load(struct run *run, struct base_reason *why)
{
    enum base_error error = find_program(run->program, why);
    return error ? error : lab_workbench_load(&run->experiment, &run->bench, why);
}

static enum base_error train(struct run *run, struct base_reason *why)
{
    enum base_error error = lab_cluster_prepare(&run->experiment, run->directory.path, &run->cluster, why);
    if (error)
        return error;
    char **environment = lab_environment(environ, false);
    if (!environment)
        return base_fail(why, BASE_ENOMEM, "no memory for the environment of the nodes");
    const struct lab_supervisor_options options = {.program = run->program,
                                                   .environment = environment,
                                                   .time_limit_ns = run->experiment.experiment.time_limit_ns,
                                                   .stop_grace_ns = run->experiment.experiment.stop_grace_ns,
                                                   .signals = &run->signals,
                                                   .display = &run->display};
    error = lab_supervisor_run(&options, &run->cluster, why);
    free(environment);
    run->has_nodes = true;
    for (size_t i = 0; i < run->cluster.count; i++)
        run->failed = run->failed || lab_node_failed(&run->cluster.nodes[i]);
    return error;
}

static enum base_error average(struct run *run, struct base_reason *why)
{
    enum base_error error = lab_workbench_open(&run->bench, why);
    if (!error && lab_average_nodes(&run->bench, &run->cluster, &run->summary.average))
        error = base_fail(why, BASE_ENOMEM, "no memory to average the models of the nodes");
    return error;
}

static const char never_met[] =
    "no node reached another node: each trained alone, nothing was averaged, and this run is not complete. "
    "The logs of the nodes say why their connections failed. Nodes use 127.0.0.1: check that the loopback "
    "interface is up (ip link set lo up) and that no firewall blocks it\n";

static enum base_error sum_up(struct run *run, const char *points, struct base_reason *why)
{
    struct lab_summary *summary = &run->summary;
    struct lab_samples_span span = {.seconds = NAN};
    struct lab_totals totals;
    const struct lab_samples_source source = {&run->cluster, &run->bench, &summary->average};
    enum base_error error = run->bench.model ? lab_samples_write(&source, points, &span, why) : BASE_OK;
    summary->virtual_seconds = span.seconds;
    lab_totals_of(&run->cluster, &totals);
    summary->steps = totals.own_steps;
    summary->threads = run->cluster.count;
    if (!run->interrupted && !isnan(span.seconds) && lab_never_met(summary)) {
        run->failed = true;
        fprintf(stderr, "p2pml: %s", never_met);
    }
    return error;
}

static const struct run_kind processes = {.command = "run",
                                          .check = lab_experiment_check_run,
                                          .load = load,
                                          .train = train,
                                          .average = average,
                                          .sum_up = sum_up};

int lab_run(const struct lab_run_options *options)
{
    return run_perform(&processes, options);
}
