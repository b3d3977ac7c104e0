// The CPU tables: every path that this processor has compared with the references, the paths with each other
// bit for bit, and the registry.
#include "kernels_checks.h"

#include "kernels/cpu/cpu.h"

static const char *const path_names[] = {"scalar", "avx2", "avx512"};
static const struct {
    const char *name;
    CMUnitTestFunction function;
} checks[] = {CHECKS_TESTS};

enum { PATHS = 3, CHECKS = sizeof checks / sizeof checks[0] };

static void same_bits(const float *a, const float *b, size_t count)
{
    assert_memory_equal(a, b, count * sizeof *a);
}

// All outputs of all loops for one length, one after another.
static void run_all(const struct kernels *k, size_t rows, size_t cols, uint64_t seed, float *out)
{
    const struct kernels_sgd sgd = {.rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f};
    const struct kernels_adamw adamw = {.rate = 0.01f,
                                        .beta1 = 0.9,
                                        .beta2 = 0.99,
                                        .epsilon = 1e-8f,
                                        .weight_decay = 0.01f,
                                        .correction1 = 0.1f,
                                        .correction2 = 0.01f};
    const size_t n = rows * cols;
    base_rng_seed(&checks_rng, seed);
    struct checks_vector v[6];
    for (size_t i = 0; i < 6; i++) {
        v[i] = checks_gaussian(k, n, i == 5 ? 0.0 : 2.0);
    }
    uint32_t *labels = k->alloc(rows * sizeof *labels);
    struct kernels_loss loss;
    assert_non_null(labels);
    k->bias_add_relu(rows, cols, v[0].device, v[1].device);
    k->relu_backward(n, v[1].device, v[2].device);
    k->column_sum(rows, cols, v[2].device, v[0].device);
    k->sgd_step(n, &sgd, v[2].device, v[3].device, v[4].device, v[1].device);
    k->adamw_step(n, &adamw, v[2].device, v[3].device, v[4].device, v[5].device, v[1].device);
    k->softmax_cross_entropy(rows, cols, v[3].device, labels, 0.5f, &loss);
    for (size_t i = 0; i < 6; i++) {
        float *result = checks_result(k, &v[i]);
        memcpy(out + i * n, result, n * sizeof *out);
        free(result);
        checks_free(k, &v[i]);
    }
    out[6 * n] = (float)loss.loss_sum;
    k->release(labels);
}

static void paths_agree_on(size_t rows, size_t cols, uint64_t seed)
{
    const size_t total = 6 * rows * cols + 1;
    float *expected = calloc(total, sizeof *expected), *found = calloc(total, sizeof *found);
    assert_non_null(expected);
    assert_non_null(found);
    run_all(&kernels_cpu_scalar, rows, cols, seed, expected);
    for (size_t p = 1; p < PATHS; p++) {
        const struct kernels *table = kernels_cpu_table(path_names[p]);
        if (table) {
            run_all(table, rows, cols, seed, found);
            same_bits(found, expected, total);
        }
    }
    free(expected);
    free(found);
}

static void all_paths_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        paths_agree_on(1 + i % 4, checks_sizes[i], i);
    }
    for (size_t rows = 1020; rows < 1040; rows++) {
        paths_agree_on(rows, 2, rows);
    }
}

static void the_cpu_table_opens(void **state)
{
    (void)state;
    const struct kernels *table = NULL;
    struct base_reason why = {{0}};
    assert_int_equal(kernels_open("cpu", 1, &table, &why), BASE_OK);
    assert_string_equal(table->name, "cpu");
    assert_true(table->shares_host);
    printf("%s\n", kernels_describe(table));
    assert_non_null(strstr(kernels_describe(table), "cpu: OpenBLAS"));
    assert_non_null(strstr(kernels_describe(table), ", 1 thread"));
    float *memory = table->alloc(12);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    table->release(memory);
}

static void auto_always_finds_a_table(void **state)
{
    (void)state;
    const struct kernels *table = NULL;
    struct base_reason why;
    assert_int_equal(kernels_open("auto", 1, &table, &why), BASE_OK);
    assert_true(strcmp(table->name, "cpu") == 0 || strcmp(table->name, "cuda") == 0);
}

