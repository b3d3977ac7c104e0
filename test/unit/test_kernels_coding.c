// The bit operations of the index coders compared with their definition, bit by bit, on every path, with
// guards behind every output.
#include "base/rng.h"
#include "kernels/cpu/cpu.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST  700u
#define GUARD 64u

static const char *const names[] = {"scalar", "avx2", "avx512"};

static bool bit_at(const uint8_t *bits, uint64_t at)
{
    return (bits[at / 8] >> at % 8 & 1) != 0;
}

// Gaps of up to `spread`, mostly small.
static void indices_make(struct base_rng *rng, size_t count, uint32_t spread, uint32_t *index)
{
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t most = base_rng_below(rng, 20) == 0 ? spread : spread / 16 + 1;
        index[i] = next + (uint32_t)base_rng_below(rng, most + 1);
        next = index[i] + 1;
    }
}

static uint8_t *guarded(size_t bytes)
{
    uint8_t *memory = malloc(bytes + GUARD);
    assert_non_null(memory);
    memset(memory, 0xa5, bytes + GUARD);
    return memory;
}

static void assert_guard(const uint8_t *memory, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(memory[bytes + i], 0xa5);
}

struct streams {
    uint8_t *high, *low;
    size_t high_bytes, low_bytes;
};

// The streams of values[i] (quotients in unary, one after the other), by definition.
static struct streams streams_of(size_t count, const uint32_t *zeros, const uint32_t *value, unsigned width)
{
    uint64_t bits = count;
    for (size_t i = 0; i < count; i++)
        bits += zeros[i];
    struct streams s = {.high_bytes = (size_t)((bits + 7) / 8), .low_bytes = (count * width + 7) / 8};
    s.high = calloc(1, s.high_bytes + 1);
    s.low = calloc(1, s.low_bytes + 1);
    assert_true(s.high && s.low);
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        at += zeros[i];
        s.high[at / 8] |= (uint8_t)(1u << at % 8);
        at++;
        for (unsigned j = 0; j < width; j++)
            s.low[(i * width + j) / 8] |= (uint8_t)((value[i] >> j & 1) << (i * width + j) % 8);
    }
    return s;
}

static void streams_free(struct streams *s)
{
    free(s->high);
    free(s->low);
}

static void assert_rice(const struct kernels_coding *coding, size_t count, const uint32_t *index,
                        unsigned width)
{
    uint32_t zeros[MOST], gap[MOST];
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        gap[i] = i > 0 ? index[i] - index[i - 1] - 1 : index[0];
        zeros[i] = gap[i] >> width;
        total += gap[i] & ((1u << width) - 1);
    }
    struct streams s = streams_of(count, zeros, gap, width);
    uint8_t *high = guarded(s.high_bytes), *low = guarded(s.low_bytes);
    coding->rice_write(count, index, width, high, s.high_bytes, low, s.low_bytes);
    assert_memory_equal(high, s.high, s.high_bytes);
    assert_memory_equal(low, s.low, s.low_bytes);
    assert_guard(high, s.high_bytes);
    assert_guard(low, s.low_bytes);
    assert_int_equal(coding->ones(high, s.high_bytes), count);
    assert_int_equal(coding->sum(count, width, low, s.low_bytes), total);
    const struct kernels_streams streams = {high, low, s.high_bytes, s.low_bytes, width};
    for (size_t piece = 256; piece <= 768; piece += 256) {
        struct kernels_rice at = {0};
        for (size_t done = 0, now; done < count; done += now) {
            now = count - done < piece ? count - done : piece;
            uint8_t *read = guarded(now * sizeof *index);
            coding->rice_read(&streams, &at, now, (uint32_t *)(void *)read);
            assert_memory_equal(read, index + done, now * sizeof *index);
            assert_guard(read, now * sizeof *index);
            free(read);
        }
    }
    free(high);
    free(low);
    streams_free(&s);
}

