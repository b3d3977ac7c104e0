// The backends that a selection is compared on: every path of this processor, and one that reads nothing
// rather than stop in the middle, as a device may.
#ifndef TEST_PROPERTY_SELECT_BACKENDS_H
#define TEST_PROPERTY_SELECT_BACKENDS_H

#include "kernels/cpu/cpu.h"
#include <stdio.h>

#define BACKENDS_MAX 4u

static size_t gather_all_or_nothing(const struct kernels_difference *a, size_t first, uint32_t floor,
                                    size_t room, uint32_t *index, float *value, struct kernels_seen *seen)
{
    const size_t found = kernels_cpu_scalar.select->gather(a, first, floor, room, index, value, seen);
    if (seen->read == a->count - first) {
        return found;
    }
    *seen = (struct kernels_seen){0};
    return 0;
}

static inline size_t select_backends(const struct kernels *backends[BACKENDS_MAX])
{
    static struct kernels_select select;
    static struct kernels table;
    size_t n = 0;
    static const char *const names[] = {"scalar", "avx2", "avx512"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct kernels *path = kernels_cpu_table(names[i]);
        if (path) {
            backends[n++] = path;
        } else {
            printf("path %s is not tested: this processor lacks it\n", names[i]);
        }
    }
    select = *kernels_cpu_scalar.select;
    select.gather = gather_all_or_nothing;
    table = kernels_cpu_scalar;
    table.select = &select;
    backends[n++] = &table;
    return n;
}

#endif
