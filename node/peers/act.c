// What gossip/links has decided: carried out here, or handed to the owner.
#include "node/peers/private.h"
#include <string.h>

static void tell_entry(struct node_peers *peers, size_t entry)
{
    BASE_ASSERT(entry < peers->n_entries);
    if (gossip_links_entry(peers->rules, entry)->state == GOSSIP_ENTRY_SELF)
        base_log(BASE_LOG_INFO, "peer_self", "peers: %s is this node itself; left out",
                 node_peers_entry_text(peers, entry));
    peers->changed = true;
}

static const char *address_of_duplicate(const struct node_peers *peers,
                                        const struct gossip_links_action *action)
{
    const struct peer_link *link = action->owner;
    const char *said = gossip_close_bye(GOSSIP_CLOSE_DUPLICATE_IDENTITY);
    bool told = !action->at && peers->heard && peers->heard->kind == GOSSIP_BYE;
    return told ? peers->heard->as.bye.reason + strlen(said) : link->address;
}

static void explain(struct node_peers *peers, const struct gossip_links_action *action)
{
    uint8_t packet[LIMIT_DATAGRAM_BYTES];
    const size_t count =
        gossip_membership_about(peers->options.membership, &action->peer, packet, sizeof packet);
    if (count > 0)
        peer_link_send_members(action->owner, packet, count);
}

static void deliver(struct peer_link *link, struct node_peers_event *event)
{
    struct node_peers *peers = link->peers;
    BASE_ASSERT(peers->heard && peers->heard_bytes);
    event->peer = link->id;
    event->message = peers->heard;
    event->kind = peers->heard->kind == GOSSIP_MEMBERS      ? NODE_PEERS_PACKET
                  : peers->heard->kind == GOSSIP_STATISTICS ? NODE_PEERS_STATISTICS
                  : peers->heard->kind == GOSSIP_REMOVED    ? NODE_PEERS_REMOVED
                                                            : NODE_PEERS_MESSAGE;
    if (event->kind != NODE_PEERS_MESSAGE)
        return;
    event->bytes = peers->heard_bytes;
    event->count = peers->heard_count;
    peers->heard_bytes = NULL;
}

// Only over a direct link: a relay of a relay is none.
static void relay(const struct peer_link *link)
{
    BASE_ASSERT(link->peers->heard->kind == GOSSIP_RELAY);
    if (!link->relayed)
        peer_relayed_heard(link->peers, &link->id, &link->peers->heard->as.relay);
}

static void up(struct peer_link *link, struct node_peers_event *event)
{
    peer_link_up(link, event);
    if (!link->relayed)
        peer_relayed_linked(link->peers, &link->id, true);
}

static void down(struct peer_link *link)
{
    BASE_ASSERT(link->authenticated && link->active);
    link->active = false;
    if (!link->relayed)
        peer_relayed_linked(link->peers, &link->id, false);
}

static void carry_out(struct node_peers *peers, const struct gossip_links_action *action)
{
    switch (action->kind) {
    case GOSSIP_LINKS_RESOLVE:
        peer_call_resolve(peers, &action->target);
        break;
    case GOSSIP_LINKS_CALL:
        peer_call_open(peers, action);
        break;
    case GOSSIP_LINKS_GREET:
        peer_link_greet(action->owner);
        break;
    case GOSSIP_LINKS_CLOSE:
        if (action->owner) // else its call could not be made
            peer_link_close(action->owner, action);
        break;
    case GOSSIP_LINKS_SEND:
        peer_link_send_members(action->owner, action->bytes, action->count);
        break;
    case GOSSIP_LINKS_EXPLAIN:
        explain(peers, action);
        break;
    case GOSSIP_LINKS_DELIVER:
        relay(action->owner);
        break;
    case GOSSIP_LINKS_ENTRY:
        tell_entry(peers, action->target.entry);
        break;
    default:
        BASE_ASSERT(false); // the owner's
    }
}

// False: it does not concern the owner.
static bool hand_over(struct node_peers *peers, const struct gossip_links_action *action,
                      struct node_peers_event *event)
{
    BASE_ASSERT(!event->bytes); // no message of an earlier event is lost
    event->peer = action->peer;
    switch (action->kind) {
    case GOSSIP_LINKS_UP:
        event->kind = NODE_PEERS_UP;
        up(action->owner, event);
        peers->changed = true;
        return true;
    case GOSSIP_LINKS_DOWN:
        event->kind = NODE_PEERS_DOWN;
        down(action->owner);
        peers->changed = true;
        return true;
    case GOSSIP_LINKS_DELIVER:
        if (peers->heard->kind == GOSSIP_RELAY)
            return false;
        deliver(action->owner, event);
        return true;
    case GOSSIP_LINKS_UNREACHABLE:
        event->kind = NODE_PEERS_UNREACHABLE;
        return true;
    case GOSSIP_LINKS_REACHED:
        event->kind = NODE_PEERS_REACHED;
        if (!node_link_peer_address(((struct peer_link *)action->owner)->link, &event->theirs))
            event->theirs.bytes = 0;
        return true;
    case GOSSIP_LINKS_MISSING:
        event->kind = NODE_PEERS_MISSING;
        return true;
    case GOSSIP_LINKS_DUPLICATE:
        event->kind = NODE_PEERS_CONFLICT;
        event->address = address_of_duplicate(peers, action);
        return true;
    default:
        return false;
    }
}

bool node_peers_act(struct node_peers *peers, const struct gossip_links_action *action,
                    struct node_peers_event *event)
{
    *event = (struct node_peers_event){.kind = NODE_PEERS_CHANGED};
    if (hand_over(peers, action, event))
        return true;
    carry_out(peers, action);
    return false;
}

bool node_peers_rest(struct node_peers *peers, struct node_peers_event *event)
{
    *event = (struct node_peers_event){.kind = NODE_PEERS_CHANGED};
    node_peers_arm(peers);
    BASE_ASSERT(!peers->settings || peers->settles);
    if (peers->settings) {
        event->kind = NODE_PEERS_SETTINGS;
        event->name = peers->settles->name;
        event->address = peers->settles->address;
        event->settings = peers->settings;
        peers->settings = NULL;
        return true;
    }
    const bool changed = peers->changed;
    peers->changed = false;
    return changed;
}
