#include "gossip/exchange/deadline.h"

#include <string.h>

static uint64_t median(uint64_t *values, size_t count)
{
    for (size_t i = 1; i < count; i++) { // insertion sort: at most 15 values
        uint64_t value = values[i];
        size_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    return count ? values[count / 2] : 0;
}

void gossip_deadline_learn(struct gossip_deadline *deadline, uint64_t answer_ns)
{
    deadline->samples_ns[deadline->next] = answer_ns;
    deadline->next = (deadline->next + 1) % GOSSIP_DEADLINE_SAMPLES;
    if (deadline->count < GOSSIP_DEADLINE_SAMPLES)
        deadline->count++;
}

uint64_t gossip_deadline_median(const struct gossip_deadline *deadline)
{
    uint64_t sorted[GOSSIP_DEADLINE_SAMPLES];

    memcpy(sorted, deadline->samples_ns, sizeof sorted);
    return median(sorted, deadline->count);
}

uint64_t gossip_deadline_after(const struct gossip_deadline *deadline, uint64_t floor_ns, uint64_t ceiling_ns)
{
    uint64_t middle = gossip_deadline_median(deadline);
    uint64_t spread[GOSSIP_DEADLINE_SAMPLES];

    if (deadline->count == 0)
        return ceiling_ns;
    for (size_t i = 0; i < deadline->count; i++) {
        uint64_t sample = deadline->samples_ns[i];
        spread[i] = sample > middle ? sample - middle : middle - sample;
    }
    uint64_t wait = middle + 6 * median(spread, deadline->count);
    if (wait < floor_ns)
        wait = floor_ns;
    return wait < ceiling_ns ? wait : ceiling_ns;
}
