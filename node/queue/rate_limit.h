// How often something may be done because of what peers send, such as writing a log line: a number of times
// at once, and from then on one more every second. Whatever a peer does, a log grows by a bounded number of
// lines a day.
#ifndef NODE_QUEUE_RATE_LIMIT_H
#define NODE_QUEUE_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define NODE_ALLOWANCE_MAX 256u

struct node_allowance { // zeroed: full
    uint64_t at_ns;     // the latest second that was counted
    unsigned used;
    uint64_t refused; // since the latest that was allowed
};

// True: allowed once more; `refused` is then how many were refused just before.
bool node_allowance_take(struct node_allowance *allowance, uint64_t now_ns, uint64_t *refused);

#endif
