// Handles the items of a packet: records, suspicions, dead members.
#include "gossip/member/state.h"

#define SYNC_SENDS      9u                     // of a record that came with a full sync
#define CORRECT_EACH_NS (50 * MILLISECOND_NS)  // between two corrections of one member, to all that report it
#define REFUTE_EACH_NS  (200 * MILLISECOND_NS) // between two refutations of suspicions that others believe

// -- suspicions

static bool is_current(const struct member *x, const struct gossip_suspicion *suspicion)
{
    return gossip_version_compare(&x->record.version, &suspicion->version) == 0;
}

static bool is_genuine(struct gossip_membership *m, const struct gossip_suspicion *suspicion)
{
    BASE_ASSERT(gossip_id_compare(&suspicion->subject, &suspicion->suspector) != 0);
    if (gossip_suspicion_verify(suspicion, m->options.verifier))
        return true;
    m->totals.rejected++;
    return false;
}

static bool is_believable(struct gossip_membership *m, const struct gossip_suspicion *suspicion)
{
    struct member *suspector = member_find(m, &suspicion->suspector);
    return suspector && suspector != m->self && suspector->state != GOSSIP_MEMBER_LEFT &&
           !member_is_unproven(suspector) && member_may_suspect(m, suspector) && is_genuine(m, suspicion);
}

static void tell_record_to(struct gossip_membership *m, const struct gossip_id *id, bool by_datagram)
{
    struct member *to = member_find(m, id);
    if (!to || to == m->self || to->state == GOSSIP_MEMBER_LEFT)
        return;
    BASE_ASSERT(to->refuted_ns <= m->now_ns);
    to->refuted_ns = m->now_ns;
    member_send_record(m, to, by_datagram ? GOSSIP_BY_DATAGRAM : member_way_to(to), m->self);
}

static bool was_told(struct gossip_membership *m, const struct gossip_id *id)
{
    const struct member *to = member_find(m, id);
    return to && to->refuted_ns != 0 && m->now_ns - to->refuted_ns < member_word_ns(m, to);
}

// A suspicion that comes from its suspector counts only if we believe the suspector. A member that passes a
// suspicion on does believe it, however often that suspector was wrong here, and needs our refutation.
static bool is_to_be_refuted(struct gossip_membership *m, const struct gossip_suspicion *suspicion)
{
    if (gossip_id_compare(&m->teller, &suspicion->suspector) == 0)
        return is_believable(m, suspicion);
    return m->now_ns - m->refuted_ns >= REFUTE_EACH_NS && is_genuine(m, suspicion);
}

// The suspicion is of an older record: its sender has missed our refutation.
static void suspected_ourselves(struct gossip_membership *m, const struct gossip_suspicion *suspicion)
{
    if (gossip_version_compare(&suspicion->version, &m->self->record.version) < 0) {
        if (!was_told(m, &m->teller))
            tell_record_to(m, &m->teller, false);
        return;
    }
    if (!is_current(m->self, suspicion) || !is_to_be_refuted(m, suspicion))
        return;
    member_was_wrong(m, &suspicion->suspector);
    member_self_refute(m); // the suspicion is of our current record
    struct gossip_membership_action suspected = {.kind = GOSSIP_MEMBERSHIP_SUSPECTED,
                                                 .peer = suspicion->suspector,
                                                 .evidence = suspicion->class == GOSSIP_SUSPECTED_EVIDENCE};
    member_act(m, &suspected);
    tell_record_to(m, &suspicion->suspector, false);
    if (gossip_id_compare(&m->teller, &suspicion->suspector) != 0)
        tell_record_to(m, &m->teller, false);
}

// The sender of a suspicion that x has refuted has missed the refutation. It may be a member that x cannot
// reach.
static void correct(struct gossip_membership *m, struct member *x)
{
    struct member *teller = member_find(m, &m->teller);
    if (!teller || teller == x || teller->state == GOSSIP_MEMBER_LEFT || member_is_poor(m) ||
        m->now_ns - x->corrected_ns < CORRECT_EACH_NS)
        return;
    BASE_ASSERT(x != m->self && x->corrected_ns <= m->now_ns);
    x->corrected_ns = m->now_ns;
    member_send_record(m, teller, member_way_to(teller), x);
}

