// Who is believed to be a member. A record shows that somebody has its key, not that anybody is there. So a
// member counts once it has answered this node, or two members say that it is here; until then it is asked
// once, told to nobody, and soon forgotten.
#include "gossip/member/state.h"

#define UNPROVEN_MAX 64u              // of one introducer at a time
#define FORGET_NS    (20 * SECOND_NS) // the unproven; whoever still tells of them makes them known anew
#define LOOK_EACH_NS (5 * SECOND_NS)  // at one of them, if it gives a reason

static bool is_member(const struct gossip_membership *m, const struct gossip_id *id)
{
    const struct member *x = member_find(m, id);
    return x && member_is_here(x);
}

// Whose record comes by datagram is known here, but that may be all. Over a stream it comes from a process.
bool member_may_introduce(const struct gossip_membership *m)
{
    size_t introduced = 0;
    BASE_ASSERT(m->count > 0);
    if (!m->told_by_stream && !is_member(m, &m->teller))
        return false;
    for (size_t i = 0; i < m->n_order && introduced < UNPROVEN_MAX; i++)
        introduced +=
            member_is_unproven(m->order[i]) && gossip_id_compare(&m->order[i]->introducer, &m->teller) == 0;
    return introduced < UNPROVEN_MAX;
}

// Two members have suspected it, so it was a member.
static void weigh_death(struct gossip_membership *m, struct member *x)
{
    size_t suspectors = 0;
    BASE_ASSERT(x->n_suspicions <= SUSPECTORS_MAX);
    for (size_t i = 0; i < x->n_suspicions; i++)
        suspectors += is_member(m, &x->suspicions[i].told.suspector);
    if (suspectors > 1)
        member_set_state(m, x, GOSSIP_MEMBER_DEAD, false, false);
}

void member_weigh_deaths(struct gossip_membership *m)
{
    for (size_t i = 0; i < m->n_order; i++)
        if (member_is_unproven(m->order[i]))
            weigh_death(m, m->order[i]);
}

void member_prove(struct gossip_membership *m, struct member *x)
{
    if (!member_is_unproven(x))
        return;
    BASE_ASSERT(x != m->self);
    member_void_suspicions(m, x);
    member_set_state(m, x, GOSSIP_MEMBER_ALIVE, false, false);
    member_spread_soon(m);
    member_weigh_deaths(m); // it may be the second to have suspected another one
}

// A member passes on only records of members that it believes in.
void member_vouched(struct gossip_membership *m, struct member *x)
{
    BASE_ASSERT(x != m->self);
    if (!member_is_unproven(x) || !is_member(m, &m->teller))
        return;
    if (!is_member(m, &x->introducer))
        x->introducer = m->teller;
    else if (gossip_id_compare(&x->introducer, &m->teller) != 0)
        member_prove(m, x);
}

// One that was silent may have come into reach.
void member_look_again(struct gossip_membership *m, struct member *x)
{
    BASE_ASSERT(x->looked_ns <= m->now_ns);
    if (m->now_ns - x->looked_ns >= LOOK_EACH_NS)
        x->looked_ns = 0;
}

bool member_is_forgotten(const struct gossip_membership *m, const struct member *x)
{
    return member_is_unproven(x) && m->now_ns - x->since_ns > FORGET_NS;
}
