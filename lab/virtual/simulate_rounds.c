#include "lab/virtual/simulate_rounds.h"

#include "lab/record/directory.h"
#include "node/queue/clock.h"

#include <math.h>
#include <stdlib.h>

struct showing {
    const struct lab_simulate_options *options;
    uint64_t start_ns, steps_a_round;
    bool stopped;
};

static bool show(void *context, uint64_t round, uint64_t rounds, const struct lab_sample *latest)
{
    struct showing *s = context;
    char line[LAB_LINE_BYTES], accuracy[LAB_NUMBER_BYTES];
    double seconds = (double)(node_clock_ns() - s->start_ns) / (double)NODE_SECOND_NS;
    lab_print_accuracy(latest->accuracy, latest->regression, accuracy);
    snprintf(line, sizeof line, "virtual %8.2f s  round %llu of %llu  averaged %s (round %llu)  %.0f steps/s",
             latest->time, (unsigned long long)round, (unsigned long long)rounds, accuracy,
             (unsigned long long)latest->round,
             seconds > 0 ? (double)(round * s->steps_a_round) / seconds : 0.0);
    lab_display_line(s->options->display, line, round == rounds);
    s->stopped = s->stopped || lab_signals_wait(s->options->signals, 0);
    return !s->stopped;
}

static double death_of(const struct lab_event *event, const struct lab_rounds_result *result)
{
    return (double)(event->by_round ? result->node[event->node].gone_ns : event->at_ns);
}

static void take_nodes(const struct lab_rounds_result *result, struct lab_cluster *cluster,
                       struct lab_simulated *simulated)
{
    for (size_t i = 0; i < result->nodes; i++) {
        struct lab_node *node = &cluster->nodes[i];
        node->starts = 1;
        node->tail.row = result->node[i].row;
        node->gone = result->node[i].gone ? LAB_KILLED : LAB_HERE;
        lab_node_pretend_end(node, 0);
        simulated->steps += result->node[i].row.own_steps;
    }
    for (size_t i = 0; i < cluster->schedule->count; i++) { // kills; others know at once
        const struct lab_event *event = &cluster->schedule->items[i];
        struct lab_happening *happening = &cluster->happenings[i];
        happening->begun = happening->ended = true;
        happening->round = event->at_round;
        if (cluster->nodes[event->node].gone == LAB_HERE)
            happening->instead = event->by_round && event->at_round <= result->rounds
                                     ? "no other node was alive"
                                     : "the run ended first";
        else
            happening->time = death_of(event, result) / (double)NODE_SECOND_NS;
    }
    cluster->train_time = 0;
    cluster->round = result->rounds;
}

// The mean of the models of the living nodes; NULL: no memory.
static float *mean_of(const struct lab_rounds_result *result)
{
    const float **living = malloc(result->nodes * sizeof *living);
    float *mean = malloc(result->parameters * sizeof *mean);
    size_t count = 0;
    for (size_t i = 0; living && i < result->nodes; i++)
        if (result->models[i])
            living[count++] = result->models[i];
    if (living && mean && count)
        lab_models_mean(living, count, result->parameters, mean);
    else {
        free(mean);
        mean = NULL;
    }
    free(living);
    return mean;
}

static void take_result(const struct lab_rounds_result *result, struct lab_cluster *cluster,
                        struct lab_simulated *simulated)
{
    *simulated = (struct lab_simulated){.virtual_seconds = result->seconds};
    take_nodes(result, cluster, simulated);
    simulated->average = (struct lab_average){
        .score = {result->last.accuracy, result->last.loss, result->last.rmse, result->last.regression},
        .consensus = result->last.consensus,
        .nodes = (size_t)result->last.nodes};
    cluster->interrupted = result->interrupted;
}

static enum base_error run(const struct lab_simulate_options *options, struct lab_recorder *recorder,
                           struct lab_rounds_result *result, struct base_reason *why)
{
    bool trains = !options->experiment->sim.vector;
    struct lab_shard_trainers *shard_trainers = NULL;
    struct showing showing = {.options = options,
                              .start_ns = node_clock_ns(),
                              .steps_a_round = options->experiment->experiment.nodes *
                                               options->experiment->node.average.local_steps};
    enum base_error error =
        trains ? lab_shard_trainers_create(options->experiment, options->bench, &shard_trainers, why)
               : BASE_OK;
    const struct lab_rounds_options rounds = {.experiment = options->experiment,
                                              .bench = trains ? options->bench : NULL,
                                              .shard_trainers = shard_trainers,
                                              .pool = options->pool,
                                              .recorder = recorder,
                                              .progress = show,
                                              .context = &showing};
    if (!error)
        error = lab_rounds_run(&rounds, result, why);
    lab_display_keep(options->display);
    lab_shard_trainers_destroy(shard_trainers);
    return error;
}

enum base_error lab_simulate_rounds(const struct lab_simulate_options *options, struct lab_cluster *cluster,
                                    struct lab_simulated *simulated, struct lab_rounds_result *result,
                                    struct base_reason *why)
{
    char *path = lab_path("%s/rounds.jsonl", options->directory);
    uint64_t start_ns = node_clock_ns();
    struct lab_recorder recorder;
    struct base_reason ignored;
    *result = (struct lab_rounds_result){0};
    enum base_error error = lab_recorder_open(path, &recorder, why);
    free(path);
    if (error)
        return error;
    error = run(options, &recorder, result, why);
    if (!error)
        take_result(result, cluster, simulated);
    if (!error && !options->experiment->sim.vector && !(simulated->average.model = mean_of(result)))
        error = base_fail(why, BASE_ENOMEM, "no memory for the averaged model");
    cluster->seconds = (double)(node_clock_ns() - start_ns) / (double)NODE_SECOND_NS;
    enum base_error closed = lab_recorder_close(&recorder, error ? &ignored : why);
    return error ? error : closed;
}
