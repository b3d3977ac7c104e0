// GELU on the device: z * logistic(2u), u = sqrt(2/pi) (z + 0.044715 z^3), as in kernels/cpu/sequence_body.h.
#ifndef KERNELS_CUDA_GELU_H
#define KERNELS_CUDA_GELU_H

#include <math.h>

#define GELU_LINEAR 1.59576912f   // 2 sqrt(2/pi)
#define GELU_CUBIC  0.0713548163f // the same times 0.044715

DEVICE float logistic_of(float t)
{
    const float e = expf(-fabsf(t)); // no exponent above 0
    return (t < 0.0f ? e : 1.0f) / (1.0f + e);
}

// gelu(z) = z * share
DEVICE float gelu_share(float z)
{
    return logistic_of(z * (GELU_LINEAR + GELU_CUBIC * (z * z)));
}

DEVICE float gelu_slope(float z, float share)
{
    return share + z * (share * (1.0f - share)) * (GELU_LINEAR + 3.0f * GELU_CUBIC * (z * z));
}

#endif
