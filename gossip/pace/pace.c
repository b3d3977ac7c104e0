#include "gossip/pace/pace.h"

#include "base/array.h"
#include "base/error.h"
#include "base/hash.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MS            1000000ull
#define FAIR_PART     5u          // of the time: the most that is waited for one neighbour without exchanges
#define LOST_NS       (2000 * MS) // for a broken link: it is back, or the neighbour is known to be dead
#define SLOW_TIMES    4u          // an edge is slow if it takes this many times the fastest other one
#define SLOW_LEAST_NS (20 * MS)   // ... and at least this: below it is the noise of a busy host
#define RETRY_DOUBLES 6u          // after a refusal: 1 ms, up to 64 ms
#define IN_STEP_TURNS 2u          // sync: a neighbour in step is at most this many turns of the plan ahead
#define REFUSALS_MAX  16u         // sync: then the round goes on
#define LEAST_WEIGHT  (1.0f / 64)
#define ROOM_PART     (2.0f / 3) // of what is left of 1 goes to the next update: 1/2 and 1/4 leave room

const char *gossip_pace_reason_name(enum gossip_pace_reason reason)
{
    static const char *const names[] = {"none", "answer", "partner", "link", "edge", "cluster"};
    _Static_assert(sizeof names / sizeof *names == GOSSIP_PACE_REASONS, "a name for each reason");

    return names[reason];
}

// -- edges

bool gossip_pace_add(struct gossip_pace *pace, struct gossip_pace_peer *peer)
{
    struct gossip_pace_peer **peers = realloc(pace->peers, (pace->n_peers + 1) * sizeof *peers);
    size_t at = pace->n_peers;

    if (!peers)
        return false;
    pace->peers = peers;
    for (; at > 0 && gossip_id_compare(&peers[at - 1]->peer, &peer->peer) > 0; at--)
        peers[at] = peers[at - 1];
    BASE_ASSERT(at == 0 || gossip_id_compare(&peers[at - 1]->peer, &peer->peer) < 0);
    peers[at] = peer;
    pace->n_peers++;
    *peer = (struct gossip_pace_peer){.peer = peer->peer,
                                      .tie = GOSSIP_PACE_APART,
                                      .met = pace->rounds,
                                      .met_ns = pace->now_ns,
                                      .tie_ns = pace->now_ns};
    return true;
}

void gossip_pace_remove(struct gossip_pace *pace, const struct gossip_pace_peer *peer)
{
    for (size_t i = 0; i < pace->n_peers; i++)
        if (pace->peers[i] == peer) {
            pace->n_peers--;
            memmove(&pace->peers[i], &pace->peers[i + 1], (pace->n_peers - i) * sizeof *pace->peers);
            return;
        }
}

static struct gossip_pace_peer *find(const struct gossip_pace *pace, const struct gossip_id *id)
{
    for (size_t i = 0; i < pace->n_peers; i++)
        if (gossip_id_compare(&pace->peers[i]->peer, id) == 0)
            return pace->peers[i];
    return NULL;
}

static bool is_sync(const struct gossip_pace *pace)
{
    return pace->options.mode == GOSSIP_PACE_SYNC;
}

// A member that keeps others waiting and never makes an exchange holds nobody for long.
bool gossip_pace_spent(const struct gossip_pace *pace, const struct gossip_pace_peer *peer)
{
    const uint64_t since_ns = base_max(peer->met_ns, peer->tie_ns); // while it was away, nobody waited

    return peer->waited_ns >= base_max(pace->options.ceiling_ns, (pace->now_ns - since_ns) / FAIR_PART);
}

// -- what happens

static void note_wait(struct gossip_pace *pace, uint64_t ns)
{
    struct gossip_pace_wait *wait = &pace->wait;
    BASE_ASSERT(pace->reason != GOSSIP_PACE_NO_REASON);
    if (wait->reason != pace->reason || gossip_id_compare(&wait->whom, &pace->waits_for) != 0)
        *wait = (struct gossip_pace_wait){pace->reason, pace->waits_for, 0};
    wait->ns += ns;
    if (wait->ns >= pace->longest.ns)
        pace->longest = *wait;
}

