// Events, timers, and the public view of the state.
#include "gossip/member/state.h"

#include "base/array.h"
#include <stdlib.h>
#include <string.h>

#define HOUSE_NS      (5 * SECOND_NS)         // between two looks at the whole table
#define FORGET_NS     (24 * 3600 * SECOND_NS) // members that are dead or have left
#define RETRY_SLOW_NS (600 * SECOND_NS)       // members dead for longer are retried ten times less often
#define STREAM_RETRY  5u                      // one of this many retries goes by stream
#define LEAVE_TOLD    32u                     // members that are told at once
#define SETTLED_NS    SECOND_NS // a stream that ends this soon after a restart may be the previous process's

static const struct member_profile profiles[GOSSIP_PROFILES] = {
    [GOSSIP_PROFILE_LAN] = {.period_ns = 500 * MILLISECOND_NS,
                            .ping_gap_ns = 100 * MILLISECOND_NS,
                            .gossip_ns = 100 * MILLISECOND_NS,
                            .suspicion_min_ns = 6200 * MILLISECOND_NS,
                            .suspicion_log_ns = 4 * SECOND_NS,
                            .view_still_ns = 500 * MILLISECOND_NS,
                            .view_most_ns = 2 * SECOND_NS,
                            .retry_ns = SECOND_NS},
    [GOSSIP_PROFILE_WAN] = {.period_ns = 2 * SECOND_NS,
                            .ping_gap_ns = 500 * MILLISECOND_NS,
                            .gossip_ns = 250 * MILLISECOND_NS,
                            .suspicion_min_ns = 16 * SECOND_NS,
                            .suspicion_log_ns = 10 * SECOND_NS,
                            .view_still_ns = SECOND_NS,
                            .view_most_ns = 4 * SECOND_NS,
                            .retry_ns = 2 * SECOND_NS},
    [GOSSIP_PROFILE_LOCAL] = {.period_ns = 400 * MILLISECOND_NS,
                              .ping_gap_ns = 80 * MILLISECOND_NS,
                              .gossip_ns = 80 * MILLISECOND_NS,
                              .suspicion_min_ns = 4 * SECOND_NS,
                              .suspicion_log_ns = 3 * SECOND_NS,
                              .view_still_ns = 300 * MILLISECOND_NS,
                              .view_most_ns = SECOND_NS,
                              .retry_ns = 500 * MILLISECOND_NS},
};

static const char *const state_names[] = {"alive", "suspect", "dead", "left", "unproven"};
_Static_assert(sizeof state_names / sizeof *state_names == GOSSIP_MEMBER_STATES, "each has a name");

const char *gossip_member_profile_name(enum gossip_member_profile profile)
{
    static const char *const names[GOSSIP_PROFILES] = {
        [GOSSIP_PROFILE_LAN] = "lan", [GOSSIP_PROFILE_WAN] = "wan", [GOSSIP_PROFILE_LOCAL] = "local"};

    BASE_ASSERT(profile < GOSSIP_PROFILES);
    return names[profile];
}

const char *gossip_member_state_name(enum gossip_member_state state)
{
    return state_names[state];
}

// Changes with a step only, but for this node's own record.
static uint64_t due(const struct gossip_membership *m)
{
    uint64_t deadline_ns = earlier(member_self_deadline(m), member_probe_deadline(m));

    deadline_ns = earlier(deadline_ns, member_suspect_deadline(m));
    deadline_ns = earlier(deadline_ns, member_spread_deadline(m));
    deadline_ns = earlier(deadline_ns, member_view_deadline(m));
    return earlier(deadline_ns, earlier(m->retry_ns, m->house_ns));
}

