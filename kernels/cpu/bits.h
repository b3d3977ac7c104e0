// Private to kernels/cpu: parts of a float, in addition to those of base/bits.h.
#ifndef KERNELS_CPU_BITS_H
#define KERNELS_CPU_BITS_H

#include "base/bits.h"

#define BITS_SIGN    0x80000000u
#define BITS_NORMAL  0x00800000u // a magnitude of at least this is not denormal
#define BITS_LARGEST 0x7f7fffffu // the largest finite number

#endif
