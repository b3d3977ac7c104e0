// A member that lies: it has valid keys, runs like all others, and a hundred times a second sends something
// false. It suspects any member, forges what it cannot sign, replays old messages, and sends malformed
// packets. In every second world it also sends deltas that no honest member would send, to any neighbour and
// for any round, so that some of them wait there and are refused in the middle of something else.
#include "compress/packet.h"
#include "gossip/member/record.h"
#include "lab/sim/sim_process.h"
#include "test/support/cpu_kernels.h"
#include "test/support/sim_check.h"
#include "test/support/sim_fault.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EACH_NS    (10 * SIM_MS)
#define DELTA_EACH 200 // lies between two deltas, on average
#define DELTAS_MOST                                                                                          \
    6u // of one liar, and as many malformed packets over links: each is answered by a pause twice as long

enum { PACKET_GOSSIP = 6, PACKETS = 8, ITEM_RECORD = 1, ITEM_SUSPICION = 2, ITEM_DEAD = 3, OLD = 16 };

struct liar {
    struct sim_node *node;
    struct gossip_record old[OLD]; // records as they were
    size_t n_old;
    unsigned deltas, malformed; // sent so far; malformed: over links
};

static void header(struct sim_node *node, struct base_writer *writer, uint8_t kind)
{
    base_write_u8(writer, kind);
    base_write_u8(writer, (uint8_t)base_rng_below(&node->rng, 2)); // "I consider you dead"
    base_write_u32(writer, (uint32_t)base_rng_u64(&node->rng));
    base_write_u64(writer, base_rng_u64(&node->rng));
    base_write_u8(writer, (uint8_t)base_rng_below(&node->rng, 256));
    base_write_u64(writer, base_rng_u64(&node->rng)); // round and step: any
    base_write_u64(writer, base_rng_u64(&node->rng));
}

static bool victim(struct sim_node *node, struct gossip_member_info *info)
{
    size_t count = gossip_membership_count(node->member.membership);

    if (count < 2)
        return false;
    gossip_membership_info(node->member.membership, 1 + (size_t)base_rng_below(&node->rng, count - 1), info);
    return true;
}

static void suspicion(struct sim_node *node, struct base_writer *writer, const struct gossip_record *of,
                      bool forged)
{
    const struct sim_world *world = node->world;
    struct gossip_suspicion told = {.subject = of->id,
                                    .version = of->version,
                                    .suspector = *sim_member_id(node, node->self),
                                    .class = (uint8_t)base_rng_below(&node->rng, 2)};

    gossip_suspicion_sign(&told, &world->identity[node->self]);
    if (forged) // in the name of another
        told.suspector = *sim_member_id(node, (size_t)base_rng_below(&node->rng, world->options.nodes));
    gossip_suspicion_write(&told, writer);
}

// Returns whether it may be malformed.
static bool lie(struct liar *liar, struct base_writer *writer, const struct gossip_record *of)
{
    struct sim_node *node = liar->node;
    struct gossip_record fake = *of;
    uint64_t what = base_rng_below(&node->rng, 8);

    header(node, writer, what == 7 ? (uint8_t)(1 + base_rng_below(&node->rng, PACKETS)) : PACKET_GOSSIP);
    if (what < 3) {
        base_write_u8(writer, ITEM_SUSPICION);
        suspicion(node, writer, of, what == 2);
    } else if (what == 3) { // a newer record of another member, signed with the wrong key
        fake.version.incarnation += 1000;
        fake.flags ^= GOSSIP_RECORD_LEFT;
        gossip_record_sign(&fake, &node->world->identity[node->self]);
        base_write_u8(writer, ITEM_RECORD);
        gossip_record_write(&fake, writer);
    } else if (what == 4) { // an old record, which was once true
        base_write_u8(writer, ITEM_RECORD);
        gossip_record_write(liar->n_old ? &liar->old[base_rng_below(&node->rng, liar->n_old)] : of, writer);
    } else if (what == 5) {
        base_write_u8(writer, ITEM_DEAD);
        gossip_record_write(of, writer);
        base_write_u8(writer, 2);
        suspicion(node, writer, of, false);
        suspicion(node, writer, of, true);
    } else if (what == 6) {
        for (size_t i = base_rng_below(&node->rng, 200); i--;)
            base_write_u8(writer, (uint8_t)base_rng_u64(&node->rng));
    }
    return what >= 6;
}

