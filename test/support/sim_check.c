#include "test/support/sim_check.h"
#include "base/array.h"

#include <stdlib.h>
#include <string.h>

#define GRACE_NS     (10 * SIM_SECOND) // in which updates about a true death may still spread
#define JUMP_NS      (20 * SIM_SECOND) // the farthest that a clock jumps (sim_fault.c)
#define MERGE_NS     (3 * SIM_SECOND)  // between two faults, in which a refutation may fail to reach all
#define ACTIONS_EACH 8u                // of one step, for each member
#define ACTIONS_MAX  128u
#define STUCK_MAX    32u
#define LATE_NS                                                                                              \
    (5 * SIM_SECOND) // after a fault a deadline may pass: a few ceilings, and what is learned slowly

struct sim_check *sim_check_of(const struct sim_world *world)
{
    return world->options.watch->owner;
}

static uint64_t tolerated_ns(const struct sim_world *world)
{
    static const uint64_t seconds[] = {
        [GOSSIP_PROFILE_LAN] = 5, [GOSSIP_PROFILE_WAN] = 14, [GOSSIP_PROFILE_LOCAL] = 3};
    return seconds[world->options.profile] * SIM_SECOND;
}

void sim_check_excuse(struct sim_world *world, size_t host, uint64_t until_ns)
{
    struct sim_harm *harm = &sim_check_of(world)->harm[host];

    if (until_ns > UINT64_MAX - GRACE_NS)
        until_ns = UINT64_MAX - GRACE_NS;
    if (until_ns + GRACE_NS > harm->excused_until_ns)
        harm->excused_until_ns = until_ns + GRACE_NS;
}

void sim_check_harm(struct sim_world *world, size_t host, uint64_t until_ns)
{
    struct sim_harm *harm = &sim_check_of(world)->harm[host];
    uint64_t now_ns = world->queue.now_ns;

    if (now_ns > harm->until_ns + MERGE_NS || !harm->until_ns)
        harm->since_ns = now_ns;
    if (until_ns > harm->until_ns)
        harm->until_ns = until_ns;
    if (harm->until_ns - harm->since_ns >= tolerated_ns(world))
        sim_check_excuse(world, host, harm->until_ns);
}

bool sim_check_excused(const struct sim_world *world, size_t host)
{
    return world->queue.now_ns <= sim_check_of(world)->harm[host].excused_until_ns;
}

static struct sim_seen *seen(struct sim_node *node, size_t peer)
{
    return &sim_check_of(node->world)->seen[node->host * node->world->options.nodes + peer];
}

static void started(void *owner, struct sim_node *node)
{
    (void)owner;
    memset(seen(node, 0), 0, node->world->options.nodes * sizeof(struct sim_seen));
    sim_check_of(node->world)->overdue[node->host] = 0;
}

static void need(struct sim_node *node, bool good, const char *what)
{
    if (!good)
        sim_world_break(node->world, node->host, what);
}

static void step(void *owner, struct sim_node *node)
{
    struct gossip_membership_totals totals;
    size_t nodes = node->world->options.nodes, count;

    sim_apart_look(owner);
    if (node->world->counts.steps % 64)
        return;
    count = gossip_membership_count(node->member.membership);
    gossip_membership_totals(node->member.membership, &totals);
    need(node, count <= nodes, "more members than there are");
    need(node, totals.alive + totals.suspect + totals.dead + totals.left + totals.unproven == count,
         "states do not add up");
    need(node, totals.health <= 8, "local health over its bound");
    for (size_t i = 0; i < count; i++) {
        struct gossip_member_info info;
        gossip_membership_info(node->member.membership, i, &info);
        need(node, info.suspectors <= 8, "suspicions over their bound");
        need(node, i || sim_world_find(node->world, &info.record->id) == node->self,
             "the node itself is not first");
        need(node, info.state != GOSSIP_MEMBER_SUSPECT || info.suspectors, "suspected without a suspector");
    }
}

static void actions(void *owner, struct sim_node *node, size_t taken)
{
    (void)owner;
    need(node, taken < ACTIONS_MAX + ACTIONS_EACH * node->world->options.nodes,
         "too many actions of one step");
}

// Whether faults of the two hosts, taken together as one stretch, have separated them for long enough.
static bool kept_apart(const struct sim_world *world, size_t a, size_t b)
{
    const struct sim_harm *first = &sim_check_of(world)->harm[a], *second = &sim_check_of(world)->harm[b];

    if (first->since_ns > second->since_ns) {
        first = second;
        second = &sim_check_of(world)->harm[a];
    }
    uint64_t until_ns = first->until_ns > second->until_ns ? first->until_ns : second->until_ns;
    return second->since_ns <= first->until_ns + MERGE_NS && world->queue.now_ns <= until_ns + GRACE_NS &&
           until_ns - first->since_ns >= tolerated_ns(world);
}

// Whether the process of the record runs, not a later one of which the observer has not heard.
static bool runs(const struct sim_node *observer, size_t identity)
{
    const struct sim_node *process = sim_check_process(observer->world, identity);
    struct gossip_member_info info;

    return process && (!sim_member_info(observer, identity, &info) ||
                       info.record->version.instance_id == process->member.instance);
}

