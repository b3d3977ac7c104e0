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
    answers->count += answers->count < GOSSIP_ANSWERS;
}

uint64_t gossip_answers_median(const struct gossip_answers *answers)
{
    uint64_t sorted[GOSSIP_ANSWERS];

    memcpy(sorted, answers->samples_ns, sizeof sorted);
    return median(sorted, answers->count);
}
