// Sends events decoded from bytes, in any order, to a node's life, and asserts its invariants. For the
// property test and the fuzzer.
#ifndef TEST_SUPPORT_LIFE_ANY_H
#define TEST_SUPPORT_LIFE_ANY_H

#include <stddef.h>
#include <stdint.h>

// Returns the states that the life has been in, as bits.
unsigned life_any_run(const uint8_t *bytes, size_t count);

#endif
