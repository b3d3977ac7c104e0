// An exchange over the device code of kernels/cuda in the emulator: selection, values, the end of an exchange
// and whole vectors as the product calls them, beside the CPU's.
#include "kernels_cuda_emulator.h"

#include "kernels/cuda/apply.c"
#include "kernels/cuda/apply.cu"
#include "kernels/cuda/gather.cu"
#include "kernels/cuda/select.c"
#include "kernels/cuda/select.cu"
#include "kernels/cuda/values.c"
#include "kernels/cuda/values.cu"
#include "kernels/cuda/values_read.cu"
#include "kernels/cuda/vectors.c"
#include "kernels/cuda/vectors.cu"

#include "test/support/exchange_ends.h"

static void both_ends_have_the_same_bits(void **state)
{
    (void)state;
    static const struct ends_case cases[] = {
        {.name = "int8, sync", .parameters = 4500, .ratio = 0.03f, .values = KERNELS_INT8, .stays = true},
        {.name = "moments, async",
         .parameters = 2100,
         .ratio = 0.1f,
         .values = KERNELS_INT4,
         .moments = 3,
         .async = true},
        {.name = "clipped", .parameters = 600, .ratio = 0.2f, .values = KERNELS_FP16, .clip = true},
        {.name = "threshold",
         .parameters = 1200,
         .ratio = 0.2f,
         .values = KERNELS_SIGN,
         .method = COMPRESS_THRESHOLD,
         .filters = "random-skip:0.2"}};
    struct kernels device = *cpu_kernels();
    device.name = "emulated";
    device.shares_host = false;
    device.alloc = kernels_cuda_alloc;
    device.release = kernels_cuda_release;
    device.upload = kernels_cuda_upload;
    device.download = kernels_cuda_download;
    device.host = cpu_kernels();
    device.select = &kernels_cuda_select;
    device.values = &kernels_cuda_values;
    device.apply = &kernels_cuda_apply;
    device.vectors = &kernels_cuda_vectors;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ends_compare(&cases[i], &device);
    emulator_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_ends_have_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
