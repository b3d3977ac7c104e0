// A window: a piece of a packet, or a run of elements, on its way between ordinary memory and that of the
// kernels. Where the two are one, nothing is copied.
#ifndef GOSSIP_EXCHANGE_WINDOW_H
#define GOSSIP_EXCHANGE_WINDOW_H

#include "compress/packet.h"

#define GOSSIP_WINDOW 4096u // entries or elements; on the wire, so many second moments share a scale

struct gossip_window {
    const struct kernels *kernels;
    size_t room;     // entries, a multiple of GOSSIP_WINDOW
    uint32_t *index; // [room] ordinary memory
    float *value;
    struct { // [room] in the kernels' memory; the two arrays above if that is the host's memory
        uint32_t *index;
        float *value;
        uint8_t *section; // of encoded values; NULL if they are decoded into `value`
    } there;
};

// False: out of memory.
bool gossip_window_make(const struct kernels *kernels, struct gossip_window *window);
void gossip_window_free(struct gossip_window *window); // {0} is fine
// The same window for data that stays on the host.
struct gossip_window gossip_window_on_host(const struct gossip_window *window);

// Reads the next entries of a packet; returns their number, 0 at the end. Their indices are in both memories,
// their values only in the kernels'.
size_t gossip_window_read(struct gossip_window *window, struct compress_reader *reader);
// The indices of a list in the kernels' memory.
void gossip_window_fetch_index(struct gossip_window *window, const uint32_t *from, size_t count);
// A run of a vector in the kernels' memory, for reading: where it is, or a copy in `value`.
const float *gossip_window_fetch(struct gossip_window *window, const float *vector, size_t count);
// Returns the place where the kernels find what was written to `value`.
const float *gossip_window_send(struct gossip_window *window, size_t count);

#endif