void gossip_pace_time(struct gossip_pace *pace, uint64_t now_ns)
{
    pace->now_ns = base_max(pace->now_ns, now_ns); // of two threads' readings
    if (pace->reason == GOSSIP_PACE_NO_REASON)
        return;
    const uint64_t ns = pace->now_ns - pace->since_ns;
    struct gossip_pace_peer *peer = find(pace, &pace->waits_for);
    pace->waits.ns[pace->reason] += ns;
    note_wait(pace, ns);
    if (peer)
        peer->waited_ns += ns;
    pace->since_ns = pace->now_ns;
}

void gossip_pace_tie(struct gossip_pace *pace, struct gossip_pace_peer *peer, enum gossip_pace_tie tie)
{
    BASE_ASSERT(tie < GOSSIP_PACE_TIES);
    if (peer->tie == tie)
        return;
    peer->tie = tie;
    peer->tie_ns = pace->now_ns;
    if (tie <= GOSSIP_PACE_LOST)
        peer->round = 0;
}

void gossip_pace_hear(struct gossip_pace *pace, struct gossip_pace_peer *peer, uint64_t round)
{
    peer->round = base_max(peer->round, round);
    gossip_news_hear(&pace->news, &peer->peer, round);
}

// Async: too many rounds without an exchange, whatever the plan says.
static bool is_starved(const struct gossip_pace *pace)
{
    return !is_sync(pace) && pace->others && !pace->idle &&
           pace->rounds - pace->met > pace->options.max_delay;
}

// The exchange may take several rounds: nothing is lost by the steps that are taken meanwhile.
static bool may_overlap(const struct gossip_pace *pace)
{
    return !is_sync(pace) && pace->rounds - pace->met < pace->options.overlap;
}

void gossip_pace_begin(struct gossip_pace *pace, const struct gossip_pace_round *round)
{
    BASE_ASSERT(!pace->open && round->round >= 1);
    pace->rounds += round->counts;
    if (round->counts && round->meets) {
        pace->unmet += pace->met < pace->latest && !may_overlap(pace);
        pace->latest = pace->rounds;
        pace->planned++;
    }
    pace->plan = *round;
    pace->wait = pace->longest = (struct gossip_pace_wait){0};
    pace->round = round->round;
    pace->idle = round->idle;
    pace->others = round->others;
    pace->open = true;
    pace->turn = round->meets || is_starved(pace) ? GOSSIP_PACE_DUE : GOSSIP_PACE_NO_TURN;
    pace->began_ns = pace->ended_ns ? pace->ended_ns : pace->now_ns;
    pace->begun_ns = pace->now_ns;
    for (size_t i = 0; i < pace->n_peers; i++)
        pace->peers[i]->refusals = 0;
}

void gossip_pace_asked(struct gossip_pace *pace, struct gossip_pace_peer *peer, float weight)
{
    BASE_ASSERT(peer->tie == GOSSIP_PACE_LIVE && peer->flight == GOSSIP_PACE_NO_FLIGHT);
    peer->flight = GOSSIP_PACE_OPEN;
    peer->sent_ns = pace->now_ns;
    peer->weight = weight;
    peer->loose = false;
    pace->answered = 0;
    pace->done.asked++;
    if (!is_sync(pace))
        pace->turn = GOSSIP_PACE_ASKED;
}

void gossip_pace_parked(struct gossip_pace *pace, struct gossip_pace_peer *peer)
{
    if (peer->flight == GOSSIP_PACE_NO_FLIGHT)
        return;
    peer->flight = GOSSIP_PACE_PARKED;
    peer->sent_ns = pace->now_ns;
}

// Two nodes that have refused each other do not ask again at the same moment.
void gossip_pace_refused(struct gossip_pace *pace, struct gossip_pace_peer *peer)
{
    const unsigned doubles = peer->refusals < RETRY_DOUBLES ? peer->refusals : RETRY_DOUBLES;
    const uint64_t base = MS << doubles;

    gossip_pace_dropped(peer);
    pace->done.refused++;
    peer->refusals++;
    peer->retry_ns =
        pace->now_ns + base + base_hash_mix(gossip_news_rank(&pace->options.self) + peer->refusals) % base;
    if (is_sync(pace) && peer->refusals >= REFUSALS_MAX &&
        gossip_id_compare(&peer->peer, &pace->plan.partner) == 0)
        pace->turn = GOSSIP_PACE_NO_TURN;
    else if (!is_sync(pace) && pace->open && pace->turn == GOSSIP_PACE_ASKED)
        pace->turn = GOSSIP_PACE_DUE;
}

