// Embedding, LayerNorm, GELU, attention and dropout: each path compared with a plain reference in double,
// each gradient with central differences of that reference, and the paths with each other bit for bit.
#include "kernels_checks_sequence.h"

#include "kernels/cpu/cpu.h"

static const char *const path_names[] = {"scalar", "avx2", "avx512"};
enum { PATHS = 3 };

// --- the paths ---

// Functions without products have the same bits on all paths.
static void run_all(const struct kernels *k, size_t rows, size_t cols, uint64_t seed, float *out)
{
    base_rng_seed(&checks_rng, seed);
    struct norm_vectors v = norm_make(k, rows, cols);
    k->sequence->layernorm(rows, cols, v.x.device, v.gain.device, v.bias.device, v.out.device, v.mean.device,
                           v.inverse.device);
    norm_backward(k, &v, &(struct kernels_norm){rows, cols, false}, v.grad_x.device);
    k->sequence->bias_gelu(rows, cols, v.bias.device, v.x.device, v.out.device);
    k->sequence->gelu_backward(rows * cols, v.x.device, v.grad.device);
    k->sequence->dropout(rows * cols, seed, 0.3f, v.grad.device, v.grad.device);
    struct checks_vector *all[] = {&v.x, &v.grad, &v.out, &v.grad_x};
    for (size_t i = 0; i < COUNT(all); i++) {
        float *values = checks_result(k, all[i]);
        memcpy(out + i * rows * cols, values, rows * cols * sizeof *out);
        free(values);
    }
    norm_free(k, &v);
}

static void all_paths_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        const size_t rows = 1 + i % 4, cols = checks_sizes[i], total = 4 * rows * cols;
        float *expected = calloc(total, sizeof *expected), *found = calloc(total, sizeof *found);
        assert_non_null(expected);
        assert_non_null(found);
        run_all(&kernels_cpu_scalar, rows, cols, i, expected);
        for (size_t p = 1; p < PATHS; p++) {
            const struct kernels *table = kernels_cpu_table(path_names[p]);
            if (table) {
                run_all(table, rows, cols, i, found);
                assert_memory_equal(found, expected, total * sizeof *found);
            }
        }
        free(expected);
        free(found);
    }
}

static const struct {
    const char *name;
    CMUnitTestFunction function;
} checks[] = {CHECKS_SEQUENCE};

int main(void)
{
    static char names[PATHS * COUNT(checks)][64];
    struct CMUnitTest tests[PATHS * COUNT(checks) + 1] = {cmocka_unit_test(all_paths_have_the_same_bits)};
    size_t count = 1;
    checks_seed();
    kernels_cpu_set_threads(1);
    for (size_t p = 0; p < PATHS; p++) {
        const struct kernels *table = kernels_cpu_table(path_names[p]);
        if (!table) {
            printf("path %s is not tested: this processor lacks it\n", path_names[p]);
            continue;
        }
        for (size_t c = 0; c < COUNT(checks); c++, count++) {
            (void)snprintf(names[count - 1], sizeof names[0], "%s: %s", path_names[p], checks[c].name);
            tests[count] = (struct CMUnitTest){names[count - 1], checks[c].function, NULL, NULL,
                                               (void *)(uintptr_t)table};
        }
    }
    return _cmocka_run_group_tests("kernels sequence", tests, count, NULL, NULL);
}
