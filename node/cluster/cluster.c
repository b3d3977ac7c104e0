#include "node/cluster/cluster.h"
#include "base/hash.h"
#include "base/log.h"
#include "node/cluster/private.h"
#include "node/queue/clock.h"
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

// Datagrams that arrived while this process did not run must be handled before deadlines are judged.
static void timer(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_cluster *cluster = argument;
    struct timeval again = {0};
    if (!node_udp_drain(cluster->udp)) {
        event_add(cluster->timer, &again);
        return;
    }
    node_cluster_follow_reach(cluster);
    node_cluster_step_plainly(cluster, GOSSIP_MEMBERSHIP_TIMER, NULL);
    node_cluster_ready(cluster);
}

// -- making

// Without a name the node has a group of its own, from its id.
static uint32_t group_of(const char *name, const struct gossip_id *id)
{
    return (uint32_t)(name[0] ? base_hash_bytes(1, name, strlen(name))
                              : base_hash_bytes(2, id->bytes, sizeof id->bytes));
}

static enum base_error make_membership(struct node_cluster *cluster, struct base_reason *why)
{
    const struct node_cluster_options *o = &cluster->options;
    struct gossip_membership_options options = {
        .identity = o->links.identity,
        .version = {.generation = o->starts.number, .instance_id = o->instance_id},
        .name = o->name,
        .n_addresses = (uint8_t)cluster->n_told,
        .pages = o->pages,
        .shard = o->links.config->data.shards > 1 ? (uint32_t)o->links.config->data.shard : GOSSIP_NO_SHARD,
        .first_model = o->first_model,
        .examples = o->examples,
        .group = group_of(o->links.config->node.group, &o->links.identity->id),
        .profile = (enum gossip_member_profile)o->links.config->cluster.profile,
        .now_ns = node_clock_ns(),
        .recent_starts = o->starts.recent,
        .allow = o->links.allow};
    struct gossip_datagrams_options sealing = {.identity = o->links.identity,
                                               .secrets = o->links.secrets,
                                               .cluster = o->links.config->cluster.name,
                                               .generation = o->starts.number};
    memcpy(options.addresses, cluster->told, sizeof options.addresses);
    enum base_error error = BASE_EIO;
    if (getrandom(&options.seed, sizeof options.seed, 0) == (ssize_t)sizeof options.seed &&
        getrandom(sealing.entropy, sizeof sealing.entropy, 0) == (ssize_t)sizeof sealing.entropy)
        error = gossip_datagrams_create(&sealing, &cluster->datagrams);
    if (!error)
        error = gossip_membership_create(&options, &cluster->membership);
    return error ? base_fail(why, error, "membership: %s", base_error_name(error)) : BASE_OK;
}

static enum base_error make_sockets(struct node_cluster *cluster, struct base_reason *why)
{
    struct node_cluster_options *o = &cluster->options;
    struct node_udp_options udp = {.base = o->links.base,
                                   .socket = o->datagrams,
                                   .handler = &node_cluster_udp_handler,
                                   .owner = cluster};
    o->links.faults = cluster->faults;
    o->links.membership = cluster->membership;
    BASE_ASSERT(o->links.listener >= 0 && o->datagrams >= 0 && !cluster->peers);
    cluster->timer = event_new(o->links.base, -1, 0, timer, cluster);
    enum base_error error = cluster->timer ? node_endpoints_create(&cluster->endpoints) : BASE_ENOMEM;
    o->links.endpoints = cluster->endpoints;
    if (!error)
        error = node_udp_create(&udp, &cluster->udp);
    if (!error)
        error = node_peers_create(&o->links, &cluster->peers);
    return error ? base_fail(why, error, "links: %s", base_error_name(error)) : BASE_OK;
}

static enum base_error make_control(struct node_cluster *cluster, struct base_reason *why)
{
    const struct node_cluster_options *o = &cluster->options;
    const struct gossip_control_options options = {.self = o->links.identity->id,
                                                   .links = node_peers_rules(cluster->peers),
                                                   .membership = cluster->membership,
                                                   .owner = o->links.owner,
                                                   .edges = o->edges,
                                                   .gathered = o->gathered,
                                                   .rng = node_peers_rng(cluster->peers),
                                                   .neighbours_most = LIMIT_NEIGHBOURS};
    enum base_error error = gossip_control_create(&options, &cluster->control);
    return error ? base_fail(why, error, "no memory for the cluster") : BASE_OK;
}