void gossip_pace_dropped(struct gossip_pace_peer *peer)
{
    peer->flight = GOSSIP_PACE_NO_FLIGHT;
    peer->loose = false;
}

void gossip_pace_met(struct gossip_pace *pace, struct gossip_pace_peer *peer, uint64_t round)
{
    if (peer->flight == GOSSIP_PACE_OPEN)
        gossip_answers_learn(&peer->answers, pace->now_ns - peer->sent_ns);
    gossip_pace_dropped(peer);
    peer->clock = base_max(peer->clock, round);
    peer->met = pace->met = pace->rounds;
    peer->met_ns = pace->now_ns;
    peer->waited_ns = 0;
    peer->refusals = 0;
    if (is_sync(pace) && pace->open && gossip_id_compare(&peer->peer, &pace->plan.partner) == 0)
        pace->turn = GOSSIP_PACE_NO_TURN;
}

void gossip_pace_answered(struct gossip_pace *pace, float weight)
{
    BASE_ASSERT(weight > 0);
    pace->answered += weight;
    pace->done.answered++;
}

void gossip_pace_left(struct gossip_pace *pace)
{
    pace->others = false;
}

void gossip_pace_skip(struct gossip_pace *pace)
{
    pace->turn = GOSSIP_PACE_NO_TURN;
}

void gossip_pace_leave(struct gossip_pace *pace)
{
    BASE_ASSERT(pace->open);
    pace->open = false;
    pace->reason = GOSSIP_PACE_NO_REASON;
    pace->ended_ns = pace->now_ns;
}

// -- the cluster

// The news of a graph are as many rounds old as they have hops to make.
static uint64_t most_ahead(const struct gossip_pace *pace)
{
    return pace->options.lead + pace->n_peers + 2 * pace->news.members;
}

bool gossip_pace_ahead(const struct gossip_pace *pace)
{
    return pace->round > gossip_news_cluster(&pace->news, pace->round) + most_ahead(pace);
}

bool gossip_pace_apart(const struct gossip_pace *pace)
{
    return pace->n_peers > 0 && 2 * pace->unmet > pace->planned;
}

// -- slow edges

// The fastest of the other edges, by the time of its exchanges; UINT64_MAX: none is known.
static uint64_t fastest_other(const struct gossip_pace *pace, const struct gossip_pace_peer *peer)
{
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < pace->n_peers; i++) {
        const struct gossip_pace_peer *other = pace->peers[i];
        if (other != peer && other->tie == GOSSIP_PACE_LIVE && other->answers.count > 0)
            least = base_min(least, gossip_answers_median(&other->answers));
    }
    return least;
}

// How long the boundary waits for an exchange over this edge; the rest of it the exchange goes on alone.
static uint64_t worth_waiting(const struct gossip_pace *pace, const struct gossip_pace_peer *peer)
{
    const uint64_t least = fastest_other(pace, peer), steps_ns = pace->begun_ns - pace->began_ns;
    const bool overlaps = may_overlap(pace);

    if (least == UINT64_MAX && !overlaps)
        return UINT64_MAX / 2;
    const uint64_t most = base_max(overlaps ? steps_ns : SLOW_TIMES * least, SLOW_LEAST_NS);
    return gossip_answers_median(&peer->answers) > most ? 0 : most;
}

static bool is_behind(const struct gossip_pace *pace)
{
    return pace->round + 1 < gossip_news_cluster(&pace->news, pace->round);
}

// Behind the cluster a node trains on its own for a while: otherwise its examples would count less.
static bool may_train_alone(const struct gossip_pace *pace)
{
    return is_behind(pace) && pace->rounds - pace->met < pace->options.local;
}

// -- answers

bool gossip_pace_answers(const struct gossip_pace *pace, const struct gossip_pace_peer *peer, uint64_t round)
{
    const bool waits = pace->open && pace->turn == GOSSIP_PACE_DUE &&
                       gossip_id_compare(&peer->peer, &pace->plan.partner) == 0;

    return !is_sync(pace) || pace->idle || round <= pace->round || waits;
}