// Missing parts of a stream, and bits behind its last part, add nothing to the sum.
static void sums_include_only_what_the_stream_has(void **state)
{
    (void)state;
    const struct kernels_coding *plain = kernels_cpu_table("scalar")->coding;
    uint8_t low[MOST * 4];
    memset(low, 0xff, sizeof low);
    for (size_t path = 0; path < sizeof names / sizeof names[0]; path++) {
        const struct kernels *kernels = kernels_cpu_table(names[path]);
        for (size_t count = 0; kernels && count < MOST; count += count < 70 ? 1 : 61) {
            for (unsigned width = 1; width <= KERNELS_CODING_WIDTH; width++) {
                const size_t bytes = (count * width + 7) / 8;
                const uint64_t whole = (uint64_t)count * ((1u << width) - 1);
                assert_int_equal(kernels->coding->sum(count, width, low, bytes), whole);
                assert_int_equal(kernels->coding->sum(count, width, low, sizeof low), whole);
                assert_int_equal(kernels->coding->sum(count, width, low, bytes / 3),
                                 plain->sum(count, width, low, bytes / 3));
            }
        }
    }
}

static void assert_bitmap(const struct kernels_coding *coding, size_t count, const uint32_t *index)
{
    const size_t bytes = count > 0 ? index[count - 1] / 8 + 1 : 0;
    uint8_t *bits = guarded(bytes), *read = guarded(count * sizeof *index);
    coding->bitmap_write(count, index, bits, bytes);
    size_t found = 0;
    for (uint64_t at = 0; at < bytes * 8; at++)
        if (bit_at(bits, at))
            assert_int_equal(index[found++], at);
    assert_int_equal(found, count);
    assert_guard(bits, bytes);
    const uint64_t end = coding->bitmap_read(bits, bytes, 0, count, (uint32_t *)(void *)read);
    assert_memory_equal(read, index, count * sizeof *index);
    assert_guard(read, count * sizeof *index);
    assert_int_equal(end, count > 0 ? (uint64_t)index[count - 1] + 1 : 0);
    free(read);
    free(bits);
}

static void assert_gaps(const struct kernels_coding *coding, size_t count, uint32_t *index, unsigned shift)
{
    uint64_t sums[KERNELS_CODING_SHIFTS], expected[KERNELS_CODING_SHIFTS] = {0}, before;
    for (size_t i = 0; i < count; i++)
        for (unsigned j = 0; j < KERNELS_CODING_SHIFTS; j++)
            expected[j] += (i > 0 ? index[i] - index[i - 1] - 1 : index[0]) >> (shift + j);
    assert_true(coding->gaps(count, index, shift, sums));
    assert_memory_equal(sums, expected, sizeof sums);
    before = sums[0];
    for (size_t i = 1; i < count; i += 1 + i / 4) { // an index that does not ascend, at any place
        const uint32_t kept = index[i];
        index[i] = index[i - 1];
        assert_false(coding->gaps(count, index, shift, sums));
        index[i] = 0x80000000u;
        assert_false(coding->gaps(count, index, shift, sums));
        index[i] = kept;
    }
    assert_int_equal(sums[0], before);
}

static void every_path_matches_the_definition(void **state)
{
    (void)state;
    const char *given = getenv("P2PML_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 0) : 20261121;
    printf("P2PML_SEED=%llu\n", (unsigned long long)seed);
    static uint32_t index[MOST];
    for (size_t path = 0; path < sizeof names / sizeof names[0]; path++) {
        const struct kernels *kernels = kernels_cpu_table(names[path]);
        if (!kernels) {
            printf("this processor lacks the path %s: not tested\n", names[path]);
            continue;
        }
        struct base_rng rng;
        base_rng_seed(&rng, seed);
        for (size_t count = 0; count < MOST; count += count < 70 ? 1 : 61) {
            for (unsigned width = 0; width <= KERNELS_CODING_WIDTH; width++) {
                const uint32_t spread = (uint32_t)3 << (width < 18 ? width : 18);
                indices_make(&rng, count, spread, index);
                assert_rice(kernels->coding, count, index, width);
                if (width < 6)
                    assert_bitmap(kernels->coding, count, index);
                assert_gaps(kernels->coding, count, index, width < 28 ? width : 28);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_path_matches_the_definition),
                                       cmocka_unit_test(sums_include_only_what_the_stream_has)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
