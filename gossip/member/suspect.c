// Accusations, and when they become a death. Silence is suspected and given time, less the more members
// accuse (Lifeguard, section IV.B); positive evidence needs two accusers and one period. Each node decides
// for itself: only signed accusations travel, never a verdict.
#include "gossip/member/state.h"

#include <math.h>
#include <string.h>

#define SUSPICION_FACTOR 6.0 // longest over shortest suspicion
#define ANSWER_PERIODS   4u  // between the latest accusation and a death by silence, at least
#define APART_PERIODS    2u  // between two independent accusers
#define CONFIRMATIONS    3   // K: further accusers that shorten it to the least
#define CREDIT_EACH_NS   (500 * MILLISECOND_NS) // an accuser may accuse twice a second ...
#define CREDIT_BURST     32                     // ... after so many at once, and one for each member
#define CORRECT_EACH_NS  (50 * MILLISECOND_NS)  // of one member, to all that report it
#define REFUTE_EACH_NS   (200 * MILLISECOND_NS) // to one that sends what is refuted; and what others believe
#define WRONG_EACH_NS    (10 * SECOND_NS)       // one refuted accusation is forgiven in this time

static struct member_accusation *by(struct member *x, const struct gossip_id *accuser)
{
    for (size_t i = 0; i < x->n_accusations; i++)
        if (gossip_id_compare(&x->accusations[i].told.accuser, accuser) == 0)
            return &x->accusations[i];
    return NULL;
}

bool member_accused_by_us(const struct gossip_membership *m, struct member *x)
{
    return by(x, &m->self->record.id) != NULL;
}

static void forgive_with_time(const struct gossip_membership *m, struct member *accuser)
{
    while (accuser->wrong > 0 && m->now_ns - accuser->wrong_ns >= WRONG_EACH_NS) {
        accuser->wrong--;
        accuser->wrong_ns += WRONG_EACH_NS;
    }
}

static void was_wrong(struct gossip_membership *m, const struct gossip_id *id)
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
static bool may_accuse(struct gossip_membership *m, struct member *accuser)
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
        was_wrong(m, &x->accusations[i].told.accuser);
    if (refuted && by(x, &m->self->record.id) && m->health < HEALTH_MAX)
        m->health++; // Lifeguard: we were wrong about it
    m->n_accused -= member_is_here(x);
    x->n_accusations = 0;
}

// That it talks does not mean that it hears, nor that it still lived after what it is accused of: it is told,
// so that it can refute.
void member_heard(struct gossip_membership *m, struct member *x)
{
    x->heard_ns = m->now_ns;
    member_probe_talks(m, x);
    member_tell_accused(m, x);
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

static bool is_accusable(const struct gossip_membership *m, const struct member *x)
{
    return x != m->self && member_is_here(x) && !m->leaving;
}

// A weaker accusation by the same accuser gives way to a stronger one, and never the other way. False: it is
// known, or there are enough.
static bool put(struct gossip_membership *m, struct member *x, const struct gossip_accusation *accusation)
{
    struct member_accusation *known = by(x, &accusation->accuser);
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
    const struct member_accusation *known = by(x, &accusation->accuser);
    return known && known->told.class >= accusation->class;
}

static bool hears_again(struct member *x, const struct gossip_accusation *accusation)
{
    if (!is_known(x, accusation))
        return false;
    member_heard_again(&by(x, &accusation->accuser)->sends);
    return true;
}

bool member_accuse(struct gossip_membership *m, struct member *x, enum gossip_accusation_class class,
                   uint32_t after)
{
    struct gossip_accusation accusation = {.subject = x->record.id,
                                           .accuser = m->self->record.id,
                                           .version = x->record.version,
                                           .class = (uint8_t) class};
    if (!is_accusable(m, x) || m->self->record.n_addresses == 0 || is_known(x, &accusation))
        return false;
    gossip_accusation_sign(&accusation, m->options.identity);
    if (!put(m, x, &accusation))
        return false; // others have said so; repeating it would only bring the next closed port
    struct member_accusation *ours = by(x, &accusation.accuser);
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
        struct member_accusation *ours = by(x, &m->self->record.id);
        if (ours && ours->cut_off && member_is_here(x))
            drop(m, x, ours);
    }
}

static bool is_current(const struct member *x, const struct gossip_accusation *accusation)
{
    return gossip_version_compare(&x->record.version, &accusation->version) == 0;
}

static bool is_genuine(struct gossip_membership *m, const struct gossip_accusation *accusation)
{
    if (gossip_accusation_verify(accusation, m->options.verifier))
        return true;
    m->totals.rejected++;
    return false;
}

