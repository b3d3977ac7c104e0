// Full sync over a stream: each end sends all that it knows. It repairs what gossip has missed, and teaches a
// joiner the cluster.
#include "gossip/member/state.h"

#define DIFFERS_MAX_NS SECOND_NS // views may differ for a period, or for this long
#define ASK_EACH_NS    SECOND_NS
#define ANSWER_EACH_NS (500 * MILLISECOND_NS) // to one peer
#define ANSWERS_MAX    50u                    // a second, to all
#define STRANGER_ASKS  10u
#define OLD_DEATH_NS   (12 * 3600 * SECOND_NS) // older deaths are not sent, and so forgotten in the end

static void send(struct gossip_membership *m, struct member *to, const struct member_packet *packet)
{
    member_act_send(m, &to->record.id, GOSSIP_BY_STREAM, packet->bytes, base_writer_used(&packet->writer));
}

static bool put(const struct gossip_membership *m, struct member_packet *packet, const struct member *x)
{
    if (x->state == GOSSIP_MEMBER_DEAD)
        return m->now_ns - x->since_ns > OLD_DEATH_NS || member_packet_dead(packet, x);
    if (base_writer_used(&packet->writer) + GOSSIP_RECORD_BYTES_MAX +
            SUSPECTORS_MAX * (GOSSIP_SUSPICION_BYTES + 1) >
        sizeof packet->bytes)
        return false;
    (void)member_packet_record(packet, x); // there is room
    for (size_t i = 0; i < x->n_suspicions; i++)
        (void)member_packet_suspicion(packet, &x->suspicions[i].told);
    return true;
}

// Living members first: suspicions are accepted only from known members.
static void tell_all(struct gossip_membership *m, struct member *to)
{
    struct member_packet packet;
    member_packet_begin(m, &packet, to, PACKET_SYNC_TELL, 0, NULL, sizeof packet.bytes);
    for (int dead = 0; dead < 2; dead++) {
        for (size_t i = 0; i < m->count; i++) {
            const struct member *x = m->sorted[i];
            if ((x->state == GOSSIP_MEMBER_DEAD) != dead || member_is_unproven(x) ||
                x->record.n_addresses == 0 || put(m, &packet, x))
                continue;
            send(m, to, &packet);
            member_packet_begin(m, &packet, to, PACKET_SYNC_TELL, 0, NULL, sizeof packet.bytes);
            const bool fits = put(m, &packet, x);
            BASE_ASSERT(fits); // into an empty packet
        }
    }
    send(m, to, &packet);
}

void member_sync_ask(struct gossip_membership *m, struct member *peer)
{
    BASE_ASSERT(peer != m->self);
    struct member_packet packet;
    tell_all(m, peer);
    member_packet_begin(m, &packet, peer, PACKET_SYNC_ASK, 0, NULL, sizeof packet.bytes);
    send(m, peer, &packet);
    m->sync_ns = m->now_ns;
    m->totals.syncs++;
}

// The member through which this node joins. Its answer makes it known; until then it is asked again.
void member_sync_ask_stranger(struct gossip_membership *m, const struct gossip_id *id)
{
    struct member unknown = {.record = {.id = *id}};
    if (m->stranger_asks == 0 || gossip_id_compare(id, &m->stranger) != 0)
        m->stranger_asks = STRANGER_ASKS;
    BASE_ASSERT(m->stranger_asks <= STRANGER_ASKS);
    m->stranger = *id;
    m->stranger_asks--;
    member_sync_ask(m, &unknown);
}

void member_sync_timer(struct gossip_membership *m)
{
    BASE_ASSERT(m->sync_ns <= m->now_ns);
    if (member_find(m, &m->stranger))
        m->stranger_asks = 0;
    if (m->stranger_asks > 0 && m->now_ns - m->sync_ns >= ASK_EACH_NS)
        member_sync_ask_stranger(m, &m->stranger);
}

void member_sync_answer(struct gossip_membership *m, struct member *peer)
{
    BASE_ASSERT(m->sync_answers <= ANSWERS_MAX);
    if (m->now_ns - m->sync_window_ns >= SECOND_NS) {
        m->sync_window_ns = m->now_ns;
        m->sync_answers = 0;
    }
    if (m->sync_answers >= ANSWERS_MAX || (peer->synced_ns && m->now_ns - peer->synced_ns < ANSWER_EACH_NS))
        return; // it asks again as long as our views differ
    m->sync_answers++;
    peer->synced_ns = m->now_ns;
    tell_all(m, peer);
}

// The sender refers to a record that we do not have.
void member_sync_missed(struct gossip_membership *m)
{
    struct member *teller = member_find(m, &m->teller);
    if (teller && member_is_here(teller) && m->now_ns - m->sync_ns >= ASK_EACH_NS)
        member_sync_ask(m, teller);
}

void member_sync_compare(struct gossip_membership *m, struct member *peer, uint64_t hash, uint64_t still_ns)
{
    uint64_t differs_ns = earlier(m->profile.period_ns, DIFFERS_MAX_NS);
    bool still = m->now_ns - m->view_hash_ns >= differs_ns && still_ns >= differs_ns;
    if (hash != m->view_hash && still && m->now_ns - m->sync_ns >= ASK_EACH_NS)
        member_sync_ask(m, peer);
}
