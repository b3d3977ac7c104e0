#include "lab/sim/sim_net.h"

#include "lab/sim/sim_stream.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PORT 7000

void sim_net_create(struct sim_net *net, struct sim_queue *queue, size_t hosts, uint64_t seed,
                    sim_net_tell *tell, void *owner)
{
    *net = (struct sim_net){.queue = queue, .tell = tell, .owner = owner, .hosts = hosts};
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

static void port_closed(void *owner, struct sim_event *event)
{
    struct sim_net *net = owner;
    size_t host = (size_t)event->a, to = (size_t)event->b;

    if (sim_net_open(net, to, host) && net->state[host] == SIM_HOST_OPEN)
        net->tell(net->owner, host, &(const struct sim_input){.kind = SIM_IN_PORT_CLOSED, .from = to});
}

static void arrive(void *owner, struct sim_event *event)
{
    struct sim_net *net = owner;
    size_t from = (size_t)event->a, to = (size_t)event->b;

    if (!sim_net_open(net, from, to))
        return;
    if (net->state[to] == SIM_HOST_OPEN) {
        const struct sim_input input = {
            .kind = SIM_IN_DATAGRAM, .from = from, .bytes = event->bytes, .count = event->n_bytes};
        net->tell(net->owner, to, &input);
    } else if (base_rng_uniform(&net->rng) < net->port_closed_chance) {
        const struct sim_event answer = {
            .time_ns = sim_net_due(net, to, from), .run = port_closed, .owner = net, .a = from, .b = to};
        sim_queue_push(net->queue, &answer);
    }
}

static void send_one(struct sim_net *net, size_t from, size_t to, const uint8_t *bytes, size_t count,
                     size_t wire_bytes)
{
    struct sim_event event = {.run = arrive, .owner = net, .a = from, .b = to, .n_bytes = count};

    if (!sim_net_datagram_due(net, from, to, wire_bytes, &event.time_ns)) {
        net->datagrams_lost++;
        return;
    }
    event.bytes = sim_copy(bytes, count);
    sim_queue_push(net->queue, &event);
}

void sim_net_datagram(struct sim_net *net, size_t from, size_t to, const uint8_t *bytes, size_t count,
                      size_t wire_bytes)
{
    double duplicate = net->wire ? 0 : net->quality[sim_path_of(net, from, to)->quality].duplicate;

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
