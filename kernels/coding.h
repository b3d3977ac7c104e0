// Bit work of the index coders (compress/), always on the host, whatever the backend: the same results on
// every path. Bits fill each byte from its lowest bit upwards. All memory is ordinary memory.
#ifndef KERNELS_CODING_H
#define KERNELS_CODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernels_coding {
    int none_yet; // members follow with the index coders
};

#endif
