// What a fuzzer asks of an exchange before and after a message: its edges' state, and its refusals.
#ifndef TEST_SUPPORT_EXCHANGE_LOOKS_H
#define TEST_SUPPORT_EXCHANGE_LOOKS_H

#include "gossip/exchange/exchange.h"
#include "test/support/edge_hash.h"

// A value that changes with every commit and every new epoch.
static inline uint64_t edges_places(const struct gossip_exchange *exchange)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < gossip_exchange_edges(exchange); i++) {
        struct gossip_edge_info info;
        gossip_exchange_edge_info(exchange, i, &info);
        sum = base_hash_mix(sum ^ info.epoch ^ info.sequence << 32);
    }
    return sum;
}

// `count`: the parameters of the model.
static inline uint64_t edges_hash(const struct gossip_exchange *exchange, size_t count)
{
    uint64_t hash = edges_places(exchange);

    for (size_t i = 0; i < gossip_exchange_edges(exchange); i++) {
        struct gossip_edge_info info;
        gossip_exchange_edge_info(exchange, i, &info);
        hash = base_hash_mix(hash ^ edge_hash(info.reference, info.reference_bf16, count));
        hash = base_hash_mix(hash ^ edge_hash(info.correction, info.correction_bf16, count));
    }
    return hash;
}

static inline bool actions_refuse(const struct gossip_exchange_actions *actions, const struct gossip_id *peer)
{
    for (size_t i = 0; i < actions->count; i++)
        if (actions->list[i].kind == GOSSIP_EXCHANGE_REFUSE &&
            gossip_id_compare(&actions->list[i].peer, peer) == 0)
            return true;
    return false;
}

#endif
