#include "lab/experiment/network.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

struct way {
    uint64_t free_ns, prompt_ns; // end of all bookings; end of the single packets, which pass the others
};

struct lab_network {
    struct lab_links links; // their rules are borrowed
    struct base_rng rng;
    struct way *out, *in;   // [nodes] each, one allocation
    uint64_t *link_free_ns; // [nodes, nodes] of links with their own bandwidth, or NULL
};

enum base_error lab_network_create(const struct lab_links *links, uint64_t seed, struct lab_network **network,
                                   struct base_reason *why)
{
    struct lab_network *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return base_fail(why, BASE_ENOMEM, "no memory for a network");
    fresh->links = *links;
    base_rng_seed(&fresh->rng, seed);
    fresh->out = calloc(2 * links->nodes, sizeof *fresh->out);
    fresh->in = fresh->out + links->nodes;
    if (lab_links_bound(links))
        fresh->link_free_ns = calloc(links->nodes * links->nodes, sizeof *fresh->link_free_ns);
    if (!fresh->out || (lab_links_bound(links) && !fresh->link_free_ns)) {
        lab_network_destroy(fresh);
        return base_fail(why, BASE_ENOMEM, "no memory for a network of %zu nodes", links->nodes);
    }
    *network = fresh;
    return BASE_OK;
}

void lab_network_destroy(struct lab_network *network)
{
    if (!network)
        return;
    free(network->out);
    free(network->link_free_ns);
    free(network);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t transfer_ns(size_t bytes, double megabits)
{
    return megabits > 0 ? (uint64_t)ceil((double)bytes * 8000.0 / megabits) : 0;
}

// Books `cost_ns` from `from_ns` on; returns the beginning.
static uint64_t book(struct way *way, bool prompt, uint64_t from_ns, uint64_t cost_ns)
{
    uint64_t begin_ns = later(from_ns, prompt ? way->prompt_ns : way->free_ns);
    if (prompt)
        way->prompt_ns = begin_ns + cost_ns;
    way->free_ns = later(from_ns, way->free_ns) + cost_ns;
    return begin_ns;
}

// The number of rounds of retransmission until every packet has arrived.
static uint64_t repetitions(struct base_rng *rng, size_t bytes, double loss)
{
    uint64_t most = 0;
    for (size_t left = (bytes + LAB_PACKET_BYTES - 1) / LAB_PACKET_BYTES; loss > 0 && left; left--) {
        uint64_t lost = 0;
        while (base_rng_uniform(rng) < loss)
            lost++;
        most = later(most, lost);
    }
    return most;
}

static uint64_t delay_ns(struct base_rng *rng, const struct lab_link *link)
{
    double jitter =
        link->jitter_ns ? -log(1 - base_rng_uniform(rng)) * (double)link->jitter_ns : 0; // exponential
    return link->latency_ns + (uint64_t)jitter;
}

bool lab_network_send(struct lab_network *network, enum lab_carrier carrier, size_t from, size_t to,
                      size_t bytes, uint64_t now_ns, uint64_t *arrival_ns)
{
    struct lab_link link;
    bool prompt = bytes <= LAB_PACKET_BYTES;
    lab_links_between(&network->links, from, to, &link);
    uint64_t cost_ns = transfer_ns(bytes, network->links.common.bandwidth);
    uint64_t begin_ns = book(&network->out[from], prompt, now_ns, cost_ns), left_ns = begin_ns + cost_ns;
    if (link.bandwidth > 0) {
        uint64_t *free_ns = &network->link_free_ns[from * network->links.nodes + to];
        *free_ns = later(*free_ns, begin_ns) + transfer_ns(bytes, link.bandwidth);
        left_ns = later(left_ns, *free_ns);
    }
    if (carrier == LAB_DATAGRAM && link.loss > 0 && base_rng_uniform(&network->rng) < link.loss)
        return false;
    uint64_t delayed_ns = delay_ns(&network->rng, &link);
    if (carrier == LAB_STREAM)
        delayed_ns += repetitions(&network->rng, bytes, link.loss) * 2 * link.latency_ns;
    // The receiver's side is booked as if the message arrived at once: one that is delayed in transit must
    // not delay messages of other hosts.
    uint64_t taken_ns = book(&network->in[to], prompt, now_ns, cost_ns) + cost_ns;
    *arrival_ns = later(left_ns, taken_ns) + delayed_ns;
    return true;
}

enum base_error lab_links_of(const struct lab_experiment *e, struct lab_links *links, struct base_reason *why)
{
    const struct node_tree *where = NULL;
    const struct lab_link common = {.latency_ns = e->sim.latency_ns,
                                    .jitter_ns = e->sim.jitter_ns,
                                    .loss = e->sim.loss,
                                    .bandwidth = e->sim.bandwidth};
    enum base_error error = lab_links_read(&e->sim.links, e->experiment.nodes, &common, links, &where, why);
    return error ? lab_experiment_at_part(e, "sim.links", where, why, error) : BASE_OK;
}
