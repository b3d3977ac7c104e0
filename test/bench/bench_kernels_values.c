// Writing, reading and checking of each value format on each path. The floor of each is the bytes that it
// must move, at the speed of a copy of as many bytes in the same run. Arguments: --entries N (310000, which
// is 1% of 31M), --seconds S for each format (0.5).
#include "test/support/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct values_run {
    const struct kernels_values *values;
    enum kernels_format format;
    size_t count;
    float *value;
    const float *source;
    uint8_t *section;
    bool valid;
};

static void restore(void *context)
{
    struct values_run *run = context;
    memcpy(run->value, run->source, run->count * sizeof *run->value);
}

static void run_write(void *context)
{
    struct values_run *run = context;
    run->values->write(run->format, run->count, run->value, run->section);
}

static void run_read(void *context)
{
    struct values_run *run = context;
    run->values->read(run->format, run->count, run->section, run->value);
}

static void run_valid(void *context)
{
    struct values_run *run = context;
    run->valid = run->values->valid(run->format, run->count, run->section);
}

static void print(const char *format, const char *what, const char *path, size_t count,
                  const struct bench_time *time, double floor)
{
    char name[32], more[64];
    (void)snprintf(name, sizeof name, "%s_%s", format, what);
    (void)snprintf(more, sizeof more, "\"ns_per_entry\": %.4f", time->ns_min / (double)count);
    bench_print(&(struct bench_result){.bench = "kernels_values",
                                       .name = name,
                                       .path = path,
                                       .count = count,
                                       .entries = count,
                                       .time = *time,
                                       .floor_ns = floor,
                                       .more = more});
}

static void bench_format(const struct values_run *common, double seconds)
{
    static const char *const names[KERNELS_FORMATS] = {"fp32", "fp16", "int8", "bf16",
                                                       "int4", "int2", "sign"};
    enum { STEPS = 3 };
    static const char *const steps[STEPS] = {"write", "read", "valid"};
    static void (*const functions[STEPS])(void *) = {run_write, run_read, run_valid};
    struct bench_path paths[BENCH_PATHS];
    size_t n = bench_paths(paths), bytes = kernels_section_bytes(common->format, common->count);
    struct values_run runs[BENCH_PATHS];
    struct bench_case cases[1 + STEPS * BENCH_PATHS];
    struct bench_time times[1 + STEPS * BENCH_PATHS];
    struct bench_span span = {
        .a = common->source, .b = common->value, .bytes = common->count * sizeof(float)};
    cases[0] = (struct bench_case){.run = bench_copy, .context = &span};
    for (size_t p = 0; p < n; p++) {
        runs[p] = *common;
        runs[p].values = paths[p].table->values;
        for (size_t s = 0; s < STEPS; s++)
            cases[1 + p * STEPS + s] = (struct bench_case){
                .run = functions[s], .prepare = s == 0 ? restore : NULL, .context = &runs[p]};
    }
    bench_alternate(cases, 1 + n * STEPS, seconds, times);
    double a_byte = times[0].ns / (8.0 * (double)common->count); // read or written
    double floats = 4.0 * (double)common->count;
    double moved[STEPS] = {2 * floats + (double)bytes, floats + (double)bytes, (double)bytes};
    for (size_t p = 0; p < n; p++)
        for (size_t s = 0; s < STEPS; s++)
            print(names[common->format], steps[s], paths[p].name, common->count, &times[1 + p * STEPS + s],
                  a_byte * moved[s]);
}

int main(int argc, char **argv)
{
    const size_t count = strtoull(bench_option(argc, argv, "--entries", "310000"), NULL, 10);
    const double seconds = strtod(bench_option(argc, argv, "--seconds", "0.5"), NULL);
    float *source = bench_alloc(count * sizeof *source), *value = bench_alloc(count * sizeof *value);
    uint8_t *section = bench_alloc(kernels_section_bytes(KERNELS_FP32, count) + 1);
    bench_fill(BENCH_GAUSSIAN, 1, source, count);
    for (size_t i = 0; i < count; i++) // a tail, as after selection
        source[i] += source[i] < 0 ? -2.5f : 2.5f;
    for (unsigned format = 0; format < KERNELS_FORMATS; format++)
        bench_format(&(struct values_run){.format = (enum kernels_format)format,
                                          .count = count,
                                          .value = value,
                                          .source = source,
                                          .section = section},
                     seconds);
    bench_free(source);
    bench_free(value);
    bench_free(section);
    return 0;
}
