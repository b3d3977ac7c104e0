// Private to kernels/: the levels of int4. Every backend computes them from the smallest and the largest
// magnitude of a block, in fp32, rounded as written:
//     level[0] = low    level[m] = low + (high - low) * place[m]    level[7] = high
// A magnitude gets the nearest level: the number of the level is the number of midpoints 0.5 * level[m] + 0.5
// * level[m + 1] that the magnitude exceeds. So no value is further from its level than from zero.
#ifndef KERNELS_INT4_H
#define KERNELS_INT4_H

#define KERNELS_INT4_LEVELS 8u

// (e^(2m/7) - 1) / (e^2 - 1): dense near the smallest magnitude, where most entries of a tail are.
#define KERNELS_INT4_PLACES                                                                                  \
    {                                                                                                        \
        0.0f, 0.0517622936f, 0.120643012f, 0.212303415f, 0.334277034f, 0.496588826f, 0.712579131f, 1.0f      \
    }

// 2^-94, the smallest `high` other than 0. Neither a level nor a difference is then denormal, so the result
// does not depend on how a machine treats denormals.
#define KERNELS_INT4_MIN 0x10800000u

#endif
