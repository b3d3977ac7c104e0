#include "node/learn/step_time.h"

#include "base/error.h"

void node_step_time_add(struct node_step_time *step_time, uint64_t elapsed_ns, uint64_t steps)
{
    if (steps == 0)
        return;
    BASE_ASSERT(step_time->at < NODE_STEP_TIME_ROUNDS);
    uint64_t step_ns = elapsed_ns / steps;
    step_time->step_ns[step_time->at] = step_ns > 0 ? step_ns : 1;
    step_time->at = (step_time->at + 1) % NODE_STEP_TIME_ROUNDS;
    if (step_time->count < NODE_STEP_TIME_ROUNDS)
        step_time->count++;
}

uint64_t node_step_time_ns(const struct node_step_time *step_time)
{
    uint64_t sorted[NODE_STEP_TIME_ROUNDS];
    if (step_time->count == 0)
        return 0;
    for (size_t i = 0; i < step_time->count; i++) {
        size_t at = i;
        for (; at > 0 && sorted[at - 1] > step_time->step_ns[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = step_time->step_ns[i];
    }
    return sorted[(step_time->count - 1) / 2];
}
