// Private to kernels/: the levels of int4, which every backend computes in the same way from the smallest and
// the largest magnitude of a block, in fp32, rounded as written:
//     level[0] = low    level[m] = low + (high - low) * place[m]    level[7] = high
// A code names the level nearest to the magnitude: its number m is how many of the middles
// 0.5 * level[m] + 0.5 * level[m + 1] the magnitude exceeds. So no value is further from its level than from
// zero.
#ifndef KERNELS_INT4_H
#define KERNELS_INT4_H

#define KERNELS_INT4_LEVELS 8u

// (e^(2m/7) - 1) / (e^2 - 1): close together where the entries of a tail are, near the smallest.
#define KERNELS_INT4_PLACES                                                                                  \
    {                                                                                                        \
        0.0f, 0.0517622936f, 0.120643012f, 0.212303415f, 0.334277034f, 0.496588826f, 0.712579131f, 1.0f      \
    }

// 2^-94, the least `high` but 0. Then neither a level nor the difference is denormal, so that no machine's
// way with denormals matters.
#define KERNELS_INT4_MIN 0x10800000u

#endif
