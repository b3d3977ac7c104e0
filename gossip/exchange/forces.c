// What the trainer has still to be told. While it computes, exchanges move the published model away from its
// own; at the boundary it gets the same forces once more, from the packets that they were made of. Those are
// short: a vector of all d forces would be read and written at two places for every entry of a packet, and be
// read and cleared whole at every boundary.
#include "gossip/exchange/state.h"

#include <stdlib.h>
#include <string.h>

#define LIST_PART  25u   // of the model's bytes may be packets: 4%
#define LIST_BYTES 2048u // or these of a small model

// x += the force of one exchange, as it was when it was applied.
static void repeat(const struct gossip_exchange *exchange, const struct gossip_force *force, float *x)
{
    const struct kernels *kernels = exchange->options.kernels;
    const struct compress_keys known = {
        .index = force->keys, .count = force->n_keys, .hash = force->keys_hash};
    size_t d = exchange->options.parameters;
    struct compress_reader mine, theirs;
    struct kernels_exchange step = {.x = x, .weight = force->weight};
    uint64_t hash = 0;

    enum base_error error = compress_reader_open(kernels, force->mine, force->mine_bytes, d, d, NULL, &mine);
    if (!error)
        error = compress_reader_open(kernels, force->theirs, force->theirs_bytes, d, d,
                                     force->keys ? &known : NULL, &theirs);
    BASE_ASSERT(!error); // they were read before
    struct gossip_side a = gossip_side_of_packet(&mine, &exchange->window[0], NULL);
    struct gossip_side b = gossip_side_of_packet(&theirs, &exchange->window[1], NULL);
    gossip_merge_apply(kernels, &a, &b, &step, &hash);
}

static size_t list_room(const struct gossip_exchange *exchange)
{
    size_t part = exchange->options.parameters * sizeof(float) / LIST_PART;
    size_t most = part > LIST_BYTES ? part : LIST_BYTES;

    return most > exchange->forces.bytes ? most - exchange->forces.bytes : 0;
}

static void force_free(struct gossip_force *force)
{
    if (!force->mine_of)
        free(force->mine);
    free(force->keys);
    free(force);
}

static size_t bytes_of(const struct gossip_force *force)
{
    return sizeof *force + force->mine_bytes + force->theirs_bytes + force->n_keys * sizeof *force->keys;
}

static void drop_list(struct gossip_forces *forces)
{
    while (forces->first) {
        struct gossip_force *next = forces->first->next;
        force_free(forces->first);
        forces->first = next;
    }
    forces->last = NULL;
    forces->bytes = 0;
}

enum base_error gossip_forces_sum(struct gossip_exchange *exchange, float **sum)
{
    struct gossip_forces *forces = &exchange->forces;

    *sum = NULL;
    if (exchange->round.open)
        return BASE_OK;
    if (!forces->sum)
        forces->sum = exchange->options.kernels->alloc(exchange->options.parameters * sizeof *forces->sum);
    if (!forces->sum)
        return BASE_ENOMEM;
    for (const struct gossip_force *force = forces->first; force; force = force->next)
        repeat(exchange, force, forces->sum);
    drop_list(forces);
    forces->sum_holds = true;
    *sum = forces->sum;
    return BASE_OK;
}

static struct gossip_force *copy_of(const struct gossip_packet *mine,
                                    const struct gossip_exchange_message *theirs,
                                    const struct compress_keys *keys)
{
    size_t theirs_bytes = theirs->delta_bytes;
    struct gossip_force *force = malloc(sizeof *force + theirs_bytes);

    if (!force)
        return NULL;
    *force = (struct gossip_force){
        .mine_of = mine, .mine = mine->bytes, .mine_bytes = mine->delta_bytes, .theirs_bytes = theirs_bytes};
    memcpy(force->theirs, theirs->delta, theirs_bytes);
    if (!keys)
        return force;
    force->keys = malloc(keys->count * sizeof *force->keys);
    if (!force->keys) {
        force_free(force);
        return NULL;
    }
    memcpy(force->keys, keys->index, keys->count * sizeof *force->keys);
    force->n_keys = keys->count;
    force->keys_hash = keys->hash;
    return force;
}

enum base_error gossip_forces_room(struct gossip_exchange *exchange, const struct gossip_packet *mine,
                                   const struct gossip_exchange_message *theirs,
                                   const struct compress_keys *keys, struct gossip_force **force, float **sum)
{
    size_t bytes = sizeof **force + mine->delta_bytes + theirs->delta_bytes +
                   (keys ? keys->count * sizeof *keys->index : 0);

    *force = NULL;
    *sum = NULL;
    if (exchange->round.open)
        return BASE_OK;
    if (exchange->forces.sum_holds || bytes > list_room(exchange))
        return gossip_forces_sum(exchange, sum);
    *force = copy_of(mine, theirs, keys);
    return *force ? BASE_OK : BASE_ENOMEM;
}

void gossip_forces_decline(struct gossip_force *force)
{
    force_free(force);
}

void gossip_forces_keep(struct gossip_forces *forces, struct gossip_force *force)
{
    if (forces->last)
        forces->last->next = force;
    else
        forces->first = force;
    forces->last = force;
    forces->bytes += bytes_of(force);
}

void gossip_forces_inherit(struct gossip_forces *forces, struct gossip_packet *packet)
{
    struct gossip_force *force = forces->first;

    while (force && force->mine_of != packet)
        force = force->next;
    if (!force)
        return;
    uint8_t *shrunk = realloc(packet->bytes, force->mine_bytes); // behind the delta it is of no use
    force->mine = shrunk ? shrunk : packet->bytes;
    force->mine_of = NULL;
    packet->bytes = NULL;
    packet->capacity = 0;
}

void gossip_forces_take(struct gossip_exchange *exchange, float *x)
{
    const struct gossip_forces *forces = &exchange->forces;
    size_t count = exchange->options.parameters;

    for (size_t i = 0; i < count && forces->sum_holds; i++)
        x[i] += forces->sum[i];
    for (const struct gossip_force *force = forces->first; force; force = force->next)
        repeat(exchange, force, x);
    gossip_forces_drop(exchange);
}

// The sum's memory stays where it was of use, and goes after a round that did without.
void gossip_forces_drop(struct gossip_exchange *exchange)
{
    struct gossip_forces *forces = &exchange->forces;

    drop_list(forces);
    if (forces->sum_holds) {
        memset(forces->sum, 0, exchange->options.parameters * sizeof *forces->sum);
    } else {
        exchange->options.kernels->release(forces->sum);
        forces->sum = NULL;
    }
    forces->sum_holds = false;
}
