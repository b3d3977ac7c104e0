// Membership packets that take the stream: over the link in use, or waiting, bounded, for one that is called.
#include "node/clock.h"
#include "node/peers_private.h"
#include <stdlib.h>
#include <string.h>

#define WAIT_NS (10 * NODE_SECOND_NS)

static void remove_packet(struct node_peers *peers, struct packet *packet)
{
    STAILQ_REMOVE(&peers->packets, packet, packet, next);
    peers->n_packets--;
    free(packet);
}

// The whole message, ready to be sent; NULL: no memory.
static struct packet *make(const struct gossip_id *peer, const uint8_t *packet, size_t count)
{
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t bytes = 0;
    struct gossip_message message = {.kind = GOSSIP_MEMBERS,
                                     .as.members = {.packet = packet, .packet_bytes = (uint32_t)count}};
    BASE_ASSERT(gossip_message_encode_header(&message, header, sizeof header, &bytes) == BASE_OK);
    struct packet *made = malloc(sizeof *made + bytes + count);
    if (!made)
        return NULL;
    *made = (struct packet){.id = *peer, .since_ns = node_clock_ns(), .bytes = bytes + count};
    memcpy(made->message, header, bytes);
    memcpy(made->message + bytes, packet, count);
    return made;
}

void node_peers_packet(struct node_peers *peers, const struct gossip_id *peer, const uint8_t *packet,
                       size_t count)
{
    struct channel *c = node_channel_adopted(peers, peer);
    struct packet *made = make(peer, packet, count);
    if (!made)
        return; // as if lost on the way
    if (c) {
        c->used_ns = node_clock_ns();
        (void)!node_link_send(c->link, made->message,
                              made->bytes); // else it has ended: its owner hears of it
        free(made);
        return;
    }
    if (peers->leaving || !node_calls_begin(peers->calls, peer, false)) {
        free(made);
        return;
    }
    if (peers->n_packets == NODE_PACKETS_MOST)
        remove_packet(peers, STAILQ_FIRST(&peers->packets)); // the oldest is worth least
    STAILQ_INSERT_TAIL(&peers->packets, made, next);
    peers->n_packets++;
}

void node_packets_flush(struct node_peers *peers, struct channel *channel)
{
    struct packet *packet = STAILQ_FIRST(&peers->packets);
    while (packet) {
        struct packet *after = STAILQ_NEXT(packet, next);
        if (gossip_id_compare(&packet->id, &channel->id) == 0) {
            (void)!node_link_send(channel->link, packet->message, packet->bytes);
            remove_packet(peers, packet);
        }
        packet = after;
    }
}

void node_packets_drop(struct node_peers *peers, const struct gossip_id *peer)
{
    struct packet *packet = STAILQ_FIRST(&peers->packets);
    while (packet) {
        struct packet *after = STAILQ_NEXT(packet, next);
        if (!peer || gossip_id_compare(&packet->id, peer) == 0)
            remove_packet(peers, packet);
        packet = after;
    }
}

void node_packets_expire(struct node_peers *peers, uint64_t now_ns)
{
    for (struct packet *p; (p = STAILQ_FIRST(&peers->packets)) && now_ns > p->since_ns + WAIT_NS;)
        remove_packet(peers, p);
}
