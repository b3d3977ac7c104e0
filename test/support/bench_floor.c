// Floors: the fastest loops that the compiler makes of plain C for this processor. Bits are combined by OR,
// which does not depend on the order, so that the compiler may use all registers.
#include "test/support/bench.h"

#include <string.h>

static volatile uint32_t sink; // so that what is read counts as used

// Runs of 256 elements: the compiler turns the inner loop into a few wide loads in flight at once.
#define RUN 256u
#define READ(name, target)                                                                                   \
    target static uint32_t name(const uint32_t *restrict a, size_t n)                                        \
    {                                                                                                        \
        uint32_t bits = 0;                                                                                   \
        size_t i = 0;                                                                                        \
        for (; i + RUN <= n; i += RUN) {                                                                     \
            for (size_t j = 0; j < RUN; j++) {                                                               \
                bits |= a[i + j];                                                                            \
            }                                                                                                \
        }                                                                                                    \
        for (; i < n; i++) {                                                                                 \
            bits |= a[i];                                                                                    \
        }                                                                                                    \
        return bits;                                                                                         \
    }
#define READ_TWO(name, target)                                                                               \
    target static uint32_t name(const uint32_t *restrict a, const uint32_t *restrict b, size_t n)            \
    {                                                                                                        \
        uint32_t bits = 0;                                                                                   \
        size_t i = 0;                                                                                        \
        for (; i + RUN <= n; i += RUN) {                                                                     \
            for (size_t j = 0; j < RUN; j++) {                                                               \
                bits |= a[i + j] ^ b[i + j];                                                                 \
            }                                                                                                \
        }                                                                                                    \
        for (; i < n; i++) {                                                                                 \
            bits |= a[i] ^ b[i];                                                                             \
        }                                                                                                    \
        return bits;                                                                                         \
    }

#if defined(__x86_64__)
#if defined(__clang__)
#define WIDE __attribute__((target("avx512f,avx512bw"), min_vector_width(512)))
#else
#define WIDE __attribute__((target("avx512f,avx512bw,prefer-vector-width=512")))
#endif
READ(read_wide, WIDE)
READ(read_avx2, __attribute__((target("avx2"))))
READ_TWO(read_two_wide, WIDE)
READ_TWO(read_two_avx2, __attribute__((target("avx2"))))
#endif
READ(read_plain, )
READ_TWO(read_two_plain, )

// The widest form: a floor is the fastest loop, whatever path is being measured.
void bench_read(void *context)
{
    const struct bench_span *span = context;
    const size_t n = span->bytes / sizeof(uint32_t);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw")) {
        sink = read_wide(span->a, n);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        sink = read_avx2(span->a, n);
        return;
    }
#endif
    sink = read_plain(span->a, n);
}

void bench_read_two(void *context)
{
    const struct bench_span *span = context;
    const size_t n = span->bytes / sizeof(uint32_t);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw")) {
        sink = read_two_wide(span->a, span->b, n);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        sink = read_two_avx2(span->a, span->b, n);
        return;
    }
#endif
    sink = read_two_plain(span->a, span->b, n);
}

void bench_copy(void *context)
{
    const struct bench_span *span = context;
    memcpy((void *)(uintptr_t)span->b, span->a, span->bytes);
}
