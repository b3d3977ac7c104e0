// When suspicions become a death. A silent member has a suspicion time, which is shorter the more members
// suspect it (Lifeguard, section IV.B); positive evidence needs two suspectors and one period. Each node
// decides for itself: nodes send signed suspicions, never a verdict.
#include "gossip/member/state.h"

#include <math.h>

#define SUSPICION_FACTOR 6.0 // longest over shortest suspicion
#define ANSWER_PERIODS   4u  // between the latest suspicion and a death by silence, at least
#define APART_PERIODS    2u  // between two independent suspectors
#define CONFIRMATIONS    3   // K: further suspectors that shorten it to the minimum

static uint64_t least_suspicion_ns(const struct gossip_membership *m, const struct member *x)
{
    double n = (double)(member_others(m, x) + 1), least = (double)m->profile.suspicion_min_ns;
    return (uint64_t)fmax(least, (double)m->profile.suspicion_log_ns * log10(n));
}

static bool is_alone(const struct gossip_membership *m)
{
    return m->states[GOSSIP_MEMBER_ALIVE] < 2;
}

// The minimum suspicion time, and how further suspectors shorten it: from factor x min to min. Suspected
// members are not expected to confirm: an isolated node would wait for all others.
static uint64_t suspicion_ns(const struct gossip_membership *m, const struct member *x, size_t further)
{
    size_t others = m->states[GOSSIP_MEMBER_ALIVE];
    double least = (double)least_suspicion_ns(m, x);
    double expected = others > CONFIRMATIONS ? CONFIRMATIONS : others > 2 ? (double)(others - 1) : 1;
    if ((double)further >= expected)
        return (uint64_t)least;
    double shrunk = log((double)further + 1) / log(expected + 1);
    return (uint64_t)(least * (SUSPICION_FACTOR - (SUSPICION_FACTOR - 1) * shrunk));
}

// When the first two suspicions were made, of all or of those with evidence.
struct suspected {
    size_t count;
    uint64_t first_ns, second_ns;
};

static void count_in(struct suspected *suspected, uint64_t at_ns)
{
    BASE_ASSERT(suspected->first_ns <= suspected->second_ns);
    suspected->count++;
    if (at_ns < suspected->first_ns) {
        suspected->second_ns = suspected->first_ns;
        suspected->first_ns = at_ns;
    } else {
        suspected->second_ns = earlier(suspected->second_ns, at_ns);
    }
}

// Silence is counted from the latest answer.
static uint64_t silent_since_ns(const struct member *x, const struct member_suspicion *suspicion)
{
    return suspicion->answered ? x->answered_ns : suspicion->at_ns;
}

// The same for our own suspicion where no other member is left to confirm it. If this node is cut off, others
// could confirm it for as long as they answered, and did not.
static uint64_t unconfirmed_since_ns(const struct gossip_membership *m, const struct member *x,
                                     const struct member_suspicion *ours)
{
    const uint64_t since_ns = silent_since_ns(x, ours);

    BASE_ASSERT(!m->cut_off || m->unanswered_ns > 0);
    return m->cut_off && m->unanswered_ns > since_ns ? m->unanswered_ns : since_ns;
}

// A single suspector causes no death before the longest time. With several, the time counts from the second
// one, because the first may be lying, less the possible delay between two honest suspectors. If no other
// member is left to confirm, only our own suspicion is enough. Each suspicion leaves the suspect some time to
// answer.
static uint64_t silent_death_ns(const struct gossip_membership *m, const struct member *x)
{
    struct suspected silent = {.first_ns = UINT64_MAX, .second_ns = UINT64_MAX};
    uint64_t latest_ns = 0, ours_ns = UINT64_MAX;
    for (size_t i = 0; i < x->n_suspicions; i++) {
        const struct member_suspicion *a = &x->suspicions[i];
        count_in(&silent, silent_since_ns(x, a));
        if (is_alone(m) && gossip_id_compare(&a->told.suspector, &m->self->record.id) == 0)
            ours_ns = unconfirmed_since_ns(m, x, a) + least_suspicion_ns(m, x);
        latest_ns = a->at_ns > latest_ns ? a->at_ns : latest_ns;
    }
    uint64_t death_ns = silent.first_ns + suspicion_ns(m, x, 0),
             answer_ns = latest_ns + ANSWER_PERIODS * m->profile.period_ns;
    if (silent.count > 1) {
        uint64_t apart_ns = silent.second_ns - silent.first_ns,
                 forgiven_ns = earlier(apart_ns, APART_PERIODS * m->profile.period_ns);
        uint64_t since_ns = silent.second_ns - forgiven_ns;
        death_ns = earlier(death_ns, since_ns + suspicion_ns(m, x, silent.count - 1));
    }
    death_ns = earlier(death_ns, ours_ns);
    return death_ns > answer_ns ? death_ns : answer_ns;
}

