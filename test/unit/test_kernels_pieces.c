// Products in pieces: every element once, with the bits of the whole product, on every path of this
// processor. An element of a product has the same bits, whatever is computed with it.
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
        values[i] = NAN; // the receiver may write there
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
    assert_true(whole && found.c && found.given);
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
                    widths[] = {1, 15, 16, 17, 250, 1024, 5130, 10300},
                    depths[] = {1, 3, 64, 128, 129, 256, 300};
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

static void pieces_have_the_bits_of_the_whole_product(void **state)
{
    (void)state;
    for (size_t p = 0; p < COUNT(path_names); p++) {
        const struct kernels *k = kernels_cpu_table(path_names[p]);
        assert_true(!k || check_path(k) > 100);
    }
}

// If products of a full batch are given in pieces, so are those of a batch cut to a smaller shard.
static void products_with_fewer_terms_are_given_in_pieces_if_larger_ones_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(path_names) * COUNT(heights) * COUNT(widths); i++) {
        const struct kernels *k = kernels_cpu_table(path_names[i % COUNT(path_names)]);
        const size_t m = heights[i / COUNT(path_names) % COUNT(heights)],
                     n = widths[i / COUNT(path_names) / COUNT(heights)];
        bool given = true;
        for (size_t d = 0; k && d < COUNT(depths); d++) { // ascending
            const bool now = k->in_pieces(m, n, depths[d]);
            assert_true(given || !now);
            given = now;
        }
    }
}

// Columns [first, first + columns) of [rows, all].
static float *columns_of(const float *from, size_t rows, size_t all, size_t first, size_t columns)
{
    float *part = malloc(rows * columns * sizeof *part);
    assert_non_null(part);
    for (size_t r = 0; r < rows; r++) {
        memcpy(part + r * columns, from + r * all + first, columns * sizeof *part);
    }
    return part;
}

// Rows [row, row + rows) and columns [column, column + columns) of a product, computed alone.
static void same_alone(const struct kernels *k, const float *a, const float *b, const float *whole,
                       const size_t shape[3], const size_t part[4])
{
    const size_t n = shape[1], terms = shape[2], row = part[0], rows = part[1], column = part[2],
                 columns = part[3];
    float *of_b = columns_of(b, terms, n, column, columns),
          *expected = columns_of(whole + row * n, rows, n, column, columns);
    float *found = malloc(rows * columns * sizeof *found);
    assert_non_null(found);
    k->gemm(false, false, rows, columns, terms, 1.0f, a + row * terms, of_b, 0.0f, found);
    assert_memory_equal(found, expected, rows * columns * sizeof *found);
    free(found);
    free(expected);
    free(of_b);
}

// In this folder's own kernels an element does not depend on the elements that are computed with it.
static void an_element_depends_only_on_its_terms(void **state)
{
    (void)state;
    static const size_t shape[3] = {80, 700, 400};
    static const size_t parts[][4] = {
        {0, 80, 0, 40}, {3, 20, 17, 10}, {70, 5, 690, 10}, {40, 40, 100, 600}, {9, 60, 64, 16}};
    struct base_rng rng;
    base_rng_seed(&rng, 20260412);
    float *a = gaussian(&rng, shape[0] * shape[2]), *b = gaussian(&rng, shape[2] * shape[1]);
    float *whole = malloc(shape[0] * shape[1] * sizeof *whole);
    assert_non_null(whole);
    for (size_t p = 1; p < COUNT(path_names); p++) {
        const struct kernels *k = kernels_cpu_table(path_names[p]);
        if (!k) {
            continue;
        }
        k->gemm(false, false, shape[0], shape[1], shape[2], 1.0f, a, b, 0.0f, whole);
        for (size_t i = 0; i < COUNT(parts); i++) {
            same_alone(k, a, b, whole, shape, parts[i]);
        }
    }
    free(whole);
    free(a);
    free(b);
}

// With a beta, through the transpose, in parts of terms.
static void vectors_of_8_and_16_give_the_same_bits(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {
        {64, 10, 784}, {80, 700, 400}, {700, 80, 33}, {4, 4, 5}, {130, 131, 513}};
    const struct kernels *narrow = kernels_cpu_table("avx2"), *wide = kernels_cpu_table("avx512");
    struct base_rng rng;
    if (!narrow || !wide) {
        skip();
    }
    base_rng_seed(&rng, 20260413);
    for (size_t i = 0; i < 4 * COUNT(shapes); i++) {
        const size_t m = shapes[i / 4][0], n = shapes[i / 4][1], terms = shapes[i / 4][2];
        float *a = gaussian(&rng, m * terms), *b = gaussian(&rng, terms * n), *c = gaussian(&rng, m * n);
        float *copy = malloc(m * n * sizeof *copy);
        assert_non_null(copy);
        memcpy(copy, c, m * n * sizeof *c);
        narrow->gemm((i & 1) != 0, (i & 2) != 0, m, n, terms, 0.75f, a, b, 0.5f, c);
        wide->gemm((i & 1) != 0, (i & 2) != 0, m, n, terms, 0.75f, a, b, 0.5f, copy);
        assert_memory_equal(c, copy, m * n * sizeof *c);
        free(a);
        free(b);
        free(c);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_have_the_bits_of_the_whole_product),
        cmocka_unit_test(products_with_fewer_terms_are_given_in_pieces_if_larger_ones_are),
        cmocka_unit_test(an_element_depends_only_on_its_terms),
        cmocka_unit_test(vectors_of_8_and_16_give_the_same_bits),
    };
    kernels_cpu_set_threads(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
