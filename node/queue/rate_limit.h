// Limits how often something is done because of what peers send, such as writing a log line: a burst, and
// then once per second. So a peer can add only a bounded number of lines a day to a log.
#ifndef NODE_QUEUE_RATE_LIMIT_H
#define NODE_QUEUE_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define NODE_ALLOWANCE_MAX 256u

struct node_allowance { // zeroed: the whole burst is left
    uint64_t at_ns;     // the latest second that was counted
    unsigned used;
    uint64_t refused; // since the latest that was allowed
};

// True: allowed once more; `refused` is then how many were refused just before.
bool node_allowance_take(struct node_allowance *allowance, uint64_t now_ns, uint64_t *refused);

#endif
