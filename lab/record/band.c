#include "lab/record/band.h"

#include <math.h>

#define TABLE 10u

// The 97.5% quantile of Student's t: a table, then the expansion around the normal quantile (Abramowitz and
// Stegun, 26.7.5), which is right to 0.001 from 11 degrees on.
static double quantile(size_t degrees)
{
    static const double table[TABLE] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
                                        2.4469,  2.3646, 2.3060, 2.2622, 2.2281};
    const double z = 1.959964, n = (double)degrees;
    if (degrees <= TABLE)
        return table[degrees - 1];
    return z + (pow(z, 3) + z) / (4 * n) + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * n * n) +
           (3 * pow(z, 7) + 19 * pow(z, 5) + 17 * pow(z, 3) - 15 * z) / (384 * n * n * n);
}

static double half_of(const double *values, size_t count, const struct lab_band *band)
{
    double squares = 0;
    if (band->seen < 2)
        return NAN;
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            squares += (values[i] - band->mean) * (values[i] - band->mean);
    const double seen = (double)band->seen;
    return quantile(band->seen - 1) * sqrt(squares / (seen - 1) / seen);
}

struct lab_band lab_band_of(const double *values, size_t count)
{
    struct lab_band band = {NAN, NAN, NAN, NAN, 0};
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i]))
            continue;
        band.low = fmin(band.low, values[i]); // fmin of a number and NAN is the number
        band.high = fmax(band.high, values[i]);
        sum += values[i];
        band.seen++;
    }
    if (band.seen)
        band.mean = sum / (double)band.seen;
    band.half = half_of(values, count, &band);
    return band;
}