static void died(struct sim_check *check, struct sim_node *node, size_t peer,
                 const struct gossip_membership_action *action)
{
    struct sim_world *world = node->world;
    const struct sim_node *subject = sim_check_process(world, peer);
    bool told = !action->known; // it was checked at the member that found it
    bool explained = told || !runs(node, peer) || node->faults.liar || world->node[peer]->faults.liar ||
                     sim_check_excused(world, peer) || sim_check_excused(world, node->host) ||
                     kept_apart(world, node->host, peer) ||
                     sim_apart_for(check, node->host, subject->host, tolerated_ns(world)) ||
                     (node->self < world->options.twins) || peer < world->options.twins;

    check->deaths++;
    check->deaths_evidence += action->evidence;
    if (explained)
        return;
    check->false_deaths++;
    sim_world_trace(world, node->host, "FALSE DEATH", action->evidence ? "evidence" : "silence", peer, 0);
    if (!check->lenient)
        sim_world_break(world, node->host, "a false death: nothing separated that process from the others");
}

static void changed(void *owner, struct sim_node *node, size_t peer,
                    const struct gossip_membership_action *action)
{
    struct sim_check *check = owner;
    struct sim_seen *at = seen(node, peer);

    need(node, peer != node->self, "a change of this node itself");
    need(node, action->known == at->known, "a change of a member that contradicts whether it was known");
    need(node, !at->known || action->before == at->state, "a change from another state than before");
    at->known = true;
    at->state = action->state;
    check->suspects += action->state == GOSSIP_MEMBER_SUSPECT;
    if (action->state == GOSSIP_MEMBER_DEAD)
        died(check, node, peer, action);
    if (check->changed)
        check->changed(node->world, node->host, action);
}

static void record(void *owner, struct sim_node *node, size_t peer)
{
    (void)owner;
    struct sim_seen *at = seen(node, peer);
    struct gossip_member_info info;

    if (!sim_member_info(node, peer, &info) || info.state == GOSSIP_MEMBER_UNPROVEN)
        return; // one that was forgotten may be told of by an old record
    need(node, gossip_version_compare(&info.record->version, &at->version) >= 0, "a version went back");
    at->version = info.record->version;
}

static void view(void *owner, struct sim_node *node)
{
    (void)owner;
    size_t count;
    const struct gossip_record *view = gossip_membership_view(node->member.membership, &count);

    for (size_t i = 0; i < count; i++) {
        size_t peer = sim_world_find(node->world, &view[i].id);
        need(node, peer != SIZE_MAX, "a stranger in the view");
        need(node, view[i].flags & (GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_HELD),
             "a member in the view is not eligible");
        need(node, !(view[i].flags & GOSSIP_RECORD_LEFT), "a member in the view has left");
        need(node, !i || gossip_id_compare(&view[i - 1].id, &view[i].id) < 0, "a view out of order");
        if (peer == SIZE_MAX || peer == node->self)
            continue;
        const struct sim_seen *at = seen(node, peer);
        need(node, at->known && (at->state == GOSSIP_MEMBER_ALIVE || at->state == GOSSIP_MEMBER_SUSPECT),
             "a member in the view is not alive");
    }
}

static void datagram(void *owner, struct sim_node *node, size_t bytes)
{
    (void)owner;
    need(node, bytes && bytes + LIMIT_DATAGRAM_OVERHEAD <= LIMIT_DATAGRAM_BYTES, "a datagram too long");
}

static void packet(void *owner, struct sim_node *node, size_t bytes)
{
    (void)owner;
    need(node, bytes && bytes <= LIMIT_GOSSIP_BYTES, "a packet too long for a stream");
}

static void refused(void *owner, struct sim_node *node, size_t peer)
{
    (void)owner;
    bool liar = peer != SIZE_MAX && node->world->node[peer]->faults.liar;

    need(node, liar, "a message of an honest member was refused");
}

static void generation(void *owner, struct sim_node *node, uint64_t generation)
{
    (void)owner;
    need(node, generation > node->member.generation, "a generation that does not grow");
}

static void conflict(void *owner, struct sim_node *node)
{
    (void)owner;
    // A liar whose listed peers all refuse it ends, too.
    need(node, node->self < node->world->options.twins || node->faults.liar,
         "a conflict without a second process");
}

static void deadline(void *owner, struct sim_node *node, uint64_t deadline_ns, const char *what)
{
    unsigned *stuck = &((struct sim_check *)owner)->stuck[node->host];
    bool passes = !node->running || deadline_ns > sim_node_now(node);

    *stuck = passes ? 0 : *stuck + 1; // a late timer may need several turns
    need(node, *stuck < STUCK_MAX, what);
}

// What gossip/pace adds to a ceiling: four times the usual time of an answer, here that of the slowest
// neighbour.
static uint64_t learned_patience(const struct sim_node *node)
{
    uint64_t most_ns = 0;
    for (size_t i = 0; i < gossip_exchange_edges(node->train.exchange); i++) {
        struct gossip_edge_info info;
        gossip_exchange_edge_info(node->train.exchange, i, &info);
        most_ns = base_max(most_ns, info.answer_median_ns);
    }
    return 4 * most_ns;
}

