#include "lab/sim/sim_net.h"

#include "base/error.h"
#include "lab/sim/sim_stream.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PORT 7000

void sim_net_create(struct sim_net *net, struct sim_queue *queue, size_t hosts, uint64_t seed,
                    const struct sim_net_handler *handler, void *owner)
{
    *net = (struct sim_net){.queue = queue, .handler = handler, .owner = owner, .hosts = hosts};
    base_rng_seed_stream(&net->rng, seed, 0x6e6574);
    net->state = sim_must(calloc(hosts, sizeof *net->state));
    net->shut = sim_must(calloc(hosts, sizeof *net->shut));
    net->path = sim_must(calloc(hosts, sizeof(struct sim_path *)));
    net->port_closed_chance = 1;
}

void sim_net_destroy(struct sim_net *net)
{
    sim_streams_free(net);
    free(net->state);
    free(net->shut);
    for (size_t i = 0; i < net->hosts; i++)
        free(net->path[i]);
    free(net->path);
}

struct gossip_address sim_net_address(size_t host)
{
    return (struct gossip_address){
        .family = 4, .ip = {10, 9, (uint8_t)(host >> 8), (uint8_t)host}, .port = PORT};
}

bool sim_net_host_of(const struct sim_net *net, const struct gossip_address *address, size_t *host)
{
    *host = (size_t)address->ip[2] << 8 | address->ip[3];
    return address->family == 4 && address->ip[0] == 10 && address->ip[1] == 9 && address->port == PORT &&
           *host < net->hosts;
}

struct sim_path *sim_net_path(struct sim_net *net, size_t from, size_t to)
{
    if (!net->path[from]) {
        net->path[from] = sim_must(calloc(net->hosts, sizeof **net->path));
        for (size_t i = 0; i < net->hosts; i++)
            net->path[from][i] = net->alike;
    }
    return &net->path[from][to];
}

static const struct sim_path *path_of(const struct sim_net *net, size_t from, size_t to)
{
    return net->path[from] ? &net->path[from][to] : &net->alike;
}

void sim_net_set_quality(struct sim_net *net, uint8_t quality)
{
    net->alike.quality = quality;
    for (size_t from = 0; from < net->hosts; from++)
        for (size_t to = 0; net->path[from] && to < net->hosts; to++)
            net->path[from][to].quality = quality;
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

// Sent again by its kernel until it is through.
uint64_t sim_net_due_of(struct sim_net *net, size_t from, size_t to, size_t wire_bytes)
{
    const struct sim_path *path = path_of(net, from, to);
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
           !path_of(net, from, to)->cuts;
}

bool sim_net_callable(struct sim_net *net, size_t from, size_t to)
{
    return sim_net_open(net, from, to) && !path_of(net, from, to)->shut;
}

static void port_closed(void *owner, struct sim_event *event)
{
    struct sim_net *net = owner;
    size_t host = (size_t)event->a, to = (size_t)event->b;

    if (sim_net_open(net, to, host) && net->state[host] == SIM_HOST_OPEN)
        net->handler->port_closed(net->owner, host, to);
}

static void arrive(void *owner, struct sim_event *event)
{
    struct sim_net *net = owner;
    size_t from = (size_t)event->a, to = (size_t)event->b;

    if (!sim_net_open(net, from, to))
        return;
    if (net->state[to] == SIM_HOST_OPEN) {
        net->handler->datagram(net->owner, to, from, event->bytes, event->n_bytes);
    } else if (base_rng_uniform(&net->rng) < net->port_closed_chance) {
        const struct sim_event answer = {
            .time_ns = sim_net_due(net, to, from), .run = port_closed, .owner = net, .a = from, .b = to};
        sim_queue_push(net->queue, &answer);
    }
}

// False: it is lost.
static bool datagram_due(struct sim_net *net, size_t from, size_t to, size_t wire_bytes, uint64_t *due_ns)
{
    const struct sim_path *path = path_of(net, from, to);
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

static void send_one(struct sim_net *net, size_t from, size_t to, const uint8_t *bytes, size_t count,
                     size_t wire_bytes)
{
    struct sim_event event = {.run = arrive, .owner = net, .a = from, .b = to, .n_bytes = count};

    if (!datagram_due(net, from, to, wire_bytes, &event.time_ns)) {
        net->datagrams_lost++;
        return;
    }
    event.bytes = sim_copy(bytes, count);
    sim_queue_push(net->queue, &event);
}

void sim_net_datagram(struct sim_net *net, size_t from, size_t to, const uint8_t *bytes, size_t count,
                      size_t wire_bytes)
{
    double duplicate = net->wire ? 0 : net->quality[path_of(net, from, to)->quality].duplicate;

    net->datagrams++;
    net->datagram_bytes += wire_bytes;
    if (!sim_net_open(net, from, to))
        return;
    send_one(net, from, to, bytes, count, wire_bytes);
    if (duplicate > 0 && base_rng_uniform(&net->rng) < duplicate)
        send_one(net, from, to, bytes, count, wire_bytes);
}

void sim_net_host(struct sim_net *net, size_t host, enum sim_host_state state)
{
    if (net->state[host] == SIM_HOST_OPEN && state != SIM_HOST_OPEN)
        sim_streams_orphan(net, host, state == SIM_HOST_GONE);
    net->state[host] = state;
}
