// The device code for whole vectors, in the emulator, compared with the CPU's plain loops.
#include "kernels_cuda_emulator.h"

#include "kernels/cuda/apply.c" // whether a vector is finite
#include "kernels/cuda/apply.cu"
#include "kernels/cuda/select.cu" // the reduction
#include "kernels/cuda/vectors.c"
#include "kernels/cuda/vectors.cu"

#include "kernels_twin_vectors.h"

#include "kernels/cpu/cpu.h"

int main(void)
{
    static const size_t sizes[] = {1, 2, 31, 33, 255, 257, 1000, 5000, 0};
    struct kernels other = kernels_cpu_scalar;
    other.vectors = &kernels_cuda_vectors;
    struct twins twins = {&kernels_cpu_scalar, &other, sizes};
    checks_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(checks_twin_vectors, &twins),
        cmocka_unit_test_prestate(checks_twin_vectors_nan, &twins),
        cmocka_unit_test_prestate(checks_twin_vectors_bound, &twins),
    };
    const int failed = cmocka_run_group_tests_name("kernels cuda: vectors", tests, NULL, NULL);
    emulator_free();
    return failed;
}