static void round_done(void *owner, struct sim_node *node, uint64_t open_ns)
{
    const struct sim_check *check = owner;
    // A partner says for a while that it is behind, and then nothing more; then its edge must become live.
    uint64_t longest_ns = 3300 * SIM_MS + learned_patience(node);
    uint64_t now_ns = node->world->queue.now_ns;
    // To a clock that has jumped, the latest exchange is long ago, a fifth of which a neighbour may be waited
    // for.
    bool calm = !node->slow && now_ns > check->harm[node->host].until_ns + longest_ns &&
                now_ns > node->jumped_ns + longest_ns + JUMP_NS / 5;

    need(node, !calm || open_ns <= longest_ns, "a round stayed open beyond its deadline");
}

static bool was_harmed(const struct sim_world *world, const struct sim_node *node)
{
    const struct sim_harm *harm = &sim_check_of(world)->harm[node->host];
    const uint64_t now_ns = world->queue.now_ns;

    return node->paused || node->faults.liar || sim_check_excused(world, node->host) ||
           (harm->until_ns > 0 && now_ns <= harm->until_ns + LATE_NS) ||
           (node->jumped_ns > 0 && now_ns <= node->jumped_ns + LATE_NS);
}

// Whether a fault explains that this process has heard nothing of the other one in time.
static bool is_explained(const struct sim_check *check, const struct sim_node *node, size_t peer)
{
    const struct sim_world *world = node->world;
    const struct sim_node *other = sim_check_process(world, peer);

    if (!other || node->self < world->options.twins || peer < world->options.twins)
        return true;
    const uint64_t *broken_ns = check->broken_ns;
    const uint64_t there_ns = broken_ns[node->host * world->hosts + other->host],
                   back_ns = broken_ns[other->host * world->hosts + node->host],
                   cut_ns = there_ns > back_ns ? there_ns : back_ns;
    return was_harmed(world, node) || was_harmed(world, other) ||
           (cut_ns > 0 && world->queue.now_ns <= cut_ns + LATE_NS);
}

// A deadline that passes although both ends live and no message was lost is a defect.
static void check_deadlines(struct sim_check *check, struct sim_node *node)
{
    struct gossip_exchange_totals totals;
    bool explained = false;

    gossip_exchange_totals(node->train.exchange, &totals);
    if (totals.waits.overdue <= check->overdue[node->host])
        return;
    check->overdue[node->host] = totals.waits.overdue;
    for (size_t i = 0; i < gossip_exchange_edges(node->train.exchange) && !explained; i++) {
        struct gossip_edge_info info;
        gossip_exchange_edge_info(node->train.exchange, i, &info);
        const size_t peer = sim_world_find(node->world, &info.peer);
        explained =
            info.state == GOSSIP_EDGE_IN_DOUBT && (peer == SIZE_MAX || is_explained(check, node, peer));
    }
    check->excused += explained;
    need(node, explained, "a deadline passed though both ends live and nothing was lost");
}

static void exchanged(void *owner, struct sim_node *node)
{
    struct sim_check *check = owner;

    check_deadlines(check, node);

    for (size_t i = 0; check->gentle && !check->may_lose && i < gossip_exchange_edges(node->train.exchange);
         i++) {
        struct gossip_edge_info info;
        gossip_exchange_edge_info(node->train.exchange, i, &info);
        need(node, !info.mismatches, "the ends of an edge did not match, though nothing was lost");
    }
}

static void lost(void *owner, struct sim_node *node)
{
    (void)node;
    ((struct sim_check *)owner)->may_lose = true;
}

void sim_check_create(struct sim_check *check, struct sim_world *world, size_t nodes, size_t hosts)
{
    *check = (struct sim_check){.world = world,
                                .watch = {.owner = check,
                                          .changed = changed,
                                          .started = started,
                                          .round_done = round_done,
                                          .lost = lost,
                                          .step = step,
                                          .actions = actions,
                                          .record = record,
                                          .view = view,
                                          .datagram = datagram,
                                          .packet = packet,
                                          .refused = refused,
                                          .generation = generation,
                                          .conflict = conflict,
                                          .deadline = deadline,
                                          .exchanged = exchanged}};
    check->harm = sim_must(calloc(hosts, sizeof *check->harm));
    check->seen = sim_must(calloc(hosts * nodes, sizeof *check->seen));
    check->apart = sim_must(calloc(hosts * hosts, sizeof *check->apart));
    check->stuck = sim_must(calloc(hosts, sizeof *check->stuck));
    check->overdue = sim_must(calloc(hosts, sizeof *check->overdue));
    check->broken_ns = sim_must(calloc(hosts * hosts, sizeof *check->broken_ns));
}

void sim_check_destroy(struct sim_check *check)
{
    free(check->harm);
    free(check->seen);
    free(check->apart);
    free(check->stuck);
    free(check->overdue);
    free(check->broken_ns);
}
