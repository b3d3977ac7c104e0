// A node without a live edge was away; if others are there, it reports that. If all its neighbours have
// another scaling, it ends.
#include "gossip/life/life_state.h"

#define UNHEARD_NS  (2 * LIFE_SECOND)  // without a live edge, and the others may be far ahead
#define ISOLATED_NS (15 * LIFE_SECOND) // likewise, before people are told

// Neighbours that end for this reason leave the view: their scaling is remembered; otherwise the last node
// would continue alone.
static void see_apart(struct gossip_life *life)
{
    BASE_ASSERT(life->self.apart <= life->self.n_neighbours);
    if (life->census.others == 0 || life->self.n_neighbours == 0)
        return;
    const bool apart = life->self.apart == life->self.n_neighbours;
    for (size_t i = 0; i < 2; i++)
        life->scaling[i] = apart ? life->self.scaling[i] : 0;
}

static bool is_apart(const struct gossip_life *life)
{
    return life->scaling[0] != life->scaling[1];
}

static bool is_lonely(const struct gossip_life *life)
{
    return life->state == GOSSIP_LIFE_TRAINING && !life->options.local && !life->self.edge_live;
}

static bool has_neighbours(const struct gossip_life *life)
{
    return (life->census.others > 0 && life->self.n_neighbours > 0) || is_apart(life);
}

// An edge is live again after a while without any. The others may have met each other meanwhile.
static bool hears_again(const struct gossip_life *life)
{
    return life->state == GOSSIP_LIFE_TRAINING && life->self.edge_live && life->hearing != LIFE_HEARS &&
           life->now_ns - life->lonely_ns >= UNHEARD_NS;
}

// Silence of all edges is a fault that nothing else would show: a firewall on both ends, say.
void life_consider_isolation(struct gossip_life *life)
{
    see_apart(life);
    if (!is_lonely(life)) {
        if (hears_again(life)) {
            life_was_away(life);
            if (life->pull == LIFE_PULL_NONE)
                life->pull = LIFE_PULL_EDGES;
        }
        if (life->hearing == LIFE_ISOLATED && life->self.edge_live)
            life_tell(life, GOSSIP_LIFE_MEETS_AGAIN, 0, 0);
        life->hearing = LIFE_HEARS;
        return;
    }
    if (life->hearing == LIFE_HEARS) {
        life->hearing = LIFE_LONELY;
        life->lonely_ns = life->now_ns;
    }
    life_wake(life, life->lonely_ns + ISOLATED_NS);
    if (life->now_ns - life->lonely_ns < ISOLATED_NS || !has_neighbours(life))
        return;
    if (is_apart(life)) {
        life_abandon(life, GOSSIP_LIFE_APART, life->scaling[0], life->scaling[1]);
    } else if (life->hearing == LIFE_LONELY) {
        life->hearing = LIFE_ISOLATED;
        life_tell(life, GOSSIP_LIFE_ISOLATED, life->self.n_neighbours, 0);
    }
}
