// Packets: one goes over the link to its peer, or waits until there is one.
#include "gossip/links/links_private.h"
#include <stdlib.h>
#include <string.h>

static struct gossip_links_action *act_send(struct gossip_links *links, const struct link *link)
{
    BASE_ASSERT(link->state == GOSSIP_LINK_ACTIVE && link->peer->active == link);
    struct gossip_links_action *action = links_act(links, GOSSIP_LINKS_SEND);
    action->link = link->handle;
    action->owner = link->owner;
    action->peer = link->peer->id;
    return action;
}

// Without a link the member is called for it.
void packets_take(struct gossip_links *links, const struct gossip_links_event *event)
{
    const struct peer *known = links_peer(links, &event->peer);
    struct link *active = known ? known->active : NULL;
    if (active) {
        struct gossip_links_action *action = act_send(links, active);
        active->used_ns = links->now_ns;
        action->bytes = event->bytes;
        action->count = event->count;
        return;
    }
    if (links->leaving || gossip_id_compare(&event->peer, &links->options.self) == 0 ||
        (links->n_calls >= GOSSIP_LINKS_CALLS && !links_peer(links, &event->peer)))
        return; // as if the network had lost it
    struct packet *made = malloc(sizeof *made + event->count);
    struct peer *peer = made ? links_peer_made(links, &event->peer) : NULL;
    if (!peer) {
        free(made);
        return;
    }
    *made = (struct packet){.peer = peer, .since_ns = links->now_ns, .count = event->count};
    memcpy(made->bytes, event->bytes, event->count);
    if (links->totals.packets == GOSSIP_LINKS_PACKETS) { // the oldest is the least useful
        struct packet *oldest = STAILQ_FIRST(&links->packets);
        STAILQ_REMOVE_HEAD(&links->packets, next);
        oldest->peer->packets--;
        links->totals.packets--;
        free(oldest);
    }
    STAILQ_INSERT_TAIL(&links->packets, made, next);
    links->totals.packets++;
    peer->packets++;
    links_due(links, links->now_ns + GOSSIP_LINKS_PACKET_NS);
    const struct gossip_links_target member = call_member(peer);
    call_start(links, &member, &peer->call);
}

void packets_send(struct gossip_links *links, const struct link *link)
{
    struct packets kept = STAILQ_HEAD_INITIALIZER(kept);
    struct packet *packet;
    while ((packet = STAILQ_FIRST(&links->packets))) {
        STAILQ_REMOVE_HEAD(&links->packets, next);
        if (packet->peer != link->peer) {
            STAILQ_INSERT_TAIL(&kept, packet, next);
            continue;
        }
        packet->peer->packets--;
        links->totals.packets--;
        act_send(links, link);
        links_act_packet(links, packet);
    }
    STAILQ_CONCAT(&links->packets, &kept);
}

void packets_expire(struct gossip_links *links)
{
    struct packet *oldest;
    while ((oldest = STAILQ_FIRST(&links->packets))) {
        if (links_after(links->now_ns, oldest->since_ns) < GOSSIP_LINKS_PACKET_NS) {
            links_due(links, oldest->since_ns + GOSSIP_LINKS_PACKET_NS);
            return;
        }
        struct peer *peer = oldest->peer;
        BASE_ASSERT(peer->packets > 0 && links->totals.packets > 0);
        STAILQ_REMOVE_HEAD(&links->packets, next);
        peer->packets--;
        links->totals.packets--;
        free(oldest);
        links_peer_release(links, peer);
    }
}

void packets_drop(struct gossip_links *links, const struct peer *peer)
{
    struct packets kept = STAILQ_HEAD_INITIALIZER(kept);
    struct packet *packet;
    while ((packet = STAILQ_FIRST(&links->packets))) {
        STAILQ_REMOVE_HEAD(&links->packets, next);
        BASE_ASSERT(packet->peer->packets > 0);
        if (peer && packet->peer != peer) {
            STAILQ_INSERT_TAIL(&kept, packet, next);
            continue;
        }
        packet->peer->packets--;
        links->totals.packets--;
        free(packet);
    }
    STAILQ_CONCAT(&links->packets, &kept);
}
