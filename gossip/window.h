// How many blocks of a model are asked for ahead over one link: as many as it carries in a moment. What an
// open ask has ordered arrives in any case, and all else on that link waits behind it.
#ifndef GOSSIP_WINDOW_H
#define GOSSIP_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#define GOSSIP_WINDOW_LEAST_NS 2000000000u // a window that the link carries in less time grows by one
#define GOSSIP_WINDOW_MOST_NS  3000000000u // ... in more time shrinks by one

// The window after a block that came `took_ns` after the one before it; from 1 to `most`.
static inline size_t gossip_window_after(size_t window, uint64_t took_ns, size_t most)
{
    if (took_ns < GOSSIP_WINDOW_LEAST_NS / (window + 1) && window < most)
        return window + 1;
    return took_ns > GOSSIP_WINDOW_MOST_NS / window && window > 1 ? window - 1 : window;
}

#endif
