// Chains of filters as users write them, and the messages for wrong ones.
#include "compress/filter.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void the_table_of_filters_is_consistent(void **state)
{
    (void)state;
    size_t n = 0;
    const struct compress_filter *filter;
    for (; (filter = compress_filter_at(n)); n++) {
        assert_non_null(filter->name);
        assert_non_null(filter->number);
        assert_true(filter->least <= filter->most && isfinite(filter->most));
        assert_true((!filter->choose) != (!filter->keep));
        struct compress_filters filters = {0};
        assert_int_equal(compress_filters_add(&filters, filter->name, filter->least, NULL), BASE_OK);
        assert_int_equal(compress_filters_add(&filters, filter->name, filter->most, NULL), BASE_EINVAL);
        assert_int_equal(filters.count, 1);
        assert_ptr_equal(filters.chain[0].filter, filter);
        assert_int_equal(compress_filters_remember(&filters), filter->choose != NULL);
    }
    assert_true(n >= 3);
    assert_null(compress_filter_at(n + 1));
}

static void a_chain_is_parsed(void **state)
{
    (void)state;
    struct compress_filters filters;
    assert_int_equal(compress_filters_parse(" same-keys: 8 ,random-skip:.125,\tsignificantly-modified:0.001 ",
                                            &filters, NULL),
                     BASE_OK);
    assert_int_equal(filters.count, 3);
    assert_string_equal(filters.chain[0].filter->name, "same-keys");
    assert_string_equal(filters.chain[1].filter->name, "random-skip");
    assert_string_equal(filters.chain[2].filter->name, "significantly-modified");
    assert_true(filters.chain[0].number == 8 && filters.chain[1].number == 0.125 &&
                filters.chain[2].number == 0.001);
    assert_int_equal(compress_filters_parse("", &filters, NULL), BASE_OK);
    assert_int_equal(filters.count, 0);
}

static void assert_refused(const char *text, enum base_error code, const char *reason)
{
    struct compress_filters filters = {0}, before;
    struct base_reason why = {""};
    assert_int_equal(compress_filters_add(&filters, "same-keys", 3, NULL), BASE_OK);
    before = filters;
    assert_int_equal(compress_filters_parse(text, &filters, &why), code);
    assert_memory_equal(&filters, &before, sizeof filters);
    assert_string_equal(why.text, reason);
}

static void mistakes_are_explained(void **state)
{
    (void)state;
    assert_refused("random-skip", BASE_EINVAL,
                   "found \"random-skip\", expected filter:number, like random-skip:0.1");
    assert_refused("random-skip:0.1, :3", BASE_EINVAL,
                   "found \":3\", expected filter:number, like random-skip:0.1");
    assert_refused(
        "random-skip:1", BASE_EINVAL,
        "filter random-skip: found 1, expected a number from 0 to 0.99: part of the entries that is "
        "dropped");
    assert_refused(
        "same-keys:2.5", BASE_EINVAL,
        "filter same-keys: found 2.5, expected a whole number from 0 to 1000: exchanges that use a "
        "list of indices again");
    assert_refused("random-skip:0.1,random-skip:0.2", BASE_EINVAL,
                   "filter random-skip is named twice; name it once");
    assert_refused("random-skip:0.1,", BASE_EINVAL,
                   "the list of filters ends in a comma; expected another filter");
}

// The table may grow, so the names come from it.
static void an_unknown_name_is_answered_with_the_known_ones(void **state)
{
    (void)state;
    static const char begin[] = "there is no filter \"same-key\"; expected one of: ";
    struct compress_filters filters;
    struct base_reason why;
    assert_int_equal(compress_filters_parse("same-key:3", &filters, &why), BASE_ENOTFOUND);
    assert_memory_equal(why.text, begin, strlen(begin));
    const struct compress_filter *filter;
    for (size_t i = 0; (filter = compress_filter_at(i)); i++)
        assert_non_null(strstr(why.text, filter->name));
}

static void numbers_are_decimal(void **state)
{
    (void)state;
    static const char *const broken[] = {"-0.1",
                                         "1e-3",
                                         "0x1",
                                         "nan",
                                         "inf",
                                         "0..1",
                                         ".",
                                         "",
                                         "0 1",
                                         "0.1f",
                                         "+1",
                                         "0,1",
                                         "0.0000000000000001"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char text[64];
        struct base_reason why;
        struct compress_filters filters = {0};
        snprintf(text, sizeof text, "random-skip:%s", broken[i]);
        if (compress_filters_parse(text, &filters, &why) != BASE_EINVAL)
            fail_msg("%s was read", text);
        assert_int_equal(filters.count, 0);
    }
    struct compress_filters filters = {0};
    assert_int_equal(compress_filters_add(&filters, "random-skip", NAN, NULL), BASE_EINVAL);
    assert_int_equal(compress_filters_add(&filters, "random-skip", -0.001, NULL), BASE_EINVAL);
    assert_int_equal(compress_filters_add(&filters, "same-keys", 1e300, NULL), BASE_EINVAL);
}

static void long_names_are_cut(void **state)
{
    (void)state;
    char text[400];
    struct base_reason why;
    struct compress_filters filters;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_int_equal(compress_filters_parse(text, &filters, &why), BASE_EINVAL);
    memcpy(text + 300, ":1", 3);
    assert_int_equal(compress_filters_parse(text, &filters, &why), BASE_EINVAL);
    memcpy(text + 64, ":1", 3);
    assert_int_equal(compress_filters_parse(text, &filters, &why), BASE_ENOTFOUND);
}

static void a_chain_has_a_limit(void **state)
{
    (void)state;
    static const struct compress_filter mine = {.name = "mine"};
    struct compress_filters filters = {.count = LIMIT_FILTERS};
    struct base_reason why;
    for (size_t i = 0; i < LIMIT_FILTERS; i++)
        filters.chain[i].filter = &mine;
    assert_int_equal(compress_filters_add(&filters, "same-keys", 1, &why), BASE_ELIMIT);
    assert_int_equal(filters.count, LIMIT_FILTERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_of_filters_is_consistent),
        cmocka_unit_test(a_chain_is_parsed),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(an_unknown_name_is_answered_with_the_known_ones),
        cmocka_unit_test(numbers_are_decimal),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(a_chain_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
