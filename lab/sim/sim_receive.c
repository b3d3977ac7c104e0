// Input from links, and the end of their streams.
#include "lab/sim/sim_link.h"
#include <stdlib.h>
#include <string.h>

void sim_link_deliver(struct sim_node *node, struct sim_link *link)
{
    const struct gossip_message *message = node->links.heard;
    size_t peer = link->peer;

    if (message->kind != GOSSIP_MEMBERS) {
        sim_average_message(node, peer, message);
    } else if (!sim_member_packet(node, peer, GOSSIP_BY_STREAM, message->as.members.packet,
                                  message->as.members.packet_bytes)) {
        SIM_TELL(node, refused, node, peer);
        sim_link_close(node, peer, GOSSIP_CLOSE_BROKEN);
    }
}

static void take_message(struct sim_node *node, struct sim_link *link, const uint8_t *bytes, size_t count)
{
    struct gossip_message message;
    struct gossip_links_event event = {.kind = GOSSIP_LINKS_MESSAGE, .link = link->handle};

    if (gossip_message_decode(bytes, count, &message)) {
        SIM_TELL(node, refused, node, link->peer);
        event.kind = GOSSIP_LINKS_BROKEN;
        sim_link_tell(node, event);
        return;
    }
    if (message.kind == GOSSIP_GREETING) {
        event.kind = GOSSIP_LINKS_GREETING;
        event.greeting = &message.as.greeting;
    } else if (message.kind == GOSSIP_BYE) {
        event.kind = GOSSIP_LINKS_BYE;
        event.reason = message.as.bye.reason;
    }
    node->links.heard = &message;
    sim_link_tell(node, event);
    node->links.heard = NULL;
}

// Returns the number of bytes that belonged to the handshake.
static size_t shake_hands(struct sim_node *node, struct sim_link *link, const uint8_t *bytes, size_t count)
{
    struct gossip_session_event event;
    struct base_buffer out = {0};
    size_t consumed = 0;
    enum base_error error = gossip_session_receive(link->session, bytes, count, &consumed, &out, &event);

    sim_link_write(node, link, &out);
    if (error) {
        sim_world_break(node->world, node->host, "a session broke");
    } else if (event.kind == GOSSIP_SESSION_ESTABLISHED) {
        BASE_ASSERT(!gossip_session_split(link->session, &link->sealer, &link->opener));
        sim_link_authenticated(node, link, sim_world_find(node->world, &event.peer));
    }
    return consumed;
}

static void receive_sealed(struct sim_node *node, struct sim_link *link, const uint8_t *bytes, size_t count)
{
    struct gossip_opened message = {0};

    if (!link->opener) {
        size_t used = shake_hands(node, link, bytes, count);
        bytes += used;
        count -= used;
    }
    if (!link->opener || !count)
        return;
    BASE_ASSERT(!base_buffer_append(&link->in, bytes, count, SIZE_MAX));
    do {
        size_t consumed = 0;
        if (link->closed || !node->running)
            return;
        if (gossip_opener_take(link->opener, base_buffer_head(&link->in), base_buffer_length(&link->in),
                               &consumed, &message)) {
            sim_world_break(node->world, node->host, "a session broke");
            return;
        }
        base_buffer_consume(&link->in, consumed);
        if (message.bytes)
            take_message(node, link, message.bytes, message.count);
        free(message.bytes);
    } while (message.bytes);
}

void sim_link_received(struct sim_node *node, uint64_t stream, const uint8_t *bytes, size_t count)
{
    struct sim_link *link = sim_link_find(node, stream);
    uint32_t peer;

    if (!link)
        return;
    sim_link_count_received(node, link, count);
    if (link->session) {
        receive_sealed(node, link, bytes, count);
    } else if (!link->authenticated) {
        memcpy(&peer, bytes, sizeof peer);
        sim_link_authenticated(node, link, peer);
    } else {
        take_message(node, link, bytes, count);
    }
}

void sim_link_ended(struct sim_node *node, uint64_t stream, bool refused, enum sim_end how)
{
    struct sim_link *link = sim_link_find(node, stream);

    if (!link)
        return;
    sim_world_trace(node->world, node->host, refused ? "refused" : "ended",
                    how == SIM_END_TIMEOUT ? "timeout" : NULL, link->host, 0);
    sim_link_end(node, link,
                 refused                  ? GOSSIP_END_REFUSED
                 : how == SIM_END_TIMEOUT ? GOSSIP_END_OTHER
                                          : GOSSIP_END_GONE);
}
