// Any bytes to the readers and checks of value sections, and any finite floats to the writers, on every path.
// Input: format (1 byte, modulo their number), count of entries (2 bytes, little-endian, modulo 1024),
// section. Missing bytes of the section are zero.
#include "base/error.h"
#include "kernels/cpu/cpu.h"
#include "test/unit/kernels_values_reference.h"

#include <stdbool.h>
#include <stdlib.h>

enum { MOST = 1024, PATHS = 3 };

static size_t find_paths(const struct kernels_values *paths[PATHS])
{
    static const char *const names[PATHS] = {"scalar", "avx2", "avx512"};
    size_t n = 0;
    for (size_t i = 0; i < PATHS; i++) {
        const struct kernels *table = kernels_cpu_table(names[i]);
        if (table)
            paths[n++] = table->values;
    }
    return n;
}

// Every path writes what the reference writes, and all of it is valid.
static void check_written(const struct kernels_values *const *paths, size_t n, enum kernels_format format,
                          size_t count, const float *from)
{
    static float expected[MOST], value[MOST];
    static uint8_t section[4 * MOST + 64], bytes[4 * MOST + 64];
    memcpy(expected, from, count * sizeof *from);
    reference_write(format, count, expected, bytes);
    for (size_t p = 0; p < n; p++) {
        memcpy(value, from, count * sizeof *from);
        paths[p]->write(format, count, value, section);
        BASE_ASSERT(memcmp(section, bytes, kernels_section_bytes(format, count)) == 0);
        BASE_ASSERT(memcmp(value, expected, count * sizeof *value) == 0);
        BASE_ASSERT(paths[p]->valid(format, count, section));
        paths[p]->read(format, count, section, value);
        BASE_ASSERT(memcmp(value, expected, count * sizeof *value) == 0);
    }
}

// A section of its exact length, so that a read past it is detected.
static bool check_read(const struct kernels_values *const *paths, size_t n, enum kernels_format format,
                       size_t count, const uint8_t *data, size_t size, float *value)
{
    static float other[MOST];
    size_t bytes = kernels_section_bytes(format, count);
    uint8_t *section = calloc(bytes + 1, 1);
    BASE_ASSERT(section != NULL);
    memcpy(section, data, size < bytes ? size : bytes);
    bool valid = paths[0]->valid(format, count, section);
    paths[0]->read(format, count, section, value);
    for (size_t p = 1; p < n; p++) {
        BASE_ASSERT(paths[p]->valid(format, count, section) == valid);
        paths[p]->read(format, count, section, other);
        BASE_ASSERT(!valid || memcmp(value, other, count * sizeof *value) == 0);
    }
    free(section);
    for (size_t i = 0; valid && i < count; i++)
        BASE_ASSERT(isfinite(value[i]));
    return valid;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static float value[MOST];
    const struct kernels_values *paths[PATHS];
    size_t n = find_paths(paths);
    if (size < 3)
        return 0;
    enum kernels_format format = (enum kernels_format)(data[0] % KERNELS_FORMATS);
    size_t count = (data[1] | (size_t)data[2] << 8) % MOST;
    data += 3, size -= 3;
    if (check_read(paths, n, format, count, data, size, value))
        check_written(paths, n, format, count, value);
    count = size / sizeof *value < count ? size / sizeof *value : count;
    memcpy(value, data, count * sizeof *value);
    bool finite = true;
    for (size_t i = 0; i < count; i++)
        finite &= isfinite(value[i]);
    if (finite)
        check_written(paths, n, format, count, value);
    return 0;
}
