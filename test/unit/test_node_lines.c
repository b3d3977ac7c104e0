// Files of lines that are renamed when they reach their size: which file holds what, what is kept, and disks
// that refuse.
#include "base/file.h"
#include "node/store/lines.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64], path[128];

static int begin(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/p2pml-lines-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/x.jsonl", directory);
    return 0;
}

static const char *part(unsigned number)
{
    static char name[160];
    snprintf(name, sizeof name, number ? "%s.%u" : "%s", path, number);
    return name;
}

static int end(void **state)
{
    (void)state;
    for (unsigned number = 0; number < 20; number++)
        unlink(part(number));
    return rmdir(directory); // no other file was left in it
}

// The contents of NAME.number; "-" if it does not exist.
static const char *contents(unsigned number)
{
    static char text[4096];
    uint8_t *data = NULL;
    size_t bytes = 0;
    if (base_file_read(part(number), sizeof text - 1, &data, &bytes, NULL))
        return "-";
    memcpy(text, data, bytes);
    text[bytes] = 0;
    free(data);
    return text;
}

static struct node_lines *open_lines(uint64_t bytes, unsigned files)
{
    struct node_lines *lines = NULL;
    struct base_reason why = {""};
    if (node_lines_open(path, "test", (struct node_lines_bounds){bytes, files}, &lines, &why))
        fail_msg("%s", why.text);
    return lines;
}

static void append(struct node_lines *lines, const char *letters)
{
    for (; *letters; letters++) {
        const char line[] = {*letters, *letters, *letters, 0};
        assert_int_equal(node_lines_append(lines, line), BASE_OK);
    }
}

static void test_a_full_file_is_renamed_and_a_new_one_takes_its_name(void **state)
{
    (void)state;
    struct node_lines *lines = open_lines(8, 3);
    append(lines, "a");
    assert_string_equal(contents(0), "aaa\n");
    append(lines, "b");
    assert_string_equal(contents(0), "");
    assert_string_equal(contents(1), "aaa\nbbb\n");
    append(lines, "cde");
    assert_string_equal(contents(0), "eee\n");
    assert_string_equal(contents(1), "ccc\nddd\n");
    assert_string_equal(contents(2), "aaa\nbbb\n");
    append(lines, "fg");
    assert_string_equal(contents(0), "ggg\n");
    assert_string_equal(contents(1), "eee\nfff\n");
    assert_string_equal(contents(2), "ccc\nddd\n");
    assert_string_equal(contents(3), "-");
    node_lines_close(lines);
}

static void test_the_size_counts_across_restarts(void **state)
{
    (void)state;
    struct node_lines *lines = open_lines(8, 3);
    append(lines, "a");
    node_lines_close(lines);
    lines = open_lines(8, 3);
    append(lines, "bc");
    node_lines_close(lines);
    assert_string_equal(contents(0), "ccc\n");
    assert_string_equal(contents(1), "aaa\nbbb\n");
}

static void test_with_one_file_the_file_begins_again(void **state)
{
    (void)state;
    struct node_lines *lines = open_lines(8, 1);
    append(lines, "abc");
    assert_string_equal(contents(0), "ccc\n");
    assert_string_equal(contents(1), "-");
    node_lines_close(lines);
}

static void test_without_a_size_there_is_one_file(void **state)
{
    (void)state;
    struct node_lines *lines = open_lines(0, 0);
    append(lines, "abc");
    assert_string_equal(contents(0), "aaa\nbbb\nccc\n");
    node_lines_close(lines);
}

static void test_fewer_files_are_kept_after_the_limit_was_lowered(void **state)
{
    (void)state;
    struct node_lines *lines = open_lines(4, 6);
    append(lines, "abcdef");
    assert_string_equal(contents(5), "bbb\n");
    node_lines_close(lines);
    lines = open_lines(4, 2);
    append(lines, "g");
    node_lines_close(lines);
    assert_string_equal(contents(1), "ggg\n");
    for (unsigned number = 2; number < 7; number++)
        assert_string_equal(contents(number), "-");
}

