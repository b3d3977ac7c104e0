// Layout of membership packets (gossip/README.md): a header, then items to the end.
#include "gossip/member/state.h"

#include <string.h>

#define BIT_DEAD 1u // the sender holds the receiver for dead

enum item { ITEM_RECORD = 1, ITEM_ACCUSATION = 2, ITEM_DEAD = 3 };

#define HEADER_BYTES 31u
#define AGE_UNIT_NS  (100 * MILLISECOND_NS)

struct header {
    enum member_packet_kind kind;
    uint8_t bits;
    uint32_t number;
    uint64_t view_hash;
    uint8_t view_age; // since it last changed, in AGE_UNIT_NS, at most 255
    uint64_t round, step;
    struct gossip_id target;
};

static bool names_target(enum member_packet_kind kind)
{
    return kind == PACKET_PING_REQUEST || kind == PACKET_RELAYED || kind == PACKET_NACK;
}

size_t member_packet_header_bytes(enum member_packet_kind kind)
{
    return HEADER_BYTES + (names_target(kind) ? GOSSIP_ID_BYTES : 0);
}

void member_packet_begin(const struct gossip_membership *m, struct member_packet *packet,
                         const struct member *to, enum member_packet_kind kind, uint32_t number,
                         const struct gossip_id *target, size_t limit)
{
    uint64_t age = (m->now_ns - m->view_hash_ns) / AGE_UNIT_NS;
    packet->writer =
        base_writer_of(packet->bytes, limit < sizeof packet->bytes ? limit : sizeof packet->bytes);
    base_write_u8(&packet->writer, (uint8_t)kind);
    base_write_u8(&packet->writer, to->state == GOSSIP_MEMBER_DEAD ? BIT_DEAD : 0);
    base_write_u32(&packet->writer, number);
    base_write_u64(&packet->writer, m->view_hash);
    base_write_u8(&packet->writer, (uint8_t)earlier(age, 255));
    base_write_u64(&packet->writer, m->self->round);
    base_write_u64(&packet->writer, m->self->step);
    if (names_target(kind))
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
    base_write_u8(&packet->writer, ITEM_RECORD);
    gossip_record_write(&x->record, &packet->writer);
    return true;
}

bool member_packet_accusation(struct member_packet *packet, const struct gossip_accusation *accusation)
{
    if (!room(packet, 1 + GOSSIP_ACCUSATION_BYTES))
        return false;
    base_write_u8(&packet->writer, ITEM_ACCUSATION);
    gossip_accusation_write(accusation, &packet->writer);
    return true;
}

bool member_packet_dead(struct member_packet *packet, const struct member *x)
{
    size_t bytes = 2 + gossip_record_bytes(&x->record) + (size_t)x->n_accusations * GOSSIP_ACCUSATION_BYTES;
    if (!room(packet, bytes))
        return false;
    base_write_u8(&packet->writer, ITEM_DEAD);
    gossip_record_write(&x->record, &packet->writer);
    base_write_u8(&packet->writer, x->n_accusations);
    for (size_t i = 0; i < x->n_accusations; i++)
        gossip_accusation_write(&x->accusations[i].told, &packet->writer);
    return true;
}

static enum base_error read_header(struct base_reader *reader, struct header *header)
{
    uint8_t kind = base_read_u8(reader);
    header->bits = base_read_u8(reader);
    header->number = base_read_u32(reader);
    header->view_hash = base_read_u64(reader);
    header->view_age = base_read_u8(reader);
    header->round = base_read_u64(reader);
    header->step = base_read_u64(reader);
    if (kind < PACKET_PING || kind > PACKET_SYNC_TELL || (header->bits & ~BIT_DEAD))
        return BASE_EFORMAT;
    header->kind = (enum member_packet_kind)kind;
    const uint8_t *target = names_target(header->kind) ? base_read_bytes(reader, GOSSIP_ID_BYTES) : NULL;
    if (target)
        memcpy(header->target.bytes, target, GOSSIP_ID_BYTES);
    return reader->failed ? BASE_EFORMAT : BASE_OK;
}

