#include "base/hash.h"
#include "base/limits.h"
#include "base/rng.h"
#include "train/dataset.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define REDRAWS   100    // attempts to give every shard enough; after that, examples are moved
#define VANISHING 1e-300 // gamma variates below this have lost their ratios
#define GOLDEN    0x9e3779b97f4a7c15ull

static bool order_shuffled(struct base_rng *rng, size_t examples, uint32_t **order)
{
    *order = malloc(examples * sizeof **order);
    if (!*order)
        return false;
    for (size_t i = 0; i < examples; i++)
        (*order)[i] = (uint32_t)i;
    base_rng_shuffle(rng, *order, examples);
    return true;
}

enum base_error train_partition_contiguous(size_t examples, size_t shards, uint32_t *owner)
{
    if (shards == 0 || shards > examples || examples > UINT32_MAX)
        return BASE_EINVAL;
    for (size_t i = 0; i < examples; i++)
        owner[i] = (uint32_t)((uint64_t)i * shards / examples);
    return BASE_OK;
}

enum base_error train_partition_iid(size_t examples, size_t shards, uint64_t seed, uint32_t *owner)
{
    if (shards == 0 || shards > examples || examples > UINT32_MAX)
        return BASE_EINVAL;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    uint32_t *order;
    if (!order_shuffled(&rng, examples, &order))
        return BASE_ENOMEM;
    for (size_t i = 0; i < examples; i++)
        owner[order[i]] = (uint32_t)(i % shards);
    free(order);
    return BASE_OK;
}

// How many examples of each class every shard gets.
struct table {
    size_t classes, shards;
    size_t *totals; // [classes], of the data
    size_t *counts; // [classes, shards]
    size_t *sizes;  // [shards], sums of counts over the classes
    double *parts;  // [shards], workspace
};

static void table_free(struct table *table)
{
    free(table->totals);
    free(table->counts);
    free(table->sizes);
    free(table->parts);
}

static bool table_make(struct table *table, size_t classes, size_t shards)
{
    *table = (struct table){.classes = classes, .shards = shards};
    table->totals = calloc(classes, sizeof *table->totals);
    table->counts = calloc(classes, shards * sizeof *table->counts);
    table->sizes = calloc(shards, sizeof *table->sizes);
    table->parts = calloc(shards, sizeof *table->parts);
    if (table->totals && table->counts && table->sizes && table->parts)
        return true;
    table_free(table);
    return false;
}

// parts ~ Dirichlet(alpha, ..., alpha): gamma variates over their sum. If alpha is so small that all of them
// vanish, the limit for alpha -> 0 is taken: one shard gets everything.
static void draw_parts(struct base_rng *rng, double alpha, double *parts, size_t shards)
{
    double sum = 0;
    for (size_t i = 0; i < shards; i++)
        sum += parts[i] = base_rng_gamma(rng, alpha);
    size_t lone = (size_t)base_rng_below(rng, shards);
    for (size_t i = 0; i < shards; i++)
        parts[i] = sum > VANISHING ? parts[i] / sum : i == lone;
}

// Cuts each class at the running sums of its parts. Returns the size of the smallest shard.
static size_t table_draw(struct table *table, struct base_rng *rng, double alpha)
{
    size_t shards = table->shards;
    for (size_t i = 0; i < shards; i++)
        table->sizes[i] = 0;
    for (size_t c = 0; c < table->classes; c++) {
        draw_parts(rng, alpha, table->parts, shards);
        size_t total = table->totals[c], cut = 0;
        double sum = 0;
        for (size_t i = 0; i < shards; i++) {
            sum += table->parts[i];
            size_t next = i + 1 == shards ? total : (size_t)(sum * (double)total + 0.5);
            next = next < cut ? cut : next > total ? total : next;
            table->counts[c * shards + i] = next - cut;
            table->sizes[i] += next - cut;
            cut = next;
        }
    }
    size_t least = table->sizes[0];
    for (size_t i = 1; i < shards; i++)
        least = table->sizes[i] < least ? table->sizes[i] : least;
    return least;
}

static size_t largest_of(const size_t *values, size_t count, size_t stride)
{
    size_t at = 0;
    for (size_t i = 1; i < count; i++)
        if (values[i * stride] > values[at * stride])
            at = i;
    return at;
}

// Moves examples one by one from the largest class of the largest shard. Ends because examples >= shards *
// least.
static void table_fill_up(struct table *table, size_t least)
{
    size_t shards = table->shards;
    for (size_t poor = 0; poor < shards; poor++)
        while (table->sizes[poor] < least) {
            size_t rich = largest_of(table->sizes, shards, 1);
            size_t c = largest_of(table->counts + rich, table->classes, shards);
            table->counts[c * shards + rich]--;
            table->counts[c * shards + poor]++;
            table->sizes[rich]--;
            table->sizes[poor]++;
        }
}

