// From the last step to the end: when a node lingers, stops, leaves or gives way.
#include "gossip/life/life_state.h"

#define TELL_NS     (400 * LIFE_MS) // how long others are told that this node leaves
#define FLUSH_NS    (2 * LIFE_SECOND)
#define GRACE_NS    (500 * LIFE_MS)   // before a stop: other nodes that are told to stop hear of its round
#define LIE_NS      (3 * GRACE_NS)    // after this, an announced round is checked against the time of a round
#define STALE_NS    (100 * LIFE_MS)   // the learner's latest report may be this old
#define SHORTEST_NS LIFE_MS           // a round is assumed to take at least this
#define LINGERS_MAX 60u               // times linger, in all: a member may report progress for ever
#define WORD_NS     (2 * LIFE_SECOND) // in which others learn that a node trains

void life_done(struct gossip_life *life)
{
    if (life->state >= GOSSIP_LIFE_FINISHED || life->state == GOSSIP_LIFE_JOINING ||
        life->state == GOSSIP_LIFE_WAITING)
        return;
    life_tell(life, GOSSIP_LIFE_LAST_STEP, life->census.busy, 0);
    life_end_fetch(life);
    life_flags(life, GOSSIP_RECORD_FINISHED, 0);
    life_enter(life, GOSSIP_LIFE_FINISHED);
}

// How far the members are that have trained with this node and are not done.
static uint64_t way_of_others(const struct gossip_life *life)
{
    const struct gossip_life_world *world = life->world;
    uint64_t way = 0;

    for (size_t i = 1, n = world->members(world->owner); i < n; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (gossip_life_believes(&info) && !(info.record->flags & GOSSIP_RECORD_FINISHED))
            way += info.round;
    }
    return way;
}

// Members on their way need neighbours and, at their end, a donor.
static bool lingers(struct gossip_life *life)
{
    const uint64_t linger_ns = life->options.linger_ns;

    if (life->census.unfinished == 0)
        return false;
    if (linger_ns == LIFE_NEVER)
        return true;
    const uint64_t way = way_of_others(life);
    if ((way != life->way && life->stirred_ns < life->now_ns) || life->stirred_ns < life->state_ns)
        life->stirred_ns = life->now_ns;
    life->way = way;
    life_wake(life, life->stirred_ns + linger_ns);
    return life->now_ns < life->stirred_ns + linger_ns && life_in_state_ns(life) < LINGERS_MAX * linger_ns;
}

// A member that fetches a model does not count, and would have no donor left.
void life_consider_leave(struct gossip_life *life)
{
    const size_t unfinished = life->census.unfinished;

    if (life->state != GOSSIP_LIFE_FINISHED || lingers(life))
        return;
    if (unfinished > 0)
        life_tell(life, GOSSIP_LIFE_LINGERED, unfinished, 0);
    if (life_unites(life))
        return;
    life_act(life, GOSSIP_LIFE_LEAVE);
    life_enter(life, GOSSIP_LIFE_LEAVING);
}

// -- a stop

// If the time of a round is not known after half of GRACE_NS, a round takes about GRACE_NS.
static uint64_t rounds_in(const struct gossip_life *life, uint64_t ns)
{
    return ns / (life->round_ns ? life->round_ns : GRACE_NS) + 1;
}

// The learner is at its stop round, or the exchange of that round is still open. Its report may be older than
// the stop.
static bool stands(const struct gossip_life *life)
{
    return life->end == LIFE_STANDS && life->stop_round > 0 && life->round + 1 >= life->stop_round;
}

// The latest round at which a node that was told to stop at about the same time as this one can stop.
static uint64_t latest_stop(const struct gossip_life *life, uint64_t grace)
{
    return life->round + rounds_in(life, STALE_NS) + 4 * grace + life->options.reach;
}

