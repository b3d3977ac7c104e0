// The summary as a printed table.
#include "lab/summary/summary.h"

#include "base/plural.h"
#include "node/store/model_file.h"

#include <math.h>
#include <stdlib.h>

#define NODES_SHOWN 64u

static void print_head(const struct lab_summary *s, FILE *out)
{
    char topology[32], values[32], mode[32], optimizer[32], data[64], parameters[LAB_NUMBER_BYTES];
    const struct node_config *c = &s->bench->view;
    lab_data_describe(c, data, sizeof data);
    lab_print_count(s->bench->parameters, parameters);
    lab_choice_name("topology.kind", c->topology.kind, topology, sizeof topology);
    lab_choice_name("average.values", c->average.values, values, sizeof values);
    lab_choice_name("average.mode", c->average.mode, mode, sizeof mode);
    lab_choice_name("train.optimizer", c->train.optimizer, optimizer, sizeof optimizer);
    fprintf(out, "\n%s: %zu node%s on a %s; %s, %s parameters; %s, %zu examples to train on, %zu to test\n",
            s->experiment->experiment.name, s->cluster->count, base_plural(s->cluster->count), topology,
            s->bench->description, parameters, data, s->bench->train.examples, s->bench->test.examples);
    fprintf(out,
            "%s %g, %llu steps of %llu examples a node; every %llu step%s an exchange (%s) of 1/%g of the "
            "values, %s\n",
            optimizer, c->train.rate, (unsigned long long)c->train.steps, (unsigned long long)c->train.batch,
            (unsigned long long)c->average.local_steps, base_plural(c->average.local_steps), mode,
            round(10 / lab_summary_ratio(s)) / 10, values);
}

static void print_score(const char *what, const struct lab_score *score, const char *note, FILE *out)
{
    const bool regression = score->regression;
    char accuracy[LAB_NUMBER_BYTES], loss[LAB_NUMBER_BYTES];
    lab_print_accuracy(score->accuracy, regression, accuracy);
    lab_print_real(regression ? score->rmse : score->loss, loss);
    fprintf(out, "  %-26s %9s %10s%s%s\n", what, accuracy, loss, note[0] ? "  " : "", note);
}

static void print_baseline(const struct lab_summary *s, enum lab_baseline kind, const char *what,
                           const char *note, FILE *out)
{
    const struct lab_baseline_run *run = lab_baseline_find(s->baselines, kind);
    if (run)
        print_score(what, &run->score, run->done ? note : "did not finish", out);
}

// Nodes that did not end well, and attackers, are not in the mean.
static void print_averaged(const struct lab_summary *s, FILE *out)
{
    char note[64] = "the mean of the nodes' models";
    if (s->average.nodes > 0 && s->average.nodes < s->cluster->count)
        snprintf(note, sizeof note, "the mean of %zu of %zu models", s->average.nodes, s->cluster->count);
    print_score("averaged model", &s->average.score, note, out);
}

static void print_scores(const struct lab_summary *s, const struct lab_totals *totals, FILE *out)
{
    struct lab_spread lone;
    lab_lone_spread(s->baselines, &lone);
    fprintf(out, "\n  %-26s %9s %10s\n", "on the test examples", lab_workbench_measures(s->bench),
            s->bench->test.outputs > 0 ? "RMSE" : "loss");
    print_averaged(s, out);
    print_score("worst node", &totals->worst, "", out);
    print_score("mean of the nodes", &totals->mean, "", out);
    print_score("best node", &totals->best, "", out);
    if (lab_baseline_find(s->baselines, LAB_LONE)) {
        print_score("worst lone node", &lone.worst, "every shard by itself, no exchange", out);
        print_score("mean of the lone nodes", &lone.mean, "", out);
        print_score("best lone node", &lone.best, "", out);
    }
    print_baseline(s, LAB_CENTRAL, "central", "all data in one place; as many examples seen as by one node",
                   out);
    print_baseline(s, LAB_CENTRAL_TOTAL, "central, total", "as many as by all nodes together", out);
}

static void describe_end(const struct lab_node *node, char status[LAB_STATUS_BYTES])
{
    if (node->attack)
        snprintf(status, LAB_STATUS_BYTES, "attacker: %s", node->attack);
    else if (node->gone == LAB_HERE)
        lab_process_describe(&node->process, status);
    else
        snprintf(status, LAB_STATUS_BYTES,
                 node->gone == LAB_KILLED ? "killed by an event" : "asked to leave by an event");
}

