// A table of kernels whose memory the host cannot touch. The pointers that it hands out lie in pages without
// any access; its functions find the data elsewhere and run the CPU's code on them. So code that touches a
// vector itself faults. A call with the host's memory in place of the table's, or with more than the length
// of a vector, ends the test.
#ifndef TEST_SUPPORT_FAR_KERNELS_H
#define TEST_SUPPORT_FAR_KERNELS_H

#include "kernels/kernels.h"

const struct kernels *far_kernels(void);

// Counted from the start of the program; any thread.
struct far_use {
    uint64_t up, down; // bytes that crossed
    size_t held;       // bytes of vectors now allocated
};
struct far_use far_use(void);

#endif
