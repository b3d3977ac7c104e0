// The accusations of a member: who made them, which ones are taken in, and what this node accuses and takes
// back itself.
#include "gossip/member/state.h"

#include <string.h>

#define CREDIT_EACH_NS (500 * MILLISECOND_NS) // an accuser may accuse twice a second ...
#define CREDIT_BURST   32                     // ... after so many at once, and one for each member
#define WRONG_EACH_NS  (10 * SECOND_NS)       // one refuted accusation is forgiven in this time

struct member_accusation *member_accusation_by(struct member *x, const struct gossip_id *accuser)
{
    for (size_t i = 0; i < x->n_accusations; i++)
        if (gossip_id_compare(&x->accusations[i].told.accuser, accuser) == 0)
            return &x->accusations[i];
    return NULL;
}

bool member_accused_by_us(const struct gossip_membership *m, struct member *x)
{
    return member_accusation_by(x, &m->self->record.id) != NULL;
}

static void forgive_with_time(const struct gossip_membership *m, struct member *accuser)
{
    while (accuser->wrong > 0 && m->now_ns - accuser->wrong_ns >= WRONG_EACH_NS) {
        accuser->wrong--;
        accuser->wrong_ns += WRONG_EACH_NS;
    }
}

void member_was_wrong(struct gossip_membership *m, const struct gossip_id *id)
{
    struct member *accuser = member_find(m, id);
    if (!accuser || accuser == m->self)
        return;
    if (accuser->wrong == 0)
        accuser->wrong_ns = m->now_ns;
    if (accuser->wrong < WRONG_MAX)
        accuser->wrong++;
}

// A token bucket: a member that accuses all the time is ignored.
bool member_may_accuse(struct gossip_membership *m, struct member *accuser)
{
    uint64_t burst_ns = (CREDIT_BURST + m->count) * CREDIT_EACH_NS;
    forgive_with_time(m, accuser);
    if (accuser->wrong >= WRONG_MAX)
        return false;
    if (m->now_ns - accuser->credit_ns > burst_ns)
        accuser->credit_ns = m->now_ns - burst_ns;
    if (m->now_ns - accuser->credit_ns < CREDIT_EACH_NS)
        return false;
    accuser->credit_ns += CREDIT_EACH_NS;
    return true;
}

static void drop(struct gossip_membership *m, struct member *x, struct member_accusation *accusation)
{
    size_t at = (size_t)(accusation - x->accusations);
    x->n_accusations--;
    memmove(accusation, accusation + 1, (x->n_accusations - at) * sizeof *accusation);
    if (x->n_accusations == 0) {
        m->n_accused -= member_is_here(x);
        if (x->state == GOSSIP_MEMBER_SUSPECT)
            member_set_state(m, x, GOSSIP_MEMBER_ALIVE, false, true);
    }
}

void member_acquit(struct gossip_membership *m, struct member *x, bool refuted)
{
    if (x->n_accusations == 0)
        return;
    for (size_t i = 0; i < x->n_accusations && refuted; i++)
        member_was_wrong(m, &x->accusations[i].told.accuser);
    if (refuted && member_accusation_by(x, &m->self->record.id) && m->health < HEALTH_MAX)
        m->health++; // Lifeguard: we were wrong about it
    member_void_accusations(m, x);
}

// Question `number` was asked before it died, if it has: the answer speaks against what we knew by then, and
// against nothing that came later. A datagram of the dead may have waited anywhere.
void member_answered(struct gossip_membership *m, struct member *x, uint32_t number)
{
    struct member_accusation *ours = NULL;
    for (size_t i = 0; i < x->n_accusations && member_is_here(x); i++) {
        struct member_accusation *a = &x->accusations[i];
        if (number <= a->after)
            continue;
        a->answered = true;
        x->answered_ns = m->now_ns;
        if (gossip_id_compare(&a->told.accuser, &m->self->record.id) == 0)
            ours = a;
    }
    if (ours)
        drop(m, x, ours);
}

