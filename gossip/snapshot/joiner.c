// Fills vectors block by block from the available donors. One donor is asked at a time, a few blocks ahead;
// if it dies, lies or stays silent, the next one continues where it stopped.
#include "gossip/plausible.h"
#include "gossip/snapshot/blocks.h"
#include "gossip/snapshot/snapshot.h"
#include "gossip/window.h"

#include "base/hash.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DONORS_MAX  256u
#define AHEAD_FIRST 2u  // blocks that are asked for ahead before the link is known
#define PATIENCES   12u // the longest patience, in those of the options

enum block_state { BLOCK_MISSING, BLOCK_ASKED, BLOCK_DONE };

struct giver {
    struct gossip_id id;
    bool up, asked, lied, gave;
    bool ahead;           // its model was beyond the limits: it is asked again when they are higher
    uint64_t snapshot;    // number of the copy of its latest block; 0 before the first block
    uint64_t given_up_ns; // when it was last silent for too long, or itself asked for a model
    uint64_t left_ns;     // when this node last left it because it asked for a model; 0: never
};

struct gossip_joiner {
    struct gossip_joiner_options options;
    struct gossip_snapshot_vectors into;
    size_t blocks;  // of one part
    uint8_t *state; // [blocks_of_all_parts] enum block_state; DONE if the part is not wanted
    size_t total, done, asked;
    size_t first; // no block before it is MISSING
    size_t ahead; // blocks that may be asked for at a time
    uint64_t patience_ns;
    struct giver givers[DONORS_MAX];
    size_t n_givers;
    struct giver *giver; // in use, or NULL
    uint64_t since_ns;   // time of the latest block, or of the first ask after an idle time
    bool begun;
    bool whole;             // a model was refused: blocks of two donors are not mixed any more
    struct gossip_id donor; // of the latest block
    uint64_t
        fed_ns; // time of the latest block of any donor, or of the beginning, plus the time without any donor
    uint64_t none_ns; // when the last donor went, if there is none
    uint64_t told_ns; // when the owner was last told that the joiner starves
    uint64_t round_limit, step_limit;
    float limit[GOSSIP_PARTS]; // largest plausible value of each part
    uint64_t round, step, bytes;
};

static float largest_of(const float *values, size_t count)
{
    float largest = 0;

    for (size_t i = 0; values && i < count; i++)
        largest = values[i] > largest && isfinite(values[i]) ? values[i] : largest;
    return largest;
}

// The initial contents of the vectors are all that this node knows about the size of the values of a model.
static void learn_limits(struct gossip_joiner *joiner)
{
    const size_t count = joiner->options.parameters;
    const double norm = gossip_plausible_norm(joiner->into.part[GOSSIP_PART_MODEL], count);
    const float second = largest_of(joiner->into.part[GOSSIP_PART_SECOND], count);

    BASE_ASSERT(joiner->into.part[GOSSIP_PART_MODEL] && joiner->done == 0);
    joiner->limit[GOSSIP_PART_MODEL] = joiner->limit[GOSSIP_PART_OUTER] = gossip_plausible_value(norm);
    joiner->limit[GOSSIP_PART_SECOND] = gossip_plausible_value((double)second);
}

static bool wants(const struct gossip_joiner *joiner, uint8_t part)
{
    return part == GOSSIP_PART_BLOB ? joiner->into.blob != NULL
                                    : part < GOSSIP_PARTS && joiner->into.part[part];
}

static void miss_all(struct gossip_joiner *joiner)
{
    BASE_ASSERT(joiner->asked == 0);
    joiner->done = joiner->first = 0;
    for (uint8_t p = 0; p < GOSSIP_PARTS; p++)
        memset(joiner->state + p * joiner->blocks, wants(joiner, p) ? BLOCK_MISSING : BLOCK_DONE,
               joiner->blocks);
    joiner->state[GOSSIP_PART_BLOB * joiner->blocks] =
        wants(joiner, GOSSIP_PART_BLOB) ? BLOCK_MISSING : BLOCK_DONE;
}

