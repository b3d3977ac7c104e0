// The words of kernels/cuda/device.h for tensor cores and for copies to shared memory, in the emulator
// (kernels_cuda_emulator.h includes this). Which lane has which numbers is as in the PTX ISA, "Matrix
// fragments for mma.m16n8k16" and "ldmatrix".
#ifndef TEST_UNIT_KERNELS_CUDA_MATRICES_H
#define TEST_UNIT_KERNELS_CUDA_MATRICES_H

#include <math.h>

// The bytes arrive as late as they may, when the thread waits; until then there are NaN in their place.
static inline void emulator_copy_begin(void *shared, const void *from, int exists, size_t bytes)
{
    struct emulator_block *block = emulator_block();
    struct emulator_thread *thread = emulator_thread();
    unsigned char *const to = shared;
    if ((uintptr_t)from % bytes != 0 || (uintptr_t)to % bytes != 0 || to < block->arena ||
        to + bytes > block->arena + block->used || thread->copying == EMULATOR_COPIES) {
        emulator_stop("a copy that is not aligned, or not to shared memory, or one too many");
    }
    memset(to, 0xff, bytes);
    thread->copies[thread->copying++] = (struct emulator_copy){to, exists ? from : NULL, bytes};
}

DEVICE void block_copy_16(void *shared, const void *from, int exists)
{
    emulator_copy_begin(shared, from, exists, 16);
}

DEVICE void block_copy_4(void *shared, const void *from, int exists)
{
    emulator_copy_begin(shared, from, exists, 4);
}

DEVICE void copies_wait(void)
{
    struct emulator_thread *thread = emulator_thread();
    for (unsigned i = 0; i < thread->copying; i++) {
        const struct emulator_copy *c = &thread->copies[i];
        if (c->from) {
            memcpy(c->to, c->from, c->bytes);
        } else {
            memset(c->to, 0, c->bytes);
        }
    }
    thread->copying = 0;
}

// Number `column` of a row of matrix m; `turn` from passing the rows.
static inline uint32_t emulator_number(unsigned turn, unsigned m, unsigned row, unsigned column)
{
    struct emulator_block *block = emulator_block();
    const unsigned first = emulator.now_thread / WARP * WARP;
    const unsigned char *at =
        (const unsigned char *)(uintptr_t)block->thread[first + 8 * m + row].passed[turn];
    uint16_t number;
    if ((uintptr_t)at % 16 != 0 || at < block->arena || at + 16 > block->arena + block->used) {
        emulator_stop("a row of a matrix that is not aligned, or not in shared memory");
    }
    memcpy(&number, at + 2 * column, sizeof number);
    return number;
}

// Matrices loaded of which two rows are in the same banks of shared memory, so that a device loads them one
// after the other.
static unsigned long emulator_conflicts;

static inline void emulator_count_conflicts(unsigned turn)
{
    struct emulator_thread *thread = &emulator_block()->thread[emulator.now_thread / WARP * WARP];
    for (unsigned m = 0; m < 4; m++) {
        unsigned banks = 0;
        for (unsigned row = 0; row < 8; row++) {
            banks |= 1u << thread[8 * m + row].passed[turn] / 16 % 8;
        }
        emulator_conflicts += banks != 0xffu;
    }
}

static inline void emulator_load(const void *row, int transposed, uint32_t to[4])
{
    const unsigned turn = emulator_pass((uintptr_t)row);
    const unsigned lane = emulator.now_thread % WARP, g = lane / 4, t = lane % 4;
    if (lane == 0) {
        emulator_count_conflicts(turn);
    }
    for (unsigned m = 0; m < 4; m++) {
        to[m] = transposed
                    ? emulator_number(turn, m, 2 * t, g) | emulator_number(turn, m, 2 * t + 1, g) << 16
                    : emulator_number(turn, m, g, 2 * t) | emulator_number(turn, m, g, 2 * t + 1) << 16;
    }
}

DEVICE void warp_load_matrix_4(const void *row, uint32_t to[4])
{
    emulator_load(row, 0, to);
}

DEVICE void warp_load_matrix_4_transposed(const void *row, uint32_t to[4])
{
    emulator_load(row, 1, to);
}

static inline float emulator_half(uint32_t pair, unsigned which)
{
    const uint32_t bits = which == 0 ? pair << 16 : pair & 0xffff0000u;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// The bf16 that lane `lane` has at place i of its word w; words 0 to 3 are of a, 4 and 5 of b.
static inline float emulator_factor(unsigned turn, unsigned lane, unsigned w, unsigned i)
{
    const unsigned first = emulator.now_thread / WARP * WARP;
    return emulator_half(emulator_block()->thread[first + lane].factors[turn][w], i);
}

DEVICE void warp_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    struct emulator_thread *thread = emulator_thread();
    memcpy(thread->factors[thread->turn], a, 4 * sizeof *a);
    memcpy(thread->factors[thread->turn] + 4, b, 2 * sizeof *b);
    const unsigned turn = emulator_pass(0), lane = emulator.now_thread % WARP;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (unsigned term = 0; term < 16; term++) {
            const unsigned holder = term % 8 / 2, upper = term / 8;
            d[i] += emulator_factor(turn, row % 8 * 4 + holder, row / 8 + 2 * upper, term % 2) *
                    emulator_factor(turn, column * 4 + holder, 4 + upper, term % 2);
        }
    }
}

static inline uint32_t emulator_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return isnan(value) ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

DEVICE uint32_t pair_bf16(float low, float high)
{
    return emulator_to_half(low) | emulator_to_half(high) << 16;
}

static inline void emulator_aligned(const void *at, size_t bytes)
{
    if ((uintptr_t)at % bytes != 0) {
        emulator_stop("an access that is not aligned");
    }
}

DEVICE uint32_t pair_load(const uint16_t *at)
{
    uint32_t pair;
    emulator_aligned(at, sizeof pair);
    memcpy(&pair, at, sizeof pair);
    return pair;
}

DEVICE void pair_store(uint16_t *at, uint32_t pair)
{
    emulator_aligned(at, sizeof pair);
    memcpy(at, &pair, sizeof pair);
}

DEVICE void pairs_load_4(const uint16_t *at, uint32_t to[4])
{
    emulator_aligned(at, 4 * sizeof *to);
    memcpy(to, at, 4 * sizeof *to);
}

DEVICE float fast_exp2(float x)
{
    return exp2f(x);
}

#endif