// The place of a further accusation; evidence takes that of mere silence. NULL: there are enough.
static struct member_accusation *place_for(struct member *x, uint8_t class)
{
    if (x->n_accusations < ACCUSERS_MAX)
        return &x->accusations[x->n_accusations++];
    for (size_t i = 0; i < ACCUSERS_MAX; i++)
        if (x->accusations[i].told.class < class)
            return &x->accusations[i];
    return NULL;
}

static bool add(struct gossip_membership *m, struct member *x, const struct gossip_accusation *accusation)
{
    bool first = x->n_accusations == 0;
    struct member_accusation *place = place_for(x, accusation->class);
    if (!place)
        return false;
    *place = (struct member_accusation){
        .told = *accusation, .at_ns = m->now_ns, .after = m->number, .sends = member_sends(m)};
    m->totals.accusations++;
    m->n_accused += first;
    if (first)
        member_set_state(m, x, GOSSIP_MEMBER_SUSPECT, accusation->class == GOSSIP_ACCUSED_EVIDENCE, true);
    member_spread_soon(m);
    return true;
}

// To itself, which can refute it, and to its ring successors, which probe it at once.
static void tell_at_once(struct gossip_membership *m, struct member *x, const struct gossip_accusation *ours)
{
    struct member *successors[RING_SUCCESSORS];
    size_t count = member_successors(m, x, successors);
    member_tell_accusation(m, x, ours);
    x->told_ns = m->now_ns;
    for (size_t i = 0; i < count && !member_is_poor(m); i++)
        if (successors[i] != m->self && successors[i] != x)
            member_tell_accusation(m, successors[i], ours);
}

bool member_is_accusable(const struct gossip_membership *m, const struct member *x)
{
    return x != m->self && member_is_here(x) && !m->leaving;
}

bool member_accusation_put(struct gossip_membership *m, struct member *x,
                           const struct gossip_accusation *accusation)
{
    struct member_accusation *known = member_accusation_by(x, &accusation->accuser);
    if (!known)
        return add(m, x, accusation);
    if (known->told.class >= accusation->class)
        return false;
    *known = (struct member_accusation){
        .told = *accusation, .at_ns = m->now_ns, .after = m->number, .sends = member_sends(m)};
    member_spread_soon(m);
    return true;
}

static bool is_known(struct member *x, const struct gossip_accusation *accusation)
{
    const struct member_accusation *known = member_accusation_by(x, &accusation->accuser);
    return known && known->told.class >= accusation->class;
}

bool member_accusation_repeated(struct member *x, const struct gossip_accusation *accusation)
{
    if (!is_known(x, accusation))
        return false;
    member_heard_again(&member_accusation_by(x, &accusation->accuser)->sends);
    return true;
}

bool member_accuse(struct gossip_membership *m, struct member *x, enum gossip_accusation_class class,
                   uint32_t after)
{
    struct gossip_accusation accusation = {.subject = x->record.id,
                                           .accuser = m->self->record.id,
                                           .version = x->record.version,
                                           .class = (uint8_t) class};
    if (!member_is_accusable(m, x) || m->self->record.n_addresses == 0 || is_known(x, &accusation))
        return false;
    gossip_accusation_sign(&accusation, m->options.identity);
    if (!member_accusation_put(m, x, &accusation))
        return false; // others have said so; repeating it would only bring the next closed port
    struct member_accusation *ours = member_accusation_by(x, &accusation.accuser);
    ours->after = after;
    ours->cut_off = m->cut_off;
    if (m->cut_off)
        ours->sends = 0; // no node hears it, or this node is deaf
    else
        tell_at_once(m, x, &accusation);
    return true;
}

void member_accuse_all(struct gossip_membership *m)
{
    for (size_t i = 0; i < m->n_order; i++)
        (void)member_accuse(m, m->order[i], GOSSIP_ACCUSED_SILENT, m->number);
}

void member_acquit_all(struct gossip_membership *m)
{
    for (size_t i = 0; i < m->n_order; i++) {
        struct member *x = m->order[i];
        struct member_accusation *ours = member_accusation_by(x, &m->self->record.id);
        if (ours && ours->cut_off && member_is_here(x))
            drop(m, x, ours);
    }
}