enum base_error gossip_joiner_create(const struct gossip_joiner_options *options,
                                     struct gossip_joiner **joiner)
{
    BASE_ASSERT(options->parameters > 0 && options->parameters <= LIMIT_PARAMETERS &&
                options->into->part[GOSSIP_PART_MODEL]);
    struct gossip_joiner *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return BASE_ENOMEM;
    fresh->options = *options;
    fresh->into = *options->into;
    fresh->blocks = blocks_count(options->parameters);
    fresh->ahead = AHEAD_FIRST;
    fresh->patience_ns = options->patience_ns;
    fresh->state = malloc(blocks_of_all_parts(options->parameters));
    if (!fresh->state) {
        free(fresh);
        return BASE_ENOMEM;
    }
    for (size_t p = 0; p < GOSSIP_PARTS; p++)
        fresh->total += fresh->into.part[p] ? fresh->blocks : 0;
    fresh->total += fresh->into.blob != NULL;
    miss_all(fresh);
    learn_limits(fresh);
    *joiner = fresh;
    return BASE_OK;
}

void gossip_joiner_destroy(struct gossip_joiner *joiner)
{
    if (!joiner)
        return;
    free(joiner->state);
    free(joiner);
}

static struct giver *find_giver(struct gossip_joiner *joiner, const struct gossip_id *id)
{
    for (size_t i = 0; i < joiner->n_givers; i++)
        if (gossip_id_compare(&joiner->givers[i].id, id) == 0)
            return &joiner->givers[i];
    return NULL;
}

// What it has is of no use, and says nothing about round and step.
static void forget_blocks(struct gossip_joiner *joiner)
{
    miss_all(joiner);
    joiner->round = joiner->step = 0;
    for (size_t i = 0; i < joiner->n_givers; i++)
        joiner->givers[i].gave = false;
}

// The blocks that were asked of the donor in use must be asked again, of any donor.
static void leave_giver(struct gossip_joiner *joiner)
{
    BASE_ASSERT(joiner->giver || joiner->asked == 0);
    for (size_t i = 0; joiner->asked > 0 && i < blocks_of_all_parts(joiner->options.parameters); i++)
        if (joiner->state[i] == BLOCK_ASKED)
            joiner->state[i] = BLOCK_MISSING;
    joiner->asked = 0;
    joiner->first = 0;
    joiner->giver = NULL;
    if (joiner->whole && joiner->done < joiner->total)
        forget_blocks(joiner);
}

bool gossip_joiner_refuse(struct gossip_joiner *joiner, uint64_t now_ns, struct gossip_id *donor)
{
    struct giver *only = NULL;
    size_t givers = 0;

    BASE_ASSERT(joiner->done == joiner->total && joiner->asked == 0);
    for (size_t i = 0; i < joiner->n_givers; i++)
        if (joiner->givers[i].gave) {
            only = &joiner->givers[i];
            givers++;
        }
    joiner->whole = true;
    joiner->fed_ns = joiner->told_ns = joiner->none_ns = now_ns;
    if (givers == 1) {
        only->lied = true;
        *donor = only->id;
    }
    leave_giver(joiner);
    forget_blocks(joiner);
    return givers == 1;
}

// A place for a new donor: an unused one, or that of a donor that is gone and has not lied.
static struct giver *room_for_giver(struct gossip_joiner *joiner)
{
    BASE_ASSERT(joiner->n_givers <= DONORS_MAX);
    if (joiner->n_givers < DONORS_MAX)
        return &joiner->givers[joiner->n_givers++];
    for (size_t i = 0; i < DONORS_MAX; i++)
        if (!joiner->givers[i].up && !joiner->givers[i].lied)
            return &joiner->givers[i];
    return NULL;
}

static bool has_givers(const struct gossip_joiner *joiner)
{
    for (size_t i = 0; i < joiner->n_givers; i++)
        if (joiner->givers[i].up)
            return true;
    return false;
}

// The time without any donor does not count as waiting.
static void end_of_idleness(struct gossip_joiner *joiner, uint64_t now_ns)
{
    const uint64_t idle_ns = now_ns > joiner->none_ns ? now_ns - joiner->none_ns : 0;

    if (!joiner->begun || has_givers(joiner))
        return;
    BASE_ASSERT(joiner->fed_ns <= now_ns || idle_ns == 0);
    joiner->fed_ns += idle_ns;
    joiner->told_ns += idle_ns;
    joiner->none_ns = now_ns; // there may be no room for the new donor
}

