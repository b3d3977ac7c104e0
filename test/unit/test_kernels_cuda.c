// The CUDA table against the same references as the CPU's, where a device answers.
#include "kernels_checks.h"

int main(void)
{
    static const struct {
        const char *name;
        CMUnitTestFunction function;
    } checks[] = {CHECKS_TESTS};
    enum { CHECKS = sizeof checks / sizeof checks[0], SKIPPED = 77 };
    const struct kernels *table;
    struct base_reason why;
    if (kernels_open("cuda", 1, &table, &why) != BASE_OK) {
        printf("skipped: %s\n", why.text);
        return SKIPPED;
    }
    checks_seed();
    printf("%s\n", kernels_describe(table));
    struct CMUnitTest tests[CHECKS];
    for (size_t c = 0; c < CHECKS; c++) {
        tests[c] =
            (struct CMUnitTest){checks[c].name, checks[c].function, NULL, NULL, (void *)(uintptr_t)table};
    }
    return _cmocka_run_group_tests("kernels cuda", tests, CHECKS, NULL, NULL);
}
