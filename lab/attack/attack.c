#include "lab/attack/attack.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_NOISE, STREAM_DRIFT };

struct lab_attack {
    struct lab_attack_options options;
    double strength; // factor times unit
    struct base_rng rng;
    float *kept; // [parameters] SIGN, FREERIDE: the model before the local steps; REPLAY: the first one; IPM:
                 // the honest mean before; MOMENTS: its own second moments
    float *mean; // [parameters] of the honest models
    bool keeps;  // `kept` is filled
    uint64_t gave; // rounds
};

static const struct {
    const char *name;
    double unit;
} kinds[] = {
#define ROW(constant, name, unit) [LAB_ATTACK_##constant] = {name, unit},
    LAB_ATTACK_KINDS(ROW)
#undef ROW
};

const char *lab_attack_name(enum lab_attack_kind kind)
{
    return kinds[kind].name;
}

double lab_attack_unit(enum lab_attack_kind kind)
{
    return kinds[kind].unit;
}

enum base_error lab_attack_create(const struct lab_attack_options *options, struct lab_attack **attack,
                                  struct base_reason *why)
{
    struct lab_attack *fresh = calloc(1, sizeof *fresh);
    if (fresh) {
        fresh->options = *options;
        fresh->strength = options->factor * lab_attack_unit(options->kind);
        base_rng_seed_stream(&fresh->rng, options->seed, STREAM_NOISE);
        fresh->kept = calloc(options->parameters, sizeof *fresh->kept);
        fresh->mean = calloc(options->parameters, sizeof *fresh->mean);
    }
    if (!fresh || !fresh->kept || !fresh->mean) {
        lab_attack_destroy(fresh);
        return base_fail(why, BASE_ENOMEM, "no memory for an attacker");
    }
    *attack = fresh;
    return BASE_OK;
}

void lab_attack_destroy(struct lab_attack *attack)
{
    if (!attack)
        return;
    free(attack->kept);
    free(attack->mean);
    free(attack);
}

static size_t bytes_of(const struct lab_attack *attack)
{
    return attack->options.parameters * sizeof(float);
}

static void keep(struct lab_attack *attack, const float *vector)
{
    memcpy(attack->kept, vector, bytes_of(attack));
    attack->keeps = true;
}

static bool keeps_start(const struct lab_attack *attack)
{
    return attack->options.kind == LAB_ATTACK_SIGN || attack->options.kind == LAB_ATTACK_FREERIDE;
}

void lab_attack_begin(struct lab_attack *attack, const float *model)
{
    attack->keeps = false;
    if (keeps_start(attack))
        keep(attack, model);
}

static void average(const struct lab_attack *attack, const struct lab_attack_view *honest)
{
    for (size_t j = 0; j < attack->options.parameters; j++) {
        double sum = 0;
        for (size_t i = 0; i < honest->count; i++)
            sum += honest->models[i][j];
        attack->mean[j] = (float)(sum / (double)honest->count);
    }
}

static double deviation(const struct lab_attack *attack, const struct lab_attack_view *honest, size_t j)
{
    double sum = 0;
    for (size_t i = 0; i < honest->count; i++) {
        const double off = (double)honest->models[i][j] - attack->mean[j];
        sum += off * off;
    }
    return sqrt(sum / (double)honest->count);
}

static bool is_finite(const float *vector, size_t count)
{
    for (size_t j = 0; j < count; j++)
        if (!isfinite(vector[j]))
            return false;
    return true;
}

static void fill(const struct lab_attack *attack, float *model)
{
    for (size_t j = 0; j < attack->options.parameters; j++)
        model[j] = (float)attack->strength;
}

static void drift(const struct lab_attack *attack, float *model)
{
    const double way = attack->strength * (double)attack->gave;
    struct base_rng rng; // the same direction in every round
    base_rng_seed_stream(&rng, attack->options.seed, STREAM_DRIFT);
    for (size_t j = 0; j < attack->options.parameters; j++)
        model[j] = (float)(attack->mean[j] + (base_rng_below(&rng, 2) ? way : -way));
}

