// The words that device code is written in: blocks of THREADS threads in whole warps, one struct of arguments
// a kernel. Beside them the device code is plain C, so that a test can run it on any machine: it brings
// words of its own in place of this header (test/unit/kernels_cuda_emulator.h).
#ifndef KERNELS_CUDA_DEVICE_H
#define KERNELS_CUDA_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#define THREADS 256u
#define WARP    32u
#define WARPS   (THREADS / WARP)

#define DEVICE __device__ static inline
#define KERNEL(name, type, argument)                                                                         \
    __global__ static void __launch_bounds__(THREADS) name(const type argument)
#define LAUNCH(name, blocks, argument) name<<<(blocks), THREADS>>>(argument)
#define SHARED(type, name, length)     __shared__ type name[length] // at the top of a kernel or function
#define UNROLL                         _Pragma("unroll")            // before a loop of few and constant turns

DEVICE unsigned thread_index(void)
{
    return threadIdx.x;
}

DEVICE unsigned block_index(void)
{
    return blockIdx.x;
}

DEVICE unsigned block_count(void)
{
    return gridDim.x;
}

DEVICE void block_barrier(void)
{
    __syncthreads();
}

// What this thread read and wrote before it is done before what it reads and writes after it, for all blocks.
DEVICE void memory_fence(void)
{
    __threadfence();
}

// All 32 threads of a warp call these together.
DEVICE uint32_t warp_ballot(int vote)
{
    return __ballot_sync(0xffffffffu, vote);
}

DEVICE uint32_t warp_xor_u32(uint32_t value, unsigned distance)
{
    return __shfl_xor_sync(0xffffffffu, value, (int)distance);
}

DEVICE uint64_t warp_xor_u64(uint64_t value, unsigned distance)
{
    return __shfl_xor_sync(0xffffffffu, (unsigned long long)value, (int)distance);
}

DEVICE double warp_xor_f64(double value, unsigned distance)
{
    return __shfl_xor_sync(0xffffffffu, value, (int)distance);
}

DEVICE float warp_xor_f32(float value, unsigned distance)
{
    return __shfl_xor_sync(0xffffffffu, value, (int)distance);
}

DEVICE uint32_t warp_from_u32(uint32_t value, unsigned lane)
{
    return __shfl_sync(0xffffffffu, value, (int)lane);
}

// The result does not depend on the order of threads: sums of integers, and maxima.
DEVICE uint32_t atomic_add_u32(uint32_t *at, uint32_t value)
{
    return atomicAdd(at, value);
}

DEVICE void atomic_add_u64(uint64_t *at, uint64_t value)
{
    (void)atomicAdd((unsigned long long *)at, (unsigned long long)value);
}

DEVICE void atomic_max_u32(uint32_t *at, uint32_t value)
{
    (void)atomicMax(at, value);
}

// Words that blocks pass to one another: read and written whole, past the first cache.
DEVICE uint64_t word_load(const uint64_t *at)
{
    return *(const volatile uint64_t *)at;
}

DEVICE void word_store(uint64_t *at, uint64_t value)
{
    *(volatile uint64_t *)at = value;
}

DEVICE unsigned bits_set(uint32_t bits)
{
    return (unsigned)__popc(bits);
}

DEVICE unsigned first_bit(uint32_t bits) // bits != 0
{
    return (unsigned)__ffs((int)bits) - 1;
}

#endif
