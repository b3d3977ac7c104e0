// Whether a node counts in the graph: its state is complete, and others may meet it.
#include "gossip/life/life_state.h"

void life_count(struct gossip_life *life)
{
    BASE_ASSERT(!(life->eligible && life->withdrawn));
    life->eligible = life->complete = true;
    life->withdrawn = false;
    life_flags(life, GOSSIP_RECORD_ELIGIBLE, 0);
}

// A node that fetches has no model to give: two such nodes could wait for each other forever.
void life_uncount(struct gossip_life *life)
{
    BASE_ASSERT(!(life->eligible && life->withdrawn));
    life->eligible = life->withdrawn = false;
    life_flags(life, 0, GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING);
}

// Others have continued without being heard here: until this node knows the cluster's round, its steps would
// be for an old round, and in the graph it would hold up its neighbours.
void life_withdraw(struct gossip_life *life)
{
    if (!life->eligible)
        return;
    BASE_ASSERT(!life->withdrawn);
    life->withdrawn = true;
    life->eligible = false;
    life_flags(life, 0, GOSSIP_RECORD_ELIGIBLE);
}

void life_comes_back(struct gossip_life *life)
{
    BASE_ASSERT(life->late_ns <= life->now_ns);
    life->late = life->returned = true;
    life->late_ns = life->now_ns;
}

void life_return(struct gossip_life *life)
{
    if (!life->withdrawn)
        return;
    BASE_ASSERT(!life->eligible);
    life_comes_back(life);
    life_count(life);
}
