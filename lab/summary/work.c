// Own work against the plan: a node may reach the last round with another node's model, having computed
// little, or with a model of its own that was averaged with nobody.
#include "lab/summary/summary.h"

#include "base/file.h"
#include "gossip/wire/message.h"
#include "train/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define NODES_NAMED       8u
#define UNAVERAGED_ROUNDS 100u // of its own, before few exchanges are too few

// A partition lets one side adopt the model of the other, so it explains the work of every node in a group.
// Nobody asks what an attacker has done.
static bool is_explained(const struct lab_cluster *cluster, size_t node)
{
    if (cluster->nodes[node].attack)
        return true;
    for (size_t i = 0; i < cluster->schedule->count; i++) {
        const struct lab_event *event = &cluster->schedule->items[i];
        const bool concerns = event->kind == LAB_PARTITION ? event->group[node] > 0 : event->node == node;
        if (concerns && cluster->happenings[i].begun && !cluster->happenings[i].instead)
            return true;
    }
    return false;
}

// Ended by itself after its latest line: further lines could not be written (a full disk), so that its counts
// are too low and its figures old.
static bool is_cut_off(const struct lab_node *node, const struct lab_row *row)
{
    const struct lab_process *process = &node->process;
    return process->pid > 0 && !process->running && WIFEXITED(process->status) &&
           strcmp(row->state, "training") == 0;
}

static void name_node(const struct lab_node *node, uint64_t own_steps, uint64_t planned, size_t before,
                      FILE *out)
{
    char own[LAB_NUMBER_BYTES], all[LAB_NUMBER_BYTES];
    lab_print_count(own_steps, own);
    lab_print_count(planned, all);
    if (!before)
        fprintf(out, "%s took %s of %s steps", node->name, own, all);
    else if (before < NODES_NAMED)
        fprintf(out, ", %s %s", node->name, own);
}

// A node of a star of n meets the hub in one of n - 1 rounds; with a tenth of that, its model is its own.
static bool is_averaged_little(const struct lab_cluster *cluster, const struct node_config *config,
                               const struct lab_row *row)
{
    const uint64_t rounds = row->own_steps / config->average.local_steps;
    return cluster->count > 1 && config->average.method != NODE_METHOD_LOCAL && rounds >= UNAVERAGED_ROUNDS &&
           row->exchanges < rounds / (10 * (cluster->count - 1));
}

static size_t name_idle(const struct lab_cluster *cluster, const struct node_config *config, FILE *out)
{
    size_t found = 0;
    for (size_t i = 0; i < cluster->count; i++) {
        const struct lab_row row = lab_tail_row(&cluster->nodes[i].tail);
        if (row.own_steps < config->train.steps && !is_explained(cluster, i) &&
            !is_cut_off(&cluster->nodes[i], &row))
            name_node(&cluster->nodes[i], row.own_steps, config->train.steps, found++, out);
    }
    if (found > NODES_NAMED)
        fprintf(out, ", and %zu more", found - NODES_NAMED);
    return found;
}

static size_t name_unaveraged(const struct lab_cluster *cluster, const struct node_config *config,
                              bool follows, FILE *out)
{
    size_t found = 0;
    for (size_t i = 0; i < cluster->count; i++) {
        const struct lab_row row = lab_tail_row(&cluster->nodes[i].tail);
        if (!is_averaged_little(cluster, config, &row) || is_explained(cluster, i))
            continue;
        if (found < NODES_NAMED)
            fprintf(out, "%s%s made %llu exchanges", found || follows ? ", " : "", cluster->nodes[i].name,
                    (unsigned long long)row.exchanges);
        found++;
    }
    if (found > NODES_NAMED)
        fprintf(out, ", and %zu more", found - NODES_NAMED);
    return found;
}

// -- models

static size_t name_failed(const struct lab_cluster *cluster, FILE *out)
{
    size_t found = 0;
    for (size_t i = 0; i < cluster->count; i++) {
        const struct lab_node *node = &cluster->nodes[i];
        const struct lab_row row = lab_tail_row(&node->tail);
        const bool failed = lab_node_failed(node), cut_off = is_cut_off(node, &row);
        char status[LAB_STATUS_BYTES];
        if (!failed && !cut_off && !(lab_node_counts(node) && row.diverged))
            continue;
        lab_process_describe(&node->process, status);
        if (found < NODES_NAMED)
            fprintf(out, "%s%s %s%s%s", found ? ", " : "", node->name, failed ? "ended with " : "",
                    failed ? status : "", row.diverged ? failed ? " and has diverged" : "has diverged" : "");
        if (found < NODES_NAMED && cut_off)
            fprintf(out, "%s(its metrics.jsonl ends at step %llu, so its figures are old; a full disk?)",
                    failed || row.diverged ? " " : "", (unsigned long long)row.step);
        if (found < NODES_NAMED && row.returns > 0)
            fprintf(out, " (%llu returns to its last good model)", (unsigned long long)row.returns);
        found++;
    }
    if (found > NODES_NAMED)
        fprintf(out, ", and %zu more", found - NODES_NAMED);
    return found;
}

static void name_unmerged(const struct lab_cluster *cluster, FILE *out)
{
    size_t found = 0, ended = 0;
    for (size_t i = 0; i < cluster->count; i++) {
        const bool well = lab_node_counts(&cluster->nodes[i]);
        const bool keeps = well && !lab_tail_row(&cluster->nodes[i].tail).merged;
        ended += well;
        if (keeps && found < NODES_NAMED)
            fprintf(out, "%s%s", found ? ", " : "", cluster->nodes[i].name);
        found += keeps;
    }
    if (found > NODES_NAMED)
        fprintf(out, " and %zu more", found - NODES_NAMED);
    if (found > 0)
        fprintf(out, " %s", found == 1 ? "keeps its own model" : "keep their own models");
    else
        fprintf(out, "%zu nodes hold different models", ended);
}

static char *closed(FILE *out, char **text, bool found)
{
    char *closed = base_text_close(out, text);
    if (found)
        return closed;
    free(closed);
    return NULL;
}

char *lab_trouble_text(const struct lab_cluster *cluster)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    return out ? closed(out, &text, name_failed(cluster, out) > 0) : NULL;
}

char *lab_unmerged_text(const struct lab_cluster *cluster, const struct node_config *config, double consensus)
{
    char *text = NULL;
    size_t bytes = 0;
    const bool merges = config->average.finish == NODE_FINISH_MERGE && config->node.linger_ns > 0 &&
                        config->average.method != NODE_METHOD_LOCAL && cluster->count > 1 &&
                        cluster->count <= GOSSIP_MERGE_MOST;
    if (!merges || !(consensus > 0))
        return NULL;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    name_unmerged(cluster, out);
    return closed(out, &text, true);
}

char *lab_unlearned_text(const struct lab_workbench *bench, const struct lab_score *averaged)
{
    char *text = NULL;
    if (!bench->model || !bench->test.examples)
        return NULL;
    const double nothing = train_loss_of_nothing(train_model_spec(bench->model), &bench->test);
    if (!(averaged->loss >= nothing))
        return NULL;
    if (asprintf(&text,
                 "the averaged model is no better than one that knows nothing: loss %.4g, that one's is %.4g",
                 averaged->loss, nothing) < 0)
        return NULL;
    return text;
}

// -- own work, all of it

char *lab_shortfall_text(const struct lab_cluster *cluster, const struct node_config *config)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    size_t found = name_idle(cluster, config, out);
    found += name_unaveraged(cluster, config, found > 0, out);
    return closed(out, &text, found > 0);
}
