// The device code of attention on tensor cores, in the emulator, compared with its definition.
#include "kernels_cuda_emulator.h"

#include "kernels/cuda/attention_bf16.cu"

#include "kernels_checks_attention.h"

#include "kernels/cpu/cpu.h"

// Around the borders of warps, of tiles of 32 and 64 rows, and of blocks of 128.
static const struct kernels_attention shapes[] = {
    {1, 1, 1, 16},  {2, 15, 3, 16},  {1, 300, 2, 16}, {1, 130, 1, 32}, {2, 1, 1, 64},   {1, 64, 2, 64},
    {2, 65, 1, 64}, {1, 130, 2, 64}, {1, 200, 1, 64}, {1, 65, 1, 96},  {1, 15, 2, 128}, {1, 130, 1, 128}};

static void no_rows_share_banks(void **state)
{
    (void)state;
    assert_int_equal(emulator_conflicts, 0); // of the checks before
}

static const struct {
    const char *name;
    CMUnitTestFunction function;
} checks[] = {CHECKS_ATTENTION_BF16, {"no rows share banks", no_rows_share_banks}};

enum { CHECKS = sizeof checks / sizeof checks[0] };

int main(void)
{
    struct CMUnitTest tests[CHECKS];
    struct attention_checks attention = {&kernels_cpu_scalar,
                                         shapes,
                                         sizeof shapes / sizeof shapes[0],
                                         kernels_cuda_attention_bf16_takes,
                                         kernels_cuda_attention_bf16,
                                         kernels_cuda_attention_backward_bf16};
    checks_seed();
    for (size_t c = 0; c < CHECKS; c++) {
        tests[c] = (struct CMUnitTest){checks[c].name, checks[c].function, NULL, NULL, &attention};
    }
    const int failed = _cmocka_run_group_tests("kernels cuda: attention bf16", tests, CHECKS, NULL, NULL);
    emulator_free();
    return failed;
}