static void print_nodes(const struct lab_cluster *cluster, const char *measure, FILE *out)
{
    fprintf(out, "\n  %-8s %9s %10s %8s %9s %10s %10s %11s %11s  %s\n", "node", measure, "loss", "round",
            "step", "own steps", "exchanges", "kB sent", "kB received", "status");
    size_t shown = cluster->count > NODES_SHOWN ? NODES_SHOWN : cluster->count;
    for (size_t i = 0; i < shown; i++) {
        char accuracy[LAB_NUMBER_BYTES], loss[LAB_NUMBER_BYTES], rounds[LAB_NUMBER_BYTES],
            steps[LAB_NUMBER_BYTES], own[LAB_NUMBER_BYTES], exchanges[LAB_NUMBER_BYTES],
            sent[LAB_NUMBER_BYTES], received[LAB_NUMBER_BYTES], status[LAB_STATUS_BYTES];
        const struct lab_row row = lab_tail_row(&cluster->nodes[i].tail);
        lab_print_accuracy(row.accuracy, row.regression, accuracy);
        lab_print_real(row.test_loss, loss);
        lab_print_count(row.round, rounds);
        lab_print_count(row.step, steps);
        lab_print_count(row.own_steps, own);
        lab_print_count(row.exchanges, exchanges);
        lab_print_count(row.bytes_sent / 1000, sent);
        lab_print_count(row.bytes_received / 1000, received);
        describe_end(&cluster->nodes[i], status);
        fprintf(out, "  %-8s %9s %10s %8s %9s %10s %10s %11s %11s  %s\n", cluster->nodes[i].name, accuracy,
                loss, rounds, steps, own, exchanges, sent, received, status);
    }
    if (shown < cluster->count)
        fprintf(out, "  ... and %zu more, in summary.json\n", cluster->count - shown);
}

static void print_bytes(const struct lab_summary *s, const struct lab_totals *totals, FILE *out)
{
    char sent[LAB_NUMBER_BYTES], each[LAB_NUMBER_BYTES], dense[LAB_NUMBER_BYTES], packets[LAB_NUMBER_BYTES],
        consensus[LAB_NUMBER_BYTES];
    lab_print_bytes(totals->bytes_sent, sent);
    lab_print_bytes(totals->bytes_sent / s->cluster->count, each);
    lab_print_bytes(totals->dense_bytes, dense);
    lab_print_bytes(totals->delta_bytes, packets);
    lab_print_real(s->average.consensus, consensus);
    fprintf(out, "\n  sent       %s in all, %s a node; %s of it are the packets of the exchanges\n", sent,
            each, packets);
    if (!isnan(totals->times_less))
        fprintf(out, "  dense      %s in fp32 on the same schedule, %.1f times as much\n", dense,
                totals->times_less);
    fprintf(out, "  consensus  %s (RMS distance of the nodes' models to their mean, over its norm)\n",
            consensus);
}

static void print_conditions(const struct lab_summary *s, FILE *out)
{
    char seeds[LAB_SEEDS_BYTES];
    char *simulated = lab_simulated_text(s);
    lab_seeds_text(s, seeds);
    if (simulated && simulated[0])
        fprintf(out, "  simulated  %s\n", simulated);
    fprintf(out, "  seeds      %s\n", seeds);
    free(simulated);
}

void lab_summary_print(const struct lab_summary *s, FILE *out)
{
    struct lab_totals totals;
    lab_totals_of(s->cluster, &totals);
    print_head(s, out);
    print_scores(s, &totals, out);
    print_nodes(s->cluster, lab_workbench_measures(s->bench), out);
    lab_events_print(s->cluster, s->histories, lab_workbench_measures(s->bench), out);
    print_bytes(s, &totals, out);
    if (s->engine)
        fprintf(out, "  virtual    %.1f s from the first round to the last\n", s->virtual_seconds);
    fprintf(out, "  time       %.1f s for the nodes, %.1f s for the baselines\n", s->cluster->seconds,
            s->baselines->seconds);
    print_conditions(s, out);
    if (s->average.model)
        fprintf(out, "  model      the averaged one is in %s/" NODE_MODEL_AVERAGED "\n", s->directory);
    if (s->shortfall)
        fprintf(out, "  own work   %s\n", s->shortfall);
    if (s->trouble)
        fprintf(out, "  trouble    %s\n", s->trouble);
    if (s->unmerged)
        fprintf(out, "  models     %s\n", s->unmerged);
    if (s->unlearned)
        fprintf(out, "  models     %s\n", s->unlearned);
    if (s->unwritten)
        fprintf(out, "  status     %s; %s/summary.json could not be written\n", s->status, s->directory);
    else
        fprintf(out, "  status     %s; all numbers are in %s/summary.json\n", s->status, s->directory);
    fflush(out);
}
