// Whether a node counts in the graph: its state is complete, and others may meet it.
#include "gossip/life/life_state.h"

void life_count(struct gossip_life *life)
{
    life->counts = true;
    life_reach(life, LIFE_COMPLETE);
    life_flags(life, GOSSIP_RECORD_ELIGIBLE, 0);
}

// A node that fetches has no model to give: two such nodes could wait for each other forever.
void life_uncount(struct gossip_life *life)
{
    life->counts = false;
    life_flags(life, 0, GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING);
}
