// The device code of training, in the emulator, compared with the references of the CPU's tests. Products use
// the CPU's code in place of cuBLAS.
#include "kernels_cuda_emulator.h"

#include "kernels/cuda/table.c"
#include "kernels/cuda/train.cu"

#include "kernels_cuda_products.h"

#include "kernels_checks.h"

#include "kernels/cpu/cpu.h"

const struct kernels_select kernels_cuda_select = {0}; // tested by other programs
const struct kernels_values kernels_cuda_values = {0};
const struct kernels_apply kernels_cuda_apply = {0};
const struct kernels_image kernels_cuda_image = {0};
const struct kernels_image kernels_cuda_image_bf16 = {0};
const struct kernels_sequence kernels_cuda_sequence = {0};
const struct kernels_decoder kernels_cuda_decoder = {0};
const struct kernels_vectors kernels_cuda_vectors = {0};

static void optimisers_match_the_scalar_rule(void **state)
{
    static const size_t sizes[] = {1, 257};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (unsigned flags = 0; flags < 8; flags++) {
            const float momentum = flags & 1 ? 0.9f : 0.0f, decay = flags & 2 ? 0.01f : 0.0f;
            checks_sgd_run(*state, sizes[i], momentum, decay, (flags & 4) != 0);
            if ((flags & 1) == 0) {
                checks_adamw_run(*state, sizes[i], decay, (flags & 4) != 0);
                checks_lion_run(*state, sizes[i], decay, (flags & 4) != 0);
            }
        }
    }
}

// More rows than a slab has, and more slabs than that: sums of sums.
static void column_sums_of_many_rows_match(void **state)
{
    static const size_t rows[] = {0, 127, 128, 129, 1000, 128 * 128 + 1};
    const struct kernels *k = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t cols = i == 5 ? 3 : 33;
        struct checks_vector z = checks_gaussian(k, rows[i] * cols, 1.0), sum = checks_gaussian(k, cols, 1.0);
        k->column_sum(rows[i], cols, z.device, sum.device);
        float *found = checks_result(k, &sum);
        for (size_t c = 0; c < cols; c++) {
            double expected = 0.0, magnitude = 0.0;
            for (size_t r = 0; r < rows[i]; r++) {
                expected += (double)z.host[r * cols + c];
                magnitude += fabs((double)z.host[r * cols + c]);
            }
            checks_close("column_sum", rows[i], c, (double)found[c], expected, 40 * EPS * magnitude);
        }
        free(found);
        checks_free(k, &z);
        checks_free(k, &sum);
    }
}

// Numbers next to every kind of number: rounded to nearest, ties to even; infinity and NaN stay.
static void bf16_rounds_to_nearest_even(void **state)
{
    enum { N = 65536 * 4 };
    static uint32_t from[N];
    static uint16_t found[N];
    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        static const uint32_t low[] = {0, 0x7fff, 0x8000, 0x8001};
        from[i] = (i / 4) << 16 | low[i % 4];
    }
    kernels_cuda_to_bf16(N, (const float *)(const void *)from, found);
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t upper = from[i] >> 16, magnitude = from[i] & 0x7fffffffu;
        const bool up = i % 4 == 3 || (i % 4 == 2 && upper % 2 == 1);
        if (magnitude > 0x7f800000u) {
            assert_true((found[i] & 0x7fffu) > 0x7f80u);
        } else {
            assert_int_equal(found[i], upper + (up ? 1 : 0));
        }
    }
}

int main(void)
{
    void *table = (void *)(uintptr_t)&kernels_cuda_table;
    checks_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(checks_bias, table),
        cmocka_unit_test_prestate(checks_relu_keeps_nan, table),
        cmocka_unit_test_prestate(checks_relu_backward, table),
        cmocka_unit_test_prestate(checks_column_sum, table),
        cmocka_unit_test_prestate(column_sums_of_many_rows_match, table),
        cmocka_unit_test_prestate(checks_softmax, table),
        cmocka_unit_test_prestate(checks_softmax_nan, table),
        cmocka_unit_test_prestate(optimisers_match_the_scalar_rule, table),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
    };
    const int failed = cmocka_run_group_tests_name("kernels cuda: training", tests, NULL, NULL);
    emulator_free();
    return failed;
}
