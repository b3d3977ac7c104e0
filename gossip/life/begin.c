// From joining to training: when a node counts in the graph, and when and where it begins.
#include "gossip/life/life_state.h"

#define MEET_NS    (300 * LIFE_MS)    // how long to wait after the first other member: more may follow
#define WORD_NS    (10 * LIFE_SECOND) // how long others may take to report the cluster's round
#define LOOK_NS    (100 * LIFE_MS)    // while it waits: there may be no event for what it waits for
#define GIVE_NS    LIFE_SECOND        // between two sends of its statistics, which may be lost
#define LEAST_LEAD 32u                // rounds by which nodes in async may differ at least, as in gossip/pace

static bool is_late(struct gossip_life *life)
{
    life_wake(life, life->begun_ns + life->options.start_timeout_ns);
    return life->now_ns - life->begun_ns >= life->options.start_timeout_ns;
}

// A fetched model was another's a moment ago: until its edges are live this node is behind, like one that was
// away. If others have trained, a new node's first weights are not a model, even if it counted with them: it
// cannot continue with them when there is no donor (gossip_rounds treats them in the same way).
static void fetch_first(struct gossip_life *life, enum gossip_life_notice why,
                        const struct life_progress *progress)
{
    const struct life_progress own = {life->round, life->step}; // round and step come with the model

    BASE_ASSERT(life->state == GOSSIP_LIFE_JOINING || life->state == GOSSIP_LIFE_WAITING);
    life_tell(life, why, life->round, progress->round);
    life_tell_progress(life, &own, true, why != GOSSIP_LIFE_OTHERS_FINISHED);
    life->givers = why == GOSSIP_LIFE_OTHERS_FINISHED ? LIFE_FINISHED : LIFE_ANY;
    BASE_ASSERT(life->course <= LIFE_LATE);
    life->course = life->options.resumed ? LIFE_COMPLETE : LIFE_BARE;
    life_enter(life, GOSSIP_LIFE_FETCHING);
}

static void begin(struct gossip_life *life, const struct life_progress *progress, bool away)
{
    BASE_ASSERT(life->state == GOSSIP_LIFE_WAITING);
    if (progress->round > life->round)
        life_tell(life, GOSSIP_LIFE_TAKES_ROUND, life->round, progress->round);
    life_tell(life, GOSSIP_LIFE_BEGINS, life->census.others, 0);
    life_tell_progress(life, progress, false, away);
    life_enter(life, GOSSIP_LIFE_TRAINING);
    life_flags(life, GOSSIP_RECORD_TRAINING, GOSSIP_RECORD_READY); // a node that joins now needs a model
}

// -- one first model

struct first_models {
    bool yields;    // another node goes first, and its first model is not this node's
    bool resumed;   // it gathers, and a resumed member already has a scaling
    size_t takers;  // members with another first model: they will take this cluster's
    size_t listed;  // of these: in the peer list
    size_t unheard; // members without a model whose statistics have not arrived
    struct gossip_id first;
};

static unsigned rank_of(uint8_t flags)
{
    if (flags & GOSSIP_RECORD_TRAINING)
        return 2;
    return flags & (GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_HELD) ? 1 : 0;
}

// Of the nodes that were not resumed, one that trains goes first, then one that counts, then the lowest id. A
// node that trains may have fetched its model, while its record still has the digest of its own first one: if
// any training node has another digest than this node, the cluster's first model may be another.
static struct first_models compare_first_models(struct gossip_life *life)
{
    const struct gossip_life_world *world = life->world;
    struct first_models found = {0};
    struct gossip_member_info self, other;

    world->member(world->owner, 0, &self);
    const uint64_t own = self.record->first_model;
    const struct gossip_record *first = self.record;
    unsigned best = life->counts; // flags that this step sets are not in the record yet
    if (life->options.resumed || life->options.local || !own)
        return found;
    for (size_t i = 1, n = world->members(world->owner); i < n; i++) {
        world->member(world->owner, i, &other);
        const struct gossip_record *record = other.record;
        const unsigned rank = rank_of(record->flags);
        if (!life_is_here(&other) || (record->flags & GOSSIP_RECORD_FINISHED))
            continue;
        found.resumed |= life->options.gathers && !record->first_model;
        if (!record->first_model)
            continue;
        found.yields |= rank == 2 && record->first_model != own;
        found.unheard += life->options.gathers && rank == 0 && !world->gathered(world->owner, &record->id);
        if (!gossip_life_believes(&other))
            continue;
        const bool takes = rank == 0 && record->first_model != own;
        found.takers += takes;
        found.listed += takes && world->listed(world->owner, &record->id);
        if (rank < best || (rank == best && gossip_id_compare(&record->id, &first->id) >= 0))
            continue;
        first = record;
        best = rank;
    }
    found.yields |= first->first_model != own || found.resumed;
    found.first = first->id;
    return found;
}

