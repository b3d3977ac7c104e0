// Runs the device code of kernels/cuda on the host, so that its arithmetic, its indices and its barriers are
// tested on machines without a GPU: the words of kernels/cuda/device.h in plain C. Include this first, then
// the .cu files.
//
// Every device thread is a fibre of this one thread, and up to RESIDENT blocks run at once. The next fibre is
// chosen at random, in half of the launches such that a warp runs far ahead of the others: code that is right
// for only one order of threads fails sooner or later. Nothing runs in parallel, so that errors of weak
// memory order are not found. A barrier that some threads of a warp or a block miss ends the test.
#ifndef KERNELS_CUDA_DEVICE_H
#define KERNELS_CUDA_DEVICE_H

#include "kernels_cuda_fibres.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS  256u
#define WARP     32u
#define WARPS    (THREADS / WARP)
#define RESIDENT 3u
#define ARENA    49152u // shared memory of a block

#define DEVICE static inline __attribute__((unused))
#define INLINE DEVICE
#define KERNEL(name, type, argument)                                                                         \
    static void name##_body(const type argument);                                                            \
    static void name(const void *arguments)                                                                  \
    {                                                                                                        \
        name##_body(*(const type *)arguments);                                                               \
    }                                                                                                        \
    static void name##_body(const type argument)
