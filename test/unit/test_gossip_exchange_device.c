// An exchange in the memory of a GPU beside one over the CPU's table, bit for bit. Without a device it is
// skipped, with the reason; test_gossip_exchange_cuda then runs the device code in an emulator.
#include "test/support/exchange_ends.h"

enum { SKIPPED = 77 };

static const struct kernels *device;

static void both_ends_have_the_same_bits(void **state)
{
    (void)state;
    static const struct ends_case cases[] = {
        {.name = "int8, sync", .parameters = 300001, .ratio = 0.03f, .values = KERNELS_INT8, .stays = true},
        {.name = "moments, async",
         .parameters = 100003,
         .ratio = 0.1f,
         .values = KERNELS_INT4,
         .moments = 3,
         .async = true},
        {.name = "clipped", .parameters = 6000, .ratio = 0.2f, .values = KERNELS_FP16, .clip = true},
        {.name = "several windows", .parameters = 400009, .ratio = 0.6f, .values = KERNELS_INT8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ends_compare(&cases[i], device);
}

int main(void)
{
    struct base_reason why;
    (void)cpu_kernels();
    if (kernels_open("cuda", 1, &device, &why)) {
        printf("skipped: %s\n", why.text);
        return SKIPPED;
    }
    printf("%s\n", kernels_describe(device));
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_ends_have_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