static bool is_flying(const struct gossip_pace_peer *peer)
{
    return peer->tie == GOSSIP_PACE_LIVE && peer->flight != GOSSIP_PACE_NO_FLIGHT;
}

float gossip_pace_weight(const struct gossip_pace *pace, const struct gossip_pace_peer *peer, float weight)
{
    float room = 1, answered = 0;
    bool alone = true;

    for (size_t i = 0; i < pace->n_peers; i++) {
        const struct gossip_pace_peer *other = pace->peers[i];
        if (other == peer || !is_flying(other))
            continue;
        alone = false;
        room -= other->weight;
        if (!other->loose)
            answered = pace->answered;
    }
    const float most = alone ? 1 : fmaxf(ROOM_PART * (room - answered), LEAST_WEIGHT);
    return weight < most ? weight : most;
}

// Of a neighbour that has not answered yet: that of the slowest other one.
static uint64_t usual_time(const struct gossip_pace *pace, const struct gossip_pace_peer *peer)
{
    const uint64_t own = gossip_answers_median(&peer->answers);
    uint64_t others = 0;

    for (size_t i = 0; own == 0 && i < pace->n_peers; i++)
        others = base_max(others, gossip_answers_median(&pace->peers[i]->answers));
    return own ? own : others;
}

uint64_t gossip_pace_due(const struct gossip_pace *pace, const struct gossip_pace_peer *peer)
{
    const uint64_t usual = SLOW_TIMES * usual_time(pace, peer);

    return is_flying(peer) ? peer->sent_ns + pace->options.ceiling_ns + usual : UINT64_MAX;
}

// -- boundaries

static struct gossip_pace_next wait_for(enum gossip_pace_reason reason, struct gossip_pace_peer *peer,
                                        uint64_t until_ns)
{
    return (struct gossip_pace_next){
        .todo = GOSSIP_PACE_WAIT, .reason = reason, .peer = peer, .until_ns = until_ns};
}

static struct gossip_pace_next ask(struct gossip_pace_peer *peer, float weight)
{
    return (struct gossip_pace_next){.todo = GOSSIP_PACE_ASK, .peer = peer, .weight = weight};
}

static const struct gossip_pace_next go_on = {.todo = GOSSIP_PACE_LEAVE};

// In async only while the neighbour goes on asking: it has made the exchanges of this node's rounds.
static bool has_met(const struct gossip_pace *pace, const struct gossip_pace_peer *peer)
{
    const bool goes_on = pace->rounds - peer->met <= pace->n_peers && !peer->ended;

    return peer->clock >= pace->round && (is_sync(pace) || goes_on);
}

static size_t count_live(const struct gossip_pace *pace)
{
    size_t live = 0;

    for (size_t i = 0; i < pace->n_peers; i++)
        live += pace->peers[i]->tie == GOSSIP_PACE_LIVE && !gossip_pace_spent(pace, pace->peers[i]);
    return live;
}

static bool are_all_spent(const struct gossip_pace *pace)
{
    for (size_t i = 0; i < pace->n_peers; i++)
        if (!gossip_pace_spent(pace, pace->peers[i]))
            return false;
    return pace->n_peers > 0;
}

// A step now would be taken alone, though others train.
static struct gossip_pace_next wait_for_edge(const struct gossip_pace *pace)
{
    const uint64_t until_ns = pace->begun_ns + pace->options.ceiling_ns;
    const bool alone = pace->others && count_live(pace) == 0 && !are_all_spent(pace);

    return alone && pace->now_ns < until_ns ? wait_for(GOSSIP_PACE_FOR_EDGE, NULL, until_ns) : go_on;
}

static struct gossip_pace_next wait_for_link(const struct gossip_pace *pace, struct gossip_pace_peer *peer)
{
    const uint64_t ns = base_min(pace->options.ceiling_ns, LOST_NS);
    const uint64_t until_ns = base_max(peer->tie_ns, peer->tie == GOSSIP_PACE_LOST ? 0 : pace->begun_ns) + ns;
    const bool waits = pace->others && !gossip_pace_spent(pace, peer) && pace->now_ns < until_ns;

