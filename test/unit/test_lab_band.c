// The mean over seeds and its confidence interval.
#include "lab/record/band.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_interval_is_that_of_students_t(void **state)
{
    // 97.5% quantiles from tables. The values alternate between 0 and 1, so the deviation is known.
    static const struct {
        size_t n;
        double t;
    } known[] = {{2, 12.706}, {3, 4.303},  {5, 2.776},  {11, 2.228},
                 {12, 2.201}, {21, 2.086}, {31, 2.042}, {121, 1.980}};
    double values[128];
    (void)state;
    for (size_t i = 0; i < 128; i++)
        values[i] = (double)(i % 2);
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        const double n = (double)known[k].n, ones = floor(n / 2), mean = ones / n;
        const double variance = (ones * (1 - mean) * (1 - mean) + (n - ones) * mean * mean) / (n - 1);
        const struct lab_band band = lab_band_of(values, known[k].n);
        assert_true(fabs(band.mean - mean) < 1e-12);
        assert_true(fabs(band.half / sqrt(variance / n) - known[k].t) < 0.001);
    }
}

static void a_missing_value_is_left_out(void **state)
{
    const double values[] = {NAN, 4, INFINITY, 6};
    (void)state;
    const struct lab_band band = lab_band_of(values, 4);
    assert_true(band.seen == 2 && band.mean == 5 && band.low == 4 && band.high == 6);
    const struct lab_band one = lab_band_of(values, 2), none = lab_band_of(values, 1);
    assert_true(one.seen == 1 && one.mean == 4 && isnan(one.half));
    assert_true(none.seen == 0 && isnan(none.mean) && isnan(none.half));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_is_that_of_students_t),
        cmocka_unit_test(a_missing_value_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
