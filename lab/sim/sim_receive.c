// What comes in on links, and what the end of one says about the other end.
#include "lab/sim/sim_link.h"
#include <stdlib.h>
#include <string.h>

// A message on the link in use shows that it works: whoever waits to take over is not needed.
static void drop_candidates(struct sim_node *node, const struct sim_link *current)
{
    for (struct sim_link *link = node->links; link; link = link->next)
        if (link != current && !link->closed && link->heard && link->peer == current->peer)
            sim_link_finish(node, link, SIM_TWIN);
}

static void take_members(struct sim_node *node, struct sim_link *link, const struct gossip_message *message)
{
    size_t peer = link->peer;

    if (sim_member_packet(node, peer, GOSSIP_BY_STREAM, message->as.members.packet,
                          message->as.members.packet_bytes))
        return;
    SIM_TELL(node, refused, node, peer);
    sim_link_close(node, peer, "a broken packet");
}

static void take_message(struct sim_node *node, struct sim_link *link, const uint8_t *bytes, size_t count)
{
    struct gossip_message message;

    if (gossip_message_decode(bytes, count, &message) != BASE_OK) {
        SIM_TELL(node, refused, node, link->peer);
        sim_link_finish(node, link, "a broken message");
    } else if (message.kind == GOSSIP_GREETING) {
        sim_link_greeted(node, link, &message.as.greeting);
    } else if (message.kind == GOSSIP_BYE) {
        link->bye = true;
        if (strcmp(message.as.bye.reason, SIM_TWIN) == 0)
            sim_link_suspect_twin(node, link->peer);
    } else if (link->in_use) {
        drop_candidates(node, link);
        if (message.kind == GOSSIP_MEMBERS) {
            take_members(node, link, &message);
        } else {
            link->used_ns = sim_node_now(node);
            sim_train_message(node, link->peer, &message);
        }
    }
}

// Returns how many bytes were the handshake's.
static size_t shake_hands(struct sim_node *node, struct sim_link *link, const uint8_t *bytes, size_t count)
{
    struct gossip_session_event event;
    struct base_buffer out = {0};
    size_t consumed = 0;
    enum base_error error = gossip_session_receive(link->session, bytes, count, &consumed, &out, &event);

    sim_link_write(node, link, &out);
    if (error != BASE_OK) {
        sim_world_break(node->world, node->host, "a session broke");
    } else if (event.kind == GOSSIP_SESSION_ESTABLISHED) {
        BASE_ASSERT(gossip_session_split(link->session, &link->sealer, &link->opener) == BASE_OK);
        sim_link_proven(node, link, sim_world_find(node->world, &event.peer));
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
    BASE_ASSERT(base_buffer_append(&link->in, bytes, count, SIZE_MAX) == BASE_OK);
    do {
        size_t consumed = 0;
        if (link->closed || !node->running)
            return;
        if (gossip_opener_take(link->opener, base_buffer_head(&link->in), base_buffer_length(&link->in),
                               &consumed, &message) != BASE_OK) {
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
    } else if (!link->proven) {
        memcpy(&peer, bytes, sizeof peer);
        sim_link_proven(node, link, peer);
    } else {
        take_message(node, link, bytes, count);
    }
}

// A link in use that ended without a word, and a refused call of a member, say that its process is gone. A
// timeout says nothing.
void sim_link_ended(struct sim_node *node, uint64_t stream, bool refused, enum sim_end how)
{
    struct sim_link *link = sim_link_find(node, stream);

    if (!link)
        return;
    bool evidence = refused ? link->member != SIZE_MAX : link->in_use && !link->bye && how != SIM_END_TIMEOUT;
    size_t peer = refused ? link->member : link->peer;
    if (!refused)
        sim_net_close(&node->world->net, node->host, stream);
    sim_link_drop(node, link);
    sim_world_trace(node->world, node->host, refused ? "refused" : "ended",
                    how == SIM_END_TIMEOUT ? "timeout"
                    : evidence             ? "evidence"
                                           : NULL,
                    link->host, 0);
    if (evidence)
        sim_member_tell(node, GOSSIP_MEMBERSHIP_UNREACHABLE, peer);
}