enum base_error gossip_membership_create(const struct gossip_membership_options *options,
                                         struct gossip_membership **out)
{
    struct gossip_record record;
    struct gossip_membership *m = calloc(1, sizeof *m);
    if (!m)
        return BASE_ENOMEM;
    m->options = *options;
    m->profile = profiles[options->profile];
    m->now_ns = m->promised_ns = m->created_ns = options->now_ns;
    m->flap_ns = options->now_ns;
    m->flaps = options->recent_starts;
    m->differs_ns = m->spread_ns = UINT64_MAX;
    base_rng_seed(&m->rng, options->seed);
    memset(&record, 0, sizeof record);
    record.id = options->identity->id;
    record.version = (struct gossip_version){.generation = options->version.generation,
                                             .instance_id = options->version.instance_id};
    strncpy(record.name, options->name, sizeof record.name - 1);
    record.slot = m->wanted.slot = GOSSIP_NO_SLOT;
    record.shard = options->shard;
    record.examples = options->examples;
    record.group = options->group;
    record.first_model = options->first_model;
    record.pages = options->pages;
    memcpy(record.exchange_public, options->identity->exchange_public, sizeof record.exchange_public);
    struct member *self = member_add(m, &record);
    if (!self) {
        gossip_membership_destroy(m);
        return BASE_ENOMEM;
    }
    m->self = self;
    member_set_state(m, self, GOSSIP_MEMBER_ALIVE, false, false);
    BASE_ASSERT(m->count == 1 && m->n_order == 0);
    self->answered = true;
    gossip_membership_addresses(m, options->addresses, options->n_addresses);
    member_recount(m, m->self);
    member_self_hold(m);
    m->probe_ns = m->now_ns + base_rng_below(&m->rng, m->profile.period_ns);
    m->retry_ns = m->now_ns + m->profile.retry_ns;
    m->house_ns = m->now_ns + HOUSE_NS;
    m->due_ns = due(m);
    *out = m;
    return BASE_OK;
}

void gossip_membership_destroy(struct gossip_membership *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++)
        free(m->sorted[i]);
    free(m->sorted);
    free(m->order);
    free(m->view);
    free(m->actions);
    free(m->arena);
    free(m);
}

// Asks a dead member whether it is alive again; in this way membership heals after a partition.
static void retry_dead(struct gossip_membership *m)
{
    BASE_ASSERT(m->states[GOSSIP_MEMBER_DEAD] < m->count);
    size_t seen = 0;
    struct member *chosen = NULL;
    for (size_t i = 0; i < m->count && m->states[GOSSIP_MEMBER_DEAD] > 0; i++) {
        struct member *x = m->sorted[i];
        bool old = m->now_ns - x->since_ns > RETRY_SLOW_NS && base_rng_below(&m->rng, 10) > 0;
        if (x->state == GOSSIP_MEMBER_DEAD && !old && base_rng_below(&m->rng, ++seen) == 0)
            chosen = x;
    }
    if (!chosen)
        return;
    member_confirm_death(m, chosen);
    enum gossip_member_way way = ++m->retries % STREAM_RETRY ? GOSSIP_BY_DATAGRAM : GOSSIP_BY_STREAM;
    member_send_packet(m, chosen, way, PACKET_PING, 0, NULL, PACKET_PLAIN_MAX);
}

static void retry_timer(struct gossip_membership *m)
{
    BASE_ASSERT(m->profile.retry_ns > 0);
    if (m->now_ns < m->retry_ns)
        return;
    m->retry_ns = m->now_ns + m->profile.retry_ns;
    member_sync_timer(m);
    retry_dead(m);
}

static void house_timer(struct gossip_membership *m)
{
    BASE_ASSERT(m->n_order + 1 == m->count);
    if (m->now_ns < m->house_ns)
        return;
    m->house_ns = m->now_ns + HOUSE_NS;
    for (size_t i = m->count; i-- > 0;) {
        struct member *x = m->sorted[i];
        bool expired =
            (!member_is_here(x) && m->now_ns - x->since_ns > FORGET_NS) || member_is_forgotten(m, x);
        bool banned = m->options.allow && !gossip_allow_list_has(m->options.allow, &x->record.id);
        if (x != m->self && (expired || banned))
            member_remove(m, x);
    }
}

static void timers(struct gossip_membership *m)
{
    member_self_timer(m);
    if (m->stopped)
        return;
    member_probe_timer(m);
    member_suspect_timer(m);
    member_view_timer(m);
    retry_timer(m);
    house_timer(m);
    member_spread_timer(m);
}

static void later(uint64_t *time_ns, uint64_t by_ns)
{
    if (*time_ns != UINT64_MAX && *time_ns != 0)
        *time_ns += by_ns;
}