// That node joins the statistics of all before it begins, and the scaling comes with its model.
static void give_statistics(struct gossip_life *life, const struct gossip_id *first)
{
    if (!life->options.gathers || gossip_id_compare(first, &life->options.self) == 0)
        return; // this node goes first, or a training member has not answered yet
    life_wake(life, life->gave_ns + GIVE_NS);
    if (life->gave_ns > 0 && life->now_ns - life->gave_ns < GIVE_NS &&
        gossip_id_compare(&life->gave, first) == 0)
        return;
    BASE_ASSERT(life->gave_ns <= life->now_ns);
    life->gave = *first;
    life->gave_ns = life->now_ns;
    life->yield = LIFE_GATHERS;
    life_act(life, GOSSIP_LIFE_GATHER)->peer = *first;
}

// It waits for that node to train, and then takes its model like a late node. If that node never begins, this
// one waits no longer than that node waits for others. If a resumed member has a scaling, a second scaling
// would split the cluster: this node waits for such a member as for a donor.
static bool yields(struct gossip_life *life)
{
    BASE_ASSERT(life->state == GOSSIP_LIFE_JOINING || life->state == GOSSIP_LIFE_WAITING);
    const uint64_t waited_ns = life->now_ns - life->begun_ns;
    const uint64_t patience_ns = life->options.start_timeout_ns + WORD_NS;
    const struct first_models found = compare_first_models(life);
    if (!found.resumed)
        life->resumed_ns = 0;
    else if (life->resumed_ns == 0)
        life->resumed_ns = life->now_ns;
    if (!life->options.trains || !found.yields || (waited_ns >= patience_ns && !found.resumed)) {
        if (life->yield == LIFE_GATHERS)
            life_end_fetch(life); // the link for its statistics is no longer wanted
        life->yield = LIFE_YIELDS_NOT;
        return false;
    }
    const uint64_t beside_ns = found.resumed ? life->now_ns - life->resumed_ns : 0;
    if (beside_ns >= patience_ns + LIFE_NOTHING_NS && life->census.training == 0) {
        life_abandon(life, GOSSIP_LIFE_NO_SCALING, beside_ns / LIFE_SECOND, 0);
        return true;
    }
    if (life->yield == LIFE_YIELDS_NOT) {
        life->yield = LIFE_YIELDS;
        life_tell(life, GOSSIP_LIFE_OTHER_WEIGHTS, 0, 0);
    }
    give_statistics(life, &found.first);
    return true;
}

// -- joining

// No other node is known or expected.
static bool is_first(const struct gossip_life *life)
{
    return life->census.others == 0 && life->self.listed == 0 && life->options.start_members <= 1;
}

// Others train. A new node needs a model, and so does a resumed one that was away for too long, unless the
// others have finished (then it counts first, so that they stay). True: this step has decided.
static bool joins_training(struct gossip_life *life)
{
    struct life_progress cluster = {0};
    const bool known = life_cluster(life, &cluster);

    if (life->census.training == 0) // no member that claims to train has answered yet: no donor
        return false;
    if (!life->options.resumed) {
        fetch_first(life, GOSSIP_LIFE_OTHERS_TRAIN, &cluster);
        return true;
    }
    if (!known || life->census.busy == 0 || cluster.round < life->round || !life_is_far(life, &cluster))
        return false;
    fetch_first(life, GOSSIP_LIFE_FAR_BEHIND, &cluster);
    return true;
}

// Members claim to train, but none of them has answered and reported the cluster's round.
static bool waits_for_word(struct gossip_life *life)
{
    struct life_progress cluster;

    return life->census.claim > 0 && life->census.busy > 0 &&
           (life->census.training == 0 || !life_cluster(life, &cluster));
}

// All nodes that it should train with train something else, or refuse it: it was not started to train alone.
static bool is_refused(const struct gossip_life *life)
{
    return life->census.others == 0 && life->self.refused > 0 && life->self.refused == life->self.listed;
}

