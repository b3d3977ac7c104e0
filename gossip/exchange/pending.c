// Updates that the trainer has not yet got. While it computes, exchanges move the published model away from
// its own; at the boundary it gets the same updates once more, from the packets that they were made of. Those
// are short: a vector of all d sums would be read and written at two places for every entry of a packet, and
// be read and cleared whole at every boundary.
#include "gossip/exchange/state.h"

#include <stdlib.h>
#include <string.h>

#define LIST_PART  25u   // of the model's bytes may be packets: 4%
#define LIST_BYTES 2048u // or these of a small model

// x += the update of one exchange, as it was when it was applied, and sum += that of its correction. Either
// may be NULL.
static void repeat(const struct gossip_exchange *exchange, const struct gossip_pending_update *update,
                   float *x, float *sum)
{
    const struct kernels *kernels = exchange->options.kernels;
    const struct compress_keys known = {
        .index = update->keys, .count = update->n_keys, .hash = update->keys_hash};
    size_t d = exchange->options.parameters;
    struct compress_reader mine, theirs;
    struct kernels_exchange step = {.x = update->weight > 0 ? x : NULL,
                                    .correction_sum = update->gain > 0 ? sum : NULL,
                                    .weight = update->weight,
                                    .gain = update->gain};
    uint64_t hash = 0;

    if (!step.x && !step.correction_sum)
        return;
    enum base_error error =
        compress_reader_open(kernels, update->mine, update->mine_bytes, d, d, NULL, &mine);
    if (!error)
        error = compress_reader_open(kernels, update->theirs, update->theirs_bytes, d, d,
                                     update->keys ? &known : NULL, &theirs);
    BASE_ASSERT(!error); // they were read before
    struct gossip_side a = gossip_side_of_packet(&mine, &exchange->window[0], NULL);
    struct gossip_side b = gossip_side_of_packet(&theirs, &exchange->window[1], NULL);
    gossip_merge_apply(kernels, &a, &b, &step, &hash);
}

static size_t list_room(const struct gossip_exchange *exchange)
{
    size_t part = exchange->options.parameters * sizeof(float) / LIST_PART;
    size_t most = part > LIST_BYTES ? part : LIST_BYTES;

    return most > exchange->pending.bytes ? most - exchange->pending.bytes : 0;
}

static void update_free(struct gossip_pending_update *update)
{
    if (!update->mine_of)
        free(update->mine);
    free(update->keys);
    free(update);
}

static size_t bytes_of(const struct gossip_pending_update *update)
{
    return sizeof *update + update->mine_bytes + update->theirs_bytes + update->n_keys * sizeof *update->keys;
}

static void drop_list(struct gossip_pending *pending)
{
    while (pending->first) {
        struct gossip_pending_update *next = pending->first->next;
        update_free(pending->first);
        pending->first = next;
    }
    pending->last = NULL;
    pending->bytes = 0;
}

enum base_error gossip_pending_sum(struct gossip_exchange *exchange, float **sum)
{
    struct gossip_pending *pending = &exchange->pending;

    *sum = NULL;
    if (exchange->round.open)
        return BASE_OK;
    if (!pending->sum)
        pending->sum = exchange->options.kernels->alloc(exchange->options.parameters * sizeof *pending->sum);
    if (!pending->sum)
        return BASE_ENOMEM;
    for (const struct gossip_pending_update *update = pending->first; update; update = update->next)
        repeat(exchange, update, pending->sum, NULL);
    if (gossip_pending_corrects(pending))
        gossip_sum_keep(exchange);
    drop_list(pending);
    pending->sum_holds = true;
    *sum = pending->sum;
    return BASE_OK;
}

static struct gossip_pending_update *copy_of(const struct gossip_packet *mine,
                                             const struct gossip_exchange_message *theirs,
                                             const struct compress_keys *keys)
{
    size_t theirs_bytes = theirs->delta_bytes;
    struct gossip_pending_update *update = malloc(sizeof *update + theirs_bytes);

    if (!update)
        return NULL;
    *update = (struct gossip_pending_update){
        .mine_of = mine, .mine = mine->bytes, .mine_bytes = mine->delta_bytes, .theirs_bytes = theirs_bytes};
    memcpy(update->theirs, theirs->delta, theirs_bytes);
    if (!keys)
        return update;
    update->keys = malloc(keys->count * sizeof *update->keys);
    if (!update->keys) {
        update_free(update);
        return NULL;
    }
    memcpy(update->keys, keys->index, keys->count * sizeof *update->keys);
    update->n_keys = keys->count;
    update->keys_hash = keys->hash;
    return update;
}

enum base_error gossip_pending_room(struct gossip_exchange *exchange, const struct gossip_packet *mine,
                                    const struct gossip_exchange_message *theirs,
                                    const struct compress_keys *keys, struct gossip_pending_update **update,
                                    float **sum)
{
    size_t bytes = sizeof **update + mine->delta_bytes + theirs->delta_bytes +
                   (keys ? keys->count * sizeof *keys->index : 0);

    *update = NULL;
    *sum = NULL;
    if (exchange->round.open)
        return BASE_OK;
    if (exchange->pending.sum_holds || bytes > list_room(exchange)) {
        gossip_sum_keep(exchange); // of an exchange that is only summed nothing else tells the corrections
        return gossip_pending_sum(exchange, sum);
    }
    *update = copy_of(mine, theirs, keys);
    return *update ? BASE_OK : BASE_ENOMEM;
}

void gossip_pending_decline(struct gossip_pending_update *update)
{
    update_free(update);
}

void gossip_pending_keep(struct gossip_pending *pending, struct gossip_pending_update *update)
{
    if (pending->last)
        pending->last->next = update;
    else
        pending->first = update;
    pending->last = update;
    pending->bytes += bytes_of(update);
}

void gossip_pending_inherit(struct gossip_pending *pending, struct gossip_packet *packet)
{
    struct gossip_pending_update *update = pending->first;

    while (update && update->mine_of != packet)
        update = update->next;
    if (!update)
        return;
    uint8_t *shrunk = realloc(packet->bytes, update->mine_bytes); // behind the delta it is of no use
    update->mine = shrunk ? shrunk : packet->bytes;
    update->mine_of = NULL;
    packet->bytes = NULL;
    packet->capacity = 0;
}

bool gossip_pending_corrects(const struct gossip_pending *pending)
{
    for (const struct gossip_pending_update *update = pending->first; update; update = update->next)
        if (update->gain > 0)
            return true;
    return false;
}

void gossip_pending_repeat(const struct gossip_exchange *exchange, float *x, float *sum)
{
    const struct gossip_pending *pending = &exchange->pending;

    for (const struct gossip_pending_update *update = pending->first; update; update = update->next)
        repeat(exchange, update, x, sum);
}

void gossip_pending_take(struct gossip_exchange *exchange, float *x, float *sum)
{
    const struct gossip_pending *pending = &exchange->pending;
    size_t count = exchange->options.parameters;

    for (size_t i = 0; x && i < count && pending->sum_holds; i++)
        x[i] += pending->sum[i];
    gossip_pending_repeat(exchange, x, sum);
    gossip_pending_drop(exchange);
}

// The sum's memory stays where it was of use, and goes after a round that did without.
void gossip_pending_drop(struct gossip_exchange *exchange)
{
    struct gossip_pending *pending = &exchange->pending;

    drop_list(pending);
    if (pending->sum_holds) {
        memset(pending->sum, 0, exchange->options.parameters * sizeof *pending->sum);
    } else {
        exchange->options.kernels->release(pending->sum);
        pending->sum = NULL;
    }
    pending->sum_holds = false;
}
