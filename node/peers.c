#include "node/clock.h"
#include "node/greet.h"
#include "node/peers_private.h"
#include <stdlib.h>
#include <string.h>

#define GREETING_NS  (10 * NODE_SECOND_NS) // after the handshake
#define CANDIDATE_NS (3 * NODE_SECOND_NS)  // how long a silent older link stands in the way of a new one

static void calling(void *owner, size_t entry, int socket, const char *address)
{
    struct node_peers *peers = owner;
    node_roster_calling(peers->options.roster, entry, node_clock_ns());
    if (!node_channel_add(peers, socket, entry, address, ""))
        node_dial_failed(peers->dial, entry, false);
}

static void accepted(void *owner, int socket, const char *address, const char *host)
{
    struct node_peers *peers = owner;
    peers->counters.accepted++;
    if (!node_channel_add(peers, socket, NO_ENTRY, address, host))
        node_gate_settled(peers->gate, host);
}

enum base_error node_peers_create(const struct node_peers_options *options, struct node_peers **out)
{
    struct node_peers *peers = calloc(1, sizeof *peers);
    if (!peers)
        return BASE_ENOMEM;
    peers->options = *options;
    LIST_INIT(&peers->channels);
    enum base_error code = BASE_ENOMEM;
    const struct node_texts *list = &options->config->peers;
    peers->told = calloc(list->count + 1, sizeof *peers->told);
    if (!peers->told)
        goto fail;
    struct node_dial_options dial = {
        .base = options->base, .peers = list, .calling = calling, .owner = peers};
    code = node_dial_create(&dial, &peers->dial);
    if (code == BASE_OK)
        code = node_gate_create(options->base, options->listener, accepted, peers, &peers->gate);
    if (code != BASE_OK)
        goto fail;
    *out = peers;
    return BASE_OK;
fail:
    node_peers_destroy(peers);
    return code;
}

void node_peers_destroy(struct node_peers *peers)
{
    if (!peers)
        return;
    while (!LIST_EMPTY(&peers->channels)) {
        struct channel *c = LIST_FIRST(&peers->channels);
        LIST_REMOVE(c, others);
        node_link_destroy(c->link);
        free(c);
    }
    node_dial_destroy(peers->dial);
    node_gate_destroy(peers->gate);
    explicit_bzero(peers->options.psk, sizeof peers->options.psk);
    free(peers->accounts);
    free(peers->told);
    free(peers);
}

void node_peers_start(struct node_peers *peers)
{
    node_gate_open(peers->gate);
    node_dial_start(peers->dial);
}

bool node_peers_send(struct node_peers *peers, const struct gossip_id *peer, const uint8_t *bytes,
                     size_t count)
{
    struct channel *c = node_channel_adopted(peers, peer);
    return c && node_link_send(c->link, bytes, count) == BASE_OK;
}

void node_peers_close(struct node_peers *peers, const struct gossip_id *peer, const char *why)
{
    struct channel *c = node_channel_adopted(peers, peer);
    if (c)
        node_link_close(c->link, BASE_EFORMAT, why);
}

void node_peers_say(struct node_peers *peers, const char *reason)
{
    struct channel *c;
    LIST_FOREACH(c, &peers->channels, others)
    if (c->adopted)
        node_channel_bye(c, reason);
}

void node_peers_greet_with(struct node_peers *peers, const char *reason)
{
    peers->greet_with = reason;
    node_peers_say(peers, reason);
}

void node_peers_pause(struct node_peers *peers, bool paused)
{
    struct channel *c;
    peers->paused = paused;
    LIST_FOREACH(c, &peers->channels, others)
    if (c->adopted)
        node_link_pause(c->link, paused);
}

void node_peers_allow_changed(struct node_peers *peers)
{
    struct channel *c;
    LIST_FOREACH(c, &peers->channels, others)
    if (c->proven && peers->options.allow && !gossip_allow_list_has(peers->options.allow, &c->id))
        node_link_close(c->link, BASE_OK, "no longer on the allow-list");
}

void node_peers_tick(struct node_peers *peers, uint64_t now_ns)
{
    struct channel *c;
    LIST_FOREACH(c, &peers->channels, others)
    {
        if (!c->proven || c->adopted || c->refused)
            continue;
        struct channel *current = node_channel_adopted(peers, &c->id);
        if (c->heard && current && now_ns - c->heard_ns > CANDIDATE_NS) {
            node_channel_replace(current, c);
            return; // the list has changed
        }
        if (!c->heard && now_ns - c->proven_ns > GREETING_NS)
            node_link_close(c->link, BASE_EFORMAT, "no greeting in time");
    }
}

void node_peers_leave(struct node_peers *peers)
{
    struct channel *c;
    node_gate_close(peers->gate);
    for (size_t i = 0; i < peers->options.config->peers.count; i++)
        node_dial_stop(peers->dial, i);
    node_peers_say(peers, NODE_BYE_LEAVING);
    LIST_FOREACH(c, &peers->channels, others)
    node_link_finish(c->link);
}

bool node_peers_gone(const struct node_peers *peers)
{
    return LIST_EMPTY(&peers->channels);
}

size_t node_peers_linked(const struct node_peers *peers)
{
    size_t count = 0;
    struct channel *c;
    LIST_FOREACH(c, &peers->channels, others)
    count += c->adopted;
    return count;
}

size_t node_peers_not_done(const struct node_peers *peers)
{
    size_t count = 0;
    for (size_t i = 0; i < node_roster_count(peers->options.roster); i++) {
        const struct node_member *row = node_roster_at(peers->options.roster, i);
        count += row->linked && !row->done;
    }
    return count;
}

struct node_peers_counters node_peers_counters(const struct node_peers *peers)
{
    struct node_peers_counters counters = peers->counters;
    counters.turned_away = node_gate_turned_away(peers->gate);
    counters.half_open = node_gate_half_open(peers->gate);
    counters.links = node_peers_linked(peers);
    return counters;
}

struct node_link_traffic node_peers_traffic(const struct node_peers *peers, const struct gossip_id *peer)
{
    struct node_link_traffic sum = {0};
    struct channel *c;
    for (size_t i = 0; i < peers->n_accounts; i++)
        if (gossip_id_compare(&peers->accounts[i].id, peer) == 0)
            sum = peers->accounts[i].traffic;
    LIST_FOREACH(c, &peers->channels, others)
    if (c->proven && gossip_id_compare(&c->id, peer) == 0) {
        struct node_link_traffic t = node_link_traffic(c->link);
        sum.sent += t.sent;
        sum.received += t.received;
    }
    return sum;
}