static bool has_met(struct gossip_life *life)
{
    BASE_ASSERT(life->state == GOSSIP_LIFE_JOINING || life->state == GOSSIP_LIFE_WAITING);
    if (life->met_ns == 0)
        return false;
    life_wake(life, life->met_ns + MEET_NS);
    return life->census.others > 0 && life->now_ns - life->met_ns >= MEET_NS;
}

// The seed model is a complete state as long as no node has trained, and a checkpoint as long as the cluster
// is within reach of it.
void life_consider_joining(struct gossip_life *life)
{
    if (life->state != GOSSIP_LIFE_JOINING)
        return;
    if (life->options.trains && joins_training(life))
        return;
    const bool late = is_late(life), held = life->options.trains && waits_for_word(life);
    const bool met = is_first(life) || (life->options.resumed ? life->census.others > 0 : has_met(life));
    life_wake(life, life->now_ns + LOOK_NS);
    if ((late || (met && !held)) && !yields(life)) {
        life_count(life);
        life_enter(life, GOSSIP_LIFE_WAITING);
    }
}

// Nodes that will take its model wait for it to begin, and do not count before.
static bool all_are_there(struct gossip_life *life)
{
    const struct first_models found = compare_first_models(life);
    const size_t wanted = life->options.start_members;

    if (found.unheard > 0)
        return false;
    if (wanted == 0)
        return life->self.missing <= found.listed;
    return life->self.n_view + found.takers >= wanted || wanted <= 1;
}

// It counted before it knew the node that goes first. True: it waits, or fetches.
static bool takes_first_model(struct gossip_life *life)
{
    if (!yields(life)) {
        if (!life->counts)
            life_count(life);
        return false;
    }
    if (life->state == GOSSIP_LIFE_ENDED)
        return true;
    BASE_ASSERT(life->state == GOSSIP_LIFE_JOINING || life->state == GOSSIP_LIFE_WAITING);
    if (life->counts)
        life_uncount(life);
    if (life->census.training > 0)
        fetch_first(life, GOSSIP_LIFE_OTHERS_TRAIN, &(struct life_progress){life->round, life->step});
    return true;
}

// Edges to all neighbours are live; if others already train, one is enough: while many restart in turn some
// edge is always about to begin. The wait for it is limited.
static bool is_ready(struct gossip_life *life, bool joins)
{
    const bool in_view = life->census.others == 0 || life->self.in_view;
    const bool patient = life->now_ns - life->begun_ns < LIFE_EDGES_NS;

    life_wake(life, life->begun_ns + LIFE_EDGES_NS);
    return in_view &&
           (life->options.local || life->self.edges_live || (joins && (life->self.edge_live || !patient)));
}

// It counted before it knew their round. Some still train, or all have finished.
static void fetch_while_counting(struct gossip_life *life, const struct life_progress *others)
{
    if (life->census.busy > 0) // they continue to train, and wait for no node
        life_uncount(life);
    fetch_first(life, GOSSIP_LIFE_FAR_BEHIND, others);
}

static bool stands_ready(const struct gossip_life *life)
{
    struct gossip_member_info self;

    life->world->member(life->world->owner, 0, &self);
    return self.record->flags & GOSSIP_RECORD_READY;
}

// The rounds that others did without it. Async: a slow node was behind before; and all that begin together,
// after a stop of all, do so as they stood, since nodes that train are as far apart. In lock-step none is.
static bool has_missed(const struct gossip_life *life, const struct life_progress *others, bool together)
{
    const uint64_t gap = life_gap(life, others), lead = life->options.reach;
    const uint64_t missed = gap > life->options.behind ? gap - life->options.behind : 0;

    if (others->round <= life->round)
        return false;
    if (life->options.sync || !together)
        return !life_is_near(gap);
    return missed > (lead > LEAST_LEAD ? lead : LEAST_LEAD);
}

