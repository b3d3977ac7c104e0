// When the models of the nodes count as staying apart: never in a training that comes together, once in one
// that does not.
#include "node/learn/distance.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { WINDOW = NODE_DISTANCE_WINDOW };

// Windows with these means, the two halves of a window above and below it.
static struct node_distance after(const double *means, size_t windows)
{
    struct node_distance distance = {0};

    for (size_t i = 0; i < windows * WINDOW; i++)
        node_distance_note(&distance, i + 1, means[i / WINDOW] * (i % 2 ? 1.3 : 0.7));
    return distance;
}

static void models_that_come_together_are_fine(void **state)
{
    // Softmax, AdamW, 8 nodes, 1/32, every 4 steps: 79.3% the worst, 84 the central one.
    static const double falls[] = {0.44, 0.37, 0.29, 0.21, 0.17, 0.14, 0.12, 0.10, 0.09, 0.08, 0.07, 0.06};
    static const double small[] = {0.02, 0.05, 0.11, 0.12, 0.12, 0.12, 0.13, 0.14, 0.14, 0.14, 0.14, 0.14};

    (void)state;
    assert_true(after(falls, 12).stays == 0);
    assert_true(after(small, 12).stays == 0);
}

static void models_that_stay_apart_are_noticed_once(void **state)
{
    // The same with 1/400, every 8 steps: 11.0%.
    static const double stay[] = {0.58, 0.70, 0.77, 0.79, 0.79, 0.78, 0.77, 0.76};

    (void)state;
    assert_true(after(stay, 4).stays == 0);
    assert_true(fabs(after(stay, 5).stays - 0.79) < 1e-6); // four windows after the first one
    assert_true(fabs(after(stay, 8).stays - 0.79) < 1e-6);
}

static void a_window_that_falls_begins_the_count_again(void **state)
{
    static const double falls[] = {0.5, 0.5, 0.5, 0.5, 0.4, 0.4, 0.4, 0.4};

    (void)state;
    assert_true(after(falls, 8).stays == 0);
}

static void an_exchange_counts_once(void **state)
{
    struct node_distance distance = {0};

    (void)state;
    for (int i = 0; i < 20 * WINDOW; i++)
        node_distance_note(&distance, 1, 0.5); // rounds without another exchange
    for (uint64_t i = 2; i < 20 * WINDOW; i++)
        node_distance_note(&distance, i, (double)NAN);
    assert_true(distance.noted == 1 && distance.stays == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_that_come_together_are_fine),
        cmocka_unit_test(models_that_stay_apart_are_noticed_once),
        cmocka_unit_test(a_window_that_falls_begins_the_count_again),
        cmocka_unit_test(an_exchange_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
