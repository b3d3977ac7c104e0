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
#define INLINE __device__ static __forceinline__ // for arguments that must be constants where it is used
#define KERNEL(name, type, argument)                                                                         \
    __global__ static void __launch_bounds__(THREADS) name(const type argument)
// The same with at most 128 registers per thread, so that two blocks run on a multiprocessor.
#define KERNEL_OF_TWO(name, type, argument)                                                                  \
    __global__ static void __launch_bounds__(THREADS, 2) name(const type argument)
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

// --- tensor cores: bf16, of which a word has two, the first in its low half; from sm_80 ---

#if __CUDA_ARCH__ >= 800
#define FROM_SM_80(...) asm volatile(__VA_ARGS__)
#else
#define FROM_SM_80(...) __trap() // the host does not launch such a kernel
#endif

DEVICE uint32_t shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

// Starts a copy of 16 bytes to shared memory, both sides aligned to 16, or, without `exists`, of zeros.
// `from` is an address in the device's memory in any case. The bytes are there when this thread has waited.
DEVICE void block_copy_16(void *shared, const void *from, int exists)
{
    const uint32_t to = shared_address(shared), bytes = exists ? 16 : 0;
    FROM_SM_80("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    (void)to, (void)bytes;
}

// The same with 4 bytes.
DEVICE void block_copy_4(void *shared, const void *from, int exists)
{
    const uint32_t to = shared_address(shared), bytes = exists ? 4 : 0;
    FROM_SM_80("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    (void)to, (void)bytes;
}

// Waits for all copies that this thread has started.
DEVICE void copies_wait(void)
{
    FROM_SM_80("cp.async.wait_all;" ::: "memory");
}

// Four matrices of 8 rows of 8 bf16 (16 bytes, aligned) in shared memory: lane l passes the address of row l
// % 8 of matrix l / 8, and gets of each matrix the numbers 2 (l % 4) and 2 (l % 4) + 1 of row l / 4.
DEVICE void warp_load_matrix_4(const void *row, uint32_t to[4])
{
    const uint32_t at = shared_address(row);
    FROM_SM_80("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at));
    (void)at;
}

// The same with each matrix transposed: number l / 4 of the rows 2 (l % 4) and 2 (l % 4) + 1.
DEVICE void warp_load_matrix_4_transposed(const void *row, uint32_t to[4])
{
    const uint32_t at = shared_address(row);
    FROM_SM_80("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at));
    (void)at;
}

// d += a b, of 16 rows by 16 terms and 16 terms by 8 columns. With g = lane / 4 and t = lane % 4 a lane has
// a: rows g, g + 8, g, g + 8, terms from 2t, 2t, 2t + 8, 2t + 8 on; b: column g, terms from 2t, 2t + 8 on;
// d: columns 2t and 2t + 1 of row g, then of row g + 8.
DEVICE void warp_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    FROM_SM_80("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Rounds to nearest, ties to even.
DEVICE uint32_t pair_bf16(float low, float high)
{
    uint32_t pair = 0;
    FROM_SM_80("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// Two, or eight, bf16 of the device's memory, aligned to their length.
DEVICE uint32_t pair_load(const uint16_t *at)
{
    return *(const uint32_t *)at;
}

DEVICE void pair_store(uint16_t *at, uint32_t pair)
{
    *(uint32_t *)at = pair;
}

DEVICE void pairs_load_4(const uint16_t *at, uint32_t to[4])
{
    const uint4 pairs = *(const uint4 *)at;
    to[0] = pairs.x;
    to[1] = pairs.y;
    to[2] = pairs.z;
    to[3] = pairs.w;
}

// 2^x with a relative error of about 2^-22; 0 where it would be denormal.
DEVICE float fast_exp2(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

#endif
