// Whether a node counts in the graph: its state is complete, and others may meet it.
#include "gossip/life/life_state.h"

void life_count(struct gossip_life *life)
{
    life->place = LIFE_COUNTS;
    life_reach(life, LIFE_COMPLETE);
    life_flags(life, GOSSIP_RECORD_ELIGIBLE, 0);
}

// A node that fetches has no model to give: two such nodes could wait for each other forever.
void life_uncount(struct gossip_life *life)
{
    life->place = LIFE_OUT;
    life_flags(life, 0, GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING);
}

// Others have continued without being heard here: until this node knows the cluster's round, its steps would
// be for an old round, and in the graph it would hold up its neighbours.
void life_withdraw(struct gossip_life *life)
{
    if (life->place != LIFE_COUNTS)
        return;
    life->place = LIFE_WITHDRAWN;
    life_flags(life, 0, GOSSIP_RECORD_ELIGIBLE);
}

void life_return(struct gossip_life *life)
{
    if (life->place == LIFE_WITHDRAWN)
        life_count(life);
}
