// Parses numbers in text files, with the same result on every machine. Private to train/. Pure; any thread.
#ifndef TRAIN_DECIMAL_H
#define TRAIN_DECIMAL_H

#include <stdbool.h>

// [+-]digits[.digits][e[+-]digits], with a digit before or after the point, from `at` to `end`. No locale, no
// "nan", "inf" or hexadecimal. Within one unit in the last place of a float, and the same bits on every
// machine. Overflow is infinity. False: not a number.
bool train_decimal_parse(const char *at, const char *end, float *value);

#endif
