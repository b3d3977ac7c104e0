// A checkpoint of one node in memory: its model, its moments and all its edges.
#ifndef TEST_PROPERTY_EXCHANGE_SAVED_H
#define TEST_PROPERTY_EXCHANGE_SAVED_H

#include "test/support/exchange_net.h"

#include <stdlib.h>
#include <string.h>

#define SAVED_RECORDS 16u

struct saved {
    bool there;
    uint64_t round;
    float *model, *v; // v may be NULL
    size_t count;
    struct gossip_edge_record record[SAVED_RECORDS]; // owns all that it points to
};

// A copy of the memory; NULL for NULL.
static inline void *saved_copy(const void *memory, size_t bytes)
{
    void *twin = memory ? malloc(bytes ? bytes : 1) : NULL;

    BASE_ASSERT(twin || !memory);
    if (memory)
        memcpy(twin, memory, bytes);
    return twin;
}

static inline void saved_free(struct saved *saved)
{
    for (size_t i = 0; i < saved->count; i++) {
        free((void *)(uintptr_t)saved->record[i].reference);
        free((void *)(uintptr_t)saved->record[i].correction);
        free((void *)(uintptr_t)saved->record[i].reference_bf16);
        free((void *)(uintptr_t)saved->record[i].correction_bf16);
        free((void *)(uintptr_t)saved->record[i].transactions);
    }
    free(saved->model);
    free(saved->v);
    *saved = (struct saved){0};
}

// Replaces what *saved held.
static inline void saved_take(struct saved *saved, const struct net *net, size_t node)
{
    const struct net_node *at = &net->node[node];
    size_t bytes = net->parameters * sizeof(float);

    saved_free(saved);
    saved->there = true;
    saved->round = at->round;
    saved->model = (float *)saved_copy(gossip_exchange_model(at->exchange), bytes);
    saved->v = at->v ? (float *)saved_copy(at->v, bytes) : NULL;
    saved->count = gossip_exchange_edges(at->exchange);
    BASE_ASSERT(saved->count <= SAVED_RECORDS);
    for (size_t i = 0; i < saved->count; i++) {
        struct gossip_edge_record *record = &saved->record[i];
        BASE_ASSERT(!gossip_exchange_export(at->exchange, i, record));
        record->reference = (float *)saved_copy(record->reference, bytes);
        record->correction = (float *)saved_copy(record->correction, bytes);
        record->reference_bf16 = (uint16_t *)saved_copy(record->reference_bf16, bytes / 2);
        record->correction_bf16 = (uint16_t *)saved_copy(record->correction_bf16, bytes / 2);
        record->transactions = (uint8_t *)saved_copy(record->transactions, record->transactions_bytes);
    }
}

#endif
