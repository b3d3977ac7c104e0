// The device code of layers of images in the emulator beside the CPU's plain loops. Products are cuBLAS's:
// here the CPU's stand in for them.
#include "kernels_cuda_emulator.h"

#include "kernels/cuda/conv.cu"
#include "kernels/cuda/group_norm.cu"
#include "kernels/cuda/image.c"
#include "kernels/cuda/pool.cu"
#include "kernels/cuda/train.cu"

#include "kernels_twin_layers.h"

#include "kernels/cpu/cpu.h"

void kernels_cuda_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                       const float *a, const float *b, float beta, float *c)
{
    kernels_cpu_gemm(transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
}

int main(void)
{
    struct kernels other = kernels_cpu_scalar;
    other.image = &kernels_cuda_image;
    struct twins twins = {&kernels_cpu_scalar, &other, NULL};
    checks_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(checks_twin_conv, &twins),
        cmocka_unit_test_prestate(checks_twin_pool, &twins),
        cmocka_unit_test_prestate(checks_twin_shortcut, &twins),
        cmocka_unit_test_prestate(checks_twin_group_norm, &twins),
    };
    const int failed = cmocka_run_group_tests_name("kernels cuda: images", tests, NULL, NULL);
    emulator_free();
    return failed;
}
