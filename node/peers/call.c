// Addresses of entries and members, and sockets that connect to them. gossip/links decides when, in which
// order and how often.
#include "gossip/reach/relays.h"
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

static void resolved_member(struct node_peers *peers, const struct gossip_links_target *target,
                            const struct peer_way ways[PEER_WAYS], size_t count)
{
    struct gossip_links_event event = {.kind = GOSSIP_LINKS_RESOLVED, .target = *target, .count = count};
    for (size_t i = 0; i < count; i++)
        event.relayed |= (uint32_t)ways[i].relayed << i;
    node_peers_say_later(peers, event);
}

static bool is_linked_directly(const struct node_peers *peers, const struct gossip_id *member)
{
    void *owner;
    return gossip_links_active(peers->rules, member, &owner) != 0 &&
           !gossip_links_is_relayed(peers->rules, member);
}

// The member that a record names, if this node has a direct link to it.
static bool find_relay(const struct node_peers *peers, uint64_t named, struct gossip_id *via)
{
    const size_t members = gossip_membership_count(peers->options.membership);
    struct gossip_member_info info;
    for (size_t i = 1; i < members; i++) {
        gossip_membership_info(peers->options.membership, i, &info);
        *via = info.record->id;
        if (gossip_id_beginning(via) == named && is_linked_directly(peers, via))
            return true;
    }
    return false;
}

// Members that relay for this one, its first choice first: so that not all members use the same. Or those
// that have both families of addresses, if this node and the member have none in common. If the link is
// stuck, not the one that it goes over.
static size_t relays_to(const struct node_peers *peers, const struct gossip_links_target *target,
                        const struct gossip_record *record, struct peer_way ways[GOSSIP_RECORD_RELAYS])
{
    void *owner = NULL;
    if (target->small)
        (void)gossip_links_active(peers->rules, &target->peer, &owner);
    const struct peer_link *stuck = owner;
    struct gossip_relays between;
    struct gossip_id via;
    size_t count = 0;
    gossip_relays_between(&between, peers->options.membership, record);
    const size_t named = between.count == 0 && gossip_record_is_private(record) ? record->n_relays : 0;
    for (size_t i = 0; i < between.count + named; i++) {
        const bool linked = between.count > 0 ? is_linked_directly(peers, &between.ids[i])
                                              : find_relay(peers, record->relays[i], &via);
        if (between.count > 0)
            via = between.ids[i];
        if (linked && !(stuck && stuck->relayed && gossip_id_compare(&via, &stuck->via) == 0))
            ways[count++] = (struct peer_way){.relayed = true, .via = via};
    }
    return count;
}

// A node that can be called itself will soon be, by a member that cannot: for it the relays come last.
static size_t member_ways(struct node_peers *peers, const struct gossip_links_target *target,
                          struct peer_way ways[PEER_WAYS])
{
    struct gossip_member_info info;
    struct node_address addresses[LIMIT_ADDRESSES];
    struct peer_way relays[GOSSIP_RECORD_RELAYS];
    size_t count = 0;
    if (node_faults_has(peers->options.faults, &target->peer) || // as if there were no answer
        gossip_membership_find(peers->options.membership, &target->peer, &info))
        return 0;
    const size_t direct = node_endpoints_of(peers->options.endpoints, info.record, addresses),
                 relayed = target->direct ? 0 : relays_to(peers, target, info.record, relays);
    for (size_t i = 0; i < relayed && !peers->reachable; i++)
        ways[count++] = relays[i];
    for (size_t i = 0; i < direct; i++)
        ways[count++] = (struct peer_way){.address = addresses[i]};
    for (size_t i = 0; i < relayed && peers->reachable; i++)
        ways[count++] = relays[i];
    BASE_ASSERT(count <= PEER_WAYS);
    return count;
}

void peer_call_resolve(struct node_peers *peers, const struct gossip_links_target *target)
{
    struct peer_way ways[PEER_WAYS];
    if (target->entry == GOSSIP_NO_ENTRY) {
        resolved_member(peers, target, ways, member_ways(peers, target, ways));
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

static bool find_way(struct node_peers *peers, const struct gossip_links_action *call, struct peer_way *way)
{
    struct peer_way ways[PEER_WAYS];
    if (call->target.entry == GOSSIP_NO_ENTRY) {
        if (call->address >= member_ways(peers, &call->target, ways) ||
            ways[call->address].relayed != call->relayed)
            return false; // its record, or the links to its relays, have changed meanwhile
        *way = ways[call->address];
        return true;
    }
    const struct node_resolution *r = peers->entry[call->target.entry].resolution;
    if (!r || call->address >= r->count)
        return false;
    *way = (struct peer_way){.address = r->addresses[call->address]};
    return true;
}

// A look at a member that is linked directly shows whether it can be called: from another port, which no
// router takes for the one that the member has called.
static bool finds_out(const struct node_peers *peers, const struct gossip_links_target *target)
{
    return target->direct && is_linked_directly(peers, &target->peer);
}

// -1: errno says why.
static int open_way(struct node_peers *peers, const struct gossip_links_action *call,
                    const struct peer_way *way, struct peer_link *link)
{
    errno = 0;
    if (way->relayed)
        return peer_relayed_call(peers, link, &way->via, &call->target.peer);
    node_address_text(&way->address, link->address);
    return node_listener_call(finds_out(peers, &call->target) ? -1 : peers->options.listener, &way->address,
                              call->target.small ? NODE_SEGMENTS_SMALL : NODE_SEGMENTS_SAFE);
}

void peer_call_open(struct node_peers *peers, const struct gossip_links_action *call)
{
    struct gossip_links_event ended = {.kind = GOSSIP_LINKS_ENDED, .link = call->link};
    struct peer_way way;
    struct peer_link *link = find_way(peers, call, &way) ? peer_link_make(peers, "") : NULL;
    const int s = link ? open_way(peers, call, &way, link) : -1;
    if (s < 0) {
        ended.end = link && errno == ECONNREFUSED ? GOSSIP_END_REFUSED : GOSSIP_END_OTHER;
        if (link)
            peer_link_free(link);
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
