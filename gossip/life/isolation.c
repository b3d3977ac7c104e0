// A node none of whose edges is live, though others are there: people are told. Where all its neighbours have
// another scaling it ends.
#include "gossip/life/life_state.h"

#define ISOLATED_NS (15 * LIFE_SECOND) // without a live edge, before people are told

// Silence of all edges is a fault that nothing else would show: a firewall on both ends, say.
void life_consider_isolation(struct gossip_life *life)
{
    const bool lonely = life->state == GOSSIP_LIFE_TRAINING && life->census.others > 0 &&
                        !life->options.local && life->self.n_neighbours > 0 && !life->self.edge_live;

    BASE_ASSERT(!life->isolated || life->lonely_ns > 0);
    if (!lonely) {
        if (life->isolated && life->self.edge_live)
            life_tell(life, GOSSIP_LIFE_MEETS_AGAIN, 0, 0);
        life->isolated = false;
        life->lonely_ns = 0;
        return;
    }
    if (life->lonely_ns == 0)
        life->lonely_ns = life->now_ns;
    life_wake(life, life->lonely_ns + ISOLATED_NS);
    if (life->now_ns - life->lonely_ns >= ISOLATED_NS && life->self.apart == life->self.n_neighbours) {
        life_abandon(life, GOSSIP_LIFE_APART, life->self.scaling[0], life->self.scaling[1]);
        return;
    }
    if (!life->isolated && life->now_ns - life->lonely_ns >= ISOLATED_NS) {
        life->isolated = true;
        life_tell(life, GOSSIP_LIFE_ISOLATED, life->self.n_neighbours, 0);
    }
}
