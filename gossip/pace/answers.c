#include "gossip/pace/answers.h"

#include "base/error.h"
#include <string.h>

static uint64_t median(uint64_t *values, size_t count)
{
    for (size_t i = 1; i < count; i++) { // insertion sort: at most GOSSIP_ANSWERS values
        uint64_t value = values[i];
        size_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    return count ? values[count / 2] : 0;
}

void gossip_answers_learn(struct gossip_answers *answers, uint64_t answer_ns)
{
    BASE_ASSERT(answers->next < GOSSIP_ANSWERS && answers->count <= GOSSIP_ANSWERS);
    answers->samples_ns[answers->next] = answer_ns;
    answers->next = (answers->next + 1) % GOSSIP_ANSWERS;
    if (answers->count < GOSSIP_ANSWERS)
        answers->count++;
}

uint64_t gossip_answers_median(const struct gossip_answers *answers)
{
    uint64_t sorted[GOSSIP_ANSWERS];

    memcpy(sorted, answers->samples_ns, sizeof sorted);
    return median(sorted, answers->count);
}

uint64_t gossip_answers_patience(const struct gossip_answers *answers, uint64_t floor_ns, uint64_t ceiling_ns)
{
    const uint64_t middle = gossip_answers_median(answers);
    uint64_t spread[GOSSIP_ANSWERS];

    if (answers->count == 0)
        return ceiling_ns;
    for (size_t i = 0; i < answers->count; i++) {
        const uint64_t sample = answers->samples_ns[i];
        spread[i] = sample > middle ? sample - middle : middle - sample;
    }
    const uint64_t spreads = answers->count > 1 ? median(spread, answers->count) : middle / 2;
    uint64_t wait = middle + 6 * spreads;
    if (wait < 2 * middle) // an exchange whose requests do not cross takes two packets instead of one
        wait = 2 * middle;
    if (wait < floor_ns)
        wait = floor_ns;
    return wait < ceiling_ns ? wait : ceiling_ns;
}
