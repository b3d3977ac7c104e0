#include "train/decimal.h"
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define MANTISSA_DIGITS  18u // every number of so many digits fits into a uint64
#define EXPONENT_LARGEST 9999

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// 10^exponent by repeated squaring, in a fixed order: the same double on every machine.
static double power_of_ten(int exponent)
{
    double power = 1, base = 10;
    for (int left = exponent; left > 0; left >>= 1) {
        if (left & 1)
            power *= base;
        base *= base;
    }
    return power;
}

static double scale(uint64_t mantissa, int exponent)
{
    double value = (double)mantissa;
    if (mantissa == 0)
        return 0;
    if (exponent > 400)
        return (double)INFINITY;
    if (exponent >= 0)
        return value * power_of_ten(exponent);
    if (exponent < -400)
        return 0;
    if (exponent < -200) // 10^308 is the largest power that a double can hold
        return value / power_of_ten(200) / power_of_ten(-exponent - 200);
    return value / power_of_ten(-exponent);
}

struct decimal {
    uint64_t mantissa;
    size_t digits, kept; // digits: all that were read; kept: those in the mantissa, without leading zeros
    int exponent;
};

// Reads digits up to the first other character. `after_point`: each divides the value by ten.
static const char *read_digits(const char *at, const char *end, bool after_point, struct decimal *decimal)
{
    for (; at < end && is_digit(*at); at++) {
        decimal->digits++;
        bool keeps = decimal->kept < MANTISSA_DIGITS;
        if (keeps) {
            decimal->mantissa = 10 * decimal->mantissa + (uint64_t)(*at - '0');
            decimal->kept += decimal->mantissa != 0;
        }
        decimal->exponent += (keeps ? 0 : 1) - (after_point ? 1 : 0);
    }
    return at;
}

bool train_decimal_parse(const char *at, const char *end, char point, double *value)
{
    bool negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    struct decimal decimal = {0};
    at = read_digits(at, end, false, &decimal);
    if (at < end && *at == point)
        at = read_digits(at + 1, end, true, &decimal);
    if (decimal.digits == 0)
        return false;
    if (at < end && (*at == 'e' || *at == 'E')) {
        bool small = ++at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        if (at == end)
            return false;
        int exponent = 0;
        for (; at < end && is_digit(*at); at++)
            exponent = exponent < EXPONENT_LARGEST ? 10 * exponent + (*at - '0') : exponent;
        decimal.exponent += small ? -exponent : exponent;
    }
    if (at != end)
        return false;
    double found = scale(decimal.mantissa, decimal.exponent);
    *value = found > (double)FLT_MAX ? (double)INFINITY : found;
    if (negative)
        *value = -*value;
    return true;
}