// The largest round at which others stop and that this node can still reach; 0: none. This node does not know
// how short their rounds are.
static uint64_t announced(const struct gossip_life *life)
{
    const struct gossip_life_world *world = life->world;
    const uint64_t passed = life->round + (stands(life) ? 1 : rounds_in(life, STALE_NS));
    const uint64_t furthest = latest_stop(life, GRACE_NS / SHORTEST_NS);
    uint64_t largest = 0;

    for (size_t i = 1, n = world->members(world->owner); i < n; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        const uint64_t round = info.record->stop_round;
        if (gossip_life_believes(&info) && (info.record->flags & GOSSIP_RECORD_STOPPING) && round >= passed &&
            round <= furthest && round > largest)
            largest = round;
    }
    return largest;
}

static uint64_t after_grace(const struct gossip_life *life)
{
    return life->round + rounds_in(life, GRACE_NS + STALE_NS) + 1;
}

static void stop_at(struct gossip_life *life, uint64_t round)
{
    BASE_ASSERT(life->end >= LIFE_STOPS);
    life->stop_round = round;
    life_act(life, GOSSIP_LIFE_ANNOUNCE)->round = round;
    life_act(life, GOSSIP_LIFE_STOP_AT)->round = round;
    life_tell(life, GOSSIP_LIFE_STOPS_AT, round, 0);
}

// Nodes begin at the same moment, before their records say so.
static bool begins_with_others(const struct gossip_life *life)
{
    return life->census.company > 0 && life_in_state_ns(life) < WORD_NS;
}

// In lock-step, all nodes that are told to stop at about the same time stop at one round.
void life_stop(struct gossip_life *life)
{
    if (life->state >= GOSSIP_LIFE_STOPPING)
        return;
    BASE_ASSERT(life->stop_round == 0);
    const bool agrees = life->options.sync && life->state == GOSSIP_LIFE_TRAINING &&
                        life->end != LIFE_ALONE && (life->census.training > 0 || begins_with_others(life));
    life->end = agrees ? LIFE_AGREES : LIFE_STOPS;
    life_end_fetch(life);
    life_enter(life, GOSSIP_LIFE_STOPPING);
    if (agrees)
        life_consider_stop(life);
    else
        life_act(life, GOSSIP_LIFE_STOP_AT);
}

// Soon after a start the time of a round is not known, and a wrong guess would delay the stop for long. So
// that time is measured first.
static void choose_stop(struct gossip_life *life)
{
    if (life->round_ns == 0 && life_in_state_ns(life) < GRACE_NS / 2)
        return;
    const uint64_t others = announced(life);
    stop_at(life, others ? others : after_grace(life));
}

// A member has left at this round, so no node can continue from it in step.
static bool is_left_there(const struct gossip_life *life, const struct gossip_life_world *world)
{
    for (size_t i = 1, n = world->members(world->owner); i < n; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (info.state == GOSSIP_MEMBER_LEFT && info.answered && info.record->stop_round == life->stop_round)
            return true;
    }
    return false;
}

// If two nodes that were told at the same moment announce two rounds, the later one counts. If rounds become
// shorter, this node reaches its own before others have heard of it, and waits there until they have. If it
// has passed its round, the others follow.
void life_consider_stop(struct gossip_life *life)
{
    if (life->state != GOSSIP_LIFE_STOPPING || life->end < LIFE_AGREES)
        return;
    life_wake(life, life->state_ns + GRACE_NS / 2);
    life_wake(life, life->state_ns + GRACE_NS);
    life_wake(life, life->state_ns + LIE_NS);
    if (life->stop_round == 0)
        choose_stop(life);
    BASE_ASSERT(life->state_ns <= life->now_ns);
    const uint64_t others = announced(life);
    if (life->stop_round > 0 && others > life->stop_round) {
        stop_at(life, others);
    } else if (life->stop_round > 0 && life->least_stop > life->stop_round) {
        stop_at(life, life->least_stop + rounds_in(life, STALE_NS));
    } else if (stands(life) && (life_in_state_ns(life) >= GRACE_NS || is_left_there(life, life->world))) {
        life_act(life, GOSSIP_LIFE_LEAVE);
        life->end = LIFE_STOPS;
    } else if (life_in_state_ns(life) >= LIE_NS &&
               life->stop_round > latest_stop(life, rounds_in(life, GRACE_NS))) {
        life_act(life, GOSSIP_LIFE_STOP_AT);
        life->end = LIFE_STOPS;
    }
}

