// Where the update of the next exchange is kept for the trainer: in the list (pending_list.c) while its
// packets are short, else in a sum over all elements.
#include "gossip/exchange/state.h"

#include <stdlib.h>
#include <string.h>

#define LIST_PART  25u   // of the model's bytes may be packets: 4%
#define LIST_BYTES 2048u // or this many, for a small model

static size_t list_room(const struct gossip_exchange *exchange)
{
    size_t part = exchange->options.parameters * sizeof(float) / LIST_PART;
    size_t most = part > LIST_BYTES ? part : LIST_BYTES;

    return most > exchange->pending.bytes ? most - exchange->pending.bytes : 0;
}

enum base_error gossip_pending_sum(struct gossip_exchange *exchange, float **sum)
{
    struct gossip_pending *pending = &exchange->pending;

    BASE_ASSERT(!pending->sum_holds || (pending->sum && !pending->first)); // a list, or its sum
    *sum = NULL;
    if (exchange->pace.open)
        return BASE_OK;
    if (!pending->sum)
        pending->sum = exchange->options.kernels->alloc(exchange->options.parameters * sizeof *pending->sum);
    if (!pending->sum)
        return BASE_ENOMEM;
    gossip_pending_repeat(exchange, pending->sum, NULL);
    if (gossip_pending_corrects(pending))
        gossip_sum_keep(exchange);
    gossip_pending_clear(pending);
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

    BASE_ASSERT(mine->held && (!keys || keys->count > 0));
    if (!update)
        return NULL;
    *update = (struct gossip_pending_update){
        .mine_of = mine, .mine = mine->bytes, .mine_bytes = mine->delta_bytes, .theirs_bytes = theirs_bytes};
    memcpy(update->theirs, theirs->delta, theirs_bytes);
    if (!keys)
        return update;
    update->keys = malloc(keys->count * sizeof *update->keys);
    if (!update->keys) {
        gossip_pending_decline(update);
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

    BASE_ASSERT(!exchange->pending.sum_holds || exchange->pending.sum);
    *update = NULL;
    *sum = NULL;
    if (exchange->pace.open)
        return BASE_OK;
    if (exchange->pending.sum_holds || bytes > list_room(exchange)) {
        gossip_sum_keep(exchange); // the sum of updates does not contain the change of the corrections
        return gossip_pending_sum(exchange, sum);
    }
    *update = copy_of(mine, theirs, keys);
    return *update ? BASE_OK : BASE_ENOMEM;
}