void member_take_suspicion(struct gossip_membership *m, const struct gossip_suspicion *suspicion)
{
    struct member *x = member_find(m, &suspicion->subject);
    if (!x || member_is_unproven(x) || gossip_id_compare(&suspicion->subject, &suspicion->suspector) == 0)
        return;
    if (x == m->self) {
        suspected_ourselves(m, suspicion);
        return;
    }
    int newer = gossip_version_compare(&suspicion->version, &x->record.version);
    if (newer < 0)
        correct(m, x);
    else if (newer > 0)
        member_sync_missed(m); // the hash of the view does not cover incarnations
    if (newer != 0)
        return;
    if (member_suspicion_repeated(x, suspicion) || !member_may_be_suspected(m, x) ||
        !is_believable(m, suspicion) || !member_suspicion_put(m, x, suspicion))
        return;
    if (member_suspicion_by(x, &m->self->record.id) || !member_is_successor(m, x))
        return;
    if (suspicion->class == GOSSIP_SUSPECTED_EVIDENCE)
        member_probe_anew(m, x); // an open probe began earlier
    else if (!member_is_poor(m))
        member_probe_start(m, x, false);
}

// -- records

// An item of a full sync is new to few members: it is passed on only a few times, by each member to which it
// is new.
static uint8_t sends_of_record(const struct gossip_membership *m)
{
    return m->told_all && member_sends(m) > SYNC_SENDS ? SYNC_SENDS : member_sends(m);
}

static bool is_allowed(const struct gossip_membership *m, const struct gossip_id *id)
{
    return !m->options.allow || gossip_allow_list_has(m->options.allow, id);
}

static void tell_owner(struct gossip_membership *m, const struct member *x)
{
    struct gossip_membership_action action = {.kind = GOSSIP_MEMBERSHIP_RECORD, .peer = x->record.id};
    member_act(m, &action);
}

static struct member *admit(struct gossip_membership *m, const struct gossip_record *record)
{
    if (!member_may_introduce(m))
        return NULL;
    if (!gossip_record_verify(record, m->options.verifier)) {
        m->totals.rejected++;
        return NULL;
    }
    BASE_ASSERT(!member_find(m, &record->id));
    struct member *x = member_add(m, record);
    if (x)
        tell_owner(m, x);
    return x;
}

// A newer record of a known member. Suspicions of its previous process do not apply to a new one.
static void renew(struct gossip_membership *m, struct member *x, const struct gossip_record *record)
{
    BASE_ASSERT(x != m->self && gossip_version_compare(&record->version, &x->record.version) > 0);
    if (!gossip_record_verify(record, m->options.verifier)) {
        m->totals.rejected++;
        return;
    }
    bool same_life = x->record.version.generation == record->version.generation &&
                     x->record.version.instance_id == record->version.instance_id;
    bool look = same_life && member_suspected_by_us(m, x);
    member_clear(m, x, same_life && x->state == GOSSIP_MEMBER_SUSPECT);
    if (!same_life) {
        x->record_ns = m->now_ns;
        x->synced_ns = 0; // the new process does not know what its previous one was sent
        x->round = x->step = x->progress_ns = 0;
        x->answered = x->direct = false;
    }
    if (member_is_unproven(x) && record->flags & GOSSIP_RECORD_LEFT) {
        member_remove(m, x);
        return;
    }
    x->record = *record;
    x->record_sends = sends_of_record(m);
    tell_owner(m, x);
    if (member_is_unproven(x))
        member_look_again(m, x);
    else
        member_set_state(m, x, record->flags & GOSSIP_RECORD_LEFT ? GOSSIP_MEMBER_LEFT : GOSSIP_MEMBER_ALIVE,
                         false, true);
    member_recount(m, x);
    member_spread_soon(m);
    if (look)
        member_probe_anew(m, x); // the record may be old
}

