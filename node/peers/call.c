// Addresses of entries and members, and sockets that connect to them. gossip/links decides when, in which
// order and how often.
#include "node/peers/endpoints.h"
#include "node/peers/private.h"
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void resolved(struct node_peers *peers, const struct gossip_links_target *target, size_t count)
{
    node_peers_say_later(
        peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_RESOLVED, .target = *target, .count = count});
}

static size_t member_addresses(struct node_peers *peers, const struct gossip_id *id,
                               struct node_address out[LIMIT_ADDRESSES])
{
    struct gossip_member_info info;
    if (node_faults_has(peers->options.faults, id) || // as if there were no answer
        gossip_membership_find(peers->options.membership, id, &info))
        return 0;
    return node_endpoints_of(peers->options.endpoints, info.record, out);
}

void peer_call_resolve(struct node_peers *peers, const struct gossip_links_target *target)
{
    struct node_address addresses[LIMIT_ADDRESSES];
    if (target->entry == GOSSIP_NO_ENTRY) {
        resolved(peers, target, member_addresses(peers, &target->peer, addresses));
        return;
    }
    const struct gossip_entry *shown = gossip_links_entry(peers->rules, target->entry);
    const struct peer_entry *entry = &peers->entry[target->entry];
    bool cut = shown->known && node_faults_has(peers->options.faults, &shown->id);
    if (cut || node_resolver_ask(peers->resolver, target->entry, entry->host, entry->port))
        resolved(peers, target, 0);
}

static void answered(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_peers *peers = argument;
    for (struct node_resolution *r; (r = node_resolver_take(peers->resolver));) {
        const struct gossip_links_target target = {.entry = r->ticket};
        BASE_ASSERT(r->count <= NODE_RESOLVE_ADDRESSES);
        if (r->ticket >= peers->n_entries) {
            free(r);
            continue;
        }
        free(peers->entry[r->ticket].resolution);
        peers->entry[r->ticket].resolution = r;
        if (r->count == 0)
            peer_tell_unresolved(peers, r->ticket, r->problem);
        else
            peers->entry[r->ticket].unresolved_ns = 0;
        resolved(peers, &target, r->count);
    }
}

static bool find_address(struct node_peers *peers, const struct gossip_links_action *call,
                         struct node_address *address)
{
    struct node_address of_member[LIMIT_ADDRESSES];
    if (call->target.entry == GOSSIP_NO_ENTRY) {
        if (call->address >= member_addresses(peers, &call->target.peer, of_member))
            return false; // its record has changed meanwhile
        *address = of_member[call->address];
        return true;
    }
    const struct node_resolution *r = peers->entry[call->target.entry].resolution;
    if (!r || call->address >= r->count)
        return false;
    *address = r->addresses[call->address];
    return true;
}

void peer_call_open(struct node_peers *peers, const struct gossip_links_action *call)
{
    struct gossip_links_event ended = {.kind = GOSSIP_LINKS_ENDED, .link = call->link};
    struct node_address address;
    char text[NODE_ADDRESS_TEXT];
    int s = -1;
    errno = 0;
    if (find_address(peers, call, &address))
        s = node_listener_call(peers->options.listener, &address);
    if (s < 0) {
        ended.end = errno == ECONNREFUSED ? GOSSIP_END_REFUSED : GOSSIP_END_OTHER;
        node_peers_say_later(peers, ended);
        return;
    }
    node_address_text(&address, text);
    struct peer_link *link = peer_link_make(peers, text);
    if (!link) {
        close(s);
        node_peers_say_later(peers, ended);
        return;
    }
    link->caller = true;
    link->handle = call->link;
    link->target = call->target;
    gossip_links_bind(peers->rules, call->link, link);
    (void)peer_link_open(peers, link, s);
}

static enum base_error make_entries(struct node_peers *peers)
{
    const struct node_texts *texts = &peers->options.config->peers;
    BASE_ASSERT(!peers->entry && texts->count <= LIMIT_PEERS);
    peers->entry = calloc(texts->count + 1, sizeof *peers->entry);
    if (!peers->entry)
        return BASE_ENOMEM;
    peers->n_entries = texts->count;
    for (size_t i = 0; i < texts->count; i++) {
        struct base_reason why;
        enum base_error error =
            node_address_parse(texts->items[i], peers->entry[i].host, &peers->entry[i].port, &why);
        if (error)
            return error;
    }
    return BASE_OK;
}

enum base_error peer_call_create(struct node_peers *peers)
{
    BASE_ASSERT(!peers->resolver && !peers->answered);
    enum base_error error = make_entries(peers);
    if (!error)
        error = node_resolver_create(&peers->resolver);
    if (error)
        return error;
    peers->answered = event_new(peers->options.base, node_resolver_descriptor(peers->resolver),
                                EV_READ | EV_PERSIST, answered, peers);
    return peers->answered && event_add(peers->answered, NULL) == 0 ? BASE_OK : BASE_ENOMEM;
}

void peer_call_destroy(struct node_peers *peers)
{
    if (peers->answered)
        event_free(peers->answered);
    node_resolver_destroy(peers->resolver);
    for (size_t i = 0; i < peers->n_entries; i++)
        free(peers->entry[i].resolution);
    free(peers->entry);
}
