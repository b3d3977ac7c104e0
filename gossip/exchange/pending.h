// Updates of the model that the trainer has not received yet, because it computes. Private to
// gossip/exchange.
#ifndef GOSSIP_EXCHANGE_PENDING_H
#define GOSSIP_EXCHANGE_PENDING_H

#include "gossip/exchange/exchange.h"
#include "gossip/exchange/packet.h"

// The update of one exchange that the trainer has not received yet.
struct gossip_pending_update {
    struct gossip_pending_update *next;
    const struct gossip_packet *mine_of; // the packet that still holds our bytes; NULL: this struct owns
                                         // them
    uint8_t *mine;
    size_t mine_bytes, theirs_bytes;
    uint32_t *keys; // the indices of `theirs` if it came without them, else NULL
    size_t n_keys;
    uint64_t keys_hash;
    float weight;
    float gain; // for the sum of corrections, if that is deferred; else unused
    uint8_t theirs[];
};
// All such updates since the trainer last handed over its model, in order: as a list, or as their sum.
struct gossip_pending {
    struct gossip_pending_update *first, *last;
    size_t bytes;   // of the list
    float *sum;     // [d] or NULL
    bool sum_holds; // the sum is used instead of the list; if false, the sum is zero
};

// pending.c. Where to put the update of the next exchange for the trainer. While all pending packets together
// are short, *update keeps the two packets (theirs copied, with its indices `keys` or NULL; mine borrowed);
// else *sum is set. Both are NULL while the trainer waits. BASE_ENOMEM changes nothing.
enum base_error gossip_pending_room(struct gossip_exchange *exchange, const struct gossip_packet *mine,
                                    const struct gossip_exchange_message *theirs,
                                    const struct compress_keys *keys, struct gossip_pending_update **update,
                                    float **sum) BASE_CHECK;
// The sum, for updates that are not kept as packets; NULL while the trainer waits.
enum base_error gossip_pending_sum(struct gossip_exchange *exchange, float **sum) BASE_CHECK;

// pending_list.c. The list of pending updates.
void gossip_pending_keep(struct gossip_pending *pending, struct gossip_pending_update *update);
void gossip_pending_decline(struct gossip_pending_update *update);  // frees an update that is not kept
bool gossip_pending_corrects(const struct gossip_pending *pending); // an update of the list must be applied
                                                                    // to a deferred sum
// Call before `packet` is overwritten or freed: its bytes move to the pending update that still needs them,
// if any.
void gossip_pending_inherit(struct gossip_pending *pending, struct gossip_packet *packet);
// Exchanges the contents of two packets. Nothing needs what `to` held.
void gossip_pending_move(struct gossip_pending *pending, struct gossip_packet *from,
                         struct gossip_packet *to);
// x += all updates of the list, sum += their changes of the corrections. Either vector may be NULL.
void gossip_pending_repeat(const struct gossip_exchange *exchange, float *x, float *sum);
// x += all updates, sum += their changes of the corrections; then discards the updates. Either vector may be
// NULL.
void gossip_pending_take(struct gossip_exchange *exchange, float *x, float *sum);
void gossip_pending_clear(struct gossip_pending *pending); // only the list, not the sum
void gossip_pending_drop(struct gossip_exchange *exchange);

#endif
