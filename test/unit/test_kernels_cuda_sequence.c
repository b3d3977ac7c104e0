// The device code of decoders, in the emulator: compared with the references of the CPU's tests, and, at
// sizes too large for those, with the CPU's plain loops.
#include "kernels_cuda_emulator.h"

#include "kernels/cuda/attention.cu"
#include "kernels/cuda/layernorm.cu"
#include "kernels/cuda/sequence.c"
#include "kernels/cuda/sequence.cu"
#include "kernels/cuda/train.cu"

#include "kernels_checks_sequence.h"
#include "kernels_twin_layers.h"

#include "kernels/cpu/cpu.h"

static const struct {
    const char *name;
    CMUnitTestFunction function;
} checks[] = {CHECKS_SEQUENCE}, twin_checks[] = {CHECKS_TWIN_SEQUENCE};

enum { CHECKS = COUNT(checks), TWINS = COUNT(twin_checks) };

int main(void)
{
    static struct kernels other;
    struct CMUnitTest tests[CHECKS + TWINS];
    other = kernels_cpu_scalar;
    other.sequence = &kernels_cuda_sequence;
    struct twins twins = {&kernels_cpu_scalar, &other, NULL};
    checks_seed();
    for (size_t c = 0; c < CHECKS; c++) {
        tests[c] = (struct CMUnitTest){checks[c].name, checks[c].function, NULL, NULL, &other};
    }
    for (size_t c = 0; c < TWINS; c++) {
        tests[CHECKS + c] =
            (struct CMUnitTest){twin_checks[c].name, twin_checks[c].function, NULL, NULL, &twins};
    }
    const int failed = _cmocka_run_group_tests("kernels cuda: sequences", tests, CHECKS + TWINS, NULL, NULL);
    emulator_free();
    return failed;
}
