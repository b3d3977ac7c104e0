// The device code of the value formats, in the emulator, compared with the CPU's plain loops.
#include "kernels_cuda_emulator.h"

#include "kernels/cuda/values.c"
#include "kernels/cuda/values.cu"
#include "kernels/cuda/values_read.cu"

#include "kernels_twin_exchange.h"

#include "kernels/cpu/cpu.h"

int main(void)
{
    static const size_t sizes[] = {1, 2, 3, 5, 8, 31, 33, 255, 256, 257, 511, 2048, 2051, 0};
    struct kernels other = kernels_cpu_scalar;
    other.values = &kernels_cuda_values;
    struct twins twins = {&kernels_cpu_scalar, &other, sizes};
    checks_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(checks_twin_values, &twins),
        cmocka_unit_test_prestate(checks_twin_halves, &twins),
    };
    const int failed = cmocka_run_group_tests_name("kernels cuda: values", tests, NULL, NULL);
    emulator_free();
    return failed;
}
