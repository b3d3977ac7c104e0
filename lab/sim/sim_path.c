// The paths of the simulated network: whether and when packets arrive.
#include "lab/sim/sim_stream.h"
#include <math.h>
#include <stdlib.h>

struct sim_path *sim_net_path(struct sim_net *net, size_t from, size_t to)
{
    if (!net->path[from]) {
        net->path[from] = sim_must(calloc(net->hosts, sizeof **net->path));
        for (size_t i = 0; i < net->hosts; i++)
            net->path[from][i] = net->alike;
    }
    return &net->path[from][to];
}

const struct sim_path *sim_path_of(const struct sim_net *net, size_t from, size_t to)
{
    return net->path[from] ? &net->path[from][to] : &net->alike;
}

static uint64_t delay_of(struct sim_net *net, const struct sim_quality *quality)
{
    uint64_t delay_ns = quality->delay_ns;

    if (quality->jitter_ns) {
        double jitter = -log(1 - base_rng_uniform(&net->rng));
        delay_ns += (uint64_t)((double)quality->jitter_ns * (jitter < 8 ? jitter : 8));
    }
    return delay_ns;
}

static uint64_t behind_clog(struct sim_net *net, const struct sim_path *path, uint64_t due_ns)
{
    return path->clogged_until_ns > due_ns ? path->clogged_until_ns + base_rng_below(&net->rng, SIM_MS)
                                           : due_ns;
}

// When a part of a stream arrives: the kernel retransmits it until it does.
uint64_t sim_net_due_of(struct sim_net *net, size_t from, size_t to, size_t wire_bytes)
{
    const struct sim_path *path = sim_path_of(net, from, to);
    const struct sim_quality *quality = &net->quality[path->quality];
    uint64_t due_ns = net->queue->now_ns;

    if (net->wire) {
        (void)net->wire->send(net->wire->owner, true, from, to, wire_bytes, net->queue->now_ns, &due_ns);
        return behind_clog(net, path, due_ns);
    }
    due_ns = behind_clog(net, path, due_ns + delay_of(net, quality));
    while (wire_bytes && quality->loss > 0 && base_rng_uniform(&net->rng) < quality->loss)
        due_ns += SIM_RESEND_NS;
    return due_ns;
}

uint64_t sim_net_due(struct sim_net *net, size_t from, size_t to)
{
    return sim_net_due_of(net, from, to, 0);
}

bool sim_net_open(struct sim_net *net, size_t from, size_t to)
{
    return net->state[from] != SIM_HOST_GONE && net->state[to] != SIM_HOST_GONE &&
           !sim_path_of(net, from, to)->cuts;
}

bool sim_net_callable(struct sim_net *net, size_t from, size_t to)
{
    return sim_net_open(net, from, to) && !sim_path_of(net, from, to)->shut;
}

bool sim_net_datagram_due(struct sim_net *net, size_t from, size_t to, size_t wire_bytes, uint64_t *due_ns)
{
    const struct sim_path *path = sim_path_of(net, from, to);
    const struct sim_quality *quality = &net->quality[path->quality];

    *due_ns = net->queue->now_ns;
    if (net->wire) {
        bool arrives =
            net->wire->send(net->wire->owner, false, from, to, wire_bytes, net->queue->now_ns, due_ns);
        *due_ns = behind_clog(net, path, *due_ns);
        return arrives;
    }
    *due_ns = behind_clog(net, path, *due_ns + delay_of(net, quality));
    if (base_rng_uniform(&net->rng) < quality->loss)
        return false;
    if (quality->reorder > 0 && base_rng_uniform(&net->rng) < quality->reorder)
        *due_ns += base_rng_below(&net->rng, 8 * (quality->delay_ns + quality->jitter_ns) + 1);
    return true;
}
