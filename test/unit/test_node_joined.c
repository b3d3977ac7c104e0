// The settings that a node took from the cluster: the latest of each key, in a file that does not grow.
#include "node/store/joined.h"
#include "test/support/temporary.h"

static char directory[TEMPORARY_BYTES];

static char *kept(void)
{
    struct base_reason why;
    char *text;
    assert_int_equal(node_joined_read(directory, &text, &why), BASE_OK);
    return text;
}

static void keep(const char *reason, const char *lines)
{
    struct base_reason why;
    char *earlier = kept();
    assert_int_equal(node_joined_write(directory, reason, lines, earlier, &why), BASE_OK);
    free(earlier);
}

static void expect(const char *text)
{
    char *found = kept();
    assert_non_null(found);
    assert_string_equal(found, text);
    free(found);
}

static void the_latest_of_each_key_counts(void **state)
{
    (void)state;
    temporary_make(directory, "joined");
    assert_null(kept());
    keep("from a", "train.steps=4\ntrain.rate=0.1\n");
    expect("# from a\ntrain.steps=4\ntrain.rate=0.1\n");
    keep("from b", "train.steps=40\n");
    expect("# from b\ntrain.steps=40\n# from a\ntrain.rate=0.1\n");
    keep("from c", "train.step=1\ntrain.rate=0.2\n"); // the beginning of a key is another key
    expect("# from c\ntrain.step=1\ntrain.rate=0.2\n# from b\ntrain.steps=40\n");
    temporary_remove(directory);
}

static void settings_taken_repeatedly_do_not_grow_the_file(void **state)
{
    (void)state;
    char reason[600], lines[64];
    temporary_make(directory, "joined");
    memset(reason, 'x', sizeof reason - 1);
    reason[sizeof reason - 1] = 0;
    for (int i = 0; i < 300; i++) { // the longest file that is read has 64 KiB
        snprintf(lines, sizeof lines, "average.every=%d\ntrain.steps=%d\n", i, i);
        keep(reason, lines);
    }
    char *text = kept();
    assert_true(strlen(text) < 500);
    assert_non_null(strstr(text, "\naverage.every=299\ntrain.steps=299\n"));
    free(text);
    temporary_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_of_each_key_counts),
        cmocka_unit_test(settings_taken_repeatedly_do_not_grow_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
