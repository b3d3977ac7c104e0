// The macros and functions that device code uses: blocks of THREADS threads in whole warps, one struct of
// arguments per kernel. Apart from them the device code is plain C, so that a test can run it on any machine
// with its own version of this header (test/unit/kernels_cuda_emulator.h).
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
#define UNROLL                         _Pragma("unroll") // before a loop with few, constant iterations

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

// Orders the reads and writes of this thread: those before the call are visible to all blocks before those
// after it.
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

// Numbers that blocks pass to one another: read and written whole, bypassing the L1 cache.
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