#define KERNEL_OF_TWO                  KERNEL
#define LAUNCH(name, blocks, argument) emulator_launch(name, blocks, &(argument))
#define SHARED(type, name, length)                                                                           \
    static const char name##_key = 0;                                                                        \
    type *const name = emulator_shared(&name##_key, sizeof(type) * (length))
#define UNROLL

typedef struct {
    float x, y, z, w;
} float4;

// A copy to shared memory, which happens when the thread waits for it.
#define EMULATOR_COPIES 32u
struct emulator_copy {
    unsigned char *to;
    const void *from; // NULL: zeros
    size_t bytes;
};

enum emulator_state { EMULATOR_DONE, EMULATOR_READY, EMULATOR_AT_WARP, EMULATOR_AT_BLOCK };

struct emulator_thread {
    struct fibre fibre; // one thread after another
    enum emulator_state state;
    unsigned turn;      // for the warp's operations: which of two slots is next
    uint64_t passed[2]; // what it passes to its warp
    uint32_t factors[2][6];
    struct emulator_copy copies[EMULATOR_COPIES]; // that it has not waited for
    unsigned copying;
};

struct emulator_name { // shared memory, by the place in the source that asks for it
    const char *key;
    size_t at;
};

struct emulator_block {
    struct emulator_thread thread[THREADS];
    unsigned index, ended, at_block, at_warp[WARPS];
    unsigned char *arena;
    struct emulator_name names[32];
    size_t named, used;
};

static struct {
    struct emulator_block block[RESIDENT];
    unsigned ready[RESIDENT * THREADS], ready_count; // threads that can go on, as block * THREADS + thread
    unsigned now_block, now_thread, blocks;
    // in seven of eight cases the latest thread to become ready goes on, so that a warp runs far ahead
    int hasty;
    void (*kernel)(const void *);
    const void *arguments;
    struct base_rng rng;
    int seeded;
} emulator;

static inline struct emulator_block *emulator_block(void)
{
    return &emulator.block[emulator.now_block];
}

static inline struct emulator_thread *emulator_thread(void)
{
    return &emulator_block()->thread[emulator.now_thread];
}

_Noreturn static inline void emulator_stop(const char *why)
{
    (void)fprintf(stderr, "emulator: %s\n", why);
    abort();
}

static inline void emulator_ready(unsigned block, unsigned t)
{
    emulator.block[block].thread[t].state = EMULATOR_READY;
    emulator.ready[emulator.ready_count++] = block * THREADS + t;
}

static inline void emulator_leave(enum emulator_state state)
{
    struct emulator_thread *const thread = emulator_thread();
    thread->state = state;
    if (state == EMULATOR_READY) {
        emulator_ready(emulator.now_block, emulator.now_thread);
    }
    fibre_leave(&thread->fibre);
}

static inline void emulator_release(enum emulator_state waiting, unsigned first, unsigned end)
{
    for (unsigned t = first; t < end; t++) {
        if (emulator_block()->thread[t].state == waiting) {
            emulator_ready(emulator.now_block, t);
        }
    }
}

static inline void *emulator_shared(const char *key, size_t bytes)
{
    struct emulator_block *block = emulator_block();
    for (size_t n = 0; n < block->named; n++) {
        if (block->names[n].key == key) {
            return block->arena + block->names[n].at;
        }
    }
    const size_t at = block->used;
    block->used += (bytes + 15) / 16 * 16;
    if (block->used > ARENA || block->named == sizeof block->names / sizeof block->names[0]) {
        emulator_stop("too much shared memory");
    }
    block->names[block->named++] = (struct emulator_name){key, at};
    return block->arena + at;
}

// --- words of device.h ---

DEVICE unsigned thread_index(void)
{
    return emulator.now_thread;
}

DEVICE unsigned block_index(void)
{
    return emulator_block()->index;
}

DEVICE unsigned block_count(void)
{
    return emulator.blocks;
}

DEVICE void block_barrier(void)
{
    struct emulator_block *block = emulator_block();
    if (++block->at_block + block->ended == THREADS) {
        block->at_block = 0;
        emulator_release(EMULATOR_AT_BLOCK, 0, THREADS);
    } else {
        emulator_leave(EMULATOR_AT_BLOCK);
    }
}

DEVICE void memory_fence(void)
{
}

// Passes a word to the warp and waits for all its threads; `turn` is the slot in which to read the words of
// the others. Two slots are enough: no thread is two operations ahead.
static inline unsigned emulator_pass(uint64_t word)
{
    struct emulator_block *block = emulator_block();
    struct emulator_thread *thread = emulator_thread();
    const unsigned warp = emulator.now_thread / WARP, turn = thread->turn;
    thread->passed[turn] = word;
    thread->turn = 1 - turn;
    if (++block->at_warp[warp] == WARP) {
        block->at_warp[warp] = 0;
        emulator_release(EMULATOR_AT_WARP, warp * WARP, (warp + 1) * WARP);
    } else {
        emulator_leave(EMULATOR_AT_WARP);
    }
    return turn;
}

static inline uint64_t emulator_from(uint64_t word, unsigned lane)
{
    const unsigned turn = emulator_pass(word);
    return emulator_block()->thread[emulator.now_thread / WARP * WARP + lane].passed[turn];
}

DEVICE uint32_t warp_ballot(int vote)
{
    const unsigned turn = emulator_pass(vote != 0), first = emulator.now_thread / WARP * WARP;
    uint32_t votes = 0;
    for (unsigned lane = 0; lane < WARP; lane++) {
        votes |= (uint32_t)emulator_block()->thread[first + lane].passed[turn] << lane;
    }
    return votes;
}

DEVICE uint64_t warp_xor_u64(uint64_t value, unsigned distance)
{
    return emulator_from(value, emulator.now_thread % WARP ^ distance);
}

DEVICE uint32_t warp_xor_u32(uint32_t value, unsigned distance)
{
    return (uint32_t)warp_xor_u64(value, distance);
}

DEVICE double warp_xor_f64(double value, unsigned distance)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = warp_xor_u64(bits, distance);
    memcpy(&value, &bits, sizeof bits);
    return value;
}

DEVICE float warp_xor_f32(float value, unsigned distance)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = warp_xor_u32(bits, distance);
    memcpy(&value, &bits, sizeof bits);
    return value;
}

DEVICE uint32_t warp_from_u32(uint32_t value, unsigned lane)
{
    return (uint32_t)emulator_from(value, lane);
}

DEVICE uint32_t atomic_add_u32(uint32_t *at, uint32_t value)
{
    const uint32_t before = *at;
    *at += value;
    return before;
}

DEVICE void atomic_add_u64(uint64_t *at, uint64_t value)
{
    *at += value;
}

DEVICE void atomic_max_u32(uint32_t *at, uint32_t value)
{
    *at = value > *at ? value : *at;
}

DEVICE uint64_t word_load(const uint64_t *at)
{
    emulator_leave(EMULATOR_READY); // another thread may have to write it first
    return *at;
}

DEVICE void word_store(uint64_t *at, uint64_t value)
{
    *at = value;
}