static bool neighbour(struct sim_node *node, struct gossip_edge_info *info)
{
    const size_t count = node->train.exchange ? gossip_exchange_edges(node->train.exchange) : 0;

    if (count == 0)
        return false;
    gossip_exchange_edge_info(node->train.exchange, (size_t)base_rng_below(&node->rng, count), info);
    return info->state == GOSSIP_EDGE_LIVE;
}

// A few huge entries.
static size_t huge_packet(size_t parameters, uint8_t *bytes, size_t capacity)
{
    uint32_t index[] = {0, 1, 2};
    float value[] = {1e30f, -1e30f, 1e30f};
    struct compress_sparse entries = {.index = index, .value = value, .count = 3, .capacity = 3};
    size_t used = 0;

    BASE_ASSERT(parameters >= 3);
    BASE_ASSERT(!compress_packet_encode(cpu_kernels(), &entries, parameters, KERNELS_FP32, NULL, bytes,
                                        capacity, &used));
    return used;
}

static void send_delta(struct liar *liar)
{
    struct sim_node *node = liar->node;
    struct gossip_edge_info info;
    uint8_t bytes[256];

    if (liar->deltas == DELTAS_MOST || base_rng_below(&node->rng, DELTA_EACH) || !neighbour(node, &info))
        return;
    size_t used = 1 + (size_t)base_rng_below(&node->rng, 20);
    for (size_t i = 0; i < used; i++)
        bytes[i] = (uint8_t)base_rng_u64(&node->rng);
    if (base_rng_below(&node->rng, 2))
        used = huge_packet(gossip_exchange_parameters(node->train.exchange), bytes, sizeof bytes);
    const struct gossip_message message = {
        .kind = GOSSIP_XCHG,
        .as.exchange = {.epoch = info.epoch,
                        .sequence = info.sequence,
                        .clock = node->train.rounds.round + 1 + base_rng_below(&node->rng, 3),
                        .step_scale = 0.1f,
                        .weight = 0.5f,
                        .limit = INFINITY,
                        .bound = INFINITY,
                        .delta = bytes,
                        .delta_bytes = (uint32_t)used}};
    struct sim_check *check = sim_check_of(node->world);
    if (!sim_link_send(node, sim_world_find(node->world, &info.peer), &message))
        return;
    liar->deltas++;
    check->false_deltas++;
    check->may_lose = true; // its own end of that edge does not know of this request
}

static void tell(void *owner, struct sim_event *event)
{
    struct liar *liar = owner;
    struct sim_node *node = liar->node;
    uint8_t bytes[LIMIT_DATAGRAM_BYTES - LIMIT_DATAGRAM_OVERHEAD];
    struct base_writer writer = base_writer_of(bytes, sizeof bytes);
    struct gossip_member_info info, to;
    struct sim_event again = {
        .time_ns = node->world->queue.now_ns + EACH_NS, .run = tell, .owner = liar, .a = event->a};

    if (node->running && !node->paused && victim(node, &info) && victim(node, &to)) {
        size_t peer = sim_world_find(node->world, &to.record->id);
        liar->old[liar->n_old < OLD ? liar->n_old++ : base_rng_below(&node->rng, OLD)] = *info.record;
        const bool malformed = lie(liar, &writer, info.record),
                   over_link = base_rng_below(&node->rng, 32) == 0;
        if (!writer.failed && over_link && !(malformed && liar->malformed++ >= DELTAS_MOST))
            sim_link_packet(node, peer, bytes, base_writer_used(&writer));
        else if (!writer.failed)
            sim_member_send(node, peer, 0, bytes, base_writer_used(&writer));
        if (node->world->options.seed % 2)
            send_delta(liar);
    }
    again.bytes = event->bytes; // the liar's own bytes, freed with the queue
    event->bytes = NULL;
    sim_queue_push(&node->world->queue, &again);
}

void sim_liar_begin(struct sim_node *node)
{
    struct liar *liar = sim_must(calloc(1, sizeof *liar));
    const struct sim_event event = {.time_ns = node->world->queue.now_ns + EACH_NS,
                                    .run = tell,
                                    .owner = liar,
                                    .bytes = (uint8_t *)liar,
                                    .n_bytes = sizeof *liar};

    liar->node = node;
    node->faults.liar = true;
    sim_queue_push(&node->world->queue, &event);
}