static bool is_believable(struct gossip_membership *m, const struct gossip_accusation *accusation)
{
    struct member *accuser = member_find(m, &accusation->accuser);
    return accuser && accuser != m->self && accuser->state != GOSSIP_MEMBER_LEFT && may_accuse(m, accuser) &&
           is_genuine(m, accusation);
}

static void tell_record_to(struct gossip_membership *m, const struct gossip_id *id)
{
    struct member *to = member_find(m, id);
    if (!to || to == m->self || to->state == GOSSIP_MEMBER_LEFT)
        return;
    to->refuted_ns = m->now_ns;
    member_tell_record(m, to, m->self);
}

static bool was_told(const struct gossip_membership *m, const struct gossip_id *id)
{
    const struct member *to = member_find(m, id);
    return to && to->refuted_ns != 0 && m->now_ns - to->refuted_ns < REFUTE_EACH_NS;
}

// What the accuser itself tells counts only if we believe it. A teller that passes an accusation on does
// believe it, however often that accuser was wrong here: it waits for our word.
static bool is_to_be_refuted(struct gossip_membership *m, const struct gossip_accusation *accusation)
{
    if (gossip_id_compare(&m->teller, &accusation->accuser) == 0)
        return is_believable(m, accusation);
    return m->now_ns - m->refuted_ns >= REFUTE_EACH_NS && is_genuine(m, accusation);
}

// An accusation of a record from before we refuted it: its sender has missed that.
static void accused_ourselves(struct gossip_membership *m, const struct gossip_accusation *accusation)
{
    if (gossip_version_compare(&accusation->version, &m->self->record.version) < 0) {
        if (!was_told(m, &m->teller) && !member_is_poor(m))
            tell_record_to(m, &m->teller);
        return;
    }
    if (!is_current(m->self, accusation) || !is_to_be_refuted(m, accusation))
        return;
    was_wrong(m, &accusation->accuser);
    member_self_refute(m, &accusation->version);
    struct gossip_membership_action accused = {.kind = GOSSIP_MEMBERSHIP_ACCUSED,
                                               .peer = accusation->accuser,
                                               .evidence = accusation->class == GOSSIP_ACCUSED_EVIDENCE};
    member_act(m, &accused);
    tell_record_to(m, &accusation->accuser);
    if (gossip_id_compare(&m->teller, &accusation->accuser) != 0)
        tell_record_to(m, &m->teller);
}

// A sender of an accusation that x has refuted has missed that. It may be the one member that x does not
// reach.
static void correct(struct gossip_membership *m, struct member *x)
{
    struct member *teller = member_find(m, &m->teller);
    if (!teller || teller == x || teller->state == GOSSIP_MEMBER_LEFT || member_is_poor(m) ||
        m->now_ns - x->corrected_ns < CORRECT_EACH_NS)
        return;
    x->corrected_ns = m->now_ns;
    member_tell_record(m, teller, x);
}

void member_take_accusation(struct gossip_membership *m, const struct gossip_accusation *accusation)
{
    struct member *x = member_find(m, &accusation->subject);
    if (!x || gossip_id_compare(&accusation->subject, &accusation->accuser) == 0)
        return;
    if (x == m->self) {
        accused_ourselves(m, accusation);
        return;
    }
    int newer = gossip_version_compare(&accusation->version, &x->record.version);
    if (newer < 0)
        correct(m, x);
    else if (newer > 0)
        member_sync_missed(m); // the hash of the view would not tell
    if (newer != 0)
        return;
    if (hears_again(x, accusation) || !is_accusable(m, x) || !is_believable(m, accusation) ||
        !put(m, x, accusation))
        return;
    if (by(x, &m->self->record.id) || !member_is_successor(m, x))
        return;
    if (accusation->class == GOSSIP_ACCUSED_EVIDENCE)
        member_probe_anew(m, x); // what is under way asks for an earlier time
    else if (!member_is_poor(m))
        member_probe_start(m, x, false);
}