// From `from` back by the way that the model has gone since then.
static void reverse(const struct lab_attack *attack, const float *from, const float *to, float *model)
{
    for (size_t j = 0; j < attack->options.parameters; j++)
        model[j] = (float)(from[j] - attack->strength * ((double)to[j] - from[j]));
}

static void multiply(const struct lab_attack *attack, const float *vector, double by, float *into)
{
    for (size_t j = 0; j < attack->options.parameters; j++)
        into[j] = (float)(by * vector[j]);
}

static void falsify(struct lab_attack *attack, const struct lab_attack_view *honest, float *model)
{
    const size_t d = attack->options.parameters;
    switch (attack->options.kind) {
    case LAB_ATTACK_SIGN:
        reverse(attack, attack->kept, model, model);
        break;
    case LAB_ATTACK_NOISE:
        for (size_t j = 0; j < d; j++)
            model[j] = (float)(attack->mean[j] + attack->strength * base_rng_normal(&attack->rng));
        break;
    case LAB_ATTACK_BIG:
        fill(attack, model);
        break;
    case LAB_ATTACK_ONE_ENTRY:
        memcpy(model, attack->mean, bytes_of(attack));
        model[d - 1] = (float)attack->strength;
        break;
    case LAB_ATTACK_ALIE:
        for (size_t j = 0; j < d; j++)
            model[j] = (float)(attack->mean[j] - attack->strength * deviation(attack, honest, j));
        break;
    case LAB_ATTACK_IPM:
        reverse(attack, attack->keeps ? attack->kept : attack->mean, attack->mean, model);
        keep(attack, attack->mean);
        break;
    case LAB_ATTACK_DRIFT:
        drift(attack, model);
        break;
    case LAB_ATTACK_SPIKE:
        memcpy(model, attack->mean, bytes_of(attack));
        if (attack->gave % LAB_ATTACK_SPIKE_ROUNDS == 0)
            fill(attack, model);
        break;
    case LAB_ATTACK_REPLAY:
        if (!attack->keeps)
            keep(attack, model);
        memcpy(model, attack->kept, bytes_of(attack));
        break;
    case LAB_ATTACK_NEGATED:
        multiply(attack, attack->mean, -attack->strength, model);
        break;
    case LAB_ATTACK_FREERIDE:
        memcpy(model, attack->kept, bytes_of(attack));
        break;
    case LAB_ATTACK_LABELS: // its data are the lie
    case LAB_ATTACK_MOMENTS:
    case LAB_ATTACK_STALL:
    case LAB_ATTACK_FINISHED:
    case LAB_ATTACK_DONOR:
    case LAB_ATTACK_GHOSTS:
    case LAB_ATTACKS:
        break;
    }
}

void lab_attack_give(struct lab_attack *attack, const struct lab_attack_view *honest, float *model,
                     float *second)
{
    if (!honest->count)
        return; // nobody is there to be harmed
    attack->gave++;
    average(attack, honest);
    if (!is_finite(model, attack->options.parameters))
        memcpy(model, attack->mean, bytes_of(attack));
    falsify(attack, honest, model);
    if (!is_finite(model, attack->options.parameters)) // it has overdone it, and begins again
        memcpy(model, attack->mean, bytes_of(attack));
    if (attack->options.kind != LAB_ATTACK_MOMENTS || !second)
        return;
    keep(attack, second);
    multiply(attack, second, attack->strength, second);
}

void lab_attack_take(struct lab_attack *attack, const float *model, float *second)
{
    if (keeps_start(attack))
        keep(attack, model);
    if (attack->options.kind == LAB_ATTACK_MOMENTS && second && attack->keeps)
        memcpy(second, attack->kept, bytes_of(attack));
}