void gossip_joiner_donor_up(struct gossip_joiner *joiner, const struct gossip_id *peer, uint64_t now_ns)
{
    struct giver *giver = find_giver(joiner, peer);
    BASE_ASSERT(joiner->n_givers <= DONORS_MAX);

    end_of_idleness(joiner, now_ns);
    if (!giver) {
        giver = room_for_giver(joiner);
        if (!giver)
            return;
        *giver = (struct giver){.id = *peer};
    }
    giver->up = true;
}

void gossip_joiner_donor_down(struct gossip_joiner *joiner, const struct gossip_id *peer, uint64_t now_ns)
{
    struct giver *giver = find_giver(joiner, peer);

    if (!giver || !giver->up)
        return;
    BASE_ASSERT(joiner->n_givers > 0 && joiner->n_givers <= DONORS_MAX);
    giver->up = false;
    giver->snapshot = 0;
    joiner->none_ns = now_ns; // used if it was the last donor
    if (giver == joiner->giver)
        leave_giver(joiner);
}

void gossip_joiner_donors(struct gossip_joiner *joiner, const struct gossip_id *ids, size_t count,
                          uint64_t now_ns)
{
    for (size_t i = 0; i < joiner->n_givers; i++) {
        bool stays = false;
        for (size_t k = 0; k < count; k++)
            stays |= gossip_id_compare(&ids[k], &joiner->givers[i].id) == 0;
        if (!stays)
            gossip_joiner_donor_down(joiner, &joiner->givers[i].id, now_ns);
    }
    for (size_t i = 0; i < count; i++)
        gossip_joiner_donor_up(joiner, &ids[i], now_ns);
}

static uint64_t giver_key(const struct gossip_joiner *joiner, const struct giver *giver)
{
    return base_hash_bytes(joiner->options.seed, giver->id.bytes, sizeof giver->id.bytes);
}

// Picks the next donor; a silent donor goes to the end of the queue.
static struct giver *pick_giver(struct gossip_joiner *joiner)
{
    struct giver *best = NULL;

    for (size_t i = 0; i < joiner->n_givers; i++) {
        struct giver *giver = &joiner->givers[i];
        if (!giver->up || giver->lied || giver->ahead)
            continue;
        if (!best || giver->given_up_ns < best->given_up_ns ||
            (giver->given_up_ns == best->given_up_ns && giver_key(joiner, giver) < giver_key(joiner, best)))
            best = giver;
    }
    return best;
}

// At most once within patience_ns, and not for a donor that asks: if no node has a model, all nodes would
// keep turning from one to another.
static void leave_for_another(struct gossip_joiner *joiner, const struct giver *asker, uint64_t now_ns)
{
    struct giver *giver = joiner->giver;
    const bool lately = giver->left_ns && now_ns - giver->left_ns < joiner->patience_ns;
    const uint64_t before_ns = giver->given_up_ns;

    BASE_ASSERT(giver->up);
    giver->given_up_ns = now_ns;
    const struct giver *next = pick_giver(joiner);
    if (lately || next == giver || next == asker) {
        giver->given_up_ns = giver == asker ? now_ns : before_ns;
        return;
    }
    giver->left_ns = now_ns;
    giver->snapshot = 0;
    leave_giver(joiner);
}

void gossip_joiner_donor_asks(struct gossip_joiner *joiner, const struct gossip_id *peer, uint64_t now_ns)
{
    struct giver *asker = find_giver(joiner, peer);

    BASE_ASSERT(!joiner->giver || (joiner->giver->up && !joiner->giver->lied));
    if (asker)
        asker->given_up_ns = now_ns;
    if (!joiner->giver)
        return;
    // In each circle of nodes that ask each other, a higher id asks the lowest one.
    const bool circle = joiner->giver->snapshot == 0 && gossip_id_compare(&joiner->options.self, peer) < 0;
    if (asker == joiner->giver || circle)
        leave_for_another(joiner, asker, now_ns);
}

static bool fits_hash(const struct gossip_snapshot_tell *tell, float limit)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < tell->values_bytes / sizeof(float); i++) {
        float value;
        memcpy(&value, tell->values + i * sizeof value, sizeof value);
        if (!(fabsf(value) <= limit) || (tell->part == GOSSIP_PART_SECOND && value < 0))
            return false; // the optimiser takes the square root of a second moment
        hash += base_hash_element(i, value);
    }
    return hash == tell->hash;
}

