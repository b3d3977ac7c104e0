#include "train/watch.h"

#include <math.h>

// A window: what is averaged before it is compared.
#define ROUNDS_MIN 4u
#define STEPS_MIN  16u
#define LABELS_MIN 256.0

#define SMOOTH      0.125 // weight of a window in level and spread
#define WINDOWS_MIN 4u    // before anything is far
#define LEARNED     0.5   // of the loss of nothing: a node that has been below has learned
#define UNLEARNED   0.6   // of the loss of nothing: such a node has lost it again
#define RISEN       2.0   // times the best: the usual loss has risen
#define WILD        10.0  // times the loss of nothing, or the best: a node that never learned
#define SPREADS     8.0   // far is so many spreads above the best, too
#define NEAR        2.0   // spreads, or times the best: still a good state

double train_loss_of_nothing(const struct train_model_spec *spec, const struct train_dataset *data)
{
    const size_t count = data->examples * data->outputs;
    double sum = 0;
    if (spec->loss == TRAIN_CROSS_ENTROPY)
        return log((double)(spec->classes > 1 ? spec->classes : 2));
    for (size_t i = 0; i < count; i++) {
        const double target = (double)data->targets[i];
        sum += spec->loss == TRAIN_MSE ? target * target : fabs(target);
    }
    return count > 0 ? sum / (double)count : 0;
}

void train_watch_examples(struct train_watch *watch, double nothing)
{
    BASE_ASSERT(nothing >= 0 && isfinite(nothing));
    watch->nothing = nothing;
    if (watch->windows == 0)
        train_watch_forget(watch);
}

void train_watch_forget(struct train_watch *watch)
{
    *watch = (struct train_watch){.nothing = watch->nothing, .best = INFINITY};
}

static bool has_learned(const struct train_watch *watch)
{
    return watch->best <= LEARNED * watch->nothing;
}

double train_watch_bound(const struct train_watch *watch)
{
    if (watch->windows < WINDOWS_MIN || watch->nothing <= 0)
        return INFINITY;
    const double usual = watch->best + SPREADS * watch->best_spread;
    const double lost = has_learned(watch) ? fmax(RISEN * watch->best, UNLEARNED * watch->nothing)
                                           : WILD * fmax(watch->nothing, watch->best);
    return fmax(usual, lost);
}

bool train_watch_has_risen(const struct train_watch *watch)
{
    return watch->windows >= WINDOWS_MIN && has_learned(watch) &&
           watch->level > fmax(watch->best + SPREADS * watch->best_spread,
                               fmax(RISEN * watch->best, LEARNED * watch->nothing));
}

bool train_watch_is_diverged(const struct train_watch *watch)
{
    return watch->recovers || watch->far > 1 || train_watch_has_risen(watch);
}

static bool is_near(const struct train_watch *watch, double loss)
{
    const double most = has_learned(watch) ? LEARNED * watch->nothing : NEAR * watch->best;
    return watch->windows >= WINDOWS_MIN && loss <= most && loss <= watch->level + NEAR * watch->spread;
}

static void learn(struct train_watch *watch, double loss)
{
    if (watch->windows == 0)
        watch->level = loss;
    watch->spread += SMOOTH * (fabs(loss - watch->level) - watch->spread);
    watch->level += SMOOTH * (loss - watch->level);
    watch->windows += watch->windows < WINDOWS_MIN;
    if (watch->windows < WINDOWS_MIN || watch->level >= watch->best)
        return;
    watch->best = watch->level;
    watch->best_spread = watch->spread;
}

static enum train_verdict judge_far(struct train_watch *watch)
{
    watch->far++;
    if (watch->far < TRAIN_WATCH_FAR)
        return TRAIN_VERDICT_FAR;
    watch->far = 0;
    watch->recovers = true;
    return TRAIN_VERDICT_DIVERGED;
}

// `last`: loss of the latest round, after which the state would be kept.
static enum train_verdict judge(struct train_watch *watch, double loss, double last)
{
    watch->latest = loss;
    if (loss > train_watch_bound(watch))
        return judge_far(watch);
    watch->far = 0;
    learn(watch, loss);
    if (!is_near(watch, loss) || last > train_watch_bound(watch))
        return TRAIN_VERDICT_OPEN;
    watch->recovers = false;
    return TRAIN_VERDICT_GOOD;
}

enum train_verdict train_watch_round(struct train_watch *watch, double loss, double labels, uint64_t steps)
{
    BASE_ASSERT(isfinite(loss) && labels > 0 && steps > 0);
    watch->window.sum += loss * labels;
    watch->window.labels += labels;
    watch->window.steps += steps;
    watch->window.rounds++;
    if (watch->window.rounds < ROUNDS_MIN || watch->window.steps < STEPS_MIN ||
        watch->window.labels < LABELS_MIN)
        return TRAIN_VERDICT_OPEN;
    const double mean = watch->window.sum / watch->window.labels;
    watch->window.sum = watch->window.labels = 0;
    watch->window.steps = watch->window.rounds = 0;
    return judge(watch, mean, loss);
}

// -- the losses of a program

#define FIRST_ROUNDS    4u
#define TRAINED_TIMES   10.0
#define LABELS_PER_STEP 16.0 // their number is not known; a window is as long as its steps say

static void calibrate(struct train_program_watch *program, double loss)
{
    BASE_ASSERT(program->first < FIRST_ROUNDS && loss > 0);
    program->largest = fmax(program->largest, loss);
    if (++program->first == FIRST_ROUNDS)
        train_watch_examples(&program->watch,
                             program->trained ? TRAINED_TIMES * program->largest : program->largest);
}

enum train_verdict train_program_round(struct train_program_watch *program, double loss, uint64_t steps)
{
    if (program->unwatched || !isfinite(loss) || steps == 0)
        return TRAIN_VERDICT_OPEN;
    if (loss <= 0) {
        *program = (struct train_program_watch){.unwatched = true};
        return TRAIN_VERDICT_OPEN;
    }
    if (program->first < FIRST_ROUNDS) {
        calibrate(program, loss);
        return TRAIN_VERDICT_OPEN;
    }
    return train_watch_round(&program->watch, loss, LABELS_PER_STEP * (double)steps, steps);
}

void train_program_takes(struct train_program_watch *program)
{
    const bool calibrated = program->first == FIRST_ROUNDS;
    if (program->unwatched)
        return;
    if (calibrated) {
        train_watch_forget(&program->watch);
    } else {
        program->trained = true;
        program->first = 0;
        program->largest = 0;
    }
}
