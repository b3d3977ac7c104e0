// The CUDA table on a device: training compared with the same references as the CPU's, layers of images and
// decoders compared with the CPU's plain loops, and the functions of an exchange compared with them bit for
// bit. Without a device it is skipped; the device code then runs in an emulator (test_kernels_cuda_selection,
// _values, _apply, _vectors, _training, _image, _sequence).
#include "kernels_checks_decoder.h"
#include "kernels_twin_exchange.h"
#include "kernels_twin_layers.h"
#include "kernels_twin_select.h"
#include "kernels_twin_vectors.h"

#include "kernels/cpu/cpu.h"

struct check {
    const char *name;
    CMUnitTestFunction function;
};

static const struct check checks[] = {CHECKS_TESTS, CHECKS_SEQUENCE}, decoder_checks[] = {CHECKS_DECODER},
                          selection_checks[] = {{"selection", checks_twin_select},
                                                {"selection of an empty vector", checks_twin_select_empty},
                                                {"hash", checks_twin_hash},
                                                {"vectors", checks_twin_vectors},
                                                {"vectors, NaN", checks_twin_vectors_nan},
                                                {"vectors, bound", checks_twin_vectors_bound}},
                          exchange_checks[] = {{"values", checks_twin_values},
                                               {"16 bits", checks_twin_halves},
                                               {"exchange", checks_twin_exchange},
                                               CHECKS_TWIN_IMAGE,
                                               CHECKS_TWIN_SEQUENCE},
                          bf16_checks[] = {{"conv bf16", checks_twin_conv_few}},
                          product_checks[] = {{"gemm bf16", checks_gemm_bf16}};

enum { TESTS = 100, SKIPPED = 77 };

static struct CMUnitTest tests[TESTS];
static size_t n_tests;

static void add(const struct check *list, size_t count, const void *state)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(n_tests < TESTS);
        tests[n_tests++] =
            (struct CMUnitTest){list[i].name, list[i].function, NULL, NULL, (void *)(uintptr_t)state};
    }
}
#define ADD(list, state) add(list, sizeof(list) / sizeof(list)[0], state)

// test_kernels_cuda [PATTERN]: only the tests whose names match it ("decoder*").
int main(int argc, char **argv)
{
    // Around the borders of warps, blocks and tiles; the last size of a selection has more tiles than a
    // device runs blocks at once.
#define BORDERS 1, 2, 3, 5, 15, 16, 31, 32, 33, 255, 256, 257, 511, 512, 1023, 1025, 4095, 4096, 4097, 16384
    static const size_t sizes[] = {BORDERS, 100003, 5000011, 0}, fewer[] = {BORDERS, 100003, 0};
    const struct kernels *table;
    struct base_reason why;
    if (kernels_open("cuda", 1, &table, &why)) {
        printf("skipped: %s\n", why.text);
        return SKIPPED;
    }
    checks_seed();
    printf("%s\n", kernels_describe(table));
    (void)setvbuf(stdout, NULL, _IOLBF, 0); // a test that hangs is known
    const struct twins twins = {&kernels_cpu_scalar, table, sizes},
                       small = {&kernels_cpu_scalar, table, fewer},
                       bf16 = {&kernels_cpu_scalar, table->bf16, fewer};
    if (table->bf16) {
        ADD(decoder_checks, table->bf16);
        ADD(bf16_checks, &bf16);
        ADD(product_checks, table);
    }
    ADD(decoder_checks, table);
    ADD(checks, table);
    ADD(exchange_checks, &small);
    ADD(selection_checks, &twins);
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return _cmocka_run_group_tests("kernels cuda", tests, n_tests, NULL, NULL);
}