static void the_cpu_table_has_no_bf16_products(void **state)
{
    (void)state;
    const struct kernels *table = &kernels_cpu_scalar;
    struct base_reason why = {{0}};
    assert_int_equal(kernels_take_bf16(&table, &why), BASE_EINVAL);
    assert_string_equal(why.text,
                        "found bf16, which is for CUDA devices from sm_80 on; 'cpu' computes in fp32 here");
    assert_ptr_equal(table, &kernels_cpu_scalar);
}

static void unknown_backends_and_cpu_paths_are_refused(void **state)
{
    (void)state;
    const struct kernels *table = NULL;
    struct base_reason why = {{0}};
    assert_int_equal(kernels_open("gpu", 1, &table, &why), BASE_EINVAL);
    assert_non_null(strstr(why.text, "'gpu'"));
    assert_int_equal(kernels_open("cpu", 0, &table, &why), BASE_EINVAL);
    assert_int_equal(setenv("P2PML_CPU", "mmx", 1), 0);
    assert_int_equal(kernels_open("cpu", 1, &table, &why), BASE_ENOTFOUND);
    assert_non_null(strstr(why.text, "'mmx'"));
    assert_null(table);
    assert_int_equal(setenv("P2PML_CPU", "scalar", 1), 0);
    assert_int_equal(kernels_open("cpu", 1, &table, &why), BASE_OK);
    assert_ptr_equal(table, &kernels_cpu_scalar);
    assert_int_equal(unsetenv("P2PML_CPU"), 0);
}

// Long ones are stored past the cache, if they lie at a multiple of 16 bytes.
static void check_held(size_t count, size_t from, bool copies)
{
    const struct kernels *k = kernels_cpu_table(NULL);
    const size_t n = count - from;
    float *x = k->alloc(count * sizeof *x), *r = k->alloc(count * sizeof *r),
          *copy = k->alloc(count * sizeof *copy), *held = k->alloc(count * sizeof *held);
    assert_true(x && r && copy && held);
    for (size_t i = 0; i < count; i++) {
        x[i] = (float)(i % 8191) * 0.37f;
        r[i] = (float)(i % 127) * 0.11f;
    }
    k->vectors->hold(n, 0.3f, x + from, r + from, copies ? copy + from : NULL, held + from);
    if (copies)
        same_bits(x + from, copy + from, n);
    for (size_t i = from; i < count; i++)
        assert_true(held[i] == 0.3f * (x[i] - r[i]));
    memcpy(copy + from, x + from, n * sizeof *x);
    assert_true(k->vectors->give_back(n, held + from, x + from));
    for (size_t i = from; i < count; i++)
        assert_true(x[i] == copy[i] + held[i]);
    held[count - 1] = INFINITY;
    assert_false(k->vectors->give_back(n, held + from, x + from));
    k->release(x);
    k->release(r);
    k->release(copy);
    k->release(held);
}

static void a_long_vector_is_held_like_a_short_one(void **state)
{
    (void)state;
    check_held((2u << 20) + 3, 0, true);
    check_held((2u << 20) + 6, 0, false);
    check_held((2u << 20) + 7, 1, true);
    check_held(1003, 0, true);
}

int main(void)
{
    checks_seed();
    enum { OTHERS = 6 };
    static char names[PATHS * CHECKS][64];
    struct CMUnitTest tests[PATHS * CHECKS + OTHERS] = {
        cmocka_unit_test(all_paths_have_the_same_bits),
        cmocka_unit_test(a_long_vector_is_held_like_a_short_one),
        cmocka_unit_test(the_cpu_table_opens),
        cmocka_unit_test(auto_always_finds_a_table),
        cmocka_unit_test(the_cpu_table_has_no_bf16_products),
        cmocka_unit_test(unknown_backends_and_cpu_paths_are_refused)};
    size_t count = OTHERS;
    kernels_cpu_set_threads(1);
    for (size_t p = 0; p < PATHS; p++) {
        const struct kernels *table = kernels_cpu_table(path_names[p]);
        if (!table) {
            printf("path %s is not tested: this processor lacks it\n", path_names[p]);
            continue;
        }
        for (size_t c = 0; c < CHECKS; c++) {
            (void)snprintf(names[count - OTHERS], sizeof names[0], "%s: %s", path_names[p], checks[c].name);
            tests[count] = (struct CMUnitTest){names[count - OTHERS], checks[c].function, NULL, NULL,
                                               (void *)(uintptr_t)table};
            count++;
        }
    }
    return _cmocka_run_group_tests("kernels cpu", tests, count, NULL, NULL);
}
