#include "train/schedule.h"
#include <math.h>

static double cosine(const struct train_schedule *schedule, uint64_t step, uint64_t steps)
{
    const double pi = acos(-1.0);
    const uint64_t length = steps > schedule->warmup + 1 ? steps - 1 - schedule->warmup : 1;
    const double done = fmin(1.0, (double)(step - schedule->warmup) / (double)length);
    return schedule->floor + (1.0 - schedule->floor) * 0.5 * (1.0 + cos(pi * done));
}

double train_schedule_rate(const struct train_schedule *schedule, double rate, uint64_t step, uint64_t steps)
{
    double factor = 1.0;
    if (step < schedule->warmup)
        return rate * (double)(step + 1) / (double)(schedule->warmup + 1);
    if (schedule->decay == TRAIN_DECAY_COSINE)
        factor = cosine(schedule, step, steps);
    for (size_t i = 0; i < schedule->count; i++)
        if ((double)step / (double)steps >= schedule->at[i])
            factor = schedule->factor[i];
    return rate * factor;
}
