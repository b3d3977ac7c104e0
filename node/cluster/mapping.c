// The port that a router forwards to this node: what gossip/reach/mapping decides is asked on a thread, and
// the answer told.
#include "base/hash.h"
#include "base/log.h"
#include "node/cluster/private.h"
#include "node/net/interfaces.h"
#include "node/net/listener.h"
#include "node/net/router.h"
#include "node/queue/clock.h"
#include <string.h>

// A listener at one address, which must be IPv4; or at all.
static bool listens_to_router(const struct node_address *bound, uint8_t host[4])
{
    static const uint8_t everywhere[16];
    struct gossip_address own;
    const bool known = !node_address_loops(bound) && node_address_tell(bound, &own);
    memset(host, 0, 4);
    if (known && own.family == 4)
        memcpy(host, own.ip, 4);
    return known && (own.family == 4 || memcmp(own.ip, everywhere, sizeof everywhere) == 0);
}

void node_cluster_map_begin(struct node_cluster *cluster, const struct node_address *bound)
{
    const struct node_config *config = cluster->options.links.config;
    const struct gossip_id *self = &cluster->options.links.identity->id;
    uint8_t host[4];
    if (config->node.port_mapping == NODE_PORT_MAPPING_AUTO && config->node.advertise[0] == 0 &&
        node_router_is_built() && listens_to_router(bound, host))
        gossip_mapping_begin(&cluster->mapping, node_clock_ns(), host, cluster->port,
                             base_hash_bytes(0, self->bytes, sizeof self->bytes));
}

void node_cluster_map_on(struct node_cluster *cluster, const struct gossip_address *interfaces, size_t count)
{
    cluster->maps = gossip_mapping_fits(interfaces, count);
    gossip_mapping_moved(&cluster->mapping);
}

static void ask(struct node_cluster *cluster, const struct gossip_mapping_request *request, uint64_t now_ns)
{
    const struct gossip_mapping_answer none = {.end = GOSSIP_MAPPING_NOBODY};
    enum base_error error = cluster->mapper ? BASE_OK : node_mapper_create(&cluster->mapper);
    if (!error)
        error = node_mapper_ask(cluster->mapper, request);
    if (error) // no memory now: later
        gossip_mapping_answered(&cluster->mapping, now_ns, &none);
}

static void tell_answer(const struct node_cluster *cluster)
{
    const struct gossip_mapping *m = &cluster->mapping;
    if (m->state == GOSSIP_MAPPING_NO_ROUTER)
        base_log(BASE_LOG_DEBUG, "port_mapping", "no router answers to NAT-PMP or UPnP");
    else if (m->state == GOSSIP_MAPPING_REFUSED)
        base_log(BASE_LOG_DEBUG, "port_mapping", "the router forwards no port to this node (%s)", m->by);
}

static void tell_change(const struct node_cluster *cluster, bool told)
{
    const struct node_cluster_mapping now = node_cluster_mapping(cluster);
    if (told)
        base_log(BASE_LOG_INFO, "port_mapping", "the router forwards %s to this node (%s)", now.address,
                 now.by);
    else if (cluster->mapping.state == GOSSIP_MAPPING_HELD)
        base_log(
            BASE_LOG_INFO, "port_mapping",
            "the router forwards %s to this node (%s), an address that others cannot use: it stands behind "
            "another router. They are not told",
            now.address, now.by);
    else
        base_log(BASE_LOG_INFO, "port_mapping", "the router forwards no port to this node any more");
}

// Members that see the node elsewhere know of a new address of the router before the lease is over.
static void follow(struct node_cluster *cluster, uint64_t now_ns, bool held)
{
    const bool holds = cluster->mapping.state == GOSSIP_MAPPING_HELD;
    gossip_reach_map(cluster->reach, holds ? &cluster->mapping.address : NULL);
    const bool told = gossip_reach_mapped(cluster->reach, now_ns);
    if (told == cluster->mapped && holds == held)
        return;
    if (cluster->mapped && holds && !told)
        gossip_mapping_moved(&cluster->mapping);
    cluster->mapped = told;
    tell_change(cluster, told);
}

void node_cluster_map_again(struct node_cluster *cluster, uint64_t now_ns)
{
    struct gossip_mapping_answer answer;
    struct gossip_mapping_request request;
    const bool held = cluster->mapping.state == GOSSIP_MAPPING_HELD;
    if (cluster->mapping.asked && cluster->mapper && node_mapper_take(cluster->mapper, &answer)) {
        gossip_mapping_answered(&cluster->mapping, now_ns, &answer);
        tell_answer(cluster);
    }
    if (gossip_mapping_asks(&cluster->mapping, now_ns, gossip_reach_state(cluster->reach, now_ns),
                            cluster->maps, &request))
        ask(cluster, &request, now_ns);
    follow(cluster, now_ns, held);
}

struct node_cluster_mapping node_cluster_mapping(const struct node_cluster *cluster)
{
    static const char *const states[] = {[GOSSIP_MAPPING_OFF] = "off",
                                         [GOSSIP_MAPPING_IDLE] = "not asked",
                                         [GOSSIP_MAPPING_NO_ROUTER] = "no answer",
                                         [GOSSIP_MAPPING_REFUSED] = "refused",
                                         [GOSSIP_MAPPING_HELD] = "not told"};
    const struct gossip_mapping *m = &cluster->mapping;
    struct node_cluster_mapping shown = {.state = states[m->state], .by = m->by};
    struct node_address address;
    if (m->state == GOSSIP_MAPPING_OFF && !node_router_is_built())
        shown.state = "not built";
    if (m->state != GOSSIP_MAPPING_HELD)
        return shown;
    node_address_of(&m->address, &address);
    node_address_text(&address, shown.address);
    if (cluster->mapped)
        shown.state = "mapped";
    return shown;
}