static bool fits_part(const struct gossip_joiner *joiner, const struct gossip_snapshot_tell *tell)
{
    if (tell->part == GOSSIP_PART_BLOB)
        return tell->block == 0 && tell->values_bytes <= LIMIT_BLOB_BYTES &&
               tell->hash == base_hash_bytes(0, tell->values, tell->values_bytes);
    return tell->block < joiner->blocks &&
           tell->values_bytes == block_length(joiner->options.parameters, tell->block) * sizeof(float) &&
           fits_hash(tell, joiner->limit[tell->part]);
}

static bool is_within(uint64_t count, uint64_t limit)
{
    return count <= (limit > 0 ? limit : GOSSIP_PLAUSIBLE_COUNT);
}

static bool fits(const struct gossip_joiner *joiner, const struct gossip_snapshot_tell *tell)
{
    for (uint8_t p = 0; p <= GOSSIP_PART_BLOB; p++)
        if (wants(joiner, p) && !(tell->parts & 1u << p))
            return false;
    return wants(joiner, tell->part) && fits_part(joiner, tell);
}

// The limits follow from reports, which may be older than the model of a fast donor.
static bool is_ahead(const struct gossip_joiner *joiner, const struct gossip_snapshot_tell *tell)
{
    return !is_within(tell->round, joiner->round_limit) || !is_within(tell->step, joiner->step_limit);
}

static void store(struct gossip_joiner *joiner, const struct gossip_snapshot_tell *tell)
{
    struct gossip_blob *blob = joiner->into.blob;

    BASE_ASSERT(tell->part <= GOSSIP_PART_BLOB);
    if (tell->part != GOSSIP_PART_BLOB) {
        memcpy(joiner->into.part[tell->part] + (size_t)tell->block * LIMIT_SNAPSHOT_BLOCK, tell->values,
               tell->values_bytes);
        return;
    }
    blob->bytes = tell->values_bytes;
    if (blob->bytes > 0)
        memcpy(blob->data, tell->values, blob->bytes);
}

// As many blocks are on their way as the link carries in a moment, and a donor that was given up too soon has
// shown how long a block takes.
static void learn_pace(struct gossip_joiner *joiner, const struct giver *giver, uint64_t took_ns)
{
    joiner->ahead = gossip_window_after(joiner->ahead, took_ns, SNAPSHOT_BLOCKS_AHEAD);
    if (giver != joiner->giver && 2 * joiner->patience_ns <= PATIENCES * joiner->options.patience_ns)
        joiner->patience_ns *= 2;
}

static void take_block(struct gossip_joiner *joiner, const struct gossip_snapshot_tell *tell, uint64_t now_ns)
{
    uint8_t *state = &joiner->state[tell->part * joiner->blocks + tell->block];

    BASE_ASSERT(joiner->done < joiner->total);
    if (*state == BLOCK_ASKED)
        joiner->asked--;
    *state = BLOCK_DONE;
    store(joiner, tell);
    joiner->done++;
    joiner->bytes += tell->values_bytes;
    joiner->since_ns = joiner->fed_ns = joiner->told_ns = now_ns;
    joiner->round = tell->round > joiner->round ? tell->round : joiner->round;
    joiner->step = tell->step > joiner->step ? tell->step : joiner->step;
}

enum base_error gossip_joiner_tell(struct gossip_joiner *joiner, const struct gossip_id *peer,
                                   const struct gossip_snapshot_tell *tell, uint64_t now_ns)
{
    struct giver *giver = find_giver(joiner, peer);

    if (!giver || !giver->up || !giver->asked || giver->lied)
        return BASE_OK;
    if (!fits(joiner, tell) || is_ahead(joiner, tell)) {
        giver->lied = !fits(joiner, tell);
        giver->ahead = !giver->lied;
        giver->given_up_ns = now_ns;
        if (giver == joiner->giver)
            leave_giver(joiner);
        return BASE_EFORMAT;
    }
    BASE_ASSERT(tell->part <= GOSSIP_PART_BLOB && joiner->done <= joiner->total);
    if (joiner->state[tell->part * joiner->blocks + tell->block] == BLOCK_DONE)
        return BASE_OK; // from a donor that answered late
    learn_pace(joiner, giver, now_ns - joiner->since_ns);
    if (joiner->whole && giver != joiner->giver)
        return BASE_OK;
    take_block(joiner, tell, now_ns);
    giver->gave = true;
    giver->snapshot = tell->snapshot;
    joiner->donor = *peer;
    return BASE_OK;
}

