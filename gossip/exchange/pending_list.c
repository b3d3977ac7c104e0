// Updates that the trainer has not received yet. While it computes, exchanges move the published model away
// from its own; at the boundary it gets the same updates, from the same packets. Packets are short: a vector
// of d sums would be read and written at every entry of both packets, and read and cleared as a whole at
// every boundary.
#include "gossip/exchange/state.h"

#include <stdlib.h>

// x += the update of one exchange, as it was applied, and sum += the change of its correction. Either may be
// NULL.
static void repeat(const struct gossip_exchange *exchange, const struct gossip_pending_update *update,
                   float *x, float *sum)
{
    const struct kernels *kernels = exchange->options.kernels;
    const struct compress_keys known = {
        .index = update->keys, .count = update->n_keys, .hash = update->keys_hash};
    const bool bf16 = exchange->options.reference_bf16; // the current corrections are summed
    size_t d = exchange->options.parameters;
    struct compress_reader mine, theirs;
    struct kernels_exchange step = {.x = update->weight > 0 ? x : NULL,
                                    .correction_sum = update->gain > 0 && !bf16 ? sum : NULL,
                                    .weight = update->weight,
                                    .gain = update->gain};
    uint64_t hash = 0;

    if (!step.x && !(update->gain > 0 && sum))
        return;
    enum base_error error =
        compress_reader_open(kernels, update->mine, update->mine_bytes, d, d, NULL, &mine);
    if (!error)
        error = compress_reader_open(kernels, update->theirs, update->theirs_bytes, d, d,
                                     update->keys ? &known : NULL, &theirs);
    BASE_ASSERT(!error); // they were read before
    struct gossip_side a = gossip_side_of_packet(&mine, &exchange->window[0], NULL);
    struct gossip_side b = gossip_side_of_packet(&theirs, &exchange->window[1], NULL);
    if (step.x || step.correction_sum)
        gossip_merge_apply(kernels, &a, &b, &step, &hash);
    if (!bf16 || !(update->gain > 0) || !sum)
        return;
    a = gossip_side_of_packet(&mine, &exchange->window[0], NULL);
    b = gossip_side_of_packet(&theirs, &exchange->window[1], NULL);
    gossip_sum_at(exchange, &a, sum);
    gossip_sum_at(exchange, &b, sum);
}

void gossip_pending_decline(struct gossip_pending_update *update)
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

void gossip_pending_clear(struct gossip_pending *pending)
{
    BASE_ASSERT(!pending->first == !pending->last);
    while (pending->first) {
        struct gossip_pending_update *next = pending->first->next;
        gossip_pending_decline(pending->first);
        pending->first = next;
    }
    pending->last = NULL;
    pending->bytes = 0;
}

void gossip_pending_keep(struct gossip_pending *pending, struct gossip_pending_update *update)
{
    BASE_ASSERT(!pending->sum_holds && !update->next);
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
    BASE_ASSERT(update->mine == packet->bytes);
    uint8_t *shrunk = realloc(packet->bytes, update->mine_bytes); // only the delta is still needed
    update->mine = shrunk ? shrunk : packet->bytes;
    update->mine_of = NULL;
    packet->bytes = NULL;
    packet->capacity = 0;
}

void gossip_pending_move(struct gossip_pending *pending, struct gossip_packet *from, struct gossip_packet *to)
{
    const struct gossip_packet moved = *from;

    gossip_pending_inherit(pending, to);
    *from = *to;
    *to = moved;
    from->held = false;
    for (struct gossip_pending_update *update = pending->first; update; update = update->next)
        if (update->mine_of == from)
            update->mine_of = to;
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

    if (x && pending->sum_holds)
        exchange->options.kernels->vectors->add(exchange->options.parameters, 1, pending->sum, x);
    gossip_pending_repeat(exchange, x, sum);
    gossip_pending_drop(exchange);
}

// The sum's memory stays if this round used it, and is freed otherwise.
void gossip_pending_drop(struct gossip_exchange *exchange)
{
    const struct kernels *kernels = exchange->options.kernels;
    struct gossip_pending *pending = &exchange->pending;

    gossip_pending_clear(pending);
    BASE_ASSERT(pending->sum || !pending->sum_holds);
    if (pending->sum_holds) {
        kernels->vectors->clear(pending->sum, exchange->options.parameters * sizeof *pending->sum);
    } else {
        kernels->release(pending->sum);
        pending->sum = NULL;
    }
    pending->sum_holds = false;
}
