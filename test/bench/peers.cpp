// Selections of other libraries for test/bench/compare, which compiles and runs this: std::nth_element, and
// Intel's x86-simd-sort if P2PML_X86_SIMD_SORT is defined. One thread.
//
// Arguments: file of floats. Reads lines "CASE K" and answers each with the ns of one run. Cases with pairs
// make them within the time, because a sender of entries needs their indices; cases with values alone work on
// a copy of the magnitudes, which is not timed.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>
#include <sys/mman.h>
#ifdef P2PML_X86_SIMD_SORT
#include "x86simdsort-static-incl.h"
#endif

struct pair_of {
    float magnitude;
    uint32_t index;
};

// Huge pages, as in the benchmarks of p2pml.
template <typename T> static T *memory(size_t count)
{
    const size_t page = size_t(2) << 20, bytes = (count * sizeof(T) + page) / page * page;
    void *p = aligned_alloc(page, bytes);
    if (p == nullptr) {
        std::cerr << "peers: out of memory\n";
        exit(1);
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return static_cast<T *>(p);
}

struct world {
    size_t count;
    const float *a;
    float *magnitudes;
    pair_of *pairs;
    uint32_t *index;
    size_t *wide_index;
};

static void copy_magnitudes(world &w)
{
    for (size_t i = 0; i < w.count; i++) {
        w.magnitudes[i] = std::fabs(w.a[i]);
    }
}

static void nth_values(world &w, size_t k)
{
    std::nth_element(w.magnitudes, w.magnitudes + k - 1, w.magnitudes + w.count, std::greater<float>());
}

static void nth_pairs(world &w, size_t k)
{
    for (size_t i = 0; i < w.count; i++) {
        w.pairs[i] = {std::fabs(w.a[i]), uint32_t(i)};
    }
    std::nth_element(w.pairs, w.pairs + k - 1, w.pairs + w.count,
                     [](const pair_of &l, const pair_of &r) { return l.magnitude > r.magnitude; });
}

#ifdef P2PML_X86_SIMD_SORT
static void simd_values(world &w, size_t k)
{
    x86simdsortStatic::qselect(w.magnitudes, k - 1, w.count, false, true);
}

static void simd_argselect(world &w, size_t k) // ascending: the last k
{
    copy_magnitudes(w);
    std::iota(w.wide_index, w.wide_index + w.count, size_t(0));
    x86simdsortStatic::argselect(w.magnitudes, w.wide_index, w.count - k, w.count, false);
}

static void simd_pairs(world &w, size_t k)
{
    copy_magnitudes(w);
    std::iota(w.index, w.index + w.count, 0u);
    x86simdsortStatic::keyvalue_select(w.magnitudes, w.index, k - 1, w.count, false, true);
}
#endif

static const struct {
    const char *name;
    bool takes_copy;
    void (*run)(world &, size_t);
} cases[] = {
    {"nth_values", true, nth_values},
    {"nth_pairs", false, nth_pairs},
#ifdef P2PML_X86_SIMD_SORT
    {"simd_values", true, simd_values},
    {"simd_argselect", false, simd_argselect},
    {"simd_pairs", false, simd_pairs},
#endif
};

static bool answer(world &w, const std::string &name, size_t k)
{
    for (const auto &one : cases) {
        if (name == one.name) {
            if (one.takes_copy) {
                copy_magnitudes(w);
            }
            const auto start = std::chrono::steady_clock::now();
            one.run(w, k);
            const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
            std::cout << took.count() << std::endl;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    std::ifstream file(argc == 2 ? argv[1] : "", std::ios::binary | std::ios::ate);
    if (!file) {
        std::cerr << "peers: expected one file of floats\n";
        return 1;
    }
    world w = {};
    w.count = size_t(file.tellg()) / sizeof(float);
    float *a = memory<float>(w.count);
    file.seekg(0).read(reinterpret_cast<char *>(a), std::streamsize(w.count * sizeof(float)));
    w.a = a;
    w.magnitudes = memory<float>(w.count);
    w.pairs = memory<pair_of>(w.count);
#ifdef P2PML_X86_SIMD_SORT
    w.index = memory<uint32_t>(w.count);
    w.wide_index = memory<size_t>(w.count);
#endif
    std::string name;
    size_t k;
    while (std::cin >> name >> k) {
        if (k == 0 || k > w.count || !answer(w, name, k)) {
            std::cerr << "peers: no case " << name << " with k = " << k << "\n";
            return 1;
        }
    }
    return 0;
}
