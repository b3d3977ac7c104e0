#include "train/settle.h"
#include "base/error.h"
#include <stdlib.h>

bool train_settle_open(struct train_settle *settle)
{
    BASE_ASSERT(settle->features > 0 && settle->blocks <= settle->features);
    settle->drawn = UINT64_MAX;
    settle->order = malloc(settle->blocks * sizeof *settle->order);
    return settle->order;
}

void train_settle_close(struct train_settle *settle)
{
    free(settle->order);
    settle->order = NULL;
}

struct train_block train_settle_block(struct train_settle *settle, uint64_t step)
{
    const struct train_block block = train_shrink_block(settle->features, settle->blocks, settle->seed, step,
                                                        &settle->drawn, settle->order);
    return (struct train_block){block.from * settle->outputs, block.to * settle->outputs};
}

void train_settle_owe(struct train_settle *settle, uint64_t step, double length)
{
    BASE_ASSERT(length >= 0);
    settle->due = settle->l1 > 0.0 || settle->l2 > 0.0;
    settle->block = train_settle_block(settle, step);
    settle->t1 = (float)(length * settle->l1);
    settle->t2 = (float)(length * settle->l2);
}

void train_settle_filter(const struct train_settle *settle, float *x)
{
    if (settle->due)
        train_shrink_filter(settle->block.to - settle->block.from, settle->t1, x + settle->block.from);
}

void train_settle_pay(struct train_settle *settle, float *x)
{
    const struct train_block *block = &settle->block;
    if (settle->due)
        train_shrink(block->to - block->from, settle->t1, settle->t2, x + block->from);
    settle->due = false;
}
