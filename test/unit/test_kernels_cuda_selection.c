// The device code of selection, in the emulator, compared with the CPU's plain loops.
#include "kernels_cuda_emulator.h"

#include "kernels/cuda/gather.cu"
#include "kernels/cuda/select.c"
#include "kernels/cuda/select.cu"

#include "kernels_twin_select.h"

#include "kernels/cpu/cpu.h"

int main(void)
{
    static const size_t sizes[] = {1, 16, 33, 513, 4096, 4097, 12291, 0}; // a tile is 4096
    struct kernels other = kernels_cpu_scalar;
    other.select = &kernels_cuda_select;
    struct twins twins = {&kernels_cpu_scalar, &other, sizes};
    checks_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(checks_twin_select, &twins),
        cmocka_unit_test_prestate(checks_twin_select_empty, &twins),
    };
    const int failed = cmocka_run_group_tests_name("kernels cuda: selection", tests, NULL, NULL);
    emulator_free();
    return failed;
}
