// node.advertise: a name is resolved at the start, and again every minute, since the address of a home may
// change. The latest addresses that it had stay in use while it has none.
#include "base/log.h"
#include "node/cluster/private.h"
#include "node/net/interfaces.h"
#include "node/queue/clock.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS (60 * NODE_SECOND_NS)

static const char *configured(const struct node_cluster *cluster)
{
    return cluster->options.links.config->node.advertise;
}

static size_t addresses_of(const struct node_cluster *cluster, const struct node_resolution *r,
                           struct gossip_address found[LIMIT_ADDRESSES])
{
    size_t count = 0;
    for (size_t i = 0; i < r->count && count < LIMIT_ADDRESSES; i++)
        count += node_address_tell(&r->addresses[i], &found[count]);
    for (size_t i = 0; i < count; i++)
        found[i].port = cluster->told_port;
    return count;
}

// Debian and Ubuntu write a host's own name into its /etc/hosts as 127.0.1.1. Others who are told that
// address call themselves. A number, or localhost, is meant as it is.
static bool is_own_name(const char *host, const struct gossip_address *addresses, size_t count)
{
    bool near = !node_address_is_loopback(host);
    for (size_t i = 0; i < count; i++)
        near = near && gossip_address_is_near(&addresses[i]);
    return near;
}

static bool same(const struct node_cluster *cluster, const struct gossip_address *found, size_t count)
{
    bool same = count == cluster->named.count;
    for (size_t i = 0; i < count && same; i++) { // in any order: a name server may rotate them
        size_t at = 0;
        while (at < count && !gossip_address_same(&found[i], &cluster->named.addresses[at]))
            at++;
        same = at < count;
    }
    return same;
}

static void take(struct node_cluster *cluster, const struct gossip_address *found, size_t count,
                 const char *is)
{
    char text[NODE_ADDRESS_TEXT];
    struct node_address address;
    node_address_of(&found[0], &address);
    node_address_text(&address, text);
    if (strcmp(text, configured(cluster)) != 0)
        base_log(BASE_LOG_INFO, "advertise", "node.advertise: %s %s %s%s", configured(cluster), is, text,
                 count > 1 ? ", and others" : "");
    memcpy(cluster->named.addresses, found, count * sizeof *found);
    cluster->named.count = count;
    gossip_reach_give(cluster->reach, found, count);
}

static void tell_own_name(const struct node_cluster *cluster, const struct node_resolution *r)
{
    char text[NODE_ADDRESS_TEXT];
    node_address_text(&r->addresses[0], text);
    base_log(
        BASE_LOG_WARN, "advertise",
        "node.advertise: %s is %s on this host (see /etc/hosts), where others would reach themselves; this node "
        "tells the addresses of its links instead, with port %u. Give a number, or a name that is right here, too",
        configured(cluster), text, (unsigned)cluster->told_port);
}

static enum base_error not_found(const char *advertise, const struct node_resolution *r,
                                 struct base_reason *why)
{
    if (r->count > 0)
        return base_fail(
            why, BASE_EIO,
            "node.advertise: %s is an address that holds on one link only (fe80::/10), and means "
            "nothing to other hosts; give another one, or leave it out",
            advertise);
    return base_fail(why, BASE_EIO, "node.advertise: %s cannot be resolved (%s)", advertise, r->problem);
}

// A number stays what it is.
static enum base_error follow(struct node_cluster *cluster, const char *host)
{
    struct in6_addr number;
    cluster->named.asked_ns = node_clock_ns();
    if (inet_pton(AF_INET, host, &number) == 1 || inet_pton(AF_INET6, host, &number) == 1)
        return BASE_OK;
    return node_resolver_create(&cluster->named.resolver);
}

enum base_error node_cluster_advertise(struct node_cluster *cluster, struct base_reason *why)
{
    struct node_resolution r = {0};
    struct gossip_address found[LIMIT_ADDRESSES];
    enum base_error error = node_address_parse(configured(cluster), r.host, &r.port, why);
    if (error)
        return base_fail_context(why, error, "node.advertise");
    node_resolve_now(&r);
    cluster->told_port = r.port ? r.port : cluster->port;
    const size_t count = addresses_of(cluster, &r, found);
    if (count == 0)
        return not_found(configured(cluster), &r, why);
    if (is_own_name(r.host, found, count))
        tell_own_name(cluster, &r);
    else
        take(cluster, found, count, "is");
    return follow(cluster, r.host);
}

static void ask_again(struct node_cluster *cluster)
{
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    struct base_reason why;
    if (!node_address_parse(configured(cluster), host, &port, &why))
        (void)!node_resolver_ask(cluster->named.resolver, 0, host, port); // if it fails: in a minute
}

static void answered(struct node_cluster *cluster, const struct node_resolution *r)
{
    struct gossip_address found[LIMIT_ADDRESSES];
    const size_t count = addresses_of(cluster, r, found);
    if (count == 0 && !cluster->named.failed)
        base_log(BASE_LOG_WARN, "advertise",
                 "node.advertise: %s has no address now (%s); others are told the one it had",
                 configured(cluster), r->problem);
    cluster->named.failed = count == 0;
    if (count > 0 && !is_own_name(r->host, found, count) && !same(cluster, found, count))
        take(cluster, found, count, "is now");
}

void node_cluster_advertise_again(struct node_cluster *cluster, uint64_t now_ns)
{
    struct node_resolution *r;
    if (!cluster->named.resolver)
        return;
    while ((r = node_resolver_take(cluster->named.resolver))) {
        answered(cluster, r);
        free(r);
    }
    if (now_ns - cluster->named.asked_ns < AGAIN_NS)
        return;
    cluster->named.asked_ns = now_ns;
    ask_again(cluster);
}
