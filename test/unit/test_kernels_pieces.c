// Products in pieces: every element once, with the bits of the whole product, on every path of this
// processor.
#include "kernels/cpu/cpu.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct collected {
    float *c;
    uint8_t *given;
    size_t count, pieces;
};

static void collect(void *owner, size_t first, size_t count, float *values)
{
    struct collected *collected = owner;
    assert_true(count > 0 && first < collected->count && count <= collected->count - first);
    memcpy(collected->c + first, values, count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        collected->given[first + i]++;
        values[i] = NAN; // the taker may write there
    }
    collected->pieces++;
}

static float *gaussian(struct base_rng *rng, size_t count)
{
    float *x = malloc(count * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++) {
        x[i] = (float)base_rng_normal(rng);
    }
    return x;
}

static void same_product(const struct kernels *k, size_t m, size_t n, size_t terms)
{
    struct base_rng rng;
    base_rng_seed(&rng, 20260131u + m + n + terms);
    float *a = gaussian(&rng, m * terms), *b = gaussian(&rng, terms * n),
          *whole = k->alloc(m * n * sizeof *whole);
    struct collected found = {.c = calloc(m * n, sizeof *found.c), .given = calloc(m * n, 1), .count = m * n};
    assert_true(whole != NULL && found.c != NULL && found.given != NULL);
    const struct kernels_taker taker = {.take = collect, .owner = &found, .beside = {whole}};
    k->gemm(true, false, m, n, terms, 1.0f, a, b, 0.0f, whole);
    k->gemm_pieces(m, n, terms, a, b, &taker);
    for (size_t i = 0; i < m * n; i++) {
        assert_int_equal(found.given[i], 1);
    }
    assert_memory_equal(found.c, whole, m * n * sizeof *whole);
    k->release(whole);
    free(found.c);
    free(found.given);
    free(a);
    free(b);
}

static const char *const path_names[] = {"scalar", "avx2", "avx512"};
static const size_t heights[] = {1, 5, 6, 7, 64, 131, 784},
                    widths[] = {1, 15, 16, 17, 250, 1024, 5130, 10300}, depths[] = {1, 3, 64, 128, 129};
#define COUNT(list) (sizeof(list) / sizeof *(list))

static size_t check_path(const struct kernels *k)
{
    size_t done = 0;
    for (size_t i = 0; i < COUNT(heights) * COUNT(widths) * COUNT(depths); i++) {
        const size_t m = heights[i % COUNT(heights)], n = widths[i / COUNT(heights) % COUNT(widths)],
                     terms = depths[i / COUNT(heights) / COUNT(widths)];
        if (m * n * terms < (64u << 20) && k->in_pieces(m, n, terms)) {
            same_product(k, m, n, terms);
            done++;
        }
    }
    return done;
}

static void pieces_are_the_whole(void **state)
{
    (void)state;
    for (size_t p = 0; p < COUNT(path_names); p++) {
        const struct kernels *k = kernels_cpu_table(path_names[p]);
        assert_true(k == NULL || check_path(k) > 100);
    }
}

// A batch that is cut to a smaller shard is given as the one that was asked about.
static void fewer_terms_are_given_too(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(path_names) * COUNT(heights) * COUNT(widths); i++) {
        const struct kernels *k = kernels_cpu_table(path_names[i % COUNT(path_names)]);
        const size_t m = heights[i / COUNT(path_names) % COUNT(heights)],
                     n = widths[i / COUNT(path_names) / COUNT(heights)];
        bool given = true;
        for (size_t d = 0; k != NULL && d < COUNT(depths); d++) { // ascending
            const bool now = k->in_pieces(m, n, depths[d]);
            assert_true(given || !now);
            given = now;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_the_whole),
        cmocka_unit_test(fewer_terms_are_given_too),
    };
    kernels_cpu_set_threads(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
