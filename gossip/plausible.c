#include "gossip/plausible.h"

#include <float.h>
#include <math.h>

float gossip_plausible_value(double norm)
{
    double scale = norm > 1 ? norm : 1; // a model that begins at zero has no scale yet

    return scale < (double)FLT_MAX / GOSSIP_PLAUSIBLE ? (float)(GOSSIP_PLAUSIBLE * scale) : FLT_MAX;
}

double gossip_plausible_norm(const float *values, size_t count)
{
    double energy = 0;

    for (size_t i = 0; i < count; i++)
        energy += (double)values[i] * (double)values[i];
    return gossip_plausible_root(energy);
}

double gossip_plausible_root(double energy)
{
    return isfinite(energy) ? sqrt(energy) : 0;
}
