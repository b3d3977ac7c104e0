// How fast the built-in digits are drawn, on one thread.
#include "test/support/bench.h"
#include "train/dataset.h"

#include <stdio.h>

#define EXAMPLES 4000u
#define REPEATS  5

int main(void)
{
    double best_s = 1e9;
    for (uint64_t i = 0; i < REPEATS; i++) {
        struct train_dataset data;
        struct base_reason why;
        double start_s = bench_now_s();
        if (train_dataset_make_digits(i, 0, EXAMPLES, &data, &why)) {
            fprintf(stderr, "%s\n", why.text);
            return 1;
        }
        double took_s = bench_now_s() - start_s;
        best_s = took_s < best_s ? took_s : best_s;
        train_dataset_destroy(&data);
    }
    printf("digits: %.0f examples per second, %.1f us each (best of %d times %u)\n", EXAMPLES / best_s,
           best_s / EXAMPLES * 1e6, REPEATS, EXAMPLES);
    return 0;
}
