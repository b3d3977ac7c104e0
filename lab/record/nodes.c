#include "lab/record/nodes.h"

#include "base/file.h"
#include "gossip/session/identity.h"
#include "lab/record/directory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define ADDRESS_BYTES 32u
#define CONTACTS      3u // nodes whose addresses all others receive; a single living one is enough

static enum base_error write_text(const char *path, char *text, struct base_reason *why)
{
    if (!text)
        return base_fail(why, BASE_ENOMEM, "no memory to write '%s'", path);
    const struct base_span span = {text, strlen(text)};
    enum base_error error = base_file_write(path, 0644, &span, 1, why);
    free(text);
    return error;
}

static bool is_late(const struct lab_experiment *experiment, size_t node)
{
    return lab_set_has(&experiment->schedule.late, node);
}

struct contacts { // the first nodes that are present at the start
    char text[CONTACTS][ADDRESS_BYTES];
    char *items[CONTACTS];
    size_t count, starters; // starters: nodes present at the start
};

static void find_contacts(const struct lab_experiment *experiment, const struct lab_cluster *cluster,
                          struct contacts *contacts)
{
    *contacts = (struct contacts){0};
    for (size_t i = 0; i < cluster->count; i++) {
        if (is_late(experiment, i))
            continue;
        contacts->starters++;
        if (contacts->count == CONTACTS)
            continue;
        char *text = contacts->text[contacts->count];
        snprintf(text, ADDRESS_BYTES, "127.0.0.1:%u", (unsigned)cluster->nodes[i].port);
        contacts->items[contacts->count++] = text;
    }
}

static enum base_error make_identity(const struct lab_node *node, char hex[GOSSIP_ID_HEX],
                                     struct base_reason *why)
{
    struct gossip_identity identity;
    char *path = lab_path("%s/identity", node->directory);
    enum base_error error = gossip_identity_create(path, &identity, why);
    free(path);
    if (error)
        return error;
    gossip_id_hex(&identity.id, hex);
    gossip_identity_wipe(&identity);
    return BASE_OK;
}

static enum base_error write_node(const struct lab_experiment *experiment, const char *secret,
                                  struct contacts *contacts, size_t index, struct lab_cluster *cluster,
                                  struct base_reason *why)
{
    struct node_config view;
    struct lab_node *node = &cluster->nodes[index];
    char listen[ADDRESS_BYTES], http[ADDRESS_BYTES], group[LAB_NODE_NAME_BYTES];
    enum base_error error = base_directory_make(node->directory, 0777, why);
    if (!error)
        error = make_identity(node, cluster->ids.hex[index], why);
    if (!error)
        error = write_text(node->fault, strdup(""), why);
    if (error)
        return error;
    snprintf(listen, sizeof listen, "127.0.0.1:%u", (unsigned)node->port);
    snprintf(http, sizeof http, "127.0.0.1:%u", (unsigned)node->http_port);
    lab_experiment_view(experiment, &view);
    view.node.name = node->name;
    view.node.dir = node->directory;
    view.node.group = (char *)lab_group_name(experiment, index, group);
    view.node.listen = listen;
    view.node.http = http;
    view.node.fault_file = node->fault;
    view.node.start_members = contacts->starters;
    view.cluster.secret_file = (char *)secret;
    view.peers = (struct node_texts){contacts->items, contacts->count};
    view.data.shard = index;
    return write_text(node->config, node_schema_write(&node_config_schema, &view), why);
}

// Creates all nodes without starting any. `ports`: two for each node, owned by the cluster afterwards; or
// NULL.
static enum base_error make_nodes(const struct lab_experiment *experiment, const char *directory,
                                  const struct lab_ports *ports, struct lab_cluster *cluster,
                                  struct base_reason *why)
{
    size_t count = experiment->experiment.nodes;
    *cluster = (struct lab_cluster){.train_time = NAN, .ids.count = count};
    if (ports)
        cluster->ports = *ports;
    cluster->nodes = calloc(count, sizeof *cluster->nodes);
    if (!cluster->nodes)
        return base_fail(why, BASE_ENOMEM, "no memory for %zu nodes", count);
    cluster->count = count;
    for (size_t i = 0; i < cluster->count; i++) {
        struct lab_node *node = &cluster->nodes[i];
        lab_node_name(i, node->name);
        node->directory = lab_path("%s/%s", directory, node->name);
        node->config = lab_path("%s/node.yaml", node->directory);
        node->log = lab_path("%s/log", node->directory);
        node->fault = lab_path("%s/fault", node->directory);
        node->events = lab_path("%s/events.jsonl", node->directory);
        const struct lab_attacker *attacker = lab_attackers_find(&experiment->hostile, i);
        node->attack = attacker ? lab_attack_name(attacker->kind) : NULL;
        if (ports) {
            node->port = ports->port[2 * i];
            node->http_port = ports->port[2 * i + 1];
        }
        char *metrics = lab_path("%s/metrics.jsonl", node->directory);
        lab_tail_start(metrics, &node->tail);
        lab_journal_start(node->events, &cluster->ids, &node->journal);
        free(metrics);
    }
    return BASE_OK;
}