enum base_error node_cluster_create(const struct node_cluster_options *options, struct node_cluster **out,
                                    struct base_reason *why)
{
    struct node_cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return base_fail(why, BASE_ENOMEM, "no memory for the cluster");
    cluster->options = *options;
    enum base_error error = node_cluster_find_addresses(cluster, why);
    if (!error)
        error = node_faults_create(options->links.config->node.fault_file, &cluster->faults, why);
    if (!error)
        error = node_events_open(options->events_path,
                                 (struct node_lines_bounds){options->links.config->metrics.file_bytes,
                                                            (unsigned)options->links.config->metrics.files},
                                 &cluster->events, why);
    if (!error)
        error = make_membership(cluster, why);
    if (!error)
        error = make_sockets(cluster, why);
    if (!error)
        error = make_control(cluster, why);
    if (!error) {
        *out = cluster;
        return BASE_OK;
    }
    if (cluster->udp)
        node_udp_release(cluster->udp); // still the caller's
    node_cluster_destroy(cluster);
    return error;
}

void node_cluster_destroy(struct node_cluster *cluster)
{
    if (!cluster)
        return;
    if (cluster->timer)
        event_free(cluster->timer);
    node_udp_destroy(cluster->udp);
    node_endpoints_destroy(cluster->endpoints);
    node_resolver_destroy(cluster->named.resolver);
    node_mapper_destroy(cluster->mapper);
    gossip_reach_destroy(cluster->reach);
    gossip_control_destroy(cluster->control);
    node_peers_destroy(cluster->peers);
    gossip_membership_destroy(cluster->membership);
    gossip_datagrams_destroy(cluster->datagrams);
    node_events_close(cluster->events);
    node_faults_destroy(cluster->faults);
    free(cluster);
}

void node_cluster_start(struct node_cluster *cluster)
{
    node_cluster_arm(cluster);
    node_peers_start(cluster->peers);
}

void node_cluster_leave(struct node_cluster *cluster)
{
    BASE_ASSERT(!cluster->leaving); // once
    cluster->leaving = true;
    node_peers_stop_accepting(cluster->peers);
    gossip_control_depart(cluster->control);
    struct timeval now = {0};
    event_add(cluster->timer, &now); // the others hear of it as events are taken
}

struct gossip_control *node_cluster_control(const struct node_cluster *cluster)
{
    return cluster->control;
}

const struct gossip_graph *node_cluster_graph(const struct node_cluster *cluster)
{
    return gossip_control_graph(cluster->control);
}

enum base_error node_cluster_secrets(struct node_cluster *cluster, const struct gossip_secrets *secrets)
{
    return gossip_datagrams_secrets(cluster->datagrams, secrets);
}

void node_cluster_reload_faults(struct node_cluster *cluster)
{
    struct base_reason why = {0};
    if (cluster->options.links.config->node.fault_file[0] == 0)
        return;
    if (node_faults_reload(cluster->faults, &why)) {
        base_log(BASE_LOG_ERROR, "faults", "the list of faults stays as it was: %s", why.text);
        return;
    }
    base_log(BASE_LOG_WARN, "faults", "%zu nodes are cut off by node.fault_file",
             node_faults_count(cluster->faults));
    node_peers_faults_changed(cluster->peers);
}

struct node_peers *node_cluster_peers(struct node_cluster *cluster)
{
    return cluster->peers;
}

struct gossip_entry node_cluster_entry(const struct node_cluster *cluster, size_t entry)
{
    struct gossip_entry shown = *node_peers_entry(cluster->peers, entry);
    struct gossip_member_info info;
    const size_t members = gossip_membership_count(cluster->membership);
    for (size_t i = 1; shown.state == GOSSIP_ENTRY_UNKNOWN && i < members; i++) { // 0 is this node
        gossip_membership_info(cluster->membership, i, &info);
        const struct gossip_record *r = info.record;
        if ((info.state == GOSSIP_MEMBER_ALIVE || info.state == GOSSIP_MEMBER_SUSPECT) &&
            node_peers_entry_is_at(cluster->peers, entry, r->addresses, r->n_addresses))
            shown = (struct gossip_entry){
                .state = GOSSIP_ENTRY_MEMBER, .known = true, .id = r->id, .since_ns = info.since_ns};
    }
    return shown;
}

const struct gossip_membership *node_cluster_membership(const struct node_cluster *cluster)
{
    return cluster->membership;
}

const struct node_events *node_cluster_events(const struct node_cluster *cluster)
{
    return cluster->events;
}

struct node_cluster_counters node_cluster_counters(const struct node_cluster *cluster)
{
    struct node_cluster_counters counters = cluster->counters;
    counters.datagrams = node_udp_counters(cluster->udp);
    return counters;
}
