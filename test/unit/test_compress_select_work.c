// The work that a selection asks of a backend, counted, on vectors made to cost the most: no vector may take
// many times as much as an ordinary one.
#include "compress/select.h"
#include "test/support/compress_tools.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { COUNT = 500000, K = COUNT / 20 };

static const struct kernels *cpu;
static struct kernels counted;
static struct kernels_select ops;
static size_t touched; // elements and candidates
static bool stops;     // a backend that stops where the room is full, or one that then reads nothing

static size_t gather(const struct kernels_difference *a, size_t first, uint32_t floor, size_t room,
                     uint32_t *index, float *value, struct kernels_seen *seen)
{
    const size_t found = cpu->select->gather(a, first, floor, room, index, value, seen);
    if (stops || first + seen->read == a->count) {
        touched += seen->read;
        return found;
    }
    touched += a->count - first;
    *seen = (struct kernels_seen){0};
    return 0;
}

static void histogram(const struct kernels_difference *a, uint32_t floor, unsigned shift,
                      uint64_t bins[KERNELS_BINS], struct kernels_seen *seen)
{
    touched += a->count;
    cpu->select->histogram(a, floor, shift, bins, seen);
}

static void count(const struct kernels_difference *a, const uint32_t *floors, size_t n, uint64_t *counts,
                  struct kernels_seen *seen)
{
    touched += a->count;
    cpu->select->count(a, floors, n, counts, seen);
}

static size_t keep(size_t entries, uint32_t *index, float *value, uint32_t low, uint32_t high, size_t ties)
{
    touched += entries;
    return cpu->select->keep(entries, index, value, low, high, ties);
}

enum shape { CONSTANT, NEARLY_CONSTANT, GROWING, SHAPES };

static void fill(enum shape shape, float *x)
{
    for (size_t i = 0; i < COUNT; i++) {
        const float each[SHAPES] = {1.0f, 1.0f + (float)(i * 7919 % COUNT) * 0x1p-23f, (float)(i + 1)};
        x[i] = each[shape];
    }
}

static size_t passes_of(enum compress_method method, const float *x)
{
    const struct compress_selection selection = {.method = method, .k = K};
    const struct kernels_difference a = {.x = x, .count = COUNT};
    struct compress_sparse sparse;
    assert_int_equal(compress_sparse_create(compress_select_room(&selection, COUNT), &sparse), BASE_OK);
    touched = 0;
    assert_int_equal(compress_select(&counted, &selection, &a, &sparse, NULL), BASE_OK);
    assert_int_equal(sparse.count, K);
    compress_sparse_destroy(&sparse);
    return (touched + COUNT - 1) / COUNT;
}

static void no_vector_takes_many_passes(void **state)
{
    (void)state;
    static const size_t passes[] = {[COMPRESS_EXACT] = 6, [COMPRESS_THRESHOLD] = 4, [COMPRESS_BISECTION] = 8};
    float *x = malloc(COUNT * sizeof *x);
    assert_non_null(x);
    for (enum shape shape = CONSTANT; shape < SHAPES; shape++) {
        fill(shape, x);
        for (unsigned method = COMPRESS_EXACT; method <= COMPRESS_BISECTION; method++) {
            for (int stopping = 0; stopping < 2; stopping++) {
                stops = stopping != 0;
                const size_t found = passes_of((enum compress_method)method, x);
                if (found > passes[method] + (stops ? 0 : 4)) {
                    fail_msg("%s, vector %d, stops in the middle: %d: %zu passes",
                             method_name((enum compress_method)method), (int)shape, stopping, found);
                }
            }
        }
    }
    free(x);
}

int main(void)
{
    struct base_reason why;
    if (kernels_open("cpu", 1, &cpu, &why)) {
        return 1;
    }
    ops = *cpu->select;
    ops.gather = gather;
    ops.histogram = histogram;
    ops.count = count;
    ops.keep = keep;
    counted = *cpu;
    counted.select = &ops;
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_vector_takes_many_passes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
