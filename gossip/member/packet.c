// How membership packets are written (gossip/member/README.md): a header, then items to the end.
#include "gossip/member/state.h"

#define HEADER_BYTES 31u

bool member_packet_names_target(enum member_packet_kind kind)
{
    return kind == PACKET_PING_REQUEST || kind == PACKET_RELAYED || kind == PACKET_NACK;
}

size_t member_packet_header_bytes(enum member_packet_kind kind)
{
    return HEADER_BYTES + (member_packet_names_target(kind) ? GOSSIP_ID_BYTES : 0);
}

void member_packet_begin(const struct gossip_membership *m, struct member_packet *packet,
                         const struct member *to, enum member_packet_kind kind, uint32_t number,
                         const struct gossip_id *target, size_t limit)
{
    uint64_t age = (m->now_ns - m->view_hash_ns) / PACKET_AGE_UNIT_NS;
    packet->writer =
        base_writer_of(packet->bytes, limit < sizeof packet->bytes ? limit : sizeof packet->bytes);
    base_write_u8(&packet->writer, (uint8_t)kind);
    base_write_u8(&packet->writer, to->state == GOSSIP_MEMBER_DEAD ? PACKET_BIT_DEAD : 0);
    base_write_u32(&packet->writer, number);
    base_write_u64(&packet->writer, m->view_hash);
    base_write_u8(&packet->writer, (uint8_t)earlier(age, 255));
    base_write_u64(&packet->writer, m->self->round);
    base_write_u64(&packet->writer, m->self->step);
    if (member_packet_names_target(kind))
        base_write_bytes(&packet->writer, target->bytes, GOSSIP_ID_BYTES);
    BASE_ASSERT(!packet->writer.failed);
}

static bool room(const struct member_packet *packet, size_t bytes)
{
    return (size_t)(packet->writer.end - packet->writer.at) >= bytes;
}

bool member_packet_record(struct member_packet *packet, const struct member *x)
{
    if (!room(packet, 1 + gossip_record_bytes(&x->record)))
        return false;
    base_write_u8(&packet->writer, PACKET_ITEM_RECORD);
    gossip_record_write(&x->record, &packet->writer);
    return true;
}

bool member_packet_suspicion(struct member_packet *packet, const struct gossip_suspicion *suspicion)
{
    if (!room(packet, 1 + GOSSIP_SUSPICION_BYTES))
        return false;
    base_write_u8(&packet->writer, PACKET_ITEM_SUSPICION);
    gossip_suspicion_write(suspicion, &packet->writer);
    return true;
}

bool member_packet_dead(struct member_packet *packet, const struct member *x)
{
    size_t bytes = 2 + gossip_record_bytes(&x->record) + (size_t)x->n_suspicions * GOSSIP_SUSPICION_BYTES;
    if (!room(packet, bytes))
        return false;
    base_write_u8(&packet->writer, PACKET_ITEM_DEAD);
    gossip_record_write(&x->record, &packet->writer);
    base_write_u8(&packet->writer, x->n_suspicions);
    for (size_t i = 0; i < x->n_suspicions; i++)
        gossip_suspicion_write(&x->suspicions[i].told, &packet->writer);
    return true;
}