bool gossip_life_keeps_graph(const struct gossip_life *life, const struct gossip_life_world *world)
{
    if (life->state != GOSSIP_LIFE_STOPPING)
        return false;
    return life->stop_round > 0 ? is_left_there(life, world) : life->end < LIFE_AGREES;
}

// All its steps are done, none of its listed peers has ever answered, and no setting says that this is
// intended. (A resumed node without a step left has met nobody because it had nothing to do.)
static bool has_met_nobody(const struct gossip_life *life)
{
    return life->options.alone_stops && life->end < LIFE_STOPS && life->met_ns == 0 &&
           life->self.listed > 0 && (!life->options.resumed || life->step > life->options.step);
}

// The others learn it before the last checkpoint is on the disk, which can take many seconds: until then they
// would wait for answers that never come.
void life_frozen(struct gossip_life *life)
{
    if (life->state >= GOSSIP_LIFE_LEFT)
        return;
    BASE_ASSERT(life->checkpoint == LIFE_UNWRITTEN);
    life_end_fetch(life);
    life_enter(life, GOSSIP_LIFE_LEFT);
    life_act(life, GOSSIP_LIFE_DEPART);
}

void life_written(struct gossip_life *life, int status)
{
    if (life->checkpoint)
        return;
    life_frozen(life); // a node without a complete model has no last round
    life->checkpoint = status == 0 ? LIFE_WRITTEN : LIFE_FAILED;
    if (status == 0 && has_met_nobody(life)) {
        life_tell(life, GOSSIP_LIFE_MET_NOBODY, life->self.listed, 0);
        life->checkpoint = LIFE_FAILED;
    }
}

static void end(struct gossip_life *life, int status)
{
    life_act(life, GOSSIP_LIFE_END)->status = status;
    life_enter(life, GOSSIP_LIFE_ENDED);
}

void life_consider_end(struct gossip_life *life)
{
    if (life->state != GOSSIP_LIFE_LEFT || life->checkpoint == LIFE_UNWRITTEN)
        return;
    const bool told = life->census.others == 0 || life_in_state_ns(life) >= TELL_NS;
    life_wake(life, life->state_ns + TELL_NS);
    life_wake(life, life->state_ns + FLUSH_NS);
    if ((told && life->self.links_ended) || life_in_state_ns(life) >= FLUSH_NS)
        end(life, life->checkpoint == LIFE_FAILED ? GOSSIP_LIFE_FAILED : 0);
}

// If only a single peer reports another process with this identity, only a process that has done nothing yet
// gives way. It sends no record that it has left, because the identity belongs to the other process. A copy
// that starts while the first process has the links gets no answers. A process that was answered continues
// until membership, which knows which one has been running for longer, ends it.
static bool has_been_answered(const struct gossip_life *life)
{
    for (size_t i = 1, n = life->world->members(life->world->owner); i < n; i++) {
        struct gossip_member_info info;
        life->world->member(life->world->owner, i, &info);
        if (info.answered)
            return true;
    }
    return false;
}

void life_duplicate(struct gossip_life *life, bool gives_way)
{
    if (!gives_way && (life->course >= LIFE_BEGUN || has_been_answered(life)))
        return;
    life_abandon(life, GOSSIP_LIFE_GIVES_WAY, 0, 0);
}

void life_abandon(struct gossip_life *life, enum gossip_life_notice why, uint64_t a, uint64_t b)
{
    life_tell(life, why, a, b);
    end(life, GOSSIP_LIFE_ABANDONED);
}