DEVICE unsigned bits_set(uint32_t bits)
{
    return (unsigned)__builtin_popcount(bits);
}

DEVICE unsigned first_bit(uint32_t bits)
{
    return (unsigned)__builtin_ctz(bits);
}

#include "kernels_cuda_matrices.h"
#include "kernels_cuda_memory.h"

// --- the scheduler ---

static inline void emulator_main(void)
{
    struct emulator_block *const block = emulator_block();
    fibre_begun();
    for (;;) {
        emulator.kernel(emulator.arguments);
        if (emulator_thread()->copying > 0) {
            emulator_stop("a copy that its thread does not wait for");
        }
        block->ended++;
        if (block->at_block > 0 && block->at_block + block->ended == THREADS) {
            block->at_block = 0;
            emulator_release(EMULATOR_AT_BLOCK, 0, THREADS);
        }
        emulator_leave(EMULATOR_DONE); // until there is another block to run
    }
}

static inline void emulator_block_start(unsigned b, unsigned index)
{
    struct emulator_block *block = &emulator.block[b];
    block->index = index;
    block->ended = block->at_block = 0;
    block->named = block->used = 0;
    memset(block->at_warp, 0, sizeof block->at_warp);
    block->arena = block->arena ? block->arena : malloc(ARENA);
    memset(block->arena, 0xa5, ARENA); // nothing may rely on zeros
    for (unsigned t = 0; t < THREADS; t++) {
        struct fibre *fibre = &block->thread[t].fibre;
        if (!fibre->stack && fibre_create(fibre, emulator_main) != 0) {
            emulator_stop("no memory for a thread");
        }
        block->thread[t].turn = 0;
        emulator_ready(b, t);
    }
}

// Chooses one of the threads that can go on, and runs it until it waits.
static inline void emulator_go_on(void)
{
    const uint64_t draw = base_rng_u64(&emulator.rng);
    const unsigned last = emulator.ready_count - 1;
    const unsigned drawn =
        emulator.hasty && (draw >> 61) != 0 ? last : (unsigned)(draw % emulator.ready_count);
    const unsigned at = emulator.ready[drawn];
    emulator.ready[drawn] = emulator.ready[last];
    emulator.ready_count = last;
    emulator.now_block = at / THREADS;
    emulator.now_thread = at % THREADS;
    fibre_go_on(&emulator_thread()->fibre);
}

static inline void emulator_seed(void)
{
    const char *text = getenv("P2PML_SEED");
    if (!emulator.seeded) {
        base_rng_seed(&emulator.rng, text ? strtoull(text, NULL, 10) : 1);
        emulator.seeded = 1;
    }
}

static inline void emulator_launch(void (*kernel)(const void *), unsigned blocks, const void *arguments)
{
    unsigned started = 0, ended = 0;
    emulator_seed();
    const int backwards = (int)(base_rng_u64(&emulator.rng) & 1);
    emulator.hasty = (int)(base_rng_u64(&emulator.rng) & 1);
    emulator_reach(1);
    emulator.kernel = kernel;
    emulator.arguments = arguments;
    emulator.blocks = blocks;
    for (unsigned b = 0; b < RESIDENT; b++) {
        emulator.block[b].ended = THREADS;
    }
    while (ended < blocks) {
        for (unsigned b = 0; b < RESIDENT && started < blocks; b++) {
            if (emulator.block[b].ended == THREADS) {
                emulator_block_start(b, backwards ? blocks - 1 - started : started);
                started++;
            }
        }
        if (emulator.ready_count == 0) {
            emulator_stop("a barrier that not all threads reach");
        }
        emulator_go_on();
        ended += emulator_thread()->state == EMULATOR_DONE && emulator_block()->ended == THREADS;
    }
    emulator_reach(0);
}

static inline void emulator_free(void)
{
    for (unsigned b = 0; b < RESIDENT; b++) {
        for (unsigned t = 0; t < THREADS; t++) {
            free(emulator.block[b].thread[t].fibre.stack);
        }
        free(emulator.block[b].arena);
    }
}

// --- of kernels/cuda/memory.h ---

void kernels_cuda_launched(const char *what)
{
    (void)what;
}

unsigned kernels_cuda_blocks(void)
{
    return 2;
}

#endif