// Assigns the examples in a shuffled order, for each class according to its counts.
static void table_deal(struct table *table, const uint32_t *labels, const uint32_t *order, size_t examples,
                       uint32_t *owner)
{
    size_t *shard = table->totals; // [classes], the current shard of each class; the totals are no longer
                                   // needed
    for (size_t c = 0; c < table->classes; c++)
        shard[c] = 0;
    for (size_t i = 0; i < examples; i++) {
        size_t c = labels[order[i]];
        size_t *counts = table->counts + c * table->shards;
        while (counts[shard[c]] == 0)
            shard[c]++;
        counts[shard[c]]--;
        owner[order[i]] = (uint32_t)shard[c];
    }
}

static enum base_error check_request(const uint32_t *labels, size_t examples, size_t classes, size_t shards,
                                     double alpha, size_t least, struct base_reason *why)
{
    if (!isfinite(alpha) || alpha <= 0)
        return base_fail(why, BASE_EINVAL, "Dirichlet alpha is %g, expected a number above 0", alpha);
    if (classes == 0 || classes > LIMIT_CLASSES || examples > UINT32_MAX)
        return base_fail(
            why, BASE_EINVAL,
            "found %zu examples and %zu classes, expected at most %u examples and 1 to %u classes", examples,
            classes, UINT32_MAX, LIMIT_CLASSES);
    if (shards == 0 || shards > examples)
        return base_fail(why, BASE_EINVAL, "%zu examples cannot be divided among %zu nodes", examples,
                         shards);
    if (least > examples / shards)
        return base_fail(why, BASE_EINVAL, "%zu examples are too few for %zu nodes with at least %zu each",
                         examples, shards, least);
    for (size_t i = 0; i < examples; i++)
        if (labels[i] >= classes)
            return base_fail(why, BASE_EINVAL, "label %u of example %zu, expected less than %zu", labels[i],
                             i, classes);
    return BASE_OK;
}

enum base_error train_partition_dirichlet(const uint32_t *labels, size_t examples, size_t classes,
                                          size_t shards, double alpha, size_t least, uint64_t seed,
                                          uint32_t *owner, struct base_reason *why)
{
    enum base_error error = check_request(labels, examples, classes, shards, alpha, least, why);
    if (error)
        return error;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    struct table table;
    uint32_t *order = NULL;
    if (!table_make(&table, classes, shards))
        return base_fail(why, BASE_ENOMEM, "no memory to divide %zu examples", examples);
    if (!order_shuffled(&rng, examples, &order)) {
        error = base_fail(why, BASE_ENOMEM, "no memory to divide %zu examples", examples);
        goto out;
    }
    for (size_t i = 0; i < examples; i++)
        table.totals[labels[i]]++;
    size_t smallest = table_draw(&table, &rng, alpha);
    for (int i = 0; i < REDRAWS && smallest < least; i++)
        smallest = table_draw(&table, &rng, alpha);
    table_fill_up(&table, least);
    table_deal(&table, labels, order, examples, owner);
out:
    free(order);
    table_free(&table);
    return error;
}

// Rendezvous hashing (Thaler, Ravishankar 1998): the living shard with the highest score. Scores of one
// example never tie: the mix is bijective and its arguments differ.
static uint32_t heir_of(size_t example, uint64_t seed, const uint32_t *heirs, size_t count)
{
    const uint64_t key = base_hash_mix(seed + GOLDEN * ((uint64_t)example + 1));
    uint64_t best = 0;
    uint32_t heir = heirs[0];
    for (size_t k = 0; k < count; k++) {
        const uint64_t score = base_hash_mix(key + GOLDEN * ((uint64_t)heirs[k] + 1));
        if (score > best) {
            best = score;
            heir = heirs[k];
        }
    }
    return heir;
}

enum base_error train_partition_living(const uint32_t *owner, size_t examples, const bool *living,
                                       size_t shards, uint64_t seed, uint32_t *trainer)
{
    for (size_t i = 0; i < examples; i++)
        if (owner[i] >= shards)
            return BASE_EINVAL;
    uint32_t *heirs = malloc((shards ? shards : 1) * sizeof *heirs);
    if (!heirs)
        return BASE_ENOMEM;
    size_t count = 0;
    for (size_t s = 0; s < shards; s++)
        if (living[s])
            heirs[count++] = (uint32_t)s;
    for (size_t i = 0; i < examples && count > 0; i++)
        trainer[i] = living[owner[i]] ? owner[i] : heir_of(i, seed, heirs, count);
    free(heirs);
    return count > 0 ? BASE_OK : BASE_EINVAL;
}