    return waits ? wait_for(GOSSIP_PACE_FOR_LINK, peer, until_ns) : go_on;
}

static struct gossip_pace_next wait_for_flight(const struct gossip_pace *pace, struct gossip_pace_peer *peer)
{
    const bool parked = peer->flight == GOSSIP_PACE_PARKED;
    const uint64_t due_ns = gossip_pace_due(pace, peer);

    if (gossip_pace_spent(pace, peer) || pace->now_ns >= due_ns)
        return go_on;
    return wait_for(parked ? GOSSIP_PACE_FOR_PARTNER : GOSSIP_PACE_FOR_ANSWER, peer, due_ns);
}

static struct gossip_pace_next meet_partner(const struct gossip_pace *pace, struct gossip_pace_peer *peer)
{
    switch (peer->tie) {
    case GOSSIP_PACE_LIVE:
        if (peer->flight != GOSSIP_PACE_NO_FLIGHT)
            return wait_for_flight(pace, peer);
        if (pace->now_ns < peer->retry_ns)
            return wait_for(GOSSIP_PACE_FOR_ANSWER, peer, peer->retry_ns);
        return ask(peer, pace->plan.weight);
    case GOSSIP_PACE_LOST:
    case GOSSIP_PACE_BEGINS:
        return wait_for_link(pace, peer);
    case GOSSIP_PACE_RESYNCS:
    case GOSSIP_PACE_APART:
    case GOSSIP_PACE_TIES:
        break;
    }
    return go_on;
}

static struct gossip_pace_next next_sync(struct gossip_pace *pace)
{
    struct gossip_pace_peer *peer = find(pace, &pace->plan.partner);

    if (pace->turn == GOSSIP_PACE_DUE && peer && !has_met(pace, peer)) {
        struct gossip_pace_next next = meet_partner(pace, peer);
        if (next.todo != GOSSIP_PACE_LEAVE)
            return next;
    }
    return wait_for_edge(pace);
}

static struct gossip_pace_next wait_for_own(struct gossip_pace *pace)
{
    for (size_t i = 0; i < pace->n_peers; i++) {
        struct gossip_pace_peer *peer = pace->peers[i];
        if (!is_flying(peer) || peer->loose)
            continue;
        const uint64_t until_ns =
            base_min(peer->sent_ns + worth_waiting(pace, peer), gossip_pace_due(pace, peer));
        peer->loose = may_train_alone(pace) || gossip_pace_spent(pace, peer) || pace->now_ns >= until_ns;
        if (!peer->loose)
            return wait_for(GOSSIP_PACE_FOR_ANSWER, peer, until_ns);
    }
    return go_on;
}

static bool has_loose(const struct gossip_pace *pace)
{
    for (size_t i = 0; i < pace->n_peers; i++)
        if (is_flying(pace->peers[i]) && pace->peers[i]->loose && !gossip_pace_spent(pace, pace->peers[i]))
            return true;
    return false;
}

// One exchange at a time goes on alone. Several that are under way for long all carry the same difference,
// and the corrections that integrate it would diverge (one link of 64 kbit/s on a complete graph of 16).
static bool is_free(const struct gossip_pace *pace, const struct gossip_pace_peer *peer)
{
    const bool goes_loose = may_train_alone(pace) || worth_waiting(pace, peer) == 0;

    return peer->tie == GOSSIP_PACE_LIVE && peer->flight == GOSSIP_PACE_NO_FLIGHT &&
           pace->now_ns >= peer->retry_ns && !(goes_loose && has_loose(pace));
}

static struct gossip_pace_peer *longest_unmet(const struct gossip_pace *pace)
{
    struct gossip_pace_peer *best = NULL;

    for (size_t i = 0; i < pace->n_peers; i++)
        if (is_free(pace, pace->peers[i]) && (!best || pace->peers[i]->met < best->met))
            best = pace->peers[i];
    return best;
}

// Where the others always ask first, or a node makes every second round of an even ring, the plan would have
// it meet only some of its neighbours.
static bool is_overlooked(const struct gossip_pace *pace, const struct gossip_pace_peer *peer,
                          const struct gossip_pace_peer *partner)
{
    return peer->met < partner->met &&
           (pace->rounds - peer->met) / pace->n_peers > pace->options.max_delay + 1;
}

