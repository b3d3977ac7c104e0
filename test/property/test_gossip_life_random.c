// Any events in any order: the life itself asserts its transitions, and life_any the other invariants.
#include "base/rng.h"
#include "test/support/life_any.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RUNS = 20000, BYTES_MAX = 1200 };

static uint64_t now_at;

static void say_seed(int signal)
{
    (void)signal;
    fprintf(stderr, "replay: P2PML_SEED=%llu\n", (unsigned long long)now_at);
}

static void any_events_in_any_order_keep_the_invariants(void **state)
{
    const char *given = getenv("P2PML_SEED");
    const uint64_t first = given ? strtoull(given, NULL, 10) : 1;
    unsigned states = 0;
    uint8_t bytes[BYTES_MAX];

    (void)state;
    for (uint64_t seed = first; seed < first + (given ? 1 : RUNS); seed++) {
        struct base_rng rng;
        base_rng_seed_stream(&rng, seed, 0);
        const size_t count = 20 + base_rng_below(&rng, BYTES_MAX - 20);
        for (size_t i = 0; i < count; i++)
            bytes[i] = (uint8_t)base_rng_below(&rng, 256);
        now_at = seed;
        states |= life_any_run(bytes, count);
    }
    assert_int_equal(states & 0x7f, 0x7f); // all states from joining to stopping have occurred
}

int main(void)
{
    signal(SIGABRT, say_seed);
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_events_in_any_order_keep_the_invariants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
