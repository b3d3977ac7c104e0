#include "lab/nodes.h"

#include "base/file.h"
#include "gossip/session/identity.h"
#include "lab/directory.h"
#include "lab/ports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS_BYTES 32u

static enum base_error write_text(const char *path, char *text, struct base_reason *why)
{
    if (!text)
        return base_fail(why, BASE_ENOMEM, "no memory to write '%s'", path);
    const struct base_span span = {text, strlen(text)};
    enum base_error error = base_file_write(path, 0644, &span, 1, why);
    free(text);
    return error;
}

struct addresses { // of all nodes
    char text[LAB_NODES_MOST][ADDRESS_BYTES];
    char *items[LAB_NODES_MOST];
};

static void list_addresses(const struct lab_swarm *swarm, struct addresses *addresses)
{
    for (size_t i = 0; i < swarm->count; i++) {
        snprintf(addresses->text[i], ADDRESS_BYTES, "127.0.0.1:%u", (unsigned)swarm->nodes[i].port);
        addresses->items[i] = addresses->text[i];
    }
}

static enum base_error write_node(const struct lab_experiment *experiment, const char *secret,
                                  struct addresses *addresses, size_t index, struct lab_node *node,
                                  struct base_reason *why)
{
    struct node_config view;
    char http[ADDRESS_BYTES];
    enum base_error error = base_directory_make(node->directory, why);
    if (error)
        return error;
    snprintf(http, sizeof http, "127.0.0.1:%u", (unsigned)node->http_port);
    lab_experiment_view(experiment, &view);
    view.node.name = node->name;
    view.node.dir = node->directory;
    view.node.listen = addresses->text[index];
    view.node.http = http;
    view.cluster.secret_file = (char *)secret;
    view.peers = (struct node_texts){addresses->items, experiment->experiment.nodes};
    view.data.shard = index;
    return write_text(node->config, node_schema_write(&node_config_schema, &view), why);
}

static void name_nodes(const char *directory, const uint16_t *ports, struct lab_swarm *swarm)
{
    for (size_t i = 0; i < swarm->count; i++) {
        struct lab_node *node = &swarm->nodes[i];
        snprintf(node->name, sizeof node->name, "node-%02u", (unsigned)i);
        node->directory = lab_path("%s/%s", directory, node->name);
        node->config = lab_path("%s/node.yaml", node->directory);
        node->log = lab_path("%s/log", node->directory);
        node->port = ports[2 * i];
        node->http_port = ports[2 * i + 1];
        char *metrics = lab_path("%s/metrics.jsonl", node->directory);
        lab_tail_start(metrics, &node->tail);
        free(metrics);
    }
}

enum base_error lab_swarm_prepare(const struct lab_experiment *experiment, const char *directory,
                                  struct lab_swarm *swarm, struct base_reason *why)
{
    uint16_t ports[2 * LAB_NODES_MOST];
    struct addresses addresses;
    *swarm = (struct lab_swarm){.count = experiment->experiment.nodes};
    BASE_ASSERT(swarm->count <= LAB_NODES_MOST);
    char *path = lab_path("%s/experiment.yaml", directory), *secret = lab_path("%s/secret", directory);
    memset(ports, 0, sizeof ports);
    enum base_error error = lab_ports_find(2 * swarm->count, ports, why);
    name_nodes(directory, ports, swarm);
    list_addresses(swarm, &addresses);
    if (!error)
        error = write_text(path, lab_experiment_write(experiment), why);
    if (!error)
        error = gossip_secret_create(secret, why);
    for (size_t i = 0; i < swarm->count && !error; i++)
        error = write_node(experiment, secret, &addresses, i, &swarm->nodes[i], why);
    free(path);
    free(secret);
    if (error)
        lab_swarm_free(swarm);
    return error;
}

void lab_swarm_free(struct lab_swarm *swarm)
{
    for (size_t i = 0; i < swarm->count; i++) {
        struct lab_node *node = &swarm->nodes[i];
        BASE_ASSERT(!node->process.running);
        lab_tail_close(&node->tail);
        free(node->directory);
        free(node->config);
        free(node->log);
    }
    *swarm = (struct lab_swarm){0};
}
