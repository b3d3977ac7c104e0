#include "train/probe.h"

#include "train/trainer_private.h"
#include "train/watch.h"

#include <math.h>
#include <stdlib.h>

#define EXAMPLES_LEAST 8u
#define LABELS_MOST    4096u // of text, an example has many
#define BEST           10u   // part of the examples

#define LEARNED   0.9  // of the loss of nothing: a model below it knows something of these examples
#define LOST      0.8  // of what it knows: the other model has lost that
#define LOST_BEST 0.65 // likewise, of the best tenth
#define LEAST     0.1  // of the loss of nothing: no smaller difference is clear
#define USELESS   2.0  // times the loss of nothing: whatever the best tenth says
#define WILD      10.0 // likewise, where there is nothing to compare with

// -- the verdict

static double lost(double own, double nothing, double part)
{
    return own + fmax(part * (nothing - own), LEAST * nothing);
}

// A mean of many models may be far from a node's own examples, and better everywhere else. It knows some of
// them well, which a model of noise or of constants does not.
static bool knows_some(const struct train_probe *probe)
{
    return probe->other <= USELESS * probe->nothing &&
           probe->best_other <= lost(probe->best_own, probe->nothing, LOST_BEST);
}

bool train_probe_is_worse(const struct train_probe *probe, enum train_offer offer)
{
    if (isnan(probe->nothing) || !isfinite(probe->own) || probe->nothing <= 0)
        return false;
    if (!isfinite(probe->other))
        return true;
    if (!probe->trained || probe->own >= LEARNED * probe->nothing)
        return probe->other > WILD * fmax(probe->nothing, probe->own);
    return probe->other > lost(probe->own, probe->nothing, LOST) &&
           !(offer == TRAIN_OFFER_MERGED && knows_some(probe));
}

// -- the losses

// Spread evenly over its examples; with the same `turn` the same ones.
static enum base_error choose(const struct train_dataset *data, size_t most, uint64_t turn,
                              struct train_dataset *part)
{
    const size_t affordable = LABELS_MOST / train_dataset_labels(data),
                 wanted = affordable < EXAMPLES_LEAST ? EXAMPLES_LEAST
                          : affordable > most         ? most
                                                      : affordable,
                 count = wanted < data->examples ? wanted : data->examples;
    uint32_t rows[TRAIN_PROBE_EXAMPLES];
    BASE_ASSERT(count > 0 && count <= TRAIN_PROBE_EXAMPLES);
    const size_t shift = (size_t)(turn % (data->examples / count));
    for (size_t i = 0; i < count; i++)
        rows[i] = (uint32_t)(i * data->examples / count + shift);
    return train_dataset_subset(data, rows, count, part);
}