static enum base_error plan_events(const struct lab_experiment *experiment, struct lab_cluster *cluster,
                                   struct base_reason *why)
{
    const struct lab_schedule *schedule = &experiment->schedule;
    cluster->happenings = calloc(schedule->count ? schedule->count : 1, sizeof *cluster->happenings);
    if (!cluster->happenings)
        return base_fail(why, BASE_ENOMEM, "no memory for the events of an experiment");
    for (size_t i = 0; i < schedule->count; i++)
        cluster->happenings[i] = (struct lab_happening){.time = NAN, .end_time = NAN};
    cluster->schedule = schedule;
    return BASE_OK;
}

enum base_error lab_cluster_prepare(const struct lab_experiment *experiment, const char *directory,
                                    struct lab_cluster *cluster, struct base_reason *why)
{
    struct lab_ports ports;
    struct contacts contacts;
    size_t count = experiment->experiment.nodes;
    BASE_ASSERT(count <= LAB_PROCESSES_MAX);
    char *path = lab_path("%s/experiment.yaml", directory), *secret = lab_path("%s/secret", directory);
    enum base_error error = lab_ports_claim(2 * count, &ports, why);
    *cluster = (struct lab_cluster){0};
    if (!error)
        error = make_nodes(experiment, directory, &ports, cluster, why);
    if (!error)
        error = plan_events(experiment, cluster, why);
    find_contacts(experiment, cluster, &contacts);
    if (!error)
        error = write_text(path, lab_experiment_write(experiment), why);
    if (!error)
        error = gossip_secret_create(secret, why);
    for (size_t i = 0; i < cluster->count && !error; i++)
        error = write_node(experiment, secret, &contacts, i, cluster, why);
    free(path);
    free(secret);
    if (error)
        lab_cluster_free(cluster);
    return error;
}

enum base_error lab_cluster_pretend(const struct lab_experiment *experiment, const char *directory,
                                    bool files, struct lab_cluster *cluster, struct base_reason *why)
{
    char *path = lab_path("%s/experiment.yaml", directory);
    enum base_error error = make_nodes(experiment, directory, NULL, cluster, why);
    if (!error)
        error = plan_events(experiment, cluster, why);
    if (!error)
        error = write_text(path, lab_experiment_write(experiment), why);
    for (size_t i = 0; i < cluster->count && files && !error; i++)
        error = base_directory_make(cluster->nodes[i].directory, 0777, why);
    free(path);
    if (error)
        lab_cluster_free(cluster);
    return error;
}

void lab_cluster_free(struct lab_cluster *cluster)
{
    for (size_t i = 0; i < cluster->count; i++) {
        struct lab_node *node = &cluster->nodes[i];
        BASE_ASSERT(!node->process.running);
        lab_tail_close(&node->tail);
        lab_journal_close(&node->journal);
        free(node->directory);
        free(node->config);
        free(node->log);
        free(node->fault);
        free(node->events);
    }
    free(cluster->nodes);
    free(cluster->happenings);
    lab_ports_release(&cluster->ports);
    *cluster = (struct lab_cluster){0};
}

double lab_unix_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

enum base_error lab_node_start(struct lab_node *node, const char *program, char *const *environment,
                               struct base_reason *why)
{
    char name[] = "p2pml-node", option[] = "--config", resume[] = "--resume";
    char *arguments[] = {name, option, node->config, node->starts ? resume : NULL, NULL};
    if (node->starts) {
        lab_tail_again(&node->tail);
        lab_journal_again(&node->journal);
    }
    enum base_error error =
        lab_process_start(program, arguments, environment, node->log, node->log, &node->process, why);
    if (error)
        return error;
    node->starts++;
    node->gone = LAB_HERE;
    node->stopped = node->untold = false;
    node->lines_before = node->tail.lines;
    node->end_time = NAN;
    return BASE_OK;
}

void lab_node_pretend_end(struct lab_node *node, int status)
{
    node->process = (struct lab_process){.pid = -1, .status = status == 0 ? 0 : W_EXITCODE(1, 0)};
}

bool lab_node_ended_well(const struct lab_node *node)
{
    return node->gone == LAB_HERE && lab_process_succeeded(&node->process);
}

bool lab_node_counts(const struct lab_node *node)
{
    return lab_node_ended_well(node) && !node->attack;
}

bool lab_node_failed(const struct lab_node *node)
{
    return node->starts && !node->attack && node->gone == LAB_HERE && !lab_process_succeeded(&node->process);
}

enum base_error lab_node_cut(const struct lab_cluster *cluster, struct lab_node *node,
                             const struct lab_set *cut, struct base_reason *why)
{
    struct base_span spans[2 * LAB_PROCESSES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < cluster->count; i++)
        if (lab_set_has(cut, i)) {
            spans[count++] = (struct base_span){cluster->ids.hex[i], GOSSIP_ID_HEX - 1};
            spans[count++] = (struct base_span){"\n", 1};
        }
    enum base_error error = base_file_write(node->fault, 0644, spans, count, why);
    node->untold = node->untold || !error;
    return error;
}
