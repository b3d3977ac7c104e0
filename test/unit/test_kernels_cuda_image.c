// The device code of layers of images, in the emulator, compared with the CPU's plain loops. Products use the
// CPU's code in place of cuBLAS.
#include "kernels_cuda_emulator.h"

#include "kernels/cuda/conv.cu"
#include "kernels/cuda/group_norm.cu"
#include "kernels/cuda/image.c"
#include "kernels/cuda/pool.cu"
#include "kernels/cuda/train.cu"

#include "kernels_cuda_products.h"

#include "kernels_twin_layers.h"

#include "kernels/cpu/cpu.h"

int main(void)
{
    struct kernels other = kernels_cpu_scalar;
    other.image = &kernels_cuda_image;
    struct kernels bf16 = kernels_cpu_scalar;
    bf16.image = &kernels_cuda_image_bf16;
    struct twins twins = {&kernels_cpu_scalar, &other, NULL}, twins_bf16 = {&kernels_cpu_scalar, &bf16, NULL};
    checks_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(checks_twin_conv, &twins),
        cmocka_unit_test_prestate(checks_twin_conv_few, &twins_bf16),
        cmocka_unit_test_prestate(checks_twin_pool, &twins),
        cmocka_unit_test_prestate(checks_twin_shortcut, &twins),
        cmocka_unit_test_prestate(checks_twin_group_norm, &twins),
    };
    const int failed = cmocka_run_group_tests_name("kernels cuda: images", tests, NULL, NULL);
    emulator_free();
    return failed;
}
