#include "topology/spectrum.h"
#include "base/array.h"
#include "topology/lanczos.h"
#include "topology/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 400u
#define PAIRS_MAX ((size_t)1 << 22) // in all listed rounds together
#define WORK_MAX  2e9               // pairs averaged for one result

struct pair {
    uint32_t a, b;
    double weight;
};

// The meetings of the first rounds of a period, listed when they are needed.
struct rounds {
    const struct topology_plan *plan;
    struct pair *pairs;
    size_t *end; // [listed]: the end of each round's pairs
    size_t listed, n_pairs, pairs_room;
    uint64_t count; // what apply_product multiplies
    double work;
};

static enum base_error room_for_round(struct rounds *rounds, size_t n)
{
    if (rounds->n_pairs + n / 2 > PAIRS_MAX)
        return BASE_ELIMIT;
    size_t *end = base_array_grow(rounds->end, rounds->listed, sizeof *end);
    if (!end)
        return BASE_ENOMEM;
    rounds->end = end;
    if (rounds->n_pairs + n / 2 > rounds->pairs_room) {
        size_t room = 2 * rounds->pairs_room + n;
        struct pair *pairs = realloc(rounds->pairs, room * sizeof *pairs);
        if (!pairs)
            return BASE_ENOMEM;
        rounds->pairs = pairs;
        rounds->pairs_room = room;
    }
    return BASE_OK;
}

// Lists rounds 0 to count - 1, or the period if that is shorter.
static enum base_error list_rounds(struct rounds *rounds, uint64_t count)
{
    size_t n = topology_plan_members(rounds->plan);
    uint64_t period = topology_plan_period(rounds->plan);
    while (rounds->listed < (period && period < count ? period : count)) {
        enum base_error error = room_for_round(rounds, n);
        if (error)
            return error;
        for (size_t i = 0; i < n; i++) {
            size_t j = topology_plan_partner(rounds->plan, i, rounds->listed);
            if (j != TOPOLOGY_NOBODY && i < j)
                rounds->pairs[rounds->n_pairs++] = (struct pair){
                    (uint32_t)i, (uint32_t)j, topology_plan_weight(rounds->plan, i, rounds->listed)};
        }
        rounds->end[rounds->listed++] = rounds->n_pairs;
    }
    return BASE_OK;
}

static void forget_rounds(struct rounds *rounds)
{
    free(rounds->pairs);
    free(rounds->end);
}

static void average(struct rounds *rounds, uint64_t round, double *x)
{
    uint64_t period = topology_plan_period(rounds->plan);
    size_t at = (size_t)(period ? round % period : round);
    size_t begin = at ? rounds->end[at - 1] : 0, end = rounds->end[at];
    for (const struct pair *p = rounds->pairs + begin; p < rounds->pairs + end; p++) {
        double force = p->weight * (x[p->b] - x[p->a]);
        x[p->a] += force;
        x[p->b] -= force;
    }
    rounds->work += (double)(end - begin) + 1;
}

// y = P' P x: each W_t is symmetric, so P' applies the same rounds in reverse order.
static void apply_product(void *self, const double *x, double *y)
{
    struct rounds *rounds = self;
    memcpy(y, x, topology_plan_members(rounds->plan) * sizeof *y);
    for (uint64_t t = 0; t < rounds->count; t++)
        average(rounds, t, y);
    for (uint64_t t = rounds->count; t-- > 0;)
        average(rounds, t, y);
}

// A result of at least `enough` may be too low: the search stops as soon as the growing eigenvalue reaches
// it.
static enum base_error distance_of(struct rounds *rounds, uint64_t count, double enough, double *distance)
{
    double low, high = 0;
    struct topology_operator product = {topology_plan_members(rounds->plan), apply_product, rounds,
                                        isinf(enough) ? 0 : enough * enough};
    enum base_error error = list_rounds(rounds, count);
    if (error)
        return error;
    // The estimate assumes thirty applications; the search may take more.
    if (rounds->work + 60.0 * (double)count * (double)rounds->n_pairs / (double)(rounds->listed + 1) >
        WORK_MAX)
        return BASE_ELIMIT;
    rounds->count = count;
    error = topology_lanczos(&product, STEPS_MAX, 1e-9, &low, &high);
    if (error == BASE_ELIMIT && high >= enough * enough)
        error = BASE_OK;
    if (!error)
        *distance = sqrt(fmax(high, 0));
    return error;
}

