// Simulates the nodes of a run, with the engine of the experiment.
#include "lab/compute/step_time.h"
#include "lab/run/perform.h"
#include "lab/virtual/simulate_rounds.h"

#include <stdlib.h>

static enum base_error check(const struct lab_experiment *e, struct base_reason *why)
{
    enum base_error error = lab_experiment_check_sim(e, why);
    if (!error && lab_experiment_engine(e) == LAB_ENGINE_ROUNDS)
        error = lab_rounds_check(e, why);
    return error;
}

static enum base_error load(struct run *run, struct base_reason *why)
{
    const struct lab_experiment *e = &run->experiment;
    enum base_error error = e->sim.vector ? BASE_OK : lab_workbench_load(e, &run->bench, why);
    if (!error && lab_attackers_have(&e->hostile, LAB_ATTACK_LABELS) && !run->bench.train.labels)
        error = lab_experiment_refuse(
            e, "attackers", why, "found the kind labels, expected it only where every example has one class");
    return error;
}

// The properties of a model that is only a vector.
static void pretend_bench(struct run *run)
{
    run->bench = (struct lab_workbench){.parameters = run->experiment.sim.vector};
    lab_experiment_view(&run->experiment, &run->bench.view);
    snprintf(run->bench.description, sizeof run->bench.description, "Gaussian vectors");
}

static enum base_error open_bench(struct run *run, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    if (run->experiment.sim.vector)
        pretend_bench(run);
    else
        error = lab_workbench_open(&run->bench, why);
    if (error)
        return error;
    size_t threads = run->experiment.sim.threads;
    if (run->bench.kernels && !run->bench.kernels->shares_host)
        threads = 1; // one device
    run->bench.threads = threads;
    return lab_pool_create(threads, &run->pool, why);
}

// Measured after experiment.yaml is written: that file holds the requested value, summary.json the measured
// one.
static enum base_error measure_step(struct run *run, struct base_reason *why)
{
    struct lab_experiment *e = &run->experiment;
    if (e->sim.step_time_ns || e->sim.vector)
        return BASE_OK;
    enum base_error error = lab_step_time_measure(&run->bench, &e->sim.step_time_ns, why);
    char *said = error ? NULL : node_schema_value(&e->schema, e, "sim.step_time");
    if (said)
        fprintf(stderr, "sim.step_time: measured %s on this machine; --set sim.step_time=%s repeats it\n",
                said, said);
    free(said);
    return error;
}

static enum base_error run_engine(struct run *run, struct base_reason *why)
{
    struct lab_summary *summary = &run->summary;
    struct lab_simulated simulated = {0};
    const struct lab_simulate_options options = {.experiment = &run->experiment,
                                                 .bench = &run->bench,
                                                 .directory = run->directory.path,
                                                 .pool = run->pool,
                                                 .signals = &run->signals,
                                                 .display = &run->display};
    bool nodes = lab_experiment_engine(&run->experiment) == LAB_ENGINE_NODES;
    summary->engine = nodes ? "nodes" : "rounds";
    run->has_nodes = nodes;
    enum base_error error =
        lab_cluster_pretend(&run->experiment, run->directory.path, nodes, &run->cluster, why);
    if (!error)
        error = measure_step(run, why);
    if (!error && nodes)
        error = lab_simulate_nodes(&options, &run->cluster, &simulated, why);
    else if (!error)
        error = lab_simulate_rounds(&options, &run->cluster, &simulated, &run->rounds, why);
    if (error) {
        lab_average_free(&simulated.average);
        return error;
    }
    for (size_t i = 0; i < run->cluster.count; i++)
        run->failed = run->failed || lab_node_failed(&run->cluster.nodes[i]);
    summary->average = simulated.average;
    summary->virtual_seconds = simulated.virtual_seconds;
    summary->steps = simulated.steps;
    return BASE_OK;
}

static enum base_error train(struct run *run, struct base_reason *why)
{
    enum base_error error = open_bench(run, why);
    return error ? error : run_engine(run, why);
}

// The engine has written rounds.jsonl.
static enum base_error sum_up(struct run *run, const char *points, struct base_reason *why)
{
    (void)points;
    (void)why;
    run->summary.threads = lab_pool_threads(run->pool);
    run->summary.edges = run->rounds.edges;
    run->summary.n_edges = run->rounds.n_edges;
    return BASE_OK;
}

static const struct run_kind simulation = {
    .command = "sim", .simulated = true, .check = check, .load = load, .train = train, .sum_up = sum_up};

int lab_simulate(const struct lab_run_options *options)
{
    return run_perform(&simulation, options);
}
