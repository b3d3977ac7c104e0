// Any questions to a donor and any blocks to a joiner, from several peers, in any order and at any time. What
// enters the joiner's vectors is finite, and the donor answers what it was asked.
#include "base/cursor.h"
#include "base/hash.h"
#include "gossip/snapshot/snapshot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PARAMETERS  (LIMIT_SNAPSHOT_BLOCK + 3u)
#define PATIENCE_NS 1000000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
    struct gossip_donor *donor;
    struct gossip_joiner *joiner;
    struct gossip_snapshot_vectors vectors;
    struct gossip_blob blob;
    float *values; // [PARAMETERS] of the block in an answer
    uint64_t now_ns;
};

static void ask(struct world *world, const struct gossip_id *peer, struct base_reader *in)
{
    const struct gossip_snapshot_ask question = {
        .snapshot = base_read_u8(in), .part = base_read_u8(in) % 5, .block = base_read_u8(in) % 3};
    struct gossip_message answer;
    bool answered;
    if (!gossip_donor_ask(world->donor, peer, &question, world->now_ns, &answer, &answered) && answered)
        BASE_ASSERT(answer.as.tell.part == question.part && answer.as.tell.block == question.block);
}

static void tell(struct world *world, const struct gossip_id *peer, struct base_reader *in)
{
    const uint8_t bits = base_read_u8(in);
    struct gossip_snapshot_tell told = {.snapshot = 1 + base_read_u8(in),
                                        .parts = base_read_u8(in) % 16,
                                        .part = base_read_u8(in) % 5,
                                        .block = base_read_u8(in) % 3,
                                        .round = bits & 1 ? UINT64_MAX : bits,
                                        .step = bits & 2 ? UINT64_MAX : bits};
    const size_t count = bits & 4 ? 1 + (size_t)base_read_u8(in) : told.block == 1 ? 3 : LIMIT_SNAPSHOT_BLOCK;
    const uint32_t value = base_read_u32(in);
    for (size_t i = 0; i < count; i++)
        memcpy(&world->values[i], &value, sizeof value);
    told.hash = bits & 8                        ? value
                : told.part == GOSSIP_PART_BLOB ? base_hash_bytes(0, world->values, count * sizeof value)
                                                : base_hash_vector(world->values, count);
    told.values = (const uint8_t *)world->values;
    told.values_bytes = (uint32_t)(count * sizeof *world->values);
    if (gossip_joiner_tell(world->joiner, peer, &told, world->now_ns) && bits & 16)
        gossip_joiner_donor_down(world->joiner, peer, world->now_ns);
}

static void operate(struct world *world, struct base_reader *in)
{
    const uint8_t what = base_read_u8(in);
    struct gossip_id peer = {{(uint8_t)(what >> 4)}};
    struct gossip_message message;
    world->now_ns += (uint64_t)base_read_u8(in) << (what % 5 * 8);
    switch (what % 8) {
    case 0:
        gossip_joiner_donor_up(world->joiner, &peer, world->now_ns);
        break;
    case 1:
        gossip_joiner_donor_down(world->joiner, &peer, world->now_ns);
        break;
    case 2:
        ask(world, &peer, in);
        break;
    case 3:
        world->vectors.blob = what & 32 ? &world->blob : NULL;
        world->vectors.part[GOSSIP_PART_OUTER] = what & 16 ? world->vectors.part[GOSSIP_PART_MODEL] : NULL;
        BASE_ASSERT(!gossip_donor_freeze(world->donor, &world->vectors, world->now_ns));
        while (gossip_donor_waiting(world->donor, &peer, &message))
            continue;
        BASE_ASSERT(!gossip_donor_wants(world->donor));
        break;
    case 4:
        gossip_donor_tick(world->donor, world->now_ns);
        break;
    case 5:
        while (gossip_joiner_next(world->joiner, world->now_ns, &peer, &message))
            continue;
        break;
    default:
        tell(world, &peer, in);
    }
}

static float *vector(void)
{
    float *values = calloc(PARAMETERS, sizeof *values);
    BASE_ASSERT(values);
    return values;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_reader in = base_reader_of(data, size);
    static struct gossip_blob blob;
    struct gossip_snapshot_vectors into = {.part = {vector(), NULL, vector()}, .blob = &blob};
    const struct gossip_joiner_options options = {
        .parameters = PARAMETERS, .into = &into, .patience_ns = PATIENCE_NS};
    struct world world = {.vectors = {.part = {vector(), NULL, vector()}}, .values = vector()};
    BASE_ASSERT(!gossip_donor_create(PARAMETERS, &world.donor));
    BASE_ASSERT(!gossip_joiner_create(&options, &world.joiner));
    while (!in.failed && base_reader_left(&in) > 0)
        operate(&world, &in);
    for (size_t i = 0; i < PARAMETERS; i++)
        BASE_ASSERT(isfinite(into.part[GOSSIP_PART_MODEL][i]) && into.part[GOSSIP_PART_SECOND][i] >= 0);
    BASE_ASSERT(blob.bytes <= LIMIT_BLOB_BYTES);
    gossip_donor_destroy(world.donor);
    gossip_joiner_destroy(world.joiner);
    free(into.part[GOSSIP_PART_MODEL]);
    free(into.part[GOSSIP_PART_SECOND]);
    free(world.vectors.part[GOSSIP_PART_MODEL]);
    free(world.vectors.part[GOSSIP_PART_SECOND]);
    free(world.values);
    return 0;
}
