// Judges the training losses of one node: does it learn, is its loss far above what it was, has it diverged?
// Losses and rounds come in, a verdict goes out. Pure: no clock, no vectors, no thread. README.md ("The
// watch") derives the bounds.
#ifndef TRAIN_WATCH_H
#define TRAIN_WATCH_H

#include "train/dataset.h"
#include "train/model.h"
#include <stdbool.h>
#include <stdint.h>

enum train_verdict {
    TRAIN_VERDICT_OPEN,     // the window is not full, or its loss is fine but no better than usual
    TRAIN_VERDICT_GOOD,     // its loss is near the usual one, and so is the round's: a state worth keeping
    TRAIN_VERDICT_FAR,      // its loss is above the bound
    TRAIN_VERDICT_DIVERGED, // ... for TRAIN_WATCH_FAR windows in a row; the count begins anew
};

#define TRAIN_WATCH_FAR 4u

struct train_watch {
    double nothing; // loss of a model that knows nothing (train_loss_of_nothing); 0: not known
    struct {
        double sum, labels;
        uint64_t rounds, steps;
    } window;                 // the open one
    double level, spread;     // smoothed loss of windows that were not far, and its mean deviation
    double best, best_spread; // at the lowest level
    unsigned windows, far;    // that were not far (counted up to a few); far ones in a row
    double latest;            // loss of the latest window; 0: none
    bool recovers;            // it has diverged, and no window was good since then
};

// The mean loss over labels of a model whose outputs are all zero: ln(classes), or the mean of |t| or t^2.
double train_loss_of_nothing(const struct train_model_spec *spec, const struct train_dataset *data);

// Begins with all 0; later: other examples.
void train_watch_examples(struct train_watch *watch, double nothing);
// The model is another: its losses are not compared with those of before.
void train_watch_forget(struct train_watch *watch);
// A round of `steps` local steps had the mean loss `loss` over `labels` labels; finite, steps > 0.
enum train_verdict train_watch_round(struct train_watch *watch, double loss, double labels, uint64_t steps);
// The usual loss has risen far above its best, though no run of windows was far: the node does not return,
// but it does not learn either.
bool train_watch_has_risen(const struct train_watch *watch);
// It is far above what it was: two windows in a row are far, it has risen, or no window was good since it
// diverged.
bool train_watch_is_diverged(const struct train_watch *watch);
// A window with a larger loss is far; INFINITY: not known yet.
double train_watch_bound(const struct train_watch *watch);

// The losses of a program that trains by itself. What a model that knows nothing would have is not known: the
// largest of the first losses stands for it, ten times that if the model was trained before. Losses of 0 and
// less have no multiples: from the first one on nothing is watched. Begins with all 0.
struct train_program_watch {
    struct train_watch watch;
    double largest;
    unsigned first;
    bool trained, unwatched;
};
// A round of `steps` steps had the mean loss `loss`; not finite, or no steps: ignored.
enum train_verdict train_program_round(struct train_program_watch *program, double loss, uint64_t steps);
// The model is another one, trained before: a checkpoint's, or another node's.
void train_program_takes(struct train_program_watch *program);

#endif