// It begins in the round of the others: AWAY with a model that is behind, or with theirs if they have
// finished (until then it counted, so that they stay). If no node trains, the newest state present is the
// reference, and a node far from it is behind. If others train, it also asks its neighbours for their
// round when it seems near by the reports: these are seconds old, and short rounds continue meanwhile.
static void go(struct gossip_life *life, bool joins)
{
    struct life_progress own = {life->round, life->step}, others;
    const bool known = joins ? life_cluster(life, &others) : life_newest(life, &others);
    const bool near = !known || !has_missed(life, &others, !joins || stands_ready(life)),
               far = !near && life_is_far(life, &others);
    const bool ended = known && life->options.steps > 0 && others.step >= life->options.steps;

    // Without edges no node is behind; a new node that waited with the others was never away.
    if (life->options.local || (!life->options.resumed && life->course != LIFE_LATE))
        begin(life, &own, false);
    else if (joins && !near && life->course == LIFE_LATE && life_has_donor(life))
        fetch_while_counting(life, &others);
    else if (joins && far && (life->census.busy == 0 || ended) && life_has_donor(life))
        fetch_while_counting(life, &others);
    else if (near)
        begin(life, &own, false);
    else
        begin(life, &others, true);
}

// From now on all nodes have this scaling, also those whose examples it leaves out.
static void tell_unheard(struct gossip_life *life)
{
    const size_t unheard = compare_first_models(life).unheard;

    if (life->options.gathers && unheard > 0)
        life_tell(life, GOSSIP_LIFE_UNHEARD, unheard, 0);
}

static bool is_met(const struct gossip_life *life, const struct gossip_id *id)
{
    const struct gossip_life_edges *edges = life->world->edges;
    struct gossip_edge_info edge;

    for (size_t i = 0, n = edges ? edges->count(edges->owner) : 0; i < n; i++) {
        edges->at(edges->owner, i, &edge);
        if (life_is_live(&edge) && gossip_id_compare(&edge.peer, id) == 0)
            return true;
    }
    return false;
}

// A member with another first model counts, or did so a moment ago and is still in the view or has an edge:
// averaging with it would mix the two models. It will see that it counted too early.
static bool has_rivals(struct gossip_life *life)
{
    const struct gossip_life_world *world = life->world;
    struct gossip_member_info self, other;
    bool any = false;

    world->member(world->owner, 0, &self);
    const uint64_t own = self.record->first_model;
    if (life->options.resumed || life->options.local || !own)
        return false;
    for (size_t i = 1, n = world->members(world->owner); i < n; i++) {
        world->member(world->owner, i, &other);
        const struct gossip_record *record = other.record;
        const unsigned rank = rank_of(record->flags);
        if (!record->first_model || record->first_model == own || !life_is_here(&other) || rank == 2)
            continue;
        if (rank == 1 || is_met(life, &record->id))
            return true;
        any = true;
    }
    return any && life->self.n_view > life->census.eligible + 1;
}

// Nodes that expect each other take their first step together.
static bool are_all_ready(struct gossip_life *life)
{
    struct gossip_member_info self;

    life->world->member(life->world->owner, 0, &self);
    if (!(self.record->flags & GOSSIP_RECORD_READY))
        life_flags(life, GOSSIP_RECORD_READY, 0);
    return life->census.ready == life->census.eligible;
}

// At start_timeout it begins with the members that are there. Where others train it waits for no new member.
void life_consider_waiting(struct gossip_life *life)
{
    if (life->state != GOSSIP_LIFE_WAITING || !life->options.trains)
        return;
    life_wake(life, life->now_ns + LOOK_NS);
    if (life_is_held_up(life) || takes_first_model(life))
        return;
    if (!is_late(life) && has_rivals(life))
        return;
    if (is_late(life) && is_refused(life)) {
        life_abandon(life, GOSSIP_LIFE_REFUSED, life->self.listed, 0);
        return;
    }
    const bool all = all_are_there(life), joins = life->census.training > 0; // then it waits for no new node
    if ((life->options.resumed || life->course == LIFE_LATE) && waits_for_word(life) &&
        life->now_ns - life->begun_ns < WORD_NS)
        return;
    if (!is_late(life) && !(is_ready(life, joins) && (all || joins)))
        return;
    if (!joins && !is_late(life) && !are_all_ready(life))
        return;
    if (!all)
        life_tell(life, GOSSIP_LIFE_BEGINS_WITHOUT, life->self.n_view, life->self.missing);
    // It was away, and cannot improve the model that all others have finished with.
    if (life_is_alone(life) && life_has_donor(life)) {
        fetch_first(life, GOSSIP_LIFE_OTHERS_FINISHED, &(struct life_progress){life->round, life->step});
    } else if (life_is_alone(life) && !life->options.resumed && life_came_too_late(life)) {
        life_abandon(life, GOSSIP_LIFE_NO_MODEL, 1, (life->now_ns - life->begun_ns) / LIFE_SECOND);
    } else {
        tell_unheard(life);
        go(life, joins);
    }
}
