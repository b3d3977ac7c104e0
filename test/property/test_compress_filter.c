// Filters lose nothing: two vectors that average over a reference as an exchange does (DESIGN: averaging)
// reach their mean with every filter, only later than without one.
#include "base/hash.h"
#include "compress/filter.h"
#include "compress_vectors.h"
#include "test/support/compress_tools.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT   1500u // more than one run of the chain
#define ENTRIES 1100u
#define ROUNDS  400u
#define CLOSE   1e-5 // part of the initial distance

static void pick(const struct kernels_difference *a, size_t entries, const uint32_t *index, float *value)
{
    for (size_t i = 0; i < entries; i++)
        value[i] = a->x[index[i]] - a->r[index[i]];
}

static const struct kernels_select select_table = {.pick = pick};
static const struct kernels host = {.name = "host", .shares_host = true, .select = &select_table};

struct end {
    float x[COUNT];
    float sent[COUNT]; // q of this exchange, dense
    struct compress_history history;
};

struct pair {
    struct end ends[2];
    float r[COUNT];
    float mean[COUNT];
    double sent; // entries so far
};

static const float *by_magnitude_of; // for qsort

static int by_magnitude(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    float x = fabsf(by_magnitude_of[i]), y = fabsf(by_magnitude_of[j]);
    return x == y ? (i > j) - (i < j) : x > y ? -1 : 1;
}

static int ascending(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return (i > j) - (i < j);
}

static void select_plain(const struct kernels_difference *a, struct compress_sparse *entries)
{
    static float difference[COUNT];
    static uint32_t order[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        difference[i] = a->x[i] - a->r[i];
        order[i] = i;
    }
    by_magnitude_of = difference;
    qsort(order, COUNT, sizeof *order, by_magnitude);
    qsort(order, ENTRIES, sizeof *order, ascending);
    entries->count = 0;
    for (size_t i = 0; i < ENTRIES; i++)
        if (difference[order[i]] != 0) {
            entries->index[entries->count] = order[i];
            entries->value[entries->count++] = difference[order[i]];
        }
}

// q = C(x - r) of one end; entries that are dropped are zeros of q.
static void end_send(struct end *end, const float *r, const struct compress_filters *filters, uint64_t seed,
                     double *sent)
{
    static uint32_t index[ENTRIES];
    static float value[ENTRIES];
    struct compress_sparse entries = {.index = index, .value = value, .capacity = ENTRIES};
    const struct kernels_difference a = {.x = end->x, .r = r, .count = COUNT};
    const struct compress_turn turn = {.kernels = &host, .a = &a, .seed = seed, .last = &end->history};
    bool chosen;
    assert_int_equal(compress_filters_choose(filters, &turn, &entries, &chosen), BASE_OK);
    if (!chosen) {
        select_plain(&a, &entries);
        assert_int_equal(compress_filters_drop(filters, &turn, &entries), BASE_OK);
    }
    history_sent(&end->history, index, entries.count, chosen);
    memset(end->sent, 0, sizeof end->sent);
    for (size_t i = 0; i < entries.count; i++) {
        assert_true(value[i] == end->x[index[i]] - r[index[i]]); // a value is never changed
        end->sent[index[i]] = value[i];
    }
    *sent += (double)entries.count;
}

// What neither end sent has not moved, so it is still in x - r.
static void pair_apply(struct pair *pair)
{
    struct end *i = &pair->ends[0], *j = &pair->ends[1];
    for (size_t e = 0; e < COUNT; e++) {
        float before[3] = {i->x[e], j->x[e], pair->r[e]};
        double sum = (double)i->x[e] + (double)j->x[e];
        float force = 0.5f * (j->sent[e] - i->sent[e]);
        i->x[e] += force;
        j->x[e] -= force;
        pair->r[e] += 0.5f * (i->sent[e] + j->sent[e]);
        if (i->sent[e] == 0 && j->sent[e] == 0)
            assert_true(i->x[e] == before[0] && j->x[e] == before[1] && pair->r[e] == before[2]);
        assert_true(fabs((double)i->x[e] + (double)j->x[e] - sum) <=
                    0x1p-22 * (fabs((double)before[0]) + fabs((double)before[1]) + 1));
    }
}

