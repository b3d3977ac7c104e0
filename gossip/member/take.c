// Handles a packet: its header says what it asks or answers; its items go to learn.c.
#include "gossip/member/state.h"

#include <string.h>

struct header {
    enum member_packet_kind kind;
    uint8_t bits;
    uint32_t number;
    uint64_t view_hash;
    uint8_t view_age; // since it last changed, in PACKET_AGE_UNIT_NS, at most 255
    uint64_t round, step;
    struct gossip_id target;
};

static enum base_error read_header(struct base_reader *reader, struct header *header)
{
    uint8_t kind = base_read_u8(reader);
    header->bits = base_read_u8(reader);
    header->number = base_read_u32(reader);
    header->view_hash = base_read_u64(reader);
    header->view_age = base_read_u8(reader);
    header->round = base_read_u64(reader);
    header->step = base_read_u64(reader);
    if (kind < PACKET_PING || kind > PACKET_SYNC_TELL || (header->bits & ~PACKET_BIT_DEAD))
        return BASE_EFORMAT;
    header->kind = (enum member_packet_kind)kind;
    const uint8_t *target =
        member_packet_names_target(header->kind) ? base_read_bytes(reader, GOSSIP_ID_BYTES) : NULL;
    if (target)
        memcpy(header->target.bytes, target, GOSSIP_ID_BYTES);
    return reader->failed ? BASE_EFORMAT : BASE_OK;
}

static enum base_error take_dead(struct gossip_membership *m, struct base_reader *reader)
{
    struct gossip_record record;
    struct gossip_suspicion suspicions[SUSPECTORS_MAX];
    enum base_error error = gossip_record_read(reader, &record);
    size_t count = base_read_u8(reader);
    if (error || count == 0 || count > SUSPECTORS_MAX)
        return BASE_EFORMAT;
    for (size_t i = 0; i < count && !error; i++)
        error = gossip_suspicion_read(reader, &suspicions[i]);
    if (!error)
        member_take_dead(m, &record, suspicions, count);
    return error;
}

static enum base_error take_item(struct gossip_membership *m, struct base_reader *reader)
{
    struct gossip_record record;
    struct gossip_suspicion suspicion;
    enum base_error error = BASE_EFORMAT;
    switch (base_read_u8(reader)) {
    case PACKET_ITEM_RECORD:
        error = gossip_record_read(reader, &record);
        if (!error)
            member_take_record(m, &record);
        break;
    case PACKET_ITEM_SUSPICION:
        error = gossip_suspicion_read(reader, &suspicion);
        if (!error)
            member_take_suspicion(m, &suspicion);
        break;
    case PACKET_ITEM_DEAD:
        error = take_dead(m, reader);
        break;
    default:
        break;
    }
    return error;
}

#define STALE_NS (5 * SECOND_NS) // after that nothing waits any more, even of a member that cannot answer

// Reports may wait in the sockets of a process that is suspended. An answer to a later question did not.
static bool is_stale(const struct gossip_membership *m, const struct member *peer,
                     const struct header *header)
{
    const bool answers = header->kind == PACKET_ACK && header->number > m->woke_number;
    return peer->stale && !answers && m->now_ns - m->woke_ns < STALE_NS;
}

// Round and step are those of the sender only.
static void take_progress(struct gossip_membership *m, struct member *peer, const struct header *header)
{
    BASE_ASSERT(peer != m->self);
    peer->round = header->round;
    peer->step = header->step;
    peer->stale = is_stale(m, peer, header);
    if (!peer->stale)
        peer->progress_ns = m->now_ns;
}

// A router lets datagrams of a member in after one to that member: the answer to a ping over the stream goes
// by datagram, too, and whoever is asked by datagram asks in return.
static void take_ping(struct gossip_membership *m, struct member *peer, const struct header *header,
                      const struct gossip_membership_event *event)
{
    member_send_packet(m, peer, event->way, PACKET_ACK, header->number, NULL, event->n_bytes);
    if (member_is_unproven(peer))
        member_look_back(m, peer);
    if (peer->direct || header->number == 0)
        return;
    if (event->way == GOSSIP_BY_STREAM)
        member_send_packet(m, peer, GOSSIP_BY_DATAGRAM, PACKET_ACK, header->number, NULL, 0);
    else if (peer->record.n_relays > 0)
        member_probe_start(m, peer, false);
}

// The question or answer in the packet. An answer is never longer than the question.
static void take_header(struct gossip_membership *m, struct member *peer, const struct header *header,
                        const struct gossip_membership_event *event)
{
    struct member *target = member_packet_names_target(header->kind) ? member_find(m, &header->target) : NULL;
    switch (header->kind) {
    case PACKET_PING:
        take_ping(m, peer, header, event);
        break;
    case PACKET_ACK:
        member_probe_answered(m, peer, header->number, event->way);
        if (!(header->bits & PACKET_BIT_DEAD))
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
        member_probe_nacked(m, &peer->record.id, &header->target, header->number);
        break;
    case PACKET_SYNC_ASK:
        member_sync_answer(m, peer);
        break;
    case PACKET_GOSSIP:
    case PACKET_SYNC_TELL:
        break;
    }
    if (member_is_unproven(peer))
        return;
    if (header->bits & PACKET_BIT_DEAD)
        member_self_believed_dead(m, &peer->record.id);
    if (header->kind != PACKET_SYNC_TELL && header->kind != PACKET_SYNC_ASK)
        member_sync_compare(m, peer, header->view_hash, header->view_age * PACKET_AGE_UNIT_NS);
}

// A packet does not show that its sender hears us, nor that it is still alive after the suspicion: it is
// told, so that it can refute.
static void hear(struct gossip_membership *m, struct member *x)
{
    BASE_ASSERT(x != m->self);
    x->linked |= m->told_by_stream;
    if (x->heard_ns > 0)
        member_timing_learn(&x->pauses, m->now_ns - x->heard_ns);
    x->heard_ns = m->now_ns;
    member_probe_talks(m, x);
    member_warn_suspect(m, x);
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
    m->told_by_stream = event->way == GOSSIP_BY_STREAM;
    if (peer == m->self)
        return BASE_EFORMAT;
    BASE_ASSERT(gossip_id_compare(&event->peer, &m->self->record.id) != 0);
    if (peer)
        hear(m, peer);
    while (!error && base_reader_left(&reader) > 0)
        error = take_item(m, &reader);
    if (error)
        m->totals.rejected++;
    peer = member_find(m, &event->peer); // its record may have come with the packet, or made room for another
    if (peer && !error)
        take_progress(m, peer, &header);
    if (peer && !error)
        take_header(m, peer, &header, event);
    member_look(m);
    return error;
}
