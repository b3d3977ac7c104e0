#include "base/log.h"
#include "gossip/reach/reach.h"
#include "node/loop_private.h"
#include "node/net/listener.h"
#include "node/net/udp.h"
#include "node/peers/endpoints.h"
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRIES     16 // of port 0, until a port is free for TCP and for UDP
#define NEXT_ONES 64 // ports after the default that are tried if no port was configured

static enum base_error fail_open_bind(const struct node_config *config, struct base_reason *why)
{
    return base_fail(
        why, BASE_EAUTH,
        "node.listen: %s can be reached from other machines, and nothing keeps strangers out; set "
        "cluster.secret_file or cluster.allow_file, or listen on 127.0.0.1",
        config->node.listen);
}

static enum base_error bind_peers(const char *listen, bool any_port, struct node_ports *ports,
                                  struct base_reason *why)
{
    BASE_ASSERT(ports->peers < 0 && ports->datagrams < 0);
    for (int i = 1;; i++) {
        enum base_error error = node_listener_bind("node.listen", listen, &ports->peers, why);
        if (error)
            return error;
        error = node_udp_bind(ports->peers, &ports->datagrams, why);
        if (!error)
            return error;
        close(ports->peers);
        ports->peers = -1;
        if (error != BASE_ESTATE || !any_port || i == TRIES)
            return base_fail_context(why, BASE_EIO, "node.listen");
    }
}

// If another process has a port that is only the default, the next free port is used.
static enum base_error bind_next(const struct node_config *config, const char *key, const char *text,
                                 enum base_error (*bind)(const char *text, struct node_ports *ports,
                                                         struct base_reason *why),
                                 struct node_ports *ports, struct base_reason *why)
{
    char host[LIMIT_HOST_BYTES], next[LIMIT_HOST_BYTES + 8];
    uint16_t port = 0;
    enum base_error error = bind(text, ports, why);
    if (!error || node_schema_is_set(&node_config_schema, config, key))
        return error;
    BASE_ASSERT(!node_address_parse(text, host, &port, why));
    for (unsigned i = 1; i <= NEXT_ONES && error; i++) {
        snprintf(next, sizeof next, "%s:%u", host, i < NEXT_ONES ? port + i : 0);
        error = bind(next, ports, why);
    }
    if (!error)
        base_log(BASE_LOG_INFO, "port", "%s: %s is in use by another process; this node takes a free port",
                 key, text);
    return error;
}

static enum base_error bind_listen(const char *text, struct node_ports *ports, struct base_reason *why)
{
    char host[LIMIT_HOST_BYTES];
    uint16_t port = 0;
    enum base_error error = node_address_parse(text, host, &port, why);
    return error ? base_fail_context(why, error, "node.listen") : bind_peers(text, port == 0, ports, why);
}

static enum base_error bind_http(const char *text, struct node_ports *ports, struct base_reason *why)
{
    return node_listener_bind("node.http", text, &ports->http, why);
}

// Whether a peer of the list is on another host, as far as it can be resolved.
static bool has_far_peer(const struct node_config *config)
{
    for (size_t i = 0; i < config->peers.count; i++) {
        struct node_resolution r = {0};
        struct gossip_address address;
        struct base_reason ignored;
        if (node_address_parse(config->peers.items[i], r.host, &r.port, &ignored))
            continue;
        node_resolve_now(&r);
        for (size_t k = 0; k < r.count; k++)
            if (node_address_tell(&r.addresses[k], &address) && !gossip_address_is_near(&address))
                return true;
    }
    return false;
}

// Debian and Ubuntu write a host's own name into its /etc/hosts as 127.0.1.1: a node that listens there waits
// for others in vain, and they suspect it.
static enum base_error judge_own_name(const struct node_config *config, int listener, struct base_reason *why)
{
    static const char cure[] =
        "which no other host can reach (see /etc/hosts); listen on 0.0.0.0 or on a number";
    struct node_address bound;
    char text[NODE_ADDRESS_TEXT] = "a loopback address";
    if (node_address_bound(listener, &bound))
        node_address_text(&bound, text);
    if (has_far_peer(config))
        return base_fail(why, BASE_EINVAL, "node.listen: %s is %s on this host, %s", config->node.listen,
                         text, cure);
    base_log(BASE_LOG_WARN, "listen", "node.listen: %s is %s on this host, %s", config->node.listen, text,
             cure);
    return BASE_OK;
}

enum base_error node_loop_bind(const struct node_loop_options *options, struct node_ports *ports,
                               struct base_reason *why)
{
    const struct node_config *config = options->config;
    struct node_ports bound = {-1, -1, -1};
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    enum base_error error = node_address_parse(config->node.listen, host, &port, why);
    if (error)
        return base_fail_context(why, error, "node.listen");
    bool open = !config->cluster.secret_file[0] && !config->cluster.allow_file[0];
    if (open && !node_address_is_loopback(host))
        return fail_open_bind(config, why);
    error = bind_next(config, "node.listen", config->node.listen, bind_listen, &bound, why);
    if (error)
        return error;
    if (open && !node_listener_is_loopback(bound.peers)) // the name says loopback, but does not resolve to it
        error = fail_open_bind(config, why);
    else if (!node_address_is_loopback(host) && node_listener_is_loopback(bound.peers))
        error = judge_own_name(config, bound.peers, why);
    if (!error && config->node.http[0] != 0)
        error = bind_next(config, "node.http", config->node.http, bind_http, &bound, why);
    if (!error) {
        *ports = bound;
        return error;
    }
    close(bound.peers);
    close(bound.datagrams);
    return error;
}

struct gossip_address node_loop_pages_address(int listener)
{
    struct gossip_address told = {.family = 0};
    struct node_address bound;
    if (listener < 0 || !node_address_bound(listener, &bound) || !node_address_tell(&bound, &told))
        return (struct gossip_address){.family = 0};
    return told;
}
