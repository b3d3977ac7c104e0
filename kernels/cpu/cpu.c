// Memory, OpenBLAS and the choice of the path for the CPU backend.
#include "kernels/cpu/cpu.h"
#include "base/plural.h"

#include <cblas.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define ALIGNMENT 64u             // one cache line, one AVX-512 register
#define HUGE_PAGE (2u << 20)      // with pages of 4 KiB a pass over a vector takes a third longer
#define LARGE     (2 * HUGE_PAGE) // vectors of at least this size get huge pages

void *kernels_cpu_alloc(size_t bytes)
{
    if (bytes > SIZE_MAX - ALIGNMENT)
        return NULL;
    size_t rounded = bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *memory = NULL;
    if (posix_memalign(&memory, rounded < LARGE ? ALIGNMENT : HUGE_PAGE, rounded) != 0)
        return NULL;
    if (rounded >= LARGE)
        (void)madvise(memory, rounded, MADV_HUGEPAGE); // a kernel without huge pages returns ordinary ones
    return memset(memory, 0, rounded);
}

void kernels_cpu_release(void *memory)
{
    free(memory);
}

void kernels_cpu_copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && to != from)
        memcpy(to, from, bytes);
}

void kernels_cpu_wait(void)
{
}

static blasint blas_int(size_t value)
{
    BASE_ASSERT(value <= INT_MAX);
    return (blasint)value;
}

static blasint leading(size_t columns)
{
    return blas_int(columns > 0 ? columns : 1);
}

void kernels_cpu_product(const struct kernels_cpu_product *p)
{
    if (p->m == 0 || p->n == 0)
        return;
    cblas_sgemm(CblasRowMajor, p->transpose_a ? CblasTrans : CblasNoTrans,
                p->transpose_b ? CblasTrans : CblasNoTrans, blas_int(p->m), blas_int(p->n), blas_int(p->k),
                p->alpha, p->a, leading(p->stride_a), p->b, leading(p->stride_b), p->beta, p->c,
                leading(p->stride_c));
}

void kernels_cpu_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                      const float *a, const float *b, float beta, float *c)
{
    const struct kernels_cpu_product product =
        kernels_cpu_without_gaps(transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
    kernels_cpu_product(&product);
}

bool kernels_cpu_is_one_piece(size_t m, size_t n, size_t k)
{
    (void)k;
    return n > 0 && m <= KERNELS_CPU_PIECE / n;
}

void kernels_cpu_one_piece(kernels_cpu_multiplier *gemm, size_t m, size_t n, size_t k, const float *a,
                           const float *b, const struct kernels_taker *taker)
{
    _Alignas(ALIGNMENT) float c[KERNELS_CPU_PIECE];
    BASE_ASSERT(kernels_cpu_is_one_piece(m, n, k));
    gemm(true, false, m, n, k, 1.0f, a, b, 0.0f, c);
    taker->take(taker->owner, 0, m * n, c);
}

void kernels_cpu_pieces(size_t m, size_t n, size_t k, const float *a, const float *b,
                        const struct kernels_taker *taker)
{
    kernels_cpu_one_piece(kernels_cpu_gemm, m, n, k, a, b, taker);
}

#if defined(__x86_64__)
static bool has_avx2(void)
{
    unsigned a, b, c, d; // clang 14's __builtin_cpu_supports does not know F16C
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("fma") && has_avx2();
}
#endif

struct path {
    const char *name;
    const struct kernels *table;
    bool (*available)(void);
};

static bool always(void)
{
    return true;
}

// Best first.
static const struct path paths[] = {
#if defined(__x86_64__)
    {"avx512", &kernels_cpu_avx512, has_avx512},
    {"avx2", &kernels_cpu_avx2, has_avx2},
#endif
    {"scalar", &kernels_cpu_scalar, always},
};

const struct kernels *kernels_cpu_table(const char *name)
{
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if ((!name || strcmp(name, paths[i].name) == 0) && paths[i].available())
            return paths[i].table;
    return NULL;
}

void kernels_cpu_set_threads(unsigned threads)
{
    openblas_set_num_threads((int)threads);
}

unsigned kernels_cpu_threads(void)
{
    return (unsigned)openblas_get_num_threads();
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcasecmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

// The two lists name OpenBLAS's cores for x86-64 that use AVX-512, and those that use AVX2.
bool kernels_cpu_blas_lags(void)
{
    static const char *const avx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids", NULL};
    static const char *const avx2[] = {"Haswell", "Zen", "Excavator", NULL};
    const char *core = openblas_get_corename();
    const bool wide = is_one_of(core, avx512);
    if (kernels_cpu_threads() == 1 && kernels_cpu_table(NULL) != &kernels_cpu_scalar)
        return false; // the products are those of gemm_body.h
    if (kernels_cpu_table("avx512"))
        return !wide;
    return kernels_cpu_table("avx2") && !wide && !is_one_of(core, avx2);
}

void kernels_cpu_describe(const struct kernels *table, char *text, size_t capacity)
{
    // The configuration reads "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ... SkylakeX ...": keeps the first two
    // words.
    const char *config = openblas_get_config();
    size_t words = strcspn(config, " ");
    words += config[words] == ' ' ? 1 + strcspn(config + words + 1, " ") : 0;
    const char *path = "";
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        path = paths[i].table == table ? paths[i].name : path;
    const unsigned threads = kernels_cpu_threads();
    (void)snprintf(text, capacity, "cpu: %.*s %s, %u thread%s, %s loops", (int)words, config,
                   openblas_get_corename(), threads, base_plural(threads), path);
}