enum base_error topology_distance(const struct topology_plan *plan, uint64_t count, double *distance)
{
    struct rounds rounds = {.plan = plan};
    double found = 0;
    enum base_error error =
        topology_plan_members(plan) < 2 ? BASE_OK : distance_of(&rounds, count, INFINITY, &found);
    forget_rounds(&rounds);
    if (!error)
        *distance = found;
    return error;
}

// A number of rounds between low (too few) and high (sufficient): where the logarithm of the distance, which
// is nearly linear in the rounds, crosses the threshold. The middle with `half`, or if the distance at `high`
// is about 0.
static uint64_t guess(uint64_t low, double at_low, uint64_t high, double at_high, double threshold, bool half)
{
    double share = 0.5;
    if (!half && at_high > 1e-12)
        share = log(at_low / threshold) / log(at_low / at_high);
    uint64_t middle = low + (uint64_t)(share * (double)(high - low) + 0.5);
    return middle <= low ? low + 1 : middle >= high ? high - 1 : middle;
}

enum base_error topology_rounds_to(const struct topology_plan *plan, double threshold, uint64_t *count)
{
    struct rounds rounds = {.plan = plan};
    uint64_t low = 0, high = 1;
    double at_low = 1, at_high = 0;
    bool half = false;
    enum base_error error = BASE_OK;
    if (topology_plan_members(plan) < 2) {
        *count = 0;
        return BASE_OK;
    }
    while (!(error = distance_of(&rounds, high, threshold, &at_high)) && at_high >= threshold) {
        low = high;
        at_low = at_high;
        high *= 2;
    }
    while (!error && high - low > 1) {
        double at;
        uint64_t middle = guess(low, at_low, high, at_high, threshold, half = !half);
        error = distance_of(&rounds, middle, threshold, &at);
        if (!error && at < threshold) {
            high = middle;
            at_high = at;
        } else if (!error) {
            low = middle;
            at_low = at;
        }
    }
    forget_rounds(&rounds);
    *count = error ? low : high;
    return error;
}

// y = mean of W_t x over the period.
static void apply_mean(void *self, const double *x, double *y)
{
    struct rounds *rounds = self;
    double share = 1 / (double)rounds->listed;
    memcpy(y, x, topology_plan_members(rounds->plan) * sizeof *y);
    for (const struct pair *p = rounds->pairs; p < rounds->pairs + rounds->n_pairs; p++) {
        double force = share * p->weight * (x[p->b] - x[p->a]);
        y[p->a] += force;
        y[p->b] -= force;
    }
}

static enum base_error gap_of(const struct topology_operator *matrix, double *gap)
{
    double low, high;
    enum base_error error = topology_lanczos(matrix, STEPS_MAX, 1e-11, &low, &high);
    if (!error)
        *gap = 1 - fmax(fabs(low), fabs(high));
    return error;
}

enum base_error topology_gap_mean(const struct topology_plan *plan, double *gap)
{
    struct rounds rounds = {.plan = plan};
    size_t n = topology_plan_members(plan);
    struct topology_operator mean = {n, apply_mean, &rounds, 0};
    if (n < 2) {
        *gap = 1;
        return BASE_OK;
    }
    if (topology_plan_period(plan) == 0) { // each pair is equally likely: the eigenvalue is 1/2 if n is odd
        *gap = n % 2 ? 0.5 : 1 - (double)(n - 2) / (double)(2 * (n - 1));
        return BASE_OK;
    }
    enum base_error error = list_rounds(&rounds, topology_plan_period(plan));
    if (!error)
        error = gap_of(&mean, gap);
    forget_rounds(&rounds);
    return error;
}
