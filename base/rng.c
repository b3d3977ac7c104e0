// Seeded models and partitions must be the same on every host. So the logarithm and the exponential are our
// own and use only operations whose rounding IEEE 754 defines exactly: the last bit of libm's functions
// depends on its version and the CPU.
#include "base/rng.h"
#include "base/error.h"
#include "base/hash.h"

#include <float.h>
#include <math.h>

static const uint64_t golden = 0x9e3779b97f4a7c15ull;
static const double ln2 = 0.693147180559945309417232121458;

static uint64_t rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

// The four states are outputs of splitmix64, which is a bijection of a counter: they differ, so they are not
// all zero.
void base_rng_seed(struct base_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->state[i] = base_hash_mix(seed += golden);
}

void base_rng_seed_stream(struct base_rng *rng, uint64_t seed, uint64_t stream)
{
    uint64_t mixed = base_hash_mix(seed + golden);
    base_rng_seed(rng, base_hash_mix(mixed ^ base_hash_mix(stream + 2 * golden)));
}

uint64_t base_rng_u64(struct base_rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

// The lowest 2^64 mod bound outputs are rejected, so that all remainders are equally likely.
uint64_t base_rng_below(struct base_rng *rng, uint64_t bound)
{
    BASE_ASSERT(bound > 0);
    uint64_t uneven = (0 - bound) % bound;
    uint64_t value;
    do
        value = base_rng_u64(rng);
    while (value < uneven);
    return value % bound;
}

double base_rng_uniform(struct base_rng *rng)
{
    return (double)(base_rng_u64(rng) >> 11) * 0x1p-53;
}

// ln(x) for normal x > 0: x = m 2^e, ln m = 2 artanh z, z = (m-1)/(m+1), |z| < 0.172.
static double log_exact(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    double z = (m - 1) / (m + 1), sum = 0;
    for (int k = 21; k >= 1; k -= 2)
        sum = sum * (z * z) + 1.0 / k;
    return (double)e * ln2 + 2 * z * sum;
}

// e^x for x <= 0: 2^k times the series of e^r, |r| <= ln2 / 2.
static double exp_exact(double x)
{
    if (x < -708)
        return 0;
    double k = floor(x / ln2 + 0.5), r = x - k * ln2, sum = 1;
    for (int i = 16; i >= 1; i--)
        sum = 1 + r / i * sum;
    return ldexp(sum, (int)k);
}

// Marsaglia's polar method. The second value of the pair is discarded: keeping it would be hidden state.
double base_rng_normal(struct base_rng *rng)
{
    double u, v, s;
    do {
        u = 2 * base_rng_uniform(rng) - 1;
        v = 2 * base_rng_uniform(rng) - 1;
        s = u * u + v * v;
    } while (s >= 1 || s < DBL_MIN);
    return u * sqrt(-2 * log_exact(s) / s);
}

// Marsaglia and Tsang 2000, section 6 for shape < 1: gamma(a) = gamma(a+1) u^(1/a). Always positive: a value
// that would underflow becomes the smallest normal number, so that a sum of such values is never 0.
double base_rng_gamma(struct base_rng *rng, double shape)
{
    BASE_ASSERT(shape > 0);
    double boost = 1;
    if (shape < 1) {
        boost = exp_exact(log_exact(1 - base_rng_uniform(rng)) / shape);
        shape += 1;
    }
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = base_rng_normal(rng), v = 1 + c * x;
        v = v * v * v;
        double u = 1 - base_rng_uniform(rng);
        if (v > 0 && log_exact(u) < 0.5 * x * x + d - d * v + d * log_exact(v)) {
            double value = d * v * boost;
            return value < DBL_MIN ? DBL_MIN : value;
        }
    }
}

void base_rng_shuffle(struct base_rng *rng, uint32_t *items, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)base_rng_below(rng, i);
        uint32_t item = items[i - 1];
        items[i - 1] = items[j];
        items[j] = item;
    }
}
