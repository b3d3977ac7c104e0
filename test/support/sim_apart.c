// Finds the pairs of processes without a way to each other: neither directly in both directions, nor through
// a third one that could confirm.
#include "test/support/sim_check.h"

#define LOOK_NS  (250 * SIM_MS)
#define MERGE_NS (3 * SIM_SECOND) // a way that existed for a shorter time may have been found by no probe

static bool is_up(const struct sim_world *world, size_t host)
{
    return world->node[host]->running && !world->node[host]->paused;
}

static bool passes(const struct sim_world *world, size_t from, size_t to)
{
    const struct sim_path *path = world->net.path[from] ? &world->net.path[from][to] : &world->net.alike;

    return !path->cuts && path->clogged_until_ns <= world->queue.now_ns;
}

static bool meet(const struct sim_world *world, size_t a, size_t b)
{
    return is_up(world, a) && is_up(world, b) && passes(world, a, b) && passes(world, b, a);
}

static bool holds(const struct sim_world *world, size_t host, size_t peer_host)
{
    const struct sim_seen *seen = sim_check_of(world)->seen + host * world->options.nodes;
    const struct sim_seen *at = &seen[world->node[peer_host]->self];

    return at->known && (at->state == GOSSIP_MEMBER_ALIVE || at->state == GOSSIP_MEMBER_SUSPECT);
}

// A helper is a member that the observer knows and that knows the subject.
static bool has_way(const struct sim_world *world, size_t observer, size_t subject)
{
    bool found = meet(world, observer, subject);

    for (size_t third = 0; third < world->hosts && !found; third++)
        found = third != observer && third != subject && holds(world, observer, third) &&
                holds(world, third, subject) && meet(world, observer, third) && meet(world, third, subject);
    return found;
}

void sim_apart_look(struct sim_check *check)
{
    const struct sim_world *world = check->world;
    const uint64_t now_ns = world->queue.now_ns;

    if (now_ns < check->look_ns)
        return;
    check->look_ns = now_ns + LOOK_NS;
    for (size_t i = 0; i < world->hosts * world->hosts; i++) {
        struct sim_apart *apart = &check->apart[i];
        if (!passes(world, i / world->hosts, i % world->hosts))
            check->broken_ns[i] = now_ns;
        if (i / world->hosts == i % world->hosts || has_way(world, i / world->hosts, i % world->hosts))
            continue;
        if (!apart->until_ns || now_ns > apart->until_ns + MERGE_NS)
            apart->since_ns = now_ns;
        apart->until_ns = now_ns;
    }
}

bool sim_apart_for(const struct sim_check *check, size_t observer, size_t subject, uint64_t least_ns)
{
    const struct sim_apart *apart = &check->apart[observer * check->world->hosts + subject];

    return apart->until_ns - apart->since_ns >= least_ns &&
           check->world->queue.now_ns <= apart->until_ns + MERGE_NS;
}
