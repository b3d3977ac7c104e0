#include "node/learn/pace.h"

void node_pace_add(struct node_pace *pace, uint64_t elapsed_ns, uint64_t steps)
{
    if (steps == 0)
        return;
    uint64_t step_ns = elapsed_ns / steps;
    pace->step_ns[pace->at] = step_ns > 0 ? step_ns : 1;
    pace->at = (pace->at + 1) % NODE_PACE_ROUNDS;
    if (pace->count < NODE_PACE_ROUNDS)
        pace->count++;
}

uint64_t node_pace_ns(const struct node_pace *pace)
{
    uint64_t sorted[NODE_PACE_ROUNDS];
    if (pace->count == 0)
        return 0;
    for (size_t i = 0; i < pace->count; i++) {
        size_t at = i;
        for (; at > 0 && sorted[at - 1] > pace->step_ns[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = pace->step_ns[i];
    }
    return sorted[(pace->count - 1) / 2];
}
