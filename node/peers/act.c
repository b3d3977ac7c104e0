// Carries out what gossip/links has decided.
#include "node/peers/private.h"
#include <string.h>

static void on_entry(struct node_peers *peers, size_t entry)
{
    if (gossip_links_entry(peers->rules, entry)->state == GOSSIP_ENTRY_SELF)
        base_log(BASE_LOG_INFO, "peer_self", "peers: %s is this node itself; left out",
                 node_peers_entry_text(peers, entry));
    peers->options.handler->changed(peers->options.owner);
}

static void on_duplicate(struct node_peers *peers, const struct gossip_links_action *action)
{
    const struct peer_link *link = action->owner;
    const char *said = gossip_close_bye(GOSSIP_CLOSE_DUPLICATE_IDENTITY);
    bool told = !action->at && peers->heard && peers->heard->kind == GOSSIP_BYE;
    peers->options.handler->conflict(peers->options.owner,
                                     told ? peers->heard->as.bye.reason + strlen(said) : link->address);
}

static void explain(struct node_peers *peers, const struct gossip_links_action *action)
{
    uint8_t packet[LIMIT_DATAGRAM_BYTES];
    const size_t count =
        peers->options.members->about(peers->options.members_owner, &action->peer, packet, sizeof packet);
    if (count > 0)
        peer_link_send_members(action->owner, packet, count);
}

static void on_down(struct node_peers *peers, const struct gossip_links_action *action)
{
    struct peer_link *link = action->owner;
    BASE_ASSERT(link->authenticated && link->active);
    link->active = false;
    peers->options.handler->down(peers->options.owner, &action->peer);
    peers->options.handler->changed(peers->options.owner);
}

static void act(struct node_peers *peers, const struct gossip_links_action *action)
{
    const struct node_peers_handler *handler = peers->options.handler;
    struct peer_link *link = action->owner;
    switch (action->kind) {
    case GOSSIP_LINKS_RESOLVE:
        peer_call_resolve(peers, &action->target);
        break;
    case GOSSIP_LINKS_CALL:
        peer_call_open(peers, action);
        break;
    case GOSSIP_LINKS_GREET:
        peer_link_greet(link);
        break;
    case GOSSIP_LINKS_CLOSE:
        peer_link_close(link, action);
        break;
    case GOSSIP_LINKS_UP:
        peer_link_up(link);
        handler->changed(peers->options.owner);
        break;
    case GOSSIP_LINKS_DOWN:
        on_down(peers, action);
        break;
    case GOSSIP_LINKS_DELIVER:
        peer_link_deliver(link);
        break;
    case GOSSIP_LINKS_SEND:
        peer_link_send_members(link, action->bytes, action->count);
        break;
    case GOSSIP_LINKS_EXPLAIN:
        explain(peers, action);
        break;
    case GOSSIP_LINKS_UNREACHABLE:
        peers->options.members->unreachable(peers->options.members_owner, &action->peer);
        break;
    case GOSSIP_LINKS_DUPLICATE:
        on_duplicate(peers, action);
        break;
    case GOSSIP_LINKS_MISSING:
        peers->options.members->missing(peers->options.members_owner, &action->peer);
        break;
    case GOSSIP_LINKS_ENTRY:
        on_entry(peers, action->target.entry);
        break;
    }
}

void node_peers_carry_out(struct node_peers *peers)
{
    struct gossip_links_action action;
    while (gossip_links_next(peers->rules, &action))
        act(peers, &action);
    node_peers_arm(peers);
}

void node_peers_say_now(struct node_peers *peers, struct gossip_links_event event)
{
    node_peers_step(peers, event);
    node_peers_carry_out(peers);
}
