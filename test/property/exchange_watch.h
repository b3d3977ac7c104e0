// What tests check in the messages of a step.
#ifndef TEST_PROPERTY_EXCHANGE_WATCH_H
#define TEST_PROPERTY_EXCHANGE_WATCH_H

#include "test/support/edge_hash.h"
#include "test/support/exchange_net.h"

#include <stdbool.h>
#include <stddef.h>

struct watch_packets {
    size_t all, without_indices; // sparse ones with entries; those whose indices the peer has
};

static inline void watch_packets_count(const struct gossip_exchange_actions *actions,
                                       struct watch_packets *packets)
{
    enum { HEADER_BYTES = 6, SAME_KEYS = 4 };

    for (size_t i = 0; i < actions->count; i++) {
        const struct gossip_message *message = &actions->list[i].message;
        const struct gossip_exchange_message *exchange = &message->as.exchange;
        if (actions->list[i].kind != GOSSIP_EXCHANGE_SEND ||
            (message->kind != GOSSIP_XCHG && message->kind != GOSSIP_XACK) ||
            exchange->form != GOSSIP_DELTA_SPARSE || exchange->delta_bytes <= HEADER_BYTES)
            continue;
        packets->all++;
        packets->without_indices += exchange->delta[0] >> 4 == SAME_KEYS;
    }
}

// Whether the hash in a HELLO of this step is that of r. The exchange updates this hash with every change of
// r, in the same way at both ends, so comparing the two ends would not find a fault in it.
static inline bool watch_hashes_hold(const struct net *net, size_t node,
                                     const struct gossip_exchange_actions *actions)
{
    bool hold = true;

    for (size_t i = 0; i < actions->count; i++) {
        const struct gossip_message *message = &actions->list[i].message;
        const struct gossip_hello *hello = &message->as.hello;
        struct gossip_edge_info info;
        if (actions->list[i].kind != GOSSIP_EXCHANGE_SEND || message->kind != GOSSIP_HELLO)
            continue;
        if (net_edge(net, node, net_index(&actions->list[i].peer), &info) && info.epoch == hello->epoch &&
            info.sequence == hello->sequence) // else r has changed after the HELLO, in the same step
            hold &= hello->reference_hash == edge_hash(info.reference, info.reference_bf16, net->parameters);
    }
    return hold;
}

#endif
