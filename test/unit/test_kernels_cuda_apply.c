// The device code for the end of an exchange, in the emulator, compared with the CPU's plain loops.
#include "kernels_cuda_emulator.h"

#include "kernels/cuda/apply.c"
#include "kernels/cuda/apply.cu"

#include "kernels_twin_exchange.h"

#include "kernels/cpu/cpu.h"

int main(void)
{
    static const size_t sizes[] = {1, 2, 31, 33, 255, 257, 1000, 5000, 0};
    struct kernels other = kernels_cpu_scalar;
    other.apply = &kernels_cuda_apply;
    struct twins twins = {&kernels_cpu_scalar, &other, sizes};
    checks_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(checks_twin_exchange, &twins),
        cmocka_unit_test_prestate(checks_twin_hash, &twins),
    };
    const int failed = cmocka_run_group_tests_name("kernels cuda: apply", tests, NULL, NULL);
    emulator_free();
    return failed;
}