bool gossip_joiner_next(struct gossip_joiner *joiner, uint64_t now_ns, struct gossip_id *peer,
                        struct gossip_message *ask)
{
    BASE_ASSERT(joiner->done + joiner->asked <= joiner->total && joiner->asked <= SNAPSHOT_BLOCKS_AHEAD);
    if (!joiner->begun)
        joiner->fed_ns = joiner->told_ns = joiner->none_ns = now_ns;
    joiner->begun = true;
    if (joiner->giver && joiner->asked > 0 && now_ns - joiner->since_ns >= joiner->patience_ns) {
        joiner->giver->given_up_ns = now_ns;
        joiner->giver->snapshot = 0;
        leave_giver(joiner);
    }
    if (!joiner->giver)
        joiner->giver = pick_giver(joiner);
    if (!joiner->giver || joiner->asked >= joiner->ahead || joiner->done + joiner->asked == joiner->total)
        return false;
    while (joiner->state[joiner->first] != BLOCK_MISSING)
        joiner->first++;
    joiner->state[joiner->first] = BLOCK_ASKED;
    if (joiner->asked++ == 0)
        joiner->since_ns = now_ns;
    joiner->giver->asked = true;
    *peer = joiner->giver->id;
    *ask = (struct gossip_message){.kind = GOSSIP_SNAPSHOT_ASK};
    ask->as.ask = (struct gossip_snapshot_ask){.snapshot = joiner->giver->snapshot,
                                               .part = (uint8_t)(joiner->first / joiner->blocks),
                                               .block = (uint32_t)(joiner->first % joiner->blocks)};
    return true;
}

void gossip_joiner_limits(struct gossip_joiner *joiner, uint64_t round, uint64_t step)
{
    BASE_ASSERT(step == 0 || step >= round);
    const bool higher = round > joiner->round_limit || step > joiner->step_limit;
    for (size_t i = 0; higher && i < joiner->n_givers; i++)
        joiner->givers[i].ahead = false;
    joiner->round_limit = round;
    joiner->step_limit = step;
}

static bool may_starve(const struct gossip_joiner *joiner)
{
    return joiner->begun && joiner->options.starve_ns > 0 && joiner->done < joiner->total &&
           has_givers(joiner);
}

uint64_t gossip_joiner_deadline(const struct gossip_joiner *joiner)
{
    uint64_t patience_ns = joiner->asked > 0 ? joiner->since_ns + joiner->patience_ns : UINT64_MAX;
    uint64_t starved_ns = may_starve(joiner) ? joiner->told_ns + joiner->options.starve_ns : UINT64_MAX;

    return patience_ns < starved_ns ? patience_ns : starved_ns;
}

bool gossip_joiner_starved(struct gossip_joiner *joiner, uint64_t now_ns, uint64_t *silent_ns)
{
    if (!may_starve(joiner) || now_ns - joiner->told_ns < joiner->options.starve_ns)
        return false;
    BASE_ASSERT(joiner->begun && joiner->fed_ns <= now_ns);
    joiner->told_ns = now_ns;
    *silent_ns = now_ns - joiner->fed_ns;
    return true;
}

bool gossip_joiner_complete(const struct gossip_joiner *joiner, uint64_t *round, uint64_t *step)
{
    if (joiner->done < joiner->total)
        return false;
    *round = joiner->round;
    *step = joiner->step;
    return true;
}

void gossip_joiner_progress(const struct gossip_joiner *joiner, struct gossip_joiner_progress *progress)
{
    BASE_ASSERT(joiner->done <= joiner->total);
    *progress = (struct gossip_joiner_progress){
        .blocks = joiner->total, .done = joiner->done, .bytes = joiner->bytes, .donor = joiner->donor};
    for (size_t i = 0; i < joiner->n_givers; i++)
        progress->donors_used += joiner->givers[i].gave;
}
