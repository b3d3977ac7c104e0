// Checks the options of training.
#include "train/trainer.h"

#include <math.h>

static bool probability(double value)
{
    return value >= 0.0 && value < 1.0;
}

static enum base_error check_schedule(const struct train_options *options, struct base_reason *why)
{
    const struct train_schedule *schedule = &options->schedule;
    if (schedule->count > TRAIN_SCHEDULE_STEPS)
        return base_fail(why, BASE_EINVAL, "the schedule has %zu entries; expected at most %d",
                         schedule->count, TRAIN_SCHEDULE_STEPS);
    if (schedule->decay == TRAIN_DECAY_COSINE && schedule->count > 0)
        return base_fail(why, BASE_EINVAL,
                         "a schedule of %zu entries together with the cosine; expected "
                         "none",
                         schedule->count);
    if (!(schedule->floor >= 0.0 && schedule->floor <= 1.0))
        return base_fail(why, BASE_EINVAL, "the floor of the cosine is %g; expected 0 to 1", schedule->floor);
    if ((schedule->count > 0 || schedule->decay == TRAIN_DECAY_COSINE) && options->steps == 0)
        return base_fail(why, BASE_EINVAL, "a schedule needs the total number of steps, found 0");
    double last = 0.0;
    for (size_t i = 0; i < schedule->count; i++) {
        if (!(schedule->at[i] >= last && schedule->at[i] <= 1.0))
            return base_fail(why, BASE_EINVAL,
                             "entry %zu of the schedule begins at %g; expected %g to 1, ascending", i,
                             schedule->at[i], last);
        if (!(schedule->factor[i] >= 0.0 && isfinite(schedule->factor[i])))
            return base_fail(why, BASE_EINVAL,
                             "entry %zu of the schedule has the factor %g; expected 0 or more", i,
                             schedule->factor[i]);
        last = schedule->at[i];
    }
    return BASE_OK;
}

static enum base_error check_amounts(const struct train_options *options, struct base_reason *why)
{
    const struct {
        const char *name;
        double value;
    } amounts[] = {{"the learning rate", options->rate},
                   {"the weight decay", options->weight_decay},
                   {"the weight of the gradient", options->weight},
                   {"l1", options->l1},
                   {"l2", options->l2},
                   {"mu of the proximal term", options->proximal},
                   {"the bound of the gradient's norm", options->clip_norm}};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++)
        if (!(amounts[i].value >= 0.0 && isfinite(amounts[i].value)))
            return base_fail(why, BASE_EINVAL, "%s is %g; expected a number, 0 or more", amounts[i].name,
                             amounts[i].value);
    return BASE_OK;
}

enum base_error train_options_check(const struct train_options *options, struct base_reason *why)
{
    const struct train_optimizer *optimizer = train_optimizer(options->optimizer);
    if (!optimizer)
        return base_fail(why, BASE_EINVAL, "optimizer %d is unknown; expected one of %s",
                         (int)options->optimizer, TRAIN_OPTIMIZER_CHOICES);
    enum base_error error = check_amounts(options, why);
    if (error)
        return error;
    if ((optimizer->uses & TRAIN_USES_MOMENTUM) != 0 && !probability(options->momentum))
        return base_fail(why, BASE_EINVAL, "the momentum is %g; expected 0 to below 1", options->momentum);
    if ((optimizer->uses & TRAIN_USES_BETAS) != 0 &&
        !(probability(options->beta1) && probability(options->beta2)))
        return base_fail(why, BASE_EINVAL, "beta1 is %g and beta2 is %g; expected 0 to below 1",
                         options->beta1, options->beta2);
    if ((optimizer->uses & TRAIN_USES_EPSILON) != 0 &&
        !(options->epsilon > 0.0 && isfinite(options->epsilon)))
        return base_fail(why, BASE_EINVAL, "epsilon is %g; expected a number above 0", options->epsilon);
    if (options->batch == 0)
        return base_fail(why, BASE_EINVAL, "a batch of 0 examples; expected 1 or more");
    if ((options->l1 > 0.0 || options->l2 > 0.0) && options->optimizer != TRAIN_SGD)
        return base_fail(why, BASE_EINVAL, "l1 and l2 need the proximal steps of sgd; found the optimizer %s",
                         optimizer->name);
    return check_schedule(options, why);
}
