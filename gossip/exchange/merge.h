// Reads two packets of entries side by side, one window of each at a time: applies them to the vectors of an
// exchange, and computes the norm of their update.
#ifndef GOSSIP_EXCHANGE_MERGE_H
#define GOSSIP_EXCHANGE_MERGE_H

#include "compress/packet.h"

#define GOSSIP_WINDOW 4096u // entries of a packet, or elements of a run, that are processed at a time

struct gossip_window {
    uint32_t index[GOSSIP_WINDOW];
    float value[GOSSIP_WINDOW];
};

// The entries of one side: a packet that is decoded window by window, or a list that is complete in memory.
// Can be read once.
struct gossip_side {
    struct compress_reader reader;
    struct gossip_window *window; // NULL: a list
    const uint32_t *index;
    const float *value;
    size_t at, count;
    uint32_t *copy; // also receives the indices, or NULL
};

// `reader` is open and nothing has been read from it; it is copied.
struct gossip_side gossip_side_of_packet(const struct compress_reader *reader, struct gossip_window *window,
                                         uint32_t *copy);
struct gossip_side gossip_side_of_list(const struct compress_sparse *list, uint32_t *copy);

// Sets *index to the next indices and returns their number; 0: there are no more.
size_t gossip_side_indices(struct gossip_side *side, const uint32_t **index);

// `step` comes without entries; they are taken from the two sides. Adds the change of the hash of r to *hash.
void gossip_merge_apply(const struct kernels *kernels, struct gossip_side *mine, struct gossip_side *theirs,
                        struct kernels_exchange *step, uint64_t *hash);
// |(q_theirs - q_mine)/2|.
double gossip_merge_norm(struct gossip_side *mine, struct gossip_side *theirs);

#endif
