// What the programs of test/bench share: a clock, repetition, data, floors and the line that they print.
//
// A figure is meaningful only beside a floor measured in the same run: other load on the machine slows both
// down. So the cases are repeated in turn, a, b, c, a, b, c, ..., and each gives its median and its minimum.
//
// One thread. Out of memory ends the program.
#ifndef TEST_SUPPORT_BENCH_H
#define TEST_SUPPORT_BENCH_H

#include "kernels/kernels.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

double bench_clock(clockid_t clock); // ns
double bench_now(void);              // monotonic, ns
double bench_now_s(void);            // the same in s

// Of n > 0 times; sorts them.
double bench_median(double *times, size_t n);
double bench_minimum(const double *times, size_t n);

// One thing to measure. prepare, which may be NULL, is called before each run and not timed: it restores what
// a run consumes or overwrites.
struct bench_case {
    void (*run)(void *context);
    void (*prepare)(void *context);
    void *context;
};

struct bench_time {
    double ns, ns_min; // median and minimum of one run
    size_t runs;
};

// Runs each case once untimed, then all in turn until `seconds` have passed (at least 5 and at most 10,000
// times).
void bench_alternate(const struct bench_case *cases, size_t n, double seconds, struct bench_time *times);
// The same with the times of `clock`: CLOCK_THREAD_CPUTIME_ID if other programs use the machine.
void bench_alternate_by(clockid_t clock, const struct bench_case *cases, size_t n, double seconds,
                        struct bench_time *times);

// Memory in huge pages where the system provides them, so that page tables are not what is measured. Every
// page has been touched. Never NULL.
void *bench_alloc(size_t bytes);
void bench_free(void *memory);

enum bench_data {
    BENCH_GAUSSIAN, // mean 0, variance 1
    BENCH_STUDENT,  // Student's t, 3 degrees of freedom: heavy tails
    BENCH_SPARSE,   // 99% zeros, the rest Gaussian
    BENCH_CONSTANT, // all 0.5
    BENCH_FEW,      // 5 distinct values: -0.5, -0.25, 0.125, 0.25, 0.5
    BENCH_SORTED,   // Gaussian, ascending
    BENCH_DATA,     // their number
};
// "gaussian", "student", "sparse99", "constant", "few", "sorted".
const char *bench_data_name(enum bench_data data);
bool bench_data_parse(const char *name, enum bench_data *data);
void bench_fill(enum bench_data data, uint64_t seed, float *x, size_t count);

// Floors, as cases: context is a struct bench_span.
struct bench_span {
    const void *a, *b; // b: second source of bench_read_two; where bench_copy writes
    size_t bytes;
};
void bench_read(void *span);     // every byte of a, once
void bench_read_two(void *span); // every byte of a and of b, side by side
void bench_copy(void *span);     // memcpy from a to b

// The CPU paths of this machine, best first: at most BENCH_PATHS. Returns their number.
#define BENCH_PATHS 3u
struct bench_path {
    const char *name; // "avx512", "avx2", "scalar"
    const struct kernels *table;
};
size_t bench_paths(struct bench_path paths[BENCH_PATHS]);

// One line of JSON. path, floor_ns (0) and more (further members, such as `"bits": 8.1`) may be missing;
// entries 0 is left out.
struct bench_result {
    const char *bench, *name, *path;
    size_t count, entries;
    struct bench_time time;
    double floor_ns;
    const char *more;
};
void bench_print(const struct bench_result *result);

// One line of text for n > 0 times in ns, which it sorts: `gpt_step_ms median=5.1 min=5.0 steps=40`.
void bench_print_steps(const char *name, double *times, size_t n);

// A value of /proc/self/status, by its key: "VmRSS:". 0 if it is missing.
long bench_status_kib(const char *key);

// "--name VALUE" and "--name" among the arguments.
const char *bench_option(int argc, char **argv, const char *name, const char *fallback);
bool bench_flag(int argc, char **argv, const char *name);

#endif
