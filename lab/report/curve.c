#include "lab/report/curve.h"

#include <math.h>
#include <stdlib.h>

const char *lab_axis_name(enum lab_axis axis)
{
    static const char *const names[] = {"round", "step", "bytes", "time"};
    return names[axis];
}

const char *lab_line_name(enum lab_line line)
{
    static const char *const names[] = {"accuracy", "worst", "loss", "consensus", "mean", "train_loss"};
    return names[line];
}

// A point as plain numbers.
struct sample {
    double at[LAB_AXES], value[LAB_LINES];
};

static struct sample sample_of(const struct lab_sample *p)
{
    return (struct sample){{(double)p->round, (double)p->step, (double)p->bytes, p->time},
                           {p->accuracy, p->worst, p->loss, p->consensus, p->mean, p->train_loss}};
}

static double between(double a, double b, double share)
{
    return share == 0 ? a : share == 1 ? b : a + share * (b - a);
}

// Follows one run forward in rounds; points with a lower round (a late node lowers the mean) are skipped.
struct follower {
    const struct lab_samples *run;
    struct sample before, after; // around the wanted round
    size_t next;
};

static void follower_start(struct follower *f, const struct lab_samples *run)
{
    f->run = run;
    f->before = f->after = sample_of(&run->points[0]);
    f->next = 1;
}

static struct sample follower_at(struct follower *f, double round)
{
    while (f->after.at[LAB_AXIS_ROUND] < round && f->next < f->run->count) {
        struct sample sample = sample_of(&f->run->points[f->next++]);
        if (sample.at[LAB_AXIS_ROUND] <= f->after.at[LAB_AXIS_ROUND])
            continue;
        f->before = f->after;
        f->after = sample;
    }
    double from = f->before.at[LAB_AXIS_ROUND], to = f->after.at[LAB_AXIS_ROUND];
    double share = to > from ? fmin(1, fmax(0, (round - from) / (to - from))) : 0;
    struct sample sample;
    for (size_t i = 0; i < LAB_AXES; i++)
        sample.at[i] = between(f->before.at[i], f->after.at[i], share);
    for (size_t i = 0; i < LAB_LINES; i++)
        sample.value[i] = between(f->before.value[i], f->after.value[i], share);
    return sample;
}

static void mean_of(const struct sample *samples, size_t count, double *scratch,
                    struct lab_curve_point *point)
{
    for (size_t axis = 0; axis < LAB_AXES; axis++) {
        for (size_t i = 0; i < count; i++)
            scratch[i] = samples[i].at[axis];
        point->at[axis] = lab_band_of(scratch, count).mean;
    }
    for (size_t line = 0; line < LAB_LINES; line++) {
        for (size_t i = 0; i < count; i++)
            scratch[i] = samples[i].value[line];
        point->value[line] = lab_band_of(scratch, count);
    }
}

static uint64_t last_round(const struct lab_samples *run)
{
    uint64_t last = 0;
    for (size_t i = 0; i < run->count; i++)
        last = run->points[i].round > last ? run->points[i].round : last;
    return last;
}

// The rounds at which the mean is taken: the rising rounds of the longest run that every run reached.
static size_t choose_rounds(const struct lab_samples *runs, size_t n_runs, double *rounds)
{
    const struct lab_samples *longest = runs;
    uint64_t end = last_round(runs), begin = runs->points[0].round;
    size_t count = 0;
    for (size_t i = 1; i < n_runs; i++) {
        longest = runs[i].count > longest->count ? &runs[i] : longest;
        end = last_round(&runs[i]) < end ? last_round(&runs[i]) : end;
        begin = runs[i].points[0].round > begin ? runs[i].points[0].round : begin;
    }
    for (size_t i = 0; i < longest->count; i++) {
        double round = (double)longest->points[i].round;
        if (round >= (double)begin && round <= (double)end && (!count || round > rounds[count - 1]))
            rounds[count++] = round;
    }
    if (count && rounds[count - 1] < (double)end)
        rounds[count < longest->count ? count++ : count - 1] = (double)end;
    return count;
}

static size_t spread_index(size_t i, size_t count, size_t all)
{
    return count < 2 ? 0 : i * (all - 1) / (count - 1);
}

static enum base_error mean_curve(const struct lab_samples *runs, size_t n_runs, size_t longest, size_t most,
                                  struct lab_curve *curve)
{
    enum base_error error = BASE_OK;
    double *rounds = malloc(longest * sizeof *rounds), *scratch = malloc(n_runs * sizeof *scratch);
    struct follower *followers = malloc(n_runs * sizeof *followers);
    struct sample *samples = malloc(n_runs * sizeof *samples);
    if (!rounds || !scratch || !followers || !samples) {
        error = BASE_ENOMEM;
        goto out;
    }
    size_t all = choose_rounds(runs, n_runs, rounds);
    curve->count = all < most ? all : most;
    for (size_t i = 0; i < n_runs; i++)
        follower_start(&followers[i], &runs[i]);
    for (size_t i = 0; i < curve->count; i++) {
        for (size_t j = 0; j < n_runs; j++)
            samples[j] = follower_at(&followers[j], rounds[spread_index(i, curve->count, all)]);
        mean_of(samples, n_runs, scratch, &curve->points[i]);
    }
out:
    free(rounds);
    free(scratch);
    free(followers);
    free(samples);
    return error;
}

static void copy_curve(const struct lab_samples *run, size_t most, struct lab_curve *curve)
{
    double scratch[1];
    curve->count = run->count < most ? run->count : most;
    for (size_t i = 0; i < curve->count; i++) {
        struct sample sample = sample_of(&run->points[spread_index(i, curve->count, run->count)]);
        mean_of(&sample, 1, scratch, &curve->points[i]);
    }
}

enum base_error lab_curve_make(const struct lab_samples *runs, size_t n_runs, size_t most,
                               struct lab_curve *curve)
{
    size_t longest = 0;
    enum base_error error = BASE_OK;
    *curve = (struct lab_curve){0};
    for (size_t i = 0; i < n_runs; i++) {
        if (!runs[i].count)
            return BASE_OK;
        longest = runs[i].count > longest ? runs[i].count : longest;
    }
    if (!longest)
        return BASE_OK;
    curve->points = calloc(longest, sizeof *curve->points);
    if (!curve->points)
        return BASE_ENOMEM;
    if (n_runs == 1)
        copy_curve(runs, most, curve);
    else
        error = mean_curve(runs, n_runs, longest, most, curve);
    if (error)
        lab_curve_free(curve);
    return error;
}

void lab_curve_free(struct lab_curve *curve)
{
    free(curve->points);
    *curve = (struct lab_curve){0};
}