// The process was suspended: missed answers say nothing about others. They may suspect us by now: a new
// record refutes that before we hear of it. What waited in the sockets is old, so all members are asked.
static void paused(struct gossip_membership *m, uint64_t gap_ns)
{
    BASE_ASSERT(gap_ns > 0 && gap_ns <= m->now_ns);
    m->totals.pauses++;
    m->dirty = true;
    member_probe_cancel(m);
    m->woke_ns = m->now_ns;
    m->woke_number = m->number;
    later(&m->probe_ns, gap_ns);
    later(&m->unanswered_ns, gap_ns);
    later(&m->heard_ns, gap_ns);
    for (size_t i = 0; i < m->count; i++) {
        later(&m->sorted[i]->heard_ns, gap_ns);
        later(&m->sorted[i]->answered_ns, gap_ns);
        m->sorted[i]->stale = true;
        m->sorted[i]->looked_ns = 0;
        for (size_t k = 0; k < m->sorted[i]->n_suspicions; k++)
            later(&m->sorted[i]->suspicions[k].at_ns, gap_ns);
    }
    member_probe_all(m);
}

static void linked(struct gossip_membership *m, const struct gossip_id *id)
{
    BASE_ASSERT(!m->stopped);
    struct member *peer = member_find(m, id);
    if (m->dirty)
        member_self_timer(m);
    if (peer == m->self || m->self->record.n_addresses == 0)
        return;
    if (peer) {
        member_probe_linked(m, peer);
        peer->answered = true;
        member_prove(m, peer);
    } else {
        member_probe_heeded(m);
    }
    if (peer && member_is_here(peer)) {
        member_send_packet(m, peer, GOSSIP_BY_STREAM, PACKET_PING, 0, NULL, LIMIT_GOSSIP_BYTES);
        member_send_record(m, peer, GOSSIP_BY_STREAM, peer); // another process may have signed it
    } else if (peer)
        member_sync_ask(m, peer);
    else
        member_sync_ask_stranger(m, id);
}

void gossip_membership_unlinked(struct gossip_membership *m, const struct gossip_id *id)
{
    struct member *x = member_find(m, id);
    BASE_ASSERT(x != m->self);
    if (x)
        x->linked = false;
}

static void unreachable(struct gossip_membership *m, const struct gossip_id *id)
{
    struct member *x = member_find(m, id);
    if (!x || m->now_ns - x->record_ns < SETTLED_NS)
        return;
    if (member_suspect(m, x, GOSSIP_SUSPECTED_EVIDENCE, m->number))
        member_probe_anew(m, x); // its answer withdraws that
}

static void leave(struct gossip_membership *m)
{
    struct member *told[LEAVE_TOLD];
    BASE_ASSERT(!m->stopped);
    m->leaving = true;
    m->wanted.flags = (uint8_t)((m->wanted.flags | GOSSIP_RECORD_LEFT) & ~GOSSIP_RECORD_ELIGIBLE);
    m->dirty = true;
    member_self_timer(m);
    if (m->self->record.n_addresses == 0)
        return;
    size_t count = member_pick(m, NULL, told, LEAVE_TOLD);
    for (size_t i = 0; i < count; i++)
        member_send_record(m, told[i], member_way_to(told[i]), m->self);
}

static enum base_error dispatch(struct gossip_membership *m, const struct gossip_membership_event *event)
{
    switch (event->kind) {
    case GOSSIP_MEMBERSHIP_TIMER:
        timers(m);
        break;
    case GOSSIP_MEMBERSHIP_PACKET:
        return member_packet_take(m, event);
    case GOSSIP_MEMBERSHIP_LINKED:
        linked(m, &event->peer);
        break;
    case GOSSIP_MEMBERSHIP_UNREACHABLE:
        unreachable(m, &event->peer);
        break;
    case GOSSIP_MEMBERSHIP_LEAVE:
        leave(m);
        break;
    }
    return BASE_OK;
}

