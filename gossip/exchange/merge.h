// Reads two packets of entries side by side, one window of each at a time: applies them to the vectors of an
// exchange, and computes the norm of their update.
#ifndef GOSSIP_EXCHANGE_MERGE_H
#define GOSSIP_EXCHANGE_MERGE_H

#include "gossip/exchange/window.h"

// The entries of one side: a packet that is decoded window by window, or a list in the kernels' memory. Can
// be read once.
struct gossip_side {
    struct compress_reader reader;
    struct gossip_window *window;
    const struct compress_sparse *list; // NULL: the reader's packet
    size_t listed;                      // entries of it that have been taken
    const uint32_t *index;              // of the entries at hand, in ordinary memory
    struct {                            // the same entries, where the window's kernels find them
        const uint32_t *index;
        const float *value;
    } there;
    size_t at, count;
    uint32_t *copy; // also receives the indices, or NULL
};

// `reader` is open and nothing has been read from it; it is copied.
struct gossip_side gossip_side_of_packet(const struct compress_reader *reader, struct gossip_window *window,
                                         uint32_t *copy);
struct gossip_side gossip_side_of_list(const struct compress_sparse *list, struct gossip_window *window,
                                       uint32_t *copy);

// Sets *index to the next indices and returns their number; 0: there are no more.
size_t gossip_side_indices(struct gossip_side *side, const uint32_t **index);

// `step` comes without entries; they are taken from the two sides, and applied by the kernels of their
// windows. Adds the change of the hash of r to *hash.
void gossip_merge_apply(const struct kernels *kernels, struct gossip_side *mine, struct gossip_side *theirs,
                        struct kernels_exchange *step, uint64_t *hash);
// |(q_theirs - q_mine)/2|. The windows are on the host.
double gossip_merge_norm(struct gossip_side *mine, struct gossip_side *theirs);

#endif
