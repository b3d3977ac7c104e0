#include "node/learn/momentum.h"

#include <string.h>

void node_momentum_before(float mu, size_t d, const float *v, float *x)
{
    for (size_t i = 0; i < d; i++)
        x[i] -= mu * v[i];
}

void node_momentum_after(float mu, size_t d, const float *x, float *x0, float *v)
{
    for (size_t i = 0; i < d; i++)
        v[i] = mu * v[i] + (1.0f - mu) * (x0[i] - x[i]);
    memcpy(x0, x, d * sizeof *x);
}