enum base_error gossip_membership_step(struct gossip_membership *m,
                                       const struct gossip_membership_event *event)
{
    BASE_ASSERT(m->actions_taken == m->n_actions); // those of earlier steps were taken
    m->n_actions = m->actions_taken = m->arena_used = 0;
    m->now_ns = event->now_ns > m->now_ns ? event->now_ns : m->now_ns;
    uint64_t late_ns = m->now_ns > m->promised_ns ? m->now_ns - m->promised_ns : 0;
    if (late_ns > 2 * m->profile.period_ns)
        paused(m, late_ns);
    enum base_error error = m->stopped ? BASE_OK : dispatch(m, event);
    BASE_ASSERT(m->n_order + 1 == m->count && m->n_suspected == m->states[GOSSIP_MEMBER_SUSPECT]);
    m->due_ns = due(m);
    m->promised_ns = base_max(gossip_membership_deadline(m), m->now_ns); // a pause counts once
    return error;
}

uint64_t gossip_membership_deadline(const struct gossip_membership *m)
{
    if (m->stopped)
        return UINT64_MAX;
    return earlier(m->due_ns, member_self_deadline(m));
}

size_t gossip_membership_count(const struct gossip_membership *m)
{
    return m->count;
}

static void describe(const struct member *x, struct gossip_member_info *info)
{
    *info = (struct gossip_member_info){.record = &x->record,
                                        .state = x->state,
                                        .since_ns = x->since_ns,
                                        .heard_ns = x->heard_ns,
                                        .suspectors = x->n_suspicions,
                                        .round = x->round,
                                        .step = x->step,
                                        .progress_ns = x->progress_ns,
                                        .answered = x->answered};
}

void gossip_membership_info(const struct gossip_membership *m, size_t index, struct gossip_member_info *info)
{
    BASE_ASSERT(index < m->count);
    describe(index == 0 ? m->self : m->order[index - 1], info);
}

enum base_error gossip_membership_find(const struct gossip_membership *m, const struct gossip_id *id,
                                       struct gossip_member_info *info)
{
    const struct member *x = member_find(m, id);
    if (!x)
        return BASE_ENOTFOUND;
    describe(x, info);
    return BASE_OK;
}

bool gossip_membership_is_here(const struct gossip_membership *m, const struct gossip_id *id)
{
    const struct member *x = member_find(m, id);
    return x && member_is_here(x);
}

// If both sides have half of the members, the side with the lowest id is no minority. `only`: this node, if
// it is cut off and so alone on its side; else NULL.
static bool is_minority(size_t here, size_t gone, const struct member *lowest, const struct member *only)
{
    bool without = lowest && (only ? lowest != only : lowest->state == GOSSIP_MEMBER_DEAD);
    return gone > here || (gone == here && gone > 0 && without);
}

void gossip_membership_totals(const struct gossip_membership *m, struct gossip_membership_totals *totals)
{
    const uint8_t complete = GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_HELD;
    size_t here = 0, gone = 0, counting = 0, self = (m->self->record.flags & complete) != 0;
    const struct member *lowest = NULL;
    for (size_t i = 0; i < m->count; i++) {
        const struct member *x = m->sorted[i];
        if (!(x->record.flags & complete) || x->state == GOSSIP_MEMBER_LEFT || member_is_unproven(x))
            continue;
        here += member_is_here(x);
        gone += !member_is_here(x);
        counting += member_counts(m, x);
        lowest = lowest ? lowest : x;
    }
    BASE_ASSERT(here + gone <= m->count && counting <= here + gone);
    *totals = m->totals;
    totals->view_hash = m->view_hash;
    totals->health = m->health;
    totals->alive = m->states[GOSSIP_MEMBER_ALIVE];
    totals->suspect = m->states[GOSSIP_MEMBER_SUSPECT];
    totals->dead = m->states[GOSSIP_MEMBER_DEAD];
    totals->left = m->states[GOSSIP_MEMBER_LEFT];
    totals->unproven = m->states[GOSSIP_MEMBER_UNPROVEN];
    totals->eligible = counting;
    totals->counts = member_counts(m, m->self);
    totals->held_until_ns = m->held_ns;
    totals->answer_ns = m->timing.mean_ns;
    totals->period_ns = m->profile.period_ns;
    totals->here = here;
    totals->gone = gone;
    totals->cut_off = m->cut_off;
    totals->minority = m->cut_off ? is_minority(self, here + gone - self, lowest, m->self)
                                  : is_minority(here, gone, lowest, NULL);
}
