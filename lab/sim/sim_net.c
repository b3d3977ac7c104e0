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
    net->path = sim_must(calloc(hosts * hosts, sizeof *net->path));
    net->port_closed_chance = 1;
}

void sim_net_destroy(struct sim_net *net)
{
    sim_streams_free(net);
    free(net->state);
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
    return &net->path[from * net->hosts + to];
}

uint64_t sim_net_delay(struct sim_net *net, size_t from, size_t to)
{
    const struct sim_path *path = sim_net_path(net, from, to);
    const struct sim_quality *quality = &net->quality[path->quality];
    uint64_t delay_ns = quality->delay_ns;

    if (quality->jitter_ns) {
        double jitter = -log(1 - base_rng_uniform(&net->rng));
        delay_ns += (uint64_t)((double)quality->jitter_ns * (jitter < 8 ? jitter : 8));
    }
    if (path->clogged_until_ns > net->queue->now_ns + delay_ns)
        delay_ns = path->clogged_until_ns - net->queue->now_ns + base_rng_below(&net->rng, SIM_MS);
    return delay_ns;
}

bool sim_net_open(struct sim_net *net, size_t from, size_t to)
{
    return net->state[from] != SIM_HOST_GONE && net->state[to] != SIM_HOST_GONE &&
           !sim_net_path(net, from, to)->cuts;
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
        const struct sim_event answer = {.time_ns = net->queue->now_ns + sim_net_delay(net, to, from),
                                         .run = port_closed,
                                         .owner = net,
                                         .a = from,
                                         .b = to};
        sim_queue_push(net->queue, &answer);
    }
}

static void send_one(struct sim_net *net, size_t from, size_t to, const uint8_t *bytes, size_t count)
{
    const struct sim_quality *quality = &net->quality[sim_net_path(net, from, to)->quality];
    uint64_t delay_ns = sim_net_delay(net, from, to);

    if (base_rng_uniform(&net->rng) < quality->loss) {
        net->datagrams_lost++;
        return;
    }
    if (quality->reorder > 0 && base_rng_uniform(&net->rng) < quality->reorder)
        delay_ns += base_rng_below(&net->rng, 8 * (quality->delay_ns + quality->jitter_ns) + 1);
    const struct sim_event event = {.time_ns = net->queue->now_ns + delay_ns,
                                    .run = arrive,
                                    .owner = net,
                                    .a = from,
                                    .b = to,
                                    .bytes = sim_copy(bytes, count),
                                    .n_bytes = count};
    sim_queue_push(net->queue, &event);
}

void sim_net_datagram(struct sim_net *net, size_t from, size_t to, const uint8_t *bytes, size_t count)
{
    double duplicate = net->quality[sim_net_path(net, from, to)->quality].duplicate;

    net->datagrams++;
    net->datagram_bytes += count;
    if (!sim_net_open(net, from, to))
        return;
    send_one(net, from, to, bytes, count);
    if (duplicate > 0 && base_rng_uniform(&net->rng) < duplicate)
        send_one(net, from, to, bytes, count);
}

void sim_net_host(struct sim_net *net, size_t host, enum sim_host_state state)
{
    if (net->state[host] == SIM_HOST_OPEN && state != SIM_HOST_OPEN)
        sim_streams_orphan(net, host, state == SIM_HOST_GONE);
    net->state[host] = state;
}