static double pair_distance(const struct pair *pair)
{
    double distance = 0;
    for (size_t e = 0; e < COUNT; e++) {
        double d = (double)pair->ends[0].x[e] - (double)pair->ends[1].x[e];
        distance += d * d;
    }
    return sqrt(distance);
}

static struct pair *pair_create(uint64_t seed)
{
    struct pair *pair = calloc(1, sizeof *pair);
    struct base_rng rng;
    assert_non_null(pair);
    base_rng_seed(&rng, seed);
    for (size_t e = 0; e < COUNT; e++) {
        pair->r[e] = (float)base_rng_normal(&rng);
        for (unsigned n = 0; n < 2; n++)
            pair->ends[n].x[e] = pair->r[e] + (float)base_rng_normal(&rng);
        pair->mean[e] = 0.5f * (pair->ends[0].x[e] + pair->ends[1].x[e]);
    }
    return pair;
}

static void pair_destroy(struct pair *pair)
{
    compress_history_forget(&pair->ends[0].history);
    compress_history_forget(&pair->ends[1].history);
    free(pair);
}

static void pair_exchange(struct pair *pair, const struct compress_filters *filters, uint64_t seed)
{
    for (uint64_t n = 0; n < 2; n++)
        end_send(&pair->ends[n], pair->r, filters, 2 * seed + n, &pair->sent);
    pair_apply(pair);
}

// Rounds until the distance of the ends has fallen to the part `close`; ROUNDS if it never does.
static unsigned rounds_to_mean(uint64_t seed, const char *text, double close)
{
    struct compress_filters filters;
    assert_int_equal(compress_filters_parse(text, &filters, NULL), BASE_OK);
    struct pair *pair = pair_create(seed);
    double first = pair_distance(pair);
    unsigned rounds = 0;
    while (rounds < ROUNDS && pair_distance(pair) > close * first)
        pair_exchange(pair, &filters, base_hash_mix(seed) + rounds++);
    for (size_t n = 0; n < 2; n++)
        for (size_t e = 0; e < COUNT && rounds < ROUNDS; e++)
            assert_true(fabs((double)pair->ends[n].x[e] - (double)pair->mean[e]) <= close * first + 1e-5);
    printf("%-60s rounds %3u, entries %.0f\n", text[0] ? text : "(none)", rounds, pair->sent);
    pair_destroy(pair);
    return rounds;
}

static void with_every_filter_the_ends_meet_at_their_mean(void **state)
{
    static const char *const texts[] = {"random-skip:0.5", "same-keys:3", "significantly-modified:0.000001",
                                        "random-skip:0.9",
                                        "same-keys:4,significantly-modified:0.000001,random-skip:0.3"};
    uint64_t seed = *(const uint64_t *)*state;
    for (uint64_t trial = 0; trial < 4; trial++) {
        unsigned plain = rounds_to_mean(seed + trial, "", CLOSE);
        assert_in_range(plain, 2, 20);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            assert_in_range(rounds_to_mean(seed + trial, texts[i], CLOSE), plain, ROUNDS - 1);
    }
}

// The filter "significantly-modified" leaves each element of x - r below its threshold, and then nothing is
// sent.
static void elements_below_the_threshold_of_significance_stay(void **state)
{
    uint64_t seed = *(const uint64_t *)*state;
    const float threshold = 0.125f;
    struct compress_filters filters = {0};
    assert_int_equal(compress_filters_add(&filters, "significantly-modified", (double)threshold, NULL),
                     BASE_OK);
    struct pair *pair = pair_create(seed);
    for (unsigned rounds = 0; rounds < 50; rounds++)
        pair_exchange(pair, &filters, rounds);
    double sent = pair->sent;
    pair_exchange(pair, &filters, 50);
    assert_true(pair->sent == sent); // nothing is left to send
    for (size_t n = 0; n < 2; n++)
        for (size_t e = 0; e < COUNT; e++) {
            float x = pair->ends[n].x[e];
            assert_true(fabsf(x - pair->r[e]) < threshold * fmaxf(fabsf(x), 0x1p-20f));
        }
    pair_destroy(pair);
}

int main(void)
{
    static uint64_t seed;
    seed = vectors_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(with_every_filter_the_ends_meet_at_their_mean, &seed),
        cmocka_unit_test_prestate(elements_below_the_threshold_of_significance_stay, &seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
