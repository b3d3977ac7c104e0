// Names of value formats.
#include "compress/compress.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_name_is_its_own_format(void **state)
{
    (void)state;
    struct base_reason why = {{0}};
    for (unsigned i = 0; i < KERNELS_FORMATS; i++) {
        enum kernels_format format = (enum kernels_format)(KERNELS_FORMATS - 1 - i);
        assert_int_equal(compress_format_parse(compress_format_name((enum kernels_format)i), &format, &why),
                         BASE_OK);
        assert_int_equal(format, i);
    }
    assert_string_equal(compress_format_name(KERNELS_INT2), "int2");
}

static void an_unknown_name_is_told_the_known_ones(void **state)
{
    (void)state;
    struct base_reason why = {{0}};
    enum kernels_format format = KERNELS_BF16;
    static const char *const unknown[] = {"", "FP16", "int", "int88", "sign "};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        why.text[0] = '\0';
        assert_int_equal(compress_format_parse(unknown[i], &format, &why), BASE_EINVAL);
        assert_int_equal(format, KERNELS_BF16);
        for (unsigned known = 0; known < KERNELS_FORMATS; known++)
            assert_non_null(strstr(why.text, compress_format_name((enum kernels_format)known)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_its_own_format),
        cmocka_unit_test(an_unknown_name_is_told_the_known_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
