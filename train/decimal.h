// Parses numbers in text files, with the same result on every machine. Private to train/. Pure; any thread.
#ifndef TRAIN_DECIMAL_H
#define TRAIN_DECIMAL_H

#include <stdbool.h>

// [+-]digits[.digits][e[+-]digits], with a digit before or after the point, from `at` to `end`; `point` is
// the character between whole and fraction. No locale, no "nan", "inf" or hexadecimal. Within two units in
// the last place of a double, and the same bits on every machine. Beyond the range of a 32-bit float it is
// infinity. False: not a number.
bool train_decimal_parse(const char *at, const char *end, char point, double *value);

#endif