static enum base_error take_dead(struct gossip_membership *m, struct base_reader *reader)
{
    struct gossip_record record;
    struct gossip_accusation accusations[ACCUSERS_MAX];
    enum base_error error = gossip_record_read(reader, &record);
    size_t count = base_read_u8(reader);
    if (error || count == 0 || count > ACCUSERS_MAX)
        return BASE_EFORMAT;
    for (size_t i = 0; i < count && !error; i++)
        error = gossip_accusation_read(reader, &accusations[i]);
    if (!error)
        member_take_dead(m, &record, accusations, count);
    return error;
}

static enum base_error take_item(struct gossip_membership *m, struct base_reader *reader)
{
    struct gossip_record record;
    struct gossip_accusation accusation;
    enum base_error error = BASE_EFORMAT;
    switch (base_read_u8(reader)) {
    case ITEM_RECORD:
        error = gossip_record_read(reader, &record);
        if (!error)
            member_take_record(m, &record);
        break;
    case ITEM_ACCUSATION:
        error = gossip_accusation_read(reader, &accusation);
        if (!error)
            member_take_accusation(m, &accusation);
        break;
    case ITEM_DEAD:
        error = take_dead(m, reader);
        break;
    default:
        break;
    }
    return error;
}

// Its claims are about itself only.
static void take_progress(struct gossip_membership *m, struct member *peer, const struct header *header)
{
    peer->round = header->round;
    peer->step = header->step;
    peer->progress_ns = m->now_ns;
}

// What the packet asks or answers. An answer is never longer than the question.
static void take_header(struct gossip_membership *m, struct member *peer, const struct header *header,
                        const struct gossip_membership_event *event)
{
    struct member *target = names_target(header->kind) ? member_find(m, &header->target) : NULL;
    switch (header->kind) {
    case PACKET_PING:
        member_send_packet(m, peer, event->way, PACKET_ACK, header->number, NULL, event->n_bytes);
        break;
    case PACKET_ACK:
        member_probe_answered(m, peer, header->number, event->way);
        if (!(header->bits & BIT_DEAD))
            member_self_accepted(m, header->number);
        break;
    case PACKET_PING_REQUEST:
        if (target && target != m->self && target != peer)
            member_relay_start(m, peer, header->number, target);
        break;
    case PACKET_RELAYED:
        member_probe_relayed(m, &header->target, header->number);
        break;
    case PACKET_NACK:
        member_probe_nacked(m, &header->target, header->number);
        break;
    case PACKET_SYNC_ASK:
        member_sync_answer(m, peer);
        break;
    case PACKET_GOSSIP:
    case PACKET_SYNC_TELL:
        break;
    }
    if (header->bits & BIT_DEAD)
        member_self_believed_dead(m, &peer->record.id);
    if (header->kind != PACKET_SYNC_TELL && header->kind != PACKET_SYNC_ASK)
        member_sync_compare(m, peer, header->view_hash, header->view_age * AGE_UNIT_NS);
}

enum base_error member_packet_take(struct gossip_membership *m, const struct gossip_membership_event *event)
{
    struct base_reader reader = base_reader_of(event->bytes, event->n_bytes);
    struct header header;
    enum base_error error =
        event->n_bytes > LIMIT_GOSSIP_BYTES ? BASE_EFORMAT : read_header(&reader, &header);
    if (error)
        return error;
    struct member *peer = member_find(m, &event->peer);
    m->teller = event->peer;
    m->told_all = header.kind == PACKET_SYNC_TELL;
    if (peer == m->self)
        return BASE_EFORMAT;
    if (peer)
        member_heard(m, peer);
    while (!error && base_reader_left(&reader) > 0)
        error = take_item(m, &reader);
    if (error)
        m->totals.rejected++;
    peer = member_find(m, &event->peer); // its record may have come with it, or made room for another
    if (peer && !error)
        take_progress(m, peer, &header);
    if (peer && !error)
        take_header(m, peer, &header, event);
    return error;
}
