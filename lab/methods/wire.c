// Bytes and times of a round's messages.
#include "lab/methods/engine.h"

#include "gossip/session/records.h"
#include "gossip/wire/message.h"

#include <stdlib.h>

size_t rounds_wire_bytes(const struct rounds_world *world, size_t payload_bytes)
{
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t header_bytes = 0;
    const struct gossip_message message = {
        .kind = GOSSIP_XCHG,
        .as.exchange = {.sequence = world->round,
                        .clock = world->round,
                        .weight = 0.5f,
                        .step_scale = world->scale[0],
                        .delta_bytes = payload_bytes < UINT32_MAX ? (uint32_t)payload_bytes : UINT32_MAX},
    };
    enum base_error error = gossip_message_encode_header(&message, header, sizeof header, &header_bytes);
    BASE_ASSERT(!error);
    return gossip_sealed_bytes(header_bytes + payload_bytes);
}

uint64_t rounds_wire_send(struct rounds_world *world, size_t from, size_t to, size_t wire_bytes,
                          uint64_t at_ns)
{
    uint64_t arrival_ns = at_ns;
    (void)lab_network_send(world->network, LAB_STREAM, from, to, wire_bytes, at_ns, &arrival_ns);
    world->node[from].row.bytes_sent += wire_bytes;
    world->node[to].row.bytes_received += wire_bytes;
    if (arrival_ns > world->end_ns)
        world->end_ns = arrival_ns;
    return arrival_ns;
}

// A node sends in a step what it received in the one before.
static void ring_step(struct rounds_world *world, size_t wire_bytes, uint64_t *ready_ns)
{
    const size_t *node = world->graph.node;
    size_t living = world->living;
    uint64_t first_ns = ready_ns[node[0]];
    for (size_t i = living; i-- > 0;) { // backwards: a time is read before this step changes it
        size_t from = node[i], to = node[(i + 1) % living];
        uint64_t begin_ns = i ? ready_ns[from] : first_ns;
        uint64_t come_ns = rounds_wire_send(world, from, to, wire_bytes, begin_ns);
        if (come_ns > ready_ns[to])
            ready_ns[to] = come_ns;
    }
}

enum base_error rounds_wire_ring(struct rounds_world *world, size_t bytes)
{
    size_t living = world->living;
    uint64_t *ready_ns = malloc(world->n * sizeof *ready_ns);
    if (!ready_ns)
        return BASE_ENOMEM;
    for (size_t i = 0; i < world->n; i++)
        ready_ns[i] = world->ready_ns;
    for (size_t step = 0; living > 1 && step < 2 * (living - 1); step++)
        ring_step(world, rounds_wire_bytes(world, (bytes + living - 1) / living), ready_ns);
    free(ready_ns);
    return BASE_OK;
}

static void send_to_partner(struct rounds_world *world, size_t node, size_t payload, size_t dense)
{
    if (world->graph.partner[node] == TOPOLOGY_NOBODY)
        return;
    rounds_wire_send(world, node, world->graph.partner[node], rounds_wire_bytes(world, payload),
                     world->ready_ns);
    world->node[node].row.delta_bytes += payload;
    world->node[node].row.dense_bytes += dense;
    world->node[node].row.exchanges++;
}

void rounds_wire_meetings(struct rounds_world *world, size_t bytes)
{
    for (size_t i = 0; i < world->n; i++)
        send_to_partner(world, i, bytes, bytes);
}

void rounds_wire_packets(struct rounds_world *world)
{
    for (size_t i = 0; i < world->n; i++)
        send_to_partner(world, i, world->packet[i].bytes, world->d * sizeof(float));
}

void rounds_wire_neighbours(struct rounds_world *world, bool dense)
{
    const struct rounds_edges *edges = &world->graph.edges;
    size_t dense_bytes = world->d * sizeof(float);
    for (size_t i = 0; i < world->n; i++) {
        size_t payload = dense ? dense_bytes : world->packet[i].bytes,
               wire_bytes = rounds_wire_bytes(world, payload);
        for (size_t e = edges->first[i]; e < edges->first[i + 1]; e++) {
            rounds_wire_send(world, i, edges->peers[e], wire_bytes, world->ready_ns);
            world->node[i].row.delta_bytes += payload;
            world->node[i].row.dense_bytes += dense_bytes;
            world->node[i].row.exchanges++;
        }
    }
}

void rounds_wire_all(struct rounds_world *world)
{
    for (size_t from = 0; from < world->n; from++) {
        if (world->gone[from])
            continue;
        size_t payload = world->packet[from].bytes, wire_bytes = rounds_wire_bytes(world, payload);
        for (size_t to = 0; to < world->n; to++) {
            if (to == from || world->gone[to])
                continue;
            rounds_wire_send(world, from, to, wire_bytes, world->ready_ns);
            world->node[from].row.delta_bytes += payload;
            world->node[from].row.dense_bytes += world->d * sizeof(float);
            world->node[from].row.exchanges++;
        }
    }
}
