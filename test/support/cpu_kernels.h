// The CPU's table of kernels, opened once, for tests and benchmarks that pass one on. One thread.
#ifndef TEST_SUPPORT_CPU_KERNELS_H
#define TEST_SUPPORT_CPU_KERNELS_H

#include "kernels/kernels.h"

static inline const struct kernels *cpu_kernels(void)
{
    static const struct kernels *table;

    if (!table) {
        enum base_error error = kernels_open("cpu", 1, &table, NULL);
        BASE_ASSERT(!error);
    }
    return table;
}

#endif