static void test_half_a_line_of_a_killed_process_is_cut(void **state)
{
    (void)state;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("aaa\nbb", file);
    assert_int_equal(fclose(file), 0);
    struct node_lines *lines = open_lines(8, 2);
    append(lines, "c");
    node_lines_close(lines);
    assert_string_equal(contents(1), "aaa\nccc\n");
}

static void test_a_file_that_cannot_be_renamed_keeps_growing(void **state)
{
    char obstacle[160], inside[176];
    (void)state;
    snprintf(obstacle, sizeof obstacle, "%s", part(1));
    snprintf(inside, sizeof inside, "%s/x", obstacle);
    assert_int_equal(mkdir(obstacle, 0755), 0);
    assert_int_equal(mkdir(inside, 0755), 0);
    struct node_lines *lines = open_lines(8, 2);
    append(lines, "abc");
    assert_string_equal(contents(0), "aaa\nbbb\nccc\n");
    assert_int_equal(rmdir(inside), 0);
    assert_int_equal(rmdir(obstacle), 0);
    append(lines, "de"); // at twice its size the rename is tried again
    assert_string_equal(contents(0), "eee\n");
    assert_string_equal(contents(1), "aaa\nbbb\nccc\nddd\n");
    node_lines_close(lines);
}

// node.dir may lie where others can write, such as /tmp.
static void test_a_symbolic_link_is_not_followed(void **state)
{
    char other[160], fresh[160];
    struct node_lines *lines = NULL;
    struct base_reason why = {""};
    (void)state;
    snprintf(other, sizeof other, "%s/other", directory);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(node_lines_open(path, "test", (struct node_lines_bounds){8, 2}, &lines, &why), BASE_EIO);
    assert_non_null(strstr(why.text, "it is a symbolic link"));
    assert_int_equal(unlink(path), 0);
    lines = open_lines(8, 2);
    assert_int_equal(symlink(other, fresh), 0); // nor where the next file is begun
    append(lines, "abc");
    assert_string_equal(contents(0), "aaa\nbbb\nccc\n");
    node_lines_close(lines);
    assert_int_equal(unlink(fresh), 0);
    assert_int_not_equal(access(other, F_OK), 0);
}

static void limit_files(rlim_t bytes)
{
    const struct rlimit limit = {bytes, RLIM_INFINITY};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_a_full_disk_loses_lines_and_nothing_else(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    struct node_lines *lines = open_lines(0, 0);
    append(lines, "a");
    limit_files(6);
    assert_int_equal(node_lines_append(lines, "bbb"), BASE_EIO);
    assert_int_equal(node_lines_append(lines, "ccc"), BASE_EIO);
    assert_string_equal(contents(0), "aaa\n"); // no half line
    limit_files(RLIM_INFINITY);
    append(lines, "d");
    assert_string_equal(contents(0), "aaa\nddd\n");
    node_lines_close(lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_full_file_is_renamed_and_a_new_one_takes_its_name, begin, end),
        cmocka_unit_test_setup_teardown(test_the_size_counts_across_restarts, begin, end),
        cmocka_unit_test_setup_teardown(test_with_one_file_the_file_begins_again, begin, end),
        cmocka_unit_test_setup_teardown(test_without_a_size_there_is_one_file, begin, end),
        cmocka_unit_test_setup_teardown(test_fewer_files_are_kept_after_the_limit_was_lowered, begin, end),
        cmocka_unit_test_setup_teardown(test_half_a_line_of_a_killed_process_is_cut, begin, end),
        cmocka_unit_test_setup_teardown(test_a_file_that_cannot_be_renamed_keeps_growing, begin, end),
        cmocka_unit_test_setup_teardown(test_a_symbolic_link_is_not_followed, begin, end),
        cmocka_unit_test_setup_teardown(test_a_full_disk_loses_lines_and_nothing_else, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
