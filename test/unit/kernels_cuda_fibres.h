// Fibres of one host thread, for the device threads of kernels_cuda_emulator.h. A fibre runs until it leaves.
// The switch is a longjmp, which makes no system call; swapcontext makes two, and is ten times slower.
#ifndef TEST_UNIT_KERNELS_CUDA_FIBRES_H
#define TEST_UNIT_KERNELS_CUDA_FIBRES_H

#undef _FORTIFY_SOURCE // its longjmp refuses to go to another stack

#include <setjmp.h>
#include <stdlib.h>
#include <ucontext.h>

#define FIBRE_STACK 65536u

#if defined __SANITIZE_ADDRESS__
#define FIBRE_ASAN
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define FIBRE_ASAN
#endif
#endif

// AddressSanitizer's longjmp does make a system call. There the compiler's own is used if clang has it, and
// the barrier tells the compiler that other fibres may have written to any memory.
#if defined FIBRE_ASAN && defined __x86_64__
typedef void *fibre_place[5];
#define FIBRE_SETJMP(place)  __builtin_setjmp(place)
#define FIBRE_LONGJMP(place) __builtin_longjmp(place, 1)
#define FIBRE_SWITCH         __attribute__((no_sanitize("address"), noinline)) static
#define FIBRE_BACK()         __asm__ volatile("" ::: "memory")
#else
typedef jmp_buf fibre_place;
#define FIBRE_SETJMP(place)  _setjmp(place)
#define FIBRE_LONGJMP(place) _longjmp(place, 1)
#define FIBRE_SWITCH         static inline
#define FIBRE_BACK()         ((void)0)
#endif

struct fibre {
    ucontext_t start;
    fibre_place place;
    int begun;
    char *stack;
    void *frames; // AddressSanitizer's
};

static fibre_place fibre_host;

#ifdef FIBRE_ASAN // tells it whose stack is in use
void __sanitizer_start_switch_fiber(void **frames, const void *stack, size_t bytes);
void __sanitizer_finish_switch_fiber(void *frames, const void **stack, size_t *bytes);
static const void *fibre_host_stack;
static size_t fibre_host_bytes;
#define FIBRE_TO(frames, stack, bytes) __sanitizer_start_switch_fiber(frames, stack, bytes)
#define FIBRE_AT(frames, stack, bytes) __sanitizer_finish_switch_fiber(frames, stack, bytes)
#else
static const void *const fibre_host_stack = NULL;
static const size_t fibre_host_bytes = 0;
#define FIBRE_TO(frames, stack, bytes) ((void)(frames), (void)(stack), (void)(bytes))
#define FIBRE_AT(frames, stack, bytes) ((void)(frames), (void)(stack), (void)(bytes))
#endif

// *fibre must be zero. `run` begins with fibre_begun() and never returns.
static inline int fibre_create(struct fibre *fibre, void (*run)(void))
{
    fibre->stack = malloc(FIBRE_STACK);
    if (!fibre->stack || getcontext(&fibre->start) != 0) {
        return -1;
    }
    fibre->start.uc_stack.ss_sp = fibre->stack;
    fibre->start.uc_stack.ss_size = FIBRE_STACK;
    fibre->start.uc_link = NULL;
    makecontext(&fibre->start, run, 0);
    return 0;
}

static inline void fibre_begun(void)
{
    FIBRE_AT(NULL, &fibre_host_stack, &fibre_host_bytes);
}

// Switches from the host to a fibre; returns when the fibre leaves.
FIBRE_SWITCH void fibre_go_on(struct fibre *fibre)
{
    void *frames = NULL;
    FIBRE_TO(&frames, fibre->stack, FIBRE_STACK);
    if (FIBRE_SETJMP(fibre_host) == 0) {
        if (fibre->begun) {
            FIBRE_LONGJMP(fibre->place);
        }
        fibre->begun = 1;
        (void)setcontext(&fibre->start);
        abort();
    }
    FIBRE_BACK();
    FIBRE_AT(frames, NULL, NULL);
}

// Switches from the running fibre to the host; returns when the fibre goes on.
FIBRE_SWITCH void fibre_leave(struct fibre *fibre)
{
    FIBRE_TO(&fibre->frames, fibre_host_stack, fibre_host_bytes);
    if (FIBRE_SETJMP(fibre->place) == 0) {
        FIBRE_LONGJMP(fibre_host);
    }
    FIBRE_BACK();
    FIBRE_AT(fibre->frames, NULL, NULL);
}

#endif