static double loss_of(struct train_trainer *trainer, const struct train_dataset *part, const float *there)
{
    struct train_score score;
    train_model_evaluate(trainer->model, there, part, &score);
    return score.loss;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Sorts them.
static double best_tenth(double *loss, size_t count)
{
    const size_t best = count / BEST + 1;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        loss[i] = isfinite(loss[i]) ? loss[i] : (double)INFINITY;
    qsort(loss, count, sizeof *loss, ascending);
    for (size_t i = 0; i < best; i++)
        sum += loss[i];
    return sum / (double)best;
}

static double best_of(struct train_trainer *trainer, const struct train_dataset *part, const float *there)
{
    double loss[TRAIN_PROBE_EXAMPLES];
    for (uint32_t i = 0; i < part->examples; i++) {
        struct train_dataset one;
        if (train_dataset_subset(part, &i, 1, &one))
            return NAN;
        loss[i] = loss_of(trainer, &one, there);
        train_dataset_destroy(&one);
    }
    return best_tenth(loss, part->examples);
}

static void compare(struct train_trainer *trainer, const struct train_dataset *part, const float *there,
                    struct train_probe *probe)
{
    probe->nothing = train_loss_of_nothing(train_model_spec(trainer->model), part);
    probe->own = loss_of(trainer, part, trainer->x.device);
    probe->other = loss_of(trainer, part, there);
}

static void measure(struct train_trainer *trainer, const struct train_dataset *part, const float *there,
                    enum train_offer offer, struct train_probe *probe)
{
    compare(trainer, part, there, probe);
    if (offer != TRAIN_OFFER_MERGED || !train_probe_is_worse(probe, TRAIN_OFFER_DONORS))
        return;
    probe->best_own = best_of(trainer, part, trainer->x.device);
    probe->best_other = best_of(trainer, part, there);
}

// `model` in the kernels' memory; copied: whether it is a copy. NULL: no memory.
static const float *place(const struct train_trainer *trainer, const float *model)
{
    const struct kernels *kernels = trainer->kernels;
    const size_t bytes = trainer->count * sizeof *model;
    float *copy = kernels->shares_host ? NULL : kernels->alloc(bytes);
    if (copy)
        kernels->upload(copy, model, bytes);
    return kernels->shares_host ? model : copy;
}

static void leave(const struct train_trainer *trainer, const float *placed)
{
    if (!trainer->kernels->shares_host)
        trainer->kernels->release((float *)(uintptr_t)placed);
}

static struct train_probe unknown(const struct train_trainer *trainer)
{
    return (struct train_probe){NAN, NAN, NAN, NAN, NAN, trainer->step >= TRAIN_PROBE_TRAINED};
}

static bool has_examples(const struct train_trainer *trainer)
{
    return !trainer->holds && trainer->feed.data->examples > 0;
}

struct train_probe train_probe(struct train_trainer *trainer, const float *model, enum train_offer offer)
{
    struct train_probe probe = unknown(trainer);
    struct train_dataset part;
    if (!has_examples(trainer) || choose(trainer->feed.data, TRAIN_PROBE_EXAMPLES, 0, &part))
        return probe;
    const float *placed = place(trainer, model);
    if (placed)
        measure(trainer, &part, placed, offer, &probe);
    leave(trainer, placed);
    train_dataset_destroy(&part);
    return probe;
}

struct train_probe train_probe_look(struct train_trainer *trainer, const float *model, uint64_t turn)
{
    struct train_probe probe = unknown(trainer);
    struct train_dataset part;
    if (!has_examples(trainer) || choose(trainer->feed.data, TRAIN_LOOK, turn, &part))
        return probe;
    const float *placed = place(trainer, model);
    if (placed)
        compare(trainer, &part, placed, &probe);
    leave(trainer, placed);
    train_dataset_destroy(&part);
    return probe;
}

// -- of a program

static double mean_of(const struct train_probe_losses *of)
{
    double sum = 0;
    for (size_t i = 0; i < of->count; i++)
        sum += of->loss[i];
    return sum / (double)of->count;
}

static double best_of_losses(const struct train_probe_losses *of)
{
    struct train_probe_losses sorted = *of;
    return best_tenth(sorted.loss, sorted.count);
}

struct train_probe train_probe_of(const struct train_probe_losses of[TRAIN_PROBE_MODELS], bool trained)
{
    struct train_probe probe = {NAN, NAN, NAN, NAN, NAN, trained};
    const size_t count = of[TRAIN_PROBE_OWN].count;
    if (count == 0 || of[TRAIN_PROBE_NOTHING].count != count || of[TRAIN_PROBE_OTHER].count != count)
        return probe;
    BASE_ASSERT(count <= TRAIN_PROBE_EXAMPLES);
    probe.nothing = mean_of(&of[TRAIN_PROBE_NOTHING]);
    probe.own = mean_of(&of[TRAIN_PROBE_OWN]);
    probe.other = mean_of(&of[TRAIN_PROBE_OTHER]);
    probe.best_own = best_of_losses(&of[TRAIN_PROBE_OWN]);
    probe.best_other = best_of_losses(&of[TRAIN_PROBE_OTHER]);
    return probe;
}
