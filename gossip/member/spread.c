// What is sent to which member: updates are added to pings and answers, and go to a few random members at
// intervals until each was sent often enough (SWIM, section 4.1).
#include "gossip/member/state.h"

#include <math.h>
#include <string.h>

#define HEARD_MIN    6u // sends that are made in any case
#define SENDS_FACTOR 6.0
#define URGENT_NS    (10 * MILLISECOND_NS)

uint8_t member_sends(const struct gossip_membership *m)
{
    double sends = SENDS_FACTOR * ceil(log10((double)m->count + 1));
    return sends < 255 ? (uint8_t)sends : 255;
}

enum gossip_member_way member_way_to(const struct member *x)
{
    return x->by_stream ? GOSSIP_BY_STREAM : GOSSIP_BY_DATAGRAM;
}

static void finish(struct gossip_membership *m, struct member *to, enum gossip_member_way way,
                   const struct member_packet *packet)
{
    member_spend(m, base_writer_used(&packet->writer));
    member_act_send(m, &to->record.id, way, packet->bytes, base_writer_used(&packet->writer));
}

// Feedback (Demers et al. 1987): a node that receives an update that it is sending sends it less often.
void member_heard_again(uint8_t *sends)
{
    if (*sends > HEARD_MIN)
        --*sends;
}

static bool has_update(const struct member *x)
{
    if (member_is_unproven(x))
        return false;
    if (x->record_sends > 0)
        return true;
    for (size_t i = 0; i < x->n_suspicions; i++)
        if (x->suspicions[i].sends > 0)
            return true;
    return false;
}

// Suspicions and records of x that must still be sent, as far as they fit.
static void put_update(struct member_packet *packet, struct member *x)
{
    BASE_ASSERT(x->n_suspicions <= SUSPECTORS_MAX);
    for (size_t i = 0; i < x->n_suspicions; i++)
        if (x->suspicions[i].sends > 0 && member_packet_suspicion(packet, &x->suspicions[i].told))
            x->suspicions[i].sends--;
    if (x->record_sends > 0 && member_packet_record(packet, x))
        x->record_sends--;
}

// From a random place on, so that items that did not fit are in another packet. No member is sent updates
// about itself.
static void fill(struct gossip_membership *m, const struct member *to, struct member_packet *packet)
{
    BASE_ASSERT(packet->writer.at <= packet->writer.end);
    size_t start = m->count > 1 ? (size_t)base_rng_below(&m->rng, m->count) : 0;
    size_t most = member_update_bytes(m);
    if (m->self->record_sends > 0) // sent whatever the budget: no other member has it
        put_update(packet, m->self);
    if (most < (size_t)(packet->writer.end - packet->writer.at))
        packet->writer.end = packet->writer.at + most;
    for (size_t i = 0; i < m->count; i++) {
        struct member *x = m->sorted[(start + i) % m->count];
        if (base_writer_used(&packet->writer) + GOSSIP_SUSPICION_BYTES >
            (size_t)(packet->writer.end - packet->writer.start))
            return;
        if (x != m->self && x != to && has_update(x))
            put_update(packet, x);
    }
}

static bool any_update(const struct gossip_membership *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (has_update(m->sorted[i]))
            return true;
    return false;
}

// Any of them is enough: a refutation voids all.
static const struct gossip_suspicion *one_of(struct gossip_membership *m, const struct member *x)
{
    return &x->suspicions[base_rng_below(&m->rng, x->n_suspicions)].told;
}

static bool is_to_be_told(struct gossip_membership *m, const struct member *x)
{
    return x->n_suspicions > 0 && (x->told_ns == 0 || m->now_ns - x->told_ns >= member_word_ns(m, x));
}

static void put_suspected(struct gossip_membership *m, struct member *x, struct member_packet *packet)
{
    BASE_ASSERT(x->told_ns <= m->now_ns);
    if (is_to_be_told(m, x) && member_packet_suspicion(packet, one_of(m, x)))
        x->told_ns = m->now_ns;
}

