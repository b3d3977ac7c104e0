// Writes one message to a stream, sealed or plain.
#include "lab/sim/sim_process.h"

#define OUT_MAX (1u << 26)

// Lengths of messages 0 and 2, and of message 1, of the handshake (gossip/session/README.md).
enum { HANDSHAKE_CALLER = 50 + 163, HANDSHAKE_CALLED = 195 };

static void put(struct sim_node *node, const struct sim_link *link, const uint8_t *bytes, size_t count,
                size_t wire_bytes)
{
    node->traffic.bytes_sent += wire_bytes;
    sim_net_write(&node->world->net, node->host, link->stream, bytes, count, wire_bytes);
}

// On a plain stream the first message counts as a handshake, the others as records.
static size_t wire_bytes_of(bool first, bool by_caller, size_t count)
{
    if (!first)
        return gossip_sealed_bytes(count);
    return by_caller ? HANDSHAKE_CALLER : HANDSHAKE_CALLED;
}

void sim_link_introduce(struct sim_node *node, const struct sim_link *link)
{
    const uint32_t self = (uint32_t)node->self;

    put(node, link, (const uint8_t *)&self, sizeof self, wire_bytes_of(true, link->initiator, sizeof self));
}

void sim_link_count_received(struct sim_node *node, const struct sim_link *link, size_t count)
{
    node->traffic.bytes_received +=
        link->session ? count : wire_bytes_of(!link->authenticated, !link->initiator, count);
}

void sim_link_write(struct sim_node *node, struct sim_link *link, struct base_buffer *out)
{
    const uint8_t *bytes = base_buffer_head(out);
    size_t count = base_buffer_length(out), first = count;

    if (node->world->options.shred && count > 1 && base_rng_below(&node->rng, 4) == 0) // in random pieces
        first = 1 + (size_t)base_rng_below(&node->rng, count - 1);
    put(node, link, bytes, first, first);
    if (first < count)
        put(node, link, bytes + first, count - first, count - first);
    base_buffer_free(out);
}

// A small message is one record; a larger one many.
static void seal(struct sim_link *link, const struct gossip_session_part *part, size_t parts,
                 struct base_buffer *out)
{
    uint8_t *room = NULL;
    size_t bytes = 0, most = 0;

    for (size_t i = 0; i < parts; i++)
        most += part[i].bytes;
    most = gossip_sealed_bytes(most) + 2 * GOSSIP_RECORD_OVERHEAD + 64;
    BASE_ASSERT(!base_buffer_reserve(out, most, OUT_MAX, &room));
    bytes = gossip_sealer_prompt(link->sealer, part, parts, room);
    if (!bytes) {
        BASE_ASSERT(!gossip_sealer_begin(link->sealer, part, parts));
        bytes = gossip_sealer_next(link->sealer, room, most);
    }
    BASE_ASSERT(gossip_sealer_idle(link->sealer));
    base_buffer_commit(out, bytes);
}

void sim_link_say(struct sim_node *node, struct sim_link *link, const struct gossip_message *message)
{
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS];
    struct gossip_session_part part[1 + GOSSIP_MESSAGE_PAYLOADS] = {{header, 0}};
    struct base_buffer out = {0};
    size_t parts = 1 + gossip_message_payloads(message, payloads);

    for (size_t i = 1; i < parts; i++)
        part[i] = (struct gossip_session_part){payloads[i - 1].bytes, payloads[i - 1].count};

    BASE_ASSERT(!gossip_message_encode_header(message, header, sizeof header, &part[0].bytes));
    if (link->session) {
        seal(link, part, parts, &out);
        sim_link_write(node, link, &out);
        return;
    }
    for (size_t i = 0; i < parts; i++)
        BASE_ASSERT(!part[i].bytes || !base_buffer_append(&out, part[i].data, part[i].bytes, OUT_MAX));
    put(node, link, base_buffer_head(&out), base_buffer_length(&out),
        wire_bytes_of(false, link->initiator, base_buffer_length(&out)));
    base_buffer_free(&out);
}
