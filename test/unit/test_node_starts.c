// How often a node has started: the count in the file grows with each start, whatever happened before.
#include "gossip/member/member.h"
#include "node/store/starts.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define NOW 1700000000u

static char directory[] = "/tmp/p2pml-boot-XXXXXX", path[64];

static int make_directory(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/boot", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static struct node_starts start(uint64_t now_s)
{
    struct node_starts starts = {0};
    struct base_reason why = {0};
    assert_int_equal(node_starts_take(path, now_s, &starts, &why), BASE_OK);
    return starts;
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void the_count_grows_and_recent_starts_are_counted(void **state)
{
    (void)state;
    unlink(path);
    for (unsigned i = 0; i < 5; i++) {
        struct node_starts starts = start(NOW + 10 * i);
        assert_int_equal(starts.number, i + 1);
        assert_int_equal(starts.recent, i);
    }
    assert_int_equal(start(NOW + 10 * 3 + GOSSIP_RECENT_START_NS / 1000000000).recent,
                     1); // the one at NOW + 40
    struct node_starts later = start(NOW + 100000);
    assert_int_equal(later.number, 7);
    assert_int_equal(later.recent, 0);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

// A rolling restart is not flapping.
static void a_start_after_an_orderly_end_is_not_counted(void **state)
{
    (void)state;
    struct base_reason why = {0};
    unlink(path);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(start(NOW + i).recent, 0);
        assert_int_equal(node_starts_end(path, &why), BASE_OK);
    }
    start(NOW + 10); // killed
    struct node_starts starts = start(NOW + 11);
    assert_int_equal(starts.recent, 1);
    assert_int_equal(starts.number, 7);
    assert_int_equal(node_starts_end(path, &why), BASE_OK);
    assert_int_equal(start(NOW + 12).recent, 1);
    write_file("7\n");
    assert_int_equal(node_starts_end(path, &why), BASE_OK);
    assert_int_equal(start(NOW + 13).number, 8);
}

static void the_file_stays_short_after_many_starts(void **state)
{
    (void)state;
    unlink(path);
    for (unsigned i = 0; i < 100; i++)
        start(NOW);
    struct node_starts starts = start(NOW);
    assert_int_equal(starts.number, 101);
    assert_int_equal(starts.recent, 31);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_in_range(status.st_size, 1, 1024);
}

static void a_damaged_file_begins_again(void **state)
{
    static const char *const texts[] = {"",
                                        "x\n",
                                        "0\n",
                                        "-3 1\n",
                                        "7 1x\n",
                                        "7 1 2 3",
                                        "99999999999999999999999\n",
                                        "18446744073709551615 1\n"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_file(texts[i]);
        assert_int_equal(start(NOW).number, strcmp(texts[i], "7 1 2 3") == 0 ? 8 : 1);
    }
    char *huge = malloc(100000);
    memset(huge, '1', 99999);
    huge[99999] = 0;
    write_file(huge);
    free(huge);
    assert_int_equal(start(NOW).number, 1);
}

static void the_count_can_be_raised_but_not_lowered(void **state)
{
    struct base_reason why = {0};
    (void)state;
    unlink(path);
    start(NOW);
    assert_int_equal(node_starts_raise(path, 40, &why), BASE_OK);
    assert_int_equal(node_starts_raise(path, 7, &why), BASE_OK);
    struct node_starts starts = start(NOW + 1);
    assert_int_equal(starts.number, 41);
    assert_int_equal(starts.recent, 1);
    assert_int_equal(node_starts_raise(path, UINT64_MAX, &why), BASE_ELIMIT);
}

static void a_missing_directory_is_an_error(void **state)
{
    struct node_starts starts;
    struct base_reason why = {0};
    (void)state;
    assert_int_not_equal(node_starts_take("/tmp/p2pml-no-such-directory/boot", NOW, &starts, &why), BASE_OK);
    assert_true(why.text[0] != 0);
}

static void a_link_under_its_name_is_replaced(void **state)
{
    char other[80], text[16] = "";
    (void)state;
    snprintf(other, sizeof other, "%s/other", directory);
    write_file("41\n");
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    (void)start(NOW);
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISREG(status.st_mode));
    FILE *file = fopen(other, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "41\n");
    assert_int_equal(unlink(other), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_count_grows_and_recent_starts_are_counted),
        cmocka_unit_test(a_start_after_an_orderly_end_is_not_counted),
        cmocka_unit_test(the_file_stays_short_after_many_starts),
        cmocka_unit_test(a_damaged_file_begins_again),
        cmocka_unit_test(a_link_under_its_name_is_replaced),
        cmocka_unit_test(the_count_can_be_raised_but_not_lowered),
        cmocka_unit_test(a_missing_directory_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
