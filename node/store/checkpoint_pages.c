#include "node/store/checkpoint_pages.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE  ((size_t)2 << 20)
#define PIECE ((size_t)32 << 20) // copied before the parent gets its pages back

static void advise(const void *memory, size_t bytes, int advice)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)memory;
    const uintptr_t first = (from + page - 1) / page * page, end = (from + bytes) / page * page;
    if (memory && first < end)
        (void)madvise((void *)first, end - first,
                      advice); // whole pages only: the first and the last one may hold other data
}

void node_checkpoint_pages_advise(const struct node_checkpoint_parts *parts, int advice)
{
    size_t bytes = 0;
    const void *scratch = train_trainer_scratch(parts->trainer, &bytes);
    advise(scratch, bytes, advice);
    if (!parts->exchange)
        return;
    scratch = gossip_exchange_scratch(parts->exchange, &bytes);
    advise(scratch, bytes, advice);
}

// `at` and `bytes`: whole huge pages.
static bool take_piece(char *at, size_t bytes)
{
    char *room = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return false;
    char *copy = room + (HUGE - (uintptr_t)room % HUGE) % HUGE, *end = room + bytes + HUGE;
    (void)madvise(copy, bytes, MADV_HUGEPAGE); // a kernel without huge pages returns ordinary ones
    memcpy(copy, at, bytes);
    const bool moved = mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at;
    BASE_ASSERT(moved); // the kernel has just unmapped what was there: to go on would be to read nothing
    if (copy > room)
        (void)munmap(room, (size_t)(copy - room));
    if (end > copy + bytes)
        (void)munmap(copy + bytes, (size_t)(end - copy) - bytes);
    return true;
}

// Whole huge pages only: what is smaller costs little.
static bool take(const void *vector, size_t bytes)
{
    const uintptr_t from = (uintptr_t)vector;
    const uintptr_t first = (from + HUGE - 1) / HUGE * HUGE, end = (from + bytes) / HUGE * HUGE;
    bool taken = true;
    for (uintptr_t at = first; vector && taken && at < end; at += PIECE)
        taken = take_piece((char *)at, end - at < PIECE ? end - at : PIECE);
    return taken;
}

static bool take_learner(const struct node_checkpoint_parts *parts, size_t bytes)
{
    struct train_state_vector vectors[TRAIN_STATES];
    const size_t n = train_trainer_state_vectors(parts->trainer, vectors);
    bool taken = take(train_trainer_model(parts->trainer), bytes);
    for (size_t i = 0; i < n && taken; i++)
        taken = take(vectors[i].values, bytes);
    return taken && take(parts->outer, bytes) && take(parts->outer ? parts->round_start : NULL, bytes);
}

static bool take_exchange(const struct gossip_exchange *exchange, size_t count)
{
    bool taken = take(gossip_exchange_correction(exchange), count * sizeof(float));
    for (size_t i = 0; i < gossip_exchange_edges(exchange) && taken; i++) {
        struct gossip_edge_info edge;
        gossip_exchange_edge_info(exchange, i, &edge);
        taken = take(edge.reference, count * sizeof(float)) && take(edge.correction, count * sizeof(float)) &&
                take(edge.reference_bf16, count * sizeof(uint16_t)) &&
                take(edge.correction_bf16, count * sizeof(uint16_t));
    }
    for (size_t i = 0; i < gossip_exchange_orphans(exchange) && taken; i++)
        taken = take(gossip_exchange_orphan_at(exchange, i).correction, count * sizeof(float));
    return taken;
}

void node_checkpoint_pages_take(const struct node_checkpoint_parts *parts)
{
    const size_t count = train_model_parameters(parts->model);
    const bool taken = take_learner(parts, count * sizeof(float));
    if (taken && parts->exchange)
        (void)take_exchange(parts->exchange, count);
}