void member_send_packet(struct gossip_membership *m, struct member *to, enum gossip_member_way way,
                        enum member_packet_kind kind, uint32_t number, const struct gossip_id *target,
                        size_t limit)
{
    struct member_packet packet;
    size_t least = member_packet_header_bytes(kind);
    if (way == GOSSIP_BY_DATAGRAM && limit > PACKET_PLAIN_MAX)
        limit = PACKET_PLAIN_MAX;
    member_packet_begin(m, &packet, to, kind, number, target, limit < least ? least : limit);
    if (kind == PACKET_PING)
        put_suspected(m, to, &packet);
    if (m->spread_ns != UINT64_MAX || m->self->record_sends > 0) // the latter if all others seem dead
        fill(m, to, &packet);
    finish(m, to, way, &packet);
}

void member_spread_soon(struct gossip_membership *m)
{
    BASE_ASSERT(m->told_ns <= m->now_ns);
    bool fast = member_gossip_ns(m) == m->profile.gossip_ns && member_update_bytes(m) > 0;
    uint64_t soon_ns = fast ? m->now_ns + URGENT_NS : m->told_ns + member_gossip_ns(m);
    m->spread_ns = earlier(m->spread_ns, soon_ns > m->now_ns ? soon_ns : m->now_ns);
}

static void gossip_to(struct gossip_membership *m, struct member *to)
{
    struct member_packet packet;
    if (!member_has_room(m, to))
        return;
    member_packet_begin(m, &packet, to, PACKET_GOSSIP, 0, NULL, PACKET_PLAIN_MAX);
    fill(m, to, &packet);
    to->gossiped_ns = m->now_ns;
    if (base_writer_used(&packet.writer) > member_packet_header_bytes(PACKET_GOSSIP))
        finish(m, to, member_way_to(to), &packet);
}

void member_spread_timer(struct gossip_membership *m)
{
    struct member *to[FANOUT];
    if (m->now_ns < m->spread_ns)
        return;
    size_t count = member_pick(m, NULL, to, FANOUT);
    BASE_ASSERT(count <= FANOUT);
    for (size_t i = 0; i < count; i++)
        gossip_to(m, to[i]);
    m->told_ns = m->now_ns;
    m->spread_ns = count > 0 && any_update(m) ? m->now_ns + member_gossip_ns(m) : UINT64_MAX;
}

uint64_t member_spread_deadline(const struct gossip_membership *m)
{
    return m->spread_ns;
}

void member_send_suspicion(struct gossip_membership *m, struct member *to,
                           const struct gossip_suspicion *suspicion)
{
    struct member_packet packet;
    member_packet_begin(m, &packet, to, PACKET_GOSSIP, 0, NULL, PACKET_PLAIN_MAX);
    (void)member_packet_suspicion(&packet, suspicion);
    finish(m, to, member_way_to(to), &packet);
}

void member_ask_for(struct gossip_membership *m, struct member *to, const struct member *x, uint32_t number)
{
    struct member_packet packet;
    member_packet_begin(m, &packet, to, PACKET_PING_REQUEST, number, &x->record.id, PACKET_PLAIN_MAX);
    if (x->n_suspicions > 0)
        (void)member_packet_suspicion(&packet, one_of(m, x));
    finish(m, to, member_way_to(to), &packet);
}

void member_warn_suspect(struct gossip_membership *m, struct member *x)
{
    if (!is_to_be_told(m, x))
        return;
    BASE_ASSERT(x->n_suspicions > 0);
    x->told_ns = m->now_ns;
    member_send_suspicion(m, x, one_of(m, x));
}

void member_send_record(struct gossip_membership *m, struct member *to, enum gossip_member_way way,
                        const struct member *about)
{
    struct member_packet packet;
    member_packet_begin(m, &packet, to, PACKET_GOSSIP, 0, NULL, PACKET_PLAIN_MAX);
    (void)member_packet_record(&packet, about);
    finish(m, to, way, &packet);
}

size_t gossip_membership_about(const struct gossip_membership *m, const struct gossip_id *id, uint8_t *bytes,
                               size_t capacity)
{
    struct member_packet packet;
    const struct member *x = member_find(m, id);
    if (!x)
        return 0;
    member_packet_begin(m, &packet, x, PACKET_GOSSIP, 0, NULL, PACKET_PLAIN_MAX);
    (void)member_packet_record(&packet, m->self); // its present process may not know it
    (void)member_packet_record(&packet, x);
    const size_t count = base_writer_used(&packet.writer);
    BASE_ASSERT(count <= capacity);
    memcpy(bytes, packet.bytes, count);
    return count;
}
