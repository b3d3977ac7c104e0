// One frozen copy of the vectors, which any number of joiners read, and the asks that wait for it. The owner
// says of what and when it is made; it is freed when it is no longer read.
#include "gossip/snapshot/blocks.h"
#include "gossip/snapshot/snapshot.h"

#include "base/hash.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WAITING_MAX  64u          // asks that wait for a copy ...
#define WAITING_EACH 4u           // ... and of one joiner
#define WAITS_NS     30000000000u // a joiner that still needs the block has asked again by then
#define FRESH_NS     2000000000u  // joiners that begin within this time share a copy
#define KEEP_NS      10000000000u // a copy that is not read for this long is freed

struct waiting {
    struct gossip_id peer;
    uint8_t part;
    uint32_t block;
    uint64_t asked_ns;
};

struct gossip_donor {
    size_t parameters, blocks;
    float *part[GOSSIP_PARTS]; // [parameters] the frozen copy
    struct gossip_blob *blob;  // likewise
    uint64_t *hashes;          // [blocks_of_all_parts]
    uint64_t snapshot;         // number of the copy, counted from 1
    bool frozen;               // there is a copy
    uint64_t round, step;      // of the copy
    uint64_t frozen_ns, read_ns;
    struct waiting waiting[WAITING_MAX]; // the longest waiting first
    size_t n_waiting;
};

enum base_error gossip_donor_create(size_t parameters, struct gossip_donor **donor)
{
    struct gossip_donor *fresh = calloc(1, sizeof *fresh);

    BASE_ASSERT(parameters > 0 && parameters <= LIMIT_PARAMETERS);
    if (!fresh)
        return BASE_ENOMEM;
    fresh->parameters = parameters;
    fresh->blocks = blocks_count(parameters);
    *donor = fresh;
    return BASE_OK;
}

static void release_copy(struct gossip_donor *donor)
{
    BASE_ASSERT(!donor->frozen || donor->part[GOSSIP_PART_MODEL]);
    for (size_t p = 0; p < GOSSIP_PARTS; p++) {
        free(donor->part[p]);
        donor->part[p] = NULL;
    }
    free(donor->blob);
    donor->blob = NULL;
    free(donor->hashes);
    donor->hashes = NULL;
    donor->frozen = false;
}

void gossip_donor_thaw(struct gossip_donor *donor)
{
    BASE_ASSERT(donor->n_waiting <= WAITING_MAX);
    release_copy(donor); // asks that wait are answered from the next copy
}

void gossip_donor_destroy(struct gossip_donor *donor)
{
    if (!donor)
        return;
    release_copy(donor);
    free(donor);
}

bool gossip_donor_wants(const struct gossip_donor *donor)
{
    return donor->n_waiting > 0;
}

static bool has(const struct gossip_donor *donor, uint8_t part)
{
    return part == GOSSIP_PART_BLOB ? donor->blob != NULL : donor->part[part] != NULL;
}

static void point_to(const struct gossip_donor *donor, struct gossip_snapshot_tell *tell)
{
    BASE_ASSERT(donor->frozen && has(donor, tell->part));
    if (tell->part == GOSSIP_PART_BLOB) {
        tell->values = donor->blob->data;
        tell->values_bytes = donor->blob->bytes;
    } else {
        tell->values =
            (const uint8_t *)(donor->part[tell->part] + (size_t)tell->block * LIMIT_SNAPSHOT_BLOCK);
        tell->values_bytes = (uint32_t)(block_length(donor->parameters, tell->block) * sizeof(float));
    }
}

static struct gossip_message tell_block(struct gossip_donor *donor, uint8_t part, uint32_t block)
{
    struct gossip_message message = {.kind = GOSSIP_SNAPSHOT_TELL};
    uint8_t parts = 0;

    BASE_ASSERT(donor->frozen && block < (part == GOSSIP_PART_BLOB ? 1 : donor->blocks));
    for (uint8_t p = 0; p <= GOSSIP_PART_BLOB; p++)
        if (has(donor, p))
            parts = (uint8_t)(parts | 1u << p);
    message.as.tell = (struct gossip_snapshot_tell){
        .snapshot = donor->snapshot,
        .parts = parts,
        .part = part,
        .block = block,
        .round = donor->round,
        .step = donor->step,
        .hash = donor->hashes[part * donor->blocks + block],
    };
    point_to(donor, &message.as.tell);
    return message;
}

static void keep_waiting(struct gossip_donor *donor, const struct gossip_id *peer,
                         const struct gossip_snapshot_ask *ask, uint64_t now_ns)
{
    size_t of_peer = 0;

    BASE_ASSERT(donor->n_waiting <= WAITING_MAX && ask->part <= GOSSIP_PART_BLOB);
    for (size_t i = 0; i < donor->n_waiting; i++) {
        struct waiting *other = &donor->waiting[i];
        if (gossip_id_compare(&other->peer, peer) != 0)
            continue;
        of_peer++;
        if (other->part == ask->part && other->block == ask->block) {
            other->asked_ns = now_ns;
            return;
        }
    }
    if (of_peer < WAITING_EACH && donor->n_waiting < WAITING_MAX)
        donor->waiting[donor->n_waiting++] = (struct waiting){*peer, ask->part, ask->block, now_ns};
}