// The shortest suspicion, and how it shrinks with further accusers: from factor x min to min. A suspected
// member is not expected to confirm: an isolated node would wait for all others.
static uint64_t suspicion_ns(const struct gossip_membership *m, const struct member *x, size_t further)
{
    size_t others = m->states[GOSSIP_MEMBER_ALIVE];
    double n = (double)(member_others(m, x) + 1), least = (double)m->profile.suspicion_min_ns;
    least = fmax(least, (double)m->profile.suspicion_log_ns * log10(n));
    double expected = others > CONFIRMATIONS ? CONFIRMATIONS : others > 0 ? (double)(others - 1) : 0;
    if ((double)further >= expected)
        return (uint64_t)least;
    double shrunk = log((double)further + 1) / log(expected + 1);
    return (uint64_t)(least * (SUSPICION_FACTOR - (SUSPICION_FACTOR - 1) * shrunk));
}

// When the first two of all accusations, or of those with evidence, were made.
struct accused {
    size_t count;
    uint64_t first_ns, second_ns;
};

static void count_in(struct accused *accused, uint64_t at_ns)
{
    accused->count++;
    if (at_ns < accused->first_ns) {
        accused->second_ns = accused->first_ns;
        accused->first_ns = at_ns;
    } else {
        accused->second_ns = earlier(accused->second_ns, at_ns);
    }
}

// One accuser alone declares no member dead before the longest time: with others it counts from the second
// one on, for the first may be a liar; less the spread of two honest ones. Each leaves the accused some time
// to answer. Silence counts anew from an answer on.
static uint64_t silent_death_ns(const struct gossip_membership *m, const struct member *x)
{
    struct accused silent = {.first_ns = UINT64_MAX, .second_ns = UINT64_MAX};
    uint64_t latest_ns = 0;
    for (size_t i = 0; i < x->n_accusations; i++) {
        const struct member_accusation *a = &x->accusations[i];
        count_in(&silent, a->answered ? x->answered_ns : a->at_ns);
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
    return death_ns > answer_ns ? death_ns : answer_ns;
}

// Positive evidence needs two accusers, or must be our own where no other member could give it.
static uint64_t evident_death_ns(const struct gossip_membership *m, const struct member *x)
{
    bool alone = m->states[GOSSIP_MEMBER_ALIVE] < 2;
    struct accused evident = {.first_ns = UINT64_MAX, .second_ns = UINT64_MAX};
    uint64_t death_ns = UINT64_MAX;
    for (size_t i = 0; i < x->n_accusations; i++) {
        const struct member_accusation *a = &x->accusations[i];
        if (a->told.class != GOSSIP_ACCUSED_EVIDENCE || a->answered)
            continue;
        count_in(&evident, a->at_ns);
        if (alone && gossip_id_compare(&a->told.accuser, &m->self->record.id) == 0)
            death_ns = a->at_ns + m->profile.period_ns;
    }
    return evident.count > 1 ? earlier(death_ns, evident.second_ns + m->profile.period_ns) : death_ns;
}

static uint64_t death_ns(const struct gossip_membership *m, const struct member *x)
{
    return earlier(evident_death_ns(m, x), silent_death_ns(m, x));
}

static void die(struct gossip_membership *m, struct member *x)
{
    struct gossip_accusation ours = {.subject = x->record.id,
                                     .accuser = m->self->record.id,
                                     .version = x->record.version,
                                     .class = GOSSIP_ACCUSED_SILENT};
    bool evidence = false;
    uint8_t sends = m->cut_off ? 0 : member_sends(m); // accusations by a cut-off node are not wanted
    for (size_t i = 0; i < x->n_accusations; i++) {
        evidence |= x->accusations[i].told.class == GOSSIP_ACCUSED_EVIDENCE;
        x->accusations[i].sends = sends;
    }
    if (x->n_accusations < ACCUSERS_MAX && !by(x, &ours.accuser)) { // so that others need not wait alone
        gossip_accusation_sign(&ours, m->options.identity);
        x->accusations[x->n_accusations++] =
            (struct member_accusation){.told = ours, .at_ns = m->now_ns, .sends = sends};
    }
    m->n_accused--;
    member_set_state(m, x, GOSSIP_MEMBER_DEAD, evidence, true);
    member_spread_soon(m);
}

void member_suspect_timer(struct gossip_membership *m)
{
    for (size_t i = 0; i < m->count && m->n_accused > 0; i++) {
        struct member *x = m->sorted[i];
        if (x->n_accusations > 0 && member_is_here(x) && m->now_ns >= death_ns(m, x))
            die(m, x);
    }
}

uint64_t member_suspect_deadline(const struct gossip_membership *m)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (size_t i = 0; i < m->count && m->n_accused > 0; i++) {
        const struct member *x = m->sorted[i];
        if (x->n_accusations > 0 && member_is_here(x))
            deadline_ns = earlier(deadline_ns, death_ns(m, x));
    }
    return deadline_ns;
}
