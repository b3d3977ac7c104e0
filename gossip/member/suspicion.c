// The suspicions of a member: which ones are kept, and which ones this node makes and withdraws.
#include "gossip/member/state.h"

#include <string.h>

#define CREDIT_EACH_NS (500 * MILLISECOND_NS) // a suspector may suspect twice a second ...
#define CREDIT_BURST   32                     // ... after so many at once, and one for each member
#define WRONG_EACH_NS  (10 * SECOND_NS)       // one refuted suspicion is forgiven in this time

struct member_suspicion *member_suspicion_by(struct member *x, const struct gossip_id *suspector)
{
    for (size_t i = 0; i < x->n_suspicions; i++)
        if (gossip_id_compare(&x->suspicions[i].told.suspector, suspector) == 0)
            return &x->suspicions[i];
    return NULL;
}

bool member_suspected_by_us(const struct gossip_membership *m, struct member *x)
{
    return member_suspicion_by(x, &m->self->record.id) != NULL;
}

static void forgive_with_time(const struct gossip_membership *m, struct member *suspector)
{
    BASE_ASSERT(suspector->wrong <= WRONG_MAX);
    while (suspector->wrong > 0 && m->now_ns - suspector->wrong_ns >= WRONG_EACH_NS) {
        suspector->wrong--;
        suspector->wrong_ns += WRONG_EACH_NS;
    }
}

void member_was_wrong(struct gossip_membership *m, const struct gossip_id *id)
{
    struct member *suspector = member_find(m, id);
    if (!suspector || suspector == m->self)
        return;
    BASE_ASSERT(suspector->wrong <= WRONG_MAX);
    if (suspector->wrong == 0)
        suspector->wrong_ns = m->now_ns;
    if (suspector->wrong < WRONG_MAX)
        suspector->wrong++;
}

// A token bucket: a member that suspects all the time is ignored.
bool member_may_suspect(struct gossip_membership *m, struct member *suspector)
{
    BASE_ASSERT(suspector->credit_ns <= m->now_ns);
    uint64_t burst_ns = (CREDIT_BURST + m->count) * CREDIT_EACH_NS;
    forgive_with_time(m, suspector);
    if (suspector->wrong >= WRONG_MAX)
        return false;
    if (m->now_ns - suspector->credit_ns > burst_ns)
        suspector->credit_ns = m->now_ns - burst_ns;
    if (m->now_ns - suspector->credit_ns < CREDIT_EACH_NS)
        return false;
    suspector->credit_ns += CREDIT_EACH_NS;
    return true;
}

static void drop(struct gossip_membership *m, struct member *x, struct member_suspicion *suspicion)
{
    size_t at = (size_t)(suspicion - x->suspicions);
    BASE_ASSERT(at < x->n_suspicions);
    x->n_suspicions--;
    memmove(suspicion, suspicion + 1, (x->n_suspicions - at) * sizeof *suspicion);
    if (x->n_suspicions == 0) {
        m->n_suspected -= member_is_here(x);
        if (x->state == GOSSIP_MEMBER_SUSPECT)
            member_set_state(m, x, GOSSIP_MEMBER_ALIVE, false, true);
    }
}

void member_clear(struct gossip_membership *m, struct member *x, bool refuted)
{
    BASE_ASSERT(x != m->self && x->n_suspicions <= SUSPECTORS_MAX);
    if (x->n_suspicions == 0)
        return;
    for (size_t i = 0; i < x->n_suspicions && refuted; i++)
        member_was_wrong(m, &x->suspicions[i].told.suspector);
    if (refuted && member_suspicion_by(x, &m->self->record.id)) { // Lifeguard: we were wrong about it
        m->health += m->health < HEALTH_MAX;
        member_was_impatient(m, x);
    }
    member_void_suspicions(m, x);
}

// The answer to question `number` clears only suspicions that are older than the question: the member may
// have died after it answered, and its datagram may have been delayed anywhere.
void member_answered(struct gossip_membership *m, struct member *x, uint32_t number)
{
    BASE_ASSERT(x->n_suspicions <= SUSPECTORS_MAX);
    struct member_suspicion *ours = NULL;
    for (size_t i = 0; i < x->n_suspicions && member_is_here(x); i++) {
        struct member_suspicion *a = &x->suspicions[i];
        if (number <= a->after)
            continue;
        a->answered = true;
        x->answered_ns = m->now_ns;
        if (gossip_id_compare(&a->told.suspector, &m->self->record.id) == 0)
            ours = a;
    }
    if (ours) {
        member_was_impatient(m, x);
        drop(m, x, ours);
    }
}