enum base_error gossip_donor_ask(struct gossip_donor *donor, const struct gossip_id *peer,
                                 const struct gossip_snapshot_ask *ask, uint64_t now_ns,
                                 struct gossip_message *answer, bool *answered)
{
    const size_t blocks = ask->part == GOSSIP_PART_BLOB ? 1 : donor->blocks;
    if (ask->part > GOSSIP_PART_BLOB || ask->block >= blocks || (donor->frozen && !has(donor, ask->part)))
        return BASE_EFORMAT;
    BASE_ASSERT(!donor->frozen || donor->part[GOSSIP_PART_MODEL]);
    const bool begins = ask->snapshot == 0;
    *answered = donor->frozen && !(begins && now_ns - donor->frozen_ns > FRESH_NS);
    if (*answered) {
        *answer = tell_block(donor, ask->part, ask->block);
        donor->read_ns = now_ns;
    } else {
        keep_waiting(donor, peer, ask, now_ns);
    }
    return BASE_OK;
}

static bool all_finite(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

static enum base_error copy_blob(struct gossip_donor *donor, const struct gossip_blob *blob)
{
    BASE_ASSERT(donor->hashes && donor->part[GOSSIP_PART_MODEL]);
    if (!blob) {
        free(donor->blob);
        donor->blob = NULL;
        return BASE_OK;
    }
    if (!donor->blob)
        donor->blob = malloc(sizeof *donor->blob);
    if (!donor->blob)
        return BASE_ENOMEM;
    *donor->blob = *blob;
    return BASE_OK;
}

static enum base_error copy_parts(struct gossip_donor *donor, const struct gossip_snapshot_vectors *vectors)
{
    const size_t bytes = donor->parameters * sizeof(float);

    BASE_ASSERT(!donor->frozen || donor->part[GOSSIP_PART_MODEL]);
    if (!donor->hashes)
        donor->hashes = malloc(blocks_of_all_parts(donor->parameters) * sizeof *donor->hashes);
    if (!donor->hashes)
        return BASE_ENOMEM;
    for (size_t p = 0; p < GOSSIP_PARTS; p++) {
        if (!vectors->part[p]) {
            free(donor->part[p]);
            donor->part[p] = NULL;
            continue;
        }
        if (!donor->part[p])
            donor->part[p] = malloc(bytes);
        if (!donor->part[p])
            return BASE_ENOMEM;
        if (vectors->read[p])
            vectors->read[p](donor->part[p], vectors->part[p], bytes);
        else
            memcpy(donor->part[p], vectors->part[p], bytes);
        if (!all_finite(donor->part[p], donor->parameters))
            return BASE_ESTATE;
    }
    return copy_blob(donor, vectors->blob);
}

enum base_error gossip_donor_freeze(struct gossip_donor *donor, const struct gossip_snapshot_vectors *vectors,
                                    uint64_t now_ns)
{
    BASE_ASSERT(vectors->part[GOSSIP_PART_MODEL]);
    enum base_error error = copy_parts(donor, vectors);
    if (error) {
        release_copy(donor);
        donor->n_waiting = 0;
        return error;
    }
    for (size_t p = 0; p < GOSSIP_PARTS; p++)
        for (size_t b = 0; donor->part[p] && b < donor->blocks; b++)
            donor->hashes[p * donor->blocks + b] = base_hash_vector(donor->part[p] + b * LIMIT_SNAPSHOT_BLOCK,
                                                                    block_length(donor->parameters, b));
    if (donor->blob)
        donor->hashes[GOSSIP_PART_BLOB * donor->blocks] =
            base_hash_bytes(0, donor->blob->data, donor->blob->bytes);
    donor->frozen = true;
    donor->snapshot++;
    donor->round = vectors->round;
    donor->step = vectors->step;
    donor->frozen_ns = donor->read_ns = now_ns;
    return BASE_OK;
}

static void drop_waiting(struct gossip_donor *donor, size_t at)
{
    BASE_ASSERT(at < donor->n_waiting);
    memmove(&donor->waiting[at], &donor->waiting[at + 1],
            (--donor->n_waiting - at) * sizeof donor->waiting[0]);
}

bool gossip_donor_waiting(struct gossip_donor *donor, struct gossip_id *peer, struct gossip_message *answer)
{
    while (donor->frozen && donor->n_waiting > 0) {
        const struct waiting first = donor->waiting[0];
        drop_waiting(donor, 0);
        if (!has(donor, first.part))
            continue; // this part does not exist here; the joiner will find another donor
        *peer = first.peer;
        *answer = tell_block(donor, first.part, first.block);
        return true;
    }
    return false;
}

void gossip_donor_tick(struct gossip_donor *donor, uint64_t now_ns)
{
    if (donor->frozen && now_ns - donor->read_ns >= KEEP_NS)
        release_copy(donor);
    for (size_t i = donor->n_waiting; i-- > 0;)
        if (now_ns - donor->waiting[i].asked_ns >= WAITS_NS)
            drop_waiting(donor, i);
}

uint64_t gossip_donor_deadline(const struct gossip_donor *donor)
{
    uint64_t deadline_ns = donor->frozen ? donor->read_ns + KEEP_NS : UINT64_MAX;

    for (size_t i = 0; i < donor->n_waiting; i++)
        if (donor->waiting[i].asked_ns + WAITS_NS < deadline_ns)
            deadline_ns = donor->waiting[i].asked_ns + WAITS_NS;
    return deadline_ns;
}
