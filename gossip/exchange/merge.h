// Two packets of entries side by side, a window of each at a time: what is applied to the vectors of an
// exchange, and how large its update is.
#ifndef GOSSIP_EXCHANGE_MERGE_H
#define GOSSIP_EXCHANGE_MERGE_H

#include "compress/packet.h"

#define GOSSIP_WINDOW 4096u // entries of a packet, or elements of a run, that are processed at a time

struct gossip_window {
    uint32_t index[GOSSIP_WINDOW];
    float value[GOSSIP_WINDOW];
};

// One packet on its way through a window, or a list that is complete in memory. Read once.
struct gossip_side {
    struct compress_reader reader;
    struct gossip_window *window; // NULL: a list
    const uint32_t *index;
    const float *value;
    size_t at, count;
    uint32_t *copy; // also receives the indices; or NULL
};

// `reader` was opened and has handed out nothing; it is copied.
struct gossip_side gossip_side_of_packet(const struct compress_reader *reader, struct gossip_window *window,
                                         uint32_t *copy);
struct gossip_side gossip_side_of_list(const struct compress_sparse *list, uint32_t *copy);

// The indices that come next; how many, 0: no more.
size_t gossip_side_indices(struct gossip_side *side, const uint32_t **index);

// `step` without its entries; the change of the hash of its r is added to *hash.
void gossip_merge_apply(const struct kernels *kernels, struct gossip_side *mine, struct gossip_side *theirs,
                        struct kernels_exchange *step, uint64_t *hash);
// |(q_theirs - q_mine)/2|.
double gossip_merge_norm(struct gossip_side *mine, struct gossip_side *theirs);

#endif