// Positive evidence needs two suspectors, or must be our own if no other member could have it.
static uint64_t evident_death_ns(const struct gossip_membership *m, const struct member *x)
{
    struct suspected evident = {.first_ns = UINT64_MAX, .second_ns = UINT64_MAX};
    uint64_t death_ns = UINT64_MAX;
    for (size_t i = 0; i < x->n_suspicions; i++) {
        const struct member_suspicion *a = &x->suspicions[i];
        if (a->told.class != GOSSIP_SUSPECTED_EVIDENCE || a->answered)
            continue;
        count_in(&evident, a->at_ns);
        if (is_alone(m) && gossip_id_compare(&a->told.suspector, &m->self->record.id) == 0)
            death_ns = a->at_ns + m->profile.period_ns;
    }
    return evident.count > 1 ? earlier(death_ns, evident.second_ns + m->profile.period_ns) : death_ns;
}

static uint64_t death_ns(const struct gossip_membership *m, const struct member *x)
{
    return earlier(evident_death_ns(m, x), silent_death_ns(m, x));
}

// So that others have a further suspector.
static void add_ours(struct gossip_membership *m, struct member *x, uint8_t sends)
{
    struct gossip_suspicion ours = {.subject = x->record.id,
                                    .suspector = m->self->record.id,
                                    .version = x->record.version,
                                    .class = GOSSIP_SUSPECTED_SILENT};
    BASE_ASSERT(x->n_suspicions <= SUSPECTORS_MAX);
    if (x->n_suspicions == SUSPECTORS_MAX || member_suspicion_by(x, &ours.suspector))
        return;
    gossip_suspicion_sign(&ours, m->options.identity);
    x->suspicions[x->n_suspicions++] =
        (struct member_suspicion){.told = ours, .at_ns = m->now_ns, .sends = sends};
}

// Adds our own suspicion to that of others: nothing has come from the member for a whole suspicion time. The
// suspicion is sent with the record of the dead member to members that consider it alive.
void member_confirm_death(struct gossip_membership *m, struct member *x)
{
    BASE_ASSERT(x->state == GOSSIP_MEMBER_DEAD);
    if (!m->cut_off && x->heard_ns <= x->since_ns && m->now_ns - x->since_ns >= least_suspicion_ns(m, x))
        add_ours(m, x, 0);
}

static void die(struct gossip_membership *m, struct member *x)
{
    BASE_ASSERT(x != m->self && x->state == GOSSIP_MEMBER_SUSPECT && m->n_suspected > 0);
    bool evidence = false;
    uint8_t sends = m->cut_off ? 0 : member_sends(m); // a cut-off node sends no suspicions
    for (size_t i = 0; i < x->n_suspicions; i++) {
        evidence |= x->suspicions[i].told.class == GOSSIP_SUSPECTED_EVIDENCE;
        x->suspicions[i].sends = sends;
    }
    add_ours(m, x, sends);
    m->n_suspected--;
    member_set_state(m, x, GOSSIP_MEMBER_DEAD, evidence, true);
    member_spread_soon(m);
}

void member_suspect_timer(struct gossip_membership *m)
{
    for (size_t i = 0; i < m->count && m->n_suspected > 0; i++) {
        struct member *x = m->sorted[i];
        if (x->n_suspicions > 0 && member_is_here(x) && m->now_ns >= death_ns(m, x))
            die(m, x);
    }
}

uint64_t member_suspect_deadline(const struct gossip_membership *m)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (size_t i = 0; i < m->count && m->n_suspected > 0; i++) {
        const struct member *x = m->sorted[i];
        if (x->n_suspicions > 0 && member_is_here(x))
            deadline_ns = earlier(deadline_ns, death_ns(m, x));
    }
    return deadline_ns;
}
