// From joining to training: when a node counts in the graph, and when it begins.
#include "gossip/life/life_state.h"

#define MEET_NS  (300 * LIFE_MS)   // after the first other member: till then more may be learned
#define EDGES_NS (5 * LIFE_SECOND) // how long edges are waited for where others train already

static bool is_late(struct gossip_life *life)
{
    life_wake(life, life->begun_ns + life->options.start_timeout_ns);
    return life->now_ns - life->begun_ns >= life->options.start_timeout_ns;
}

void life_count(struct gossip_life *life)
{
    life->eligible = true;
    life_flags(life, GOSSIP_RECORD_ELIGIBLE, 0);
}

static void start(struct gossip_life *life, bool fetch)
{
    struct gossip_life_action *action = life_act(life, GOSSIP_LIFE_START);

    action->fetch = fetch;
    life->late = fetch;
    life->late_ns = life->now_ns;
    life_enter(life, fetch ? GOSSIP_LIFE_FETCHING : GOSSIP_LIFE_TRAINING);
    if (!fetch) // who joins from now on needs a model
        life_flags(life, GOSSIP_RECORD_TRAINING, 0);
}

// Nobody else is known or expected.
static bool is_first(const struct gossip_life *life)
{
    return life->census.others == 0 && life->self.listed == 0 && life->options.start_members <= 1;
}

static bool has_met(struct gossip_life *life)
{
    if (life->census.others > 0 && life->met_ns == 0)
        life->met_ns = life->now_ns;
    if (life->met_ns == 0)
        return false;
    life_wake(life, life->met_ns + MEET_NS);
    return life->census.others > 0 && life->now_ns - life->met_ns >= MEET_NS;
}

// The seed model is a complete state as long as nobody has moved on from it; then a donor's is wanted.
// Whether somebody has is only known of those who have answered.
void life_consider_joining(struct gossip_life *life)
{
    if (life->state != GOSSIP_LIFE_JOINING)
        return;
    bool fresh = life->options.trains && !life->options.resumed;
    if (fresh && life->census.training > 0) {
        life_tell(life, GOSSIP_LIFE_OTHERS_TRAIN, 0, 0);
        start(life, true);
        return;
    }
    bool met = has_met(life) && !(fresh && life->census.claim > 0);
    if (life->options.resumed || met || is_first(life) || is_late(life)) {
        life_count(life);
        life_enter(life, GOSSIP_LIFE_WAITING);
    }
}

static bool all_are_there(const struct gossip_life *life)
{
    size_t wanted = life->options.start_members;

    if (wanted == 0)
        return life->self.missing == 0;
    return life->self.n_view >= wanted || wanted <= 1;
}

// Edges to all neighbours are live; where others train already they are not waited for for ever.
static bool is_ready(struct gossip_life *life, bool joins)
{
    const bool in_view = life->census.others == 0 || life->self.in_view;
    const bool patient = life->now_ns - life->begun_ns < EDGES_NS;

    life_wake(life, life->begun_ns + EDGES_NS);
    return in_view && (life->options.local || life->self.edges_live || (joins && !patient));
}

void life_consider_waiting(struct gossip_life *life)
{
    if (life->state != GOSSIP_LIFE_WAITING || !life->options.trains)
        return;
    const bool all = all_are_there(life), joins = life->census.training > 0; // then nobody new is waited for
    if (!is_late(life) && !(is_ready(life, joins) && (all || joins)))
        return;
    if (!all)
        life_tell(life, GOSSIP_LIFE_BEGINS_WITHOUT, life->self.n_view, life->self.missing);
    // It was away, and has nothing to add to what all others have come to.
    if (life_is_alone(life) && life_has_donor(life)) {
        life_tell(life, GOSSIP_LIFE_OTHERS_FINISHED, 0, 0);
        start(life, true);
        return;
    }
    life_tell(life, GOSSIP_LIFE_BEGINS, life->census.others, 0);
    start(life, false);
}