static struct gossip_pace_next wait_for_any(const struct gossip_pace *pace)
{
    uint64_t until_ns = pace->begun_ns + pace->options.ceiling_ns;
    struct gossip_pace_peer *first = NULL;

    for (size_t i = 0; i < pace->n_peers; i++) {
        struct gossip_pace_peer *peer = pace->peers[i];
        const bool refused = peer->flight == GOSSIP_PACE_NO_FLIGHT && peer->retry_ns > pace->now_ns;
        if (peer->tie != GOSSIP_PACE_LIVE || gossip_pace_spent(pace, peer) || !(refused || is_flying(peer)))
            continue;
        if (refused)
            until_ns = base_min(until_ns, peer->retry_ns);
        if (!first || peer->sent_ns < first->sent_ns)
            first = peer;
    }
    // A live edge that is not free has a request out, was refused, or waits for a loose one.
    BASE_ASSERT(first);
    return pace->now_ns < until_ns ? wait_for(GOSSIP_PACE_FOR_ANSWER, first, until_ns) : go_on;
}

static struct gossip_pace_next choose(struct gossip_pace *pace)
{
    struct gossip_pace_peer *partner = find(pace, &pace->plan.partner), *best = longest_unmet(pace);

    if (partner && has_met(pace, partner) && !(best && is_overlooked(pace, best, partner)))
        return go_on;
    if (partner && is_free(pace, partner) && !is_overlooked(pace, best, partner))
        return ask(partner, pace->plan.weight);
    if (best)
        return ask(best, 0.5f);
    if (may_train_alone(pace) || (may_overlap(pace) && has_loose(pace)))
        return go_on;
    if (count_live(pace) > 0)
        return wait_for_any(pace);
    return is_starved(pace) ? wait_for_edge(pace) : go_on;
}

static struct gossip_pace_next next_async(struct gossip_pace *pace)
{
    struct gossip_pace_next next = go_on;

    if (pace->turn != GOSSIP_PACE_ASKED)
        next = wait_for_own(pace);
    if (next.todo == GOSSIP_PACE_LEAVE && pace->turn == GOSSIP_PACE_DUE)
        next = choose(pace);
    return next;
}

static struct gossip_pace_next wait_for_cluster(const struct gossip_pace *pace)
{
    const uint64_t until_ns = pace->begun_ns + pace->options.ceiling_ns;
    const bool waits = pace->others && gossip_pace_ahead(pace) && pace->now_ns < until_ns;

    return waits ? wait_for(GOSSIP_PACE_FOR_CLUSTER, NULL, until_ns) : go_on;
}

struct gossip_pace_next gossip_pace_next(struct gossip_pace *pace)
{
    if (!pace->open)
        return (struct gossip_pace_next){.todo = GOSSIP_PACE_NOTHING};
    struct gossip_pace_next next = go_on;
    if (!pace->idle)
        next = is_sync(pace) ? next_sync(pace) : next_async(pace);
    if (!pace->idle && next.todo == GOSSIP_PACE_LEAVE)
        next = wait_for_cluster(pace);
    pace->reason = next.todo == GOSSIP_PACE_WAIT ? next.reason : GOSSIP_PACE_NO_REASON;
    pace->waits_for = next.peer ? next.peer->peer : pace->options.self;
    pace->since_ns = pace->now_ns;
    return next;
}

// Rounds that every neighbour has passed are not made up. A neighbour in step may have met all its others
// before it must wait for this node, and rested in a round of its own.
uint64_t gossip_pace_goes_on(const struct gossip_pace *pace)
{
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < pace->n_peers; i++) {
        const struct gossip_pace_peer *peer = pace->peers[i];
        if (peer->tie >= GOSSIP_PACE_RESYNCS && peer->round > 0)
            least = base_min(least, peer->round);
    }
    const uint64_t in_step = pace->round + IN_STEP_TURNS * (pace->plan.turn + 1);
    if (!is_sync(pace) || least == UINT64_MAX || least <= in_step)
        return pace->round;
    return base_min(least - 1, pace->round + pace->options.reach);
}
