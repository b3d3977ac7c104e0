// The CUDA table on a device: training compared with the same references as the CPU's, layers of images and
// decoders compared with the CPU's plain loops, and the functions of an exchange compared with them bit for
// bit. Without a device it is skipped; the device code then runs in an emulator (test_kernels_cuda_selection,
// _values, _apply, _vectors, _training, _image, _sequence).
#include "kernels_checks_sequence.h"
#include "kernels_twin_exchange.h"
#include "kernels_twin_layers.h"
#include "kernels_twin_select.h"
#include "kernels_twin_vectors.h"

#include "kernels/cpu/cpu.h"

static const struct {
    const char *name;
    CMUnitTestFunction function;
} checks[] = {CHECKS_TESTS, {"gemm bf16", checks_gemm_bf16}, CHECKS_SEQUENCE},
  twin_checks[] = {{"selection", checks_twin_select},
                   {"selection of an empty vector", checks_twin_select_empty},
                   {"values", checks_twin_values},
                   {"16 bits", checks_twin_halves},
                   {"exchange", checks_twin_exchange},
                   {"hash", checks_twin_hash},
                   {"vectors", checks_twin_vectors},
                   {"vectors, NaN", checks_twin_vectors_nan},
                   {"vectors, bound", checks_twin_vectors_bound},
                   CHECKS_TWIN_IMAGE,
                   CHECKS_TWIN_SEQUENCE};

enum {
    CHECKS = sizeof checks / sizeof checks[0],
    TWINS = sizeof twin_checks / sizeof twin_checks[0],
    SKIPPED = 77
};

int main(void)
{
    // Around the borders of warps, blocks and tiles; the last size has more tiles than a device runs blocks
    // at once.
    static const size_t sizes[] = {1,   2,   3,    5,    15,   16,   31,   32,    33,     255,     256, 257,
                                   511, 512, 1023, 1025, 4095, 4096, 4097, 16384, 100003, 5000011, 0};
    const struct kernels *table;
    struct base_reason why;
    if (kernels_open("cuda", 1, &table, &why) != BASE_OK) {
        printf("skipped: %s\n", why.text);
        return SKIPPED;
    }
    checks_seed();
    printf("%s\n", kernels_describe(table));
    struct twins twins = {&kernels_cpu_scalar, table, sizes},
                 bf16 = {&kernels_cpu_scalar, table->bf16, sizes};
    struct CMUnitTest tests[CHECKS + TWINS + 1] = {
        [CHECKS + TWINS] = {"conv bf16", checks_twin_conv_few, NULL, NULL, &bf16}};
    for (size_t c = 0; c < CHECKS; c++) {
        tests[c] =
            (struct CMUnitTest){checks[c].name, checks[c].function, NULL, NULL, (void *)(uintptr_t)table};
    }
    for (size_t c = 0; c < TWINS; c++) {
        tests[CHECKS + c] =
            (struct CMUnitTest){twin_checks[c].name, twin_checks[c].function, NULL, NULL, &twins};
    }
    return _cmocka_run_group_tests("kernels cuda", tests, CHECKS + TWINS + 1, NULL, NULL);
}