// The place for a further suspicion; one by evidence replaces one by silence. NULL: there are enough.
static struct member_suspicion *place_for(struct member *x, uint8_t class)
{
    BASE_ASSERT(x->n_suspicions <= SUSPECTORS_MAX);
    if (x->n_suspicions < SUSPECTORS_MAX)
        return &x->suspicions[x->n_suspicions++];
    for (size_t i = 0; i < SUSPECTORS_MAX; i++)
        if (x->suspicions[i].told.class < class)
            return &x->suspicions[i];
    return NULL;
}

static bool add(struct gossip_membership *m, struct member *x, const struct gossip_suspicion *suspicion)
{
    BASE_ASSERT(member_is_here(x) && !member_suspicion_by(x, &suspicion->suspector));
    bool first = x->n_suspicions == 0;
    struct member_suspicion *place = place_for(x, suspicion->class);
    if (!place)
        return false;
    *place = (struct member_suspicion){
        .told = *suspicion, .at_ns = m->now_ns, .after = m->number, .sends = member_sends(m)};
    m->totals.suspicions++;
    m->n_suspected += first;
    if (first)
        member_set_state(m, x, GOSSIP_MEMBER_SUSPECT, suspicion->class == GOSSIP_SUSPECTED_EVIDENCE, true);
    member_spread_soon(m);
    return true;
}

// Sent to the suspect, which can refute it, and to its ring successors, which probe it at once.
static void tell_at_once(struct gossip_membership *m, struct member *x, const struct gossip_suspicion *ours)
{
    struct member *successors[RING_SUCCESSORS];
    size_t count = member_successors(m, x, successors);
    BASE_ASSERT(x != m->self && count <= RING_SUCCESSORS);
    member_send_suspicion(m, x, ours);
    x->told_ns = m->now_ns;
    for (size_t i = 0; i < count && !member_is_poor(m); i++)
        if (successors[i] != m->self && successors[i] != x)
            member_send_suspicion(m, successors[i], ours);
}

bool member_may_be_suspected(const struct gossip_membership *m, const struct member *x)
{
    return x != m->self && member_is_here(x) && !m->leaving;
}

bool member_suspicion_put(struct gossip_membership *m, struct member *x,
                          const struct gossip_suspicion *suspicion)
{
    BASE_ASSERT(x != m->self && gossip_id_compare(&suspicion->subject, &x->record.id) == 0);
    struct member_suspicion *known = member_suspicion_by(x, &suspicion->suspector);
    if (!known)
        return add(m, x, suspicion);
    if (known->told.class >= suspicion->class)
        return false;
    *known = (struct member_suspicion){
        .told = *suspicion, .at_ns = m->now_ns, .after = m->number, .sends = member_sends(m)};
    member_spread_soon(m);
    return true;
}

static bool is_known(struct member *x, const struct gossip_suspicion *suspicion)
{
    const struct member_suspicion *known = member_suspicion_by(x, &suspicion->suspector);
    return known && known->told.class >= suspicion->class;
}

bool member_suspicion_repeated(struct member *x, const struct gossip_suspicion *suspicion)
{
    if (!is_known(x, suspicion))
        return false;
    member_heard_again(&member_suspicion_by(x, &suspicion->suspector)->sends);
    return true;
}

bool member_suspect(struct gossip_membership *m, struct member *x, enum gossip_suspicion_class class,
                    uint32_t after)
{
    struct gossip_suspicion suspicion = {.subject = x->record.id,
                                         .suspector = m->self->record.id,
                                         .version = x->record.version,
                                         .class = (uint8_t) class};
    if (!member_may_be_suspected(m, x) || m->self->record.n_addresses == 0 || is_known(x, &suspicion))
        return false;
    gossip_suspicion_sign(&suspicion, m->options.identity);
    if (!member_suspicion_put(m, x, &suspicion))
        return false; // known from others; repeating it would only find the next closed port
    struct member_suspicion *ours = member_suspicion_by(x, &suspicion.suspector);
    BASE_ASSERT(ours);
    ours->after = after;
    if (m->cut_off)
        ours->sends = 0; // no node would hear it, or this node is deaf
    else
        tell_at_once(m, x, &suspicion);
    return true;
}

void member_suspect_all(struct gossip_membership *m)
{
    for (size_t i = 0; i < m->n_order; i++)
        (void)member_suspect(m, m->order[i], GOSSIP_SUSPECTED_SILENT, m->number);
}

void member_clear_since(struct gossip_membership *m, uint64_t since_ns)
{
    for (size_t i = 0; i < m->n_order; i++) {
        struct member *x = m->order[i];
        struct member_suspicion *ours = member_suspicion_by(x, &m->self->record.id);
        if (ours && ours->told.class == GOSSIP_SUSPECTED_SILENT && ours->at_ns >= since_ns &&
            member_is_here(x))
            drop(m, x, ours);
    }
}