// Two processes with this identity hear of each other only through the sender, which drops the links of one
// of them, and with them all packets by stream.
static void take_own_record(struct gossip_membership *m, const struct gossip_record *record)
{
    const struct gossip_version *ours = &m->self->record.version;
    if (record->version.instance_id == ours->instance_id)
        return;
    member_self_foreign(m, record);
    const bool newer = !m->stopped && gossip_version_compare(&record->version, ours) < 0;
    if (newer && m->self->record.n_addresses > 0 && !was_told(m, &m->teller) && !member_is_poor(m))
        tell_record_to(m, &m->teller, true);
}

// A member that names an older generation of itself over its link has restarted from an old disk. It cannot
// open datagrams that are sealed for its later generation. If its link is refused here, because another
// process has its identity, only a datagram for the named generation reaches it.
static void tell_lost_generation(struct gossip_membership *m, struct member *x, uint64_t generation)
{
    uint8_t bytes[PACKET_PLAIN_MAX];
    if (generation >= x->record.version.generation || m->self->record.n_addresses == 0 ||
        m->now_ns - x->corrected_ns < CORRECT_EACH_NS || member_is_poor(m))
        return;
    BASE_ASSERT(x != m->self);
    x->corrected_ns = m->now_ns;
    const size_t count = gossip_membership_about(m, &x->record.id, bytes, sizeof bytes);
    member_spend(m, count);
    member_act_send_for(m, &x->record.id, generation, bytes, count);
}

// The member sends its record over its own link, which is authentic and in use at both ends. When the link
// came into use, this process may not have known the member yet, or only an earlier process of it.
static void told_by_itself(struct gossip_membership *m, const struct gossip_record *record)
{
    struct member *x = member_find(m, &record->id);
    if (!x || x == m->self)
        return;
    const struct gossip_version *held = &x->record.version;
    if (record->version.generation == held->generation && record->version.instance_id == held->instance_id) {
        x->answered = true;
        member_prove(m, x);
    } else if (gossip_version_compare(&record->version, held) < 0) {
        tell_lost_generation(m, x, record->version.generation);
    }
}

static void take_record(struct gossip_membership *m, const struct gossip_record *record)
{
    struct member *x = member_find(m, &record->id);
    if (x == m->self) {
        take_own_record(m, record);
    } else if (!is_allowed(m, &record->id)) {
        m->totals.rejected++;
    } else if (x) {
        int newer = gossip_version_compare(&record->version, &x->record.version);
        if (newer >= 0)
            member_vouched(m, x);
        if (newer > 0)
            renew(m, x, record);
        else if (newer == 0)
            member_heard_again(&x->record_sends);
    } else if (!(record->flags & GOSSIP_RECORD_LEFT)) {
        x = admit(m, record);
        if (x)
            x->record_sends = sends_of_record(m);
    }
}

void member_take_record(struct gossip_membership *m, const struct gossip_record *record)
{
    take_record(m, record);
    if (m->told_by_stream && gossip_id_compare(&m->teller, &record->id) == 0)
        told_by_itself(m, record);
}

// Another member's report of a dead member that we do not know: believed if the suspicions are authentic and
// two of those that made them are members, because a member that is alive answers when asked. For a member
// that we know we decide ourselves.
void member_take_dead(struct gossip_membership *m, const struct gossip_record *record,
                      const struct gossip_suspicion *suspicions, size_t count)
{
    BASE_ASSERT(count <= SUSPECTORS_MAX);
    struct member *x = member_find(m, &record->id);
    if (x && !member_is_unproven(x)) {
        member_take_record(m, record);
        for (size_t i = 0; i < count; i++)
            member_take_suspicion(m, &suspicions[i]);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (gossip_id_compare(&suspicions[i].subject, &record->id) != 0 ||
            gossip_version_compare(&suspicions[i].version, &record->version) != 0 ||
            !gossip_suspicion_verify(&suspicions[i], m->options.verifier))
            return;
    if ((record->flags & GOSSIP_RECORD_LEFT) || !is_allowed(m, &record->id))
        return;
    x = x ? x : admit(m, record);
    if (!x || gossip_version_compare(&x->record.version, &record->version) != 0)
        return;
    x->n_suspicions = 0;
    for (size_t i = 0; i < count; i++)
        x->suspicions[x->n_suspicions++] =
            (struct member_suspicion){.told = suspicions[i], .at_ns = m->now_ns};
    member_weigh_deaths(m);
}
