#include "node/queue/rate_limit.h"
#include "base/error.h"
#include "node/queue/clock.h"

bool node_allowance_take(struct node_allowance *allowance, uint64_t now_ns, uint64_t *refused)
{
    uint64_t more = (now_ns - allowance->at_ns) / NODE_SECOND_NS;
    if (more >= allowance->used) {
        allowance->used = 0;
        allowance->at_ns = now_ns;
    } else {
        allowance->used -= (unsigned)more;
        allowance->at_ns += more * NODE_SECOND_NS;
    }
    if (allowance->used == NODE_ALLOWANCE_MAX) {
        allowance->refused++;
        return false;
    }
    allowance->used++;
    BASE_ASSERT(allowance->used <= NODE_ALLOWANCE_MAX);
    *refused = allowance->refused;
    allowance->refused = 0;
    return true;
}
