// A reader of lines beside the node that writes them: each line once and in order, however often files are
// renamed meanwhile.
#include "lab/record/lines.h"
#include "node/store/lines.h"
#include "test/support/temporary.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[TEMPORARY_BYTES], path[128];

struct seen {
    uint64_t count, last; // number of lines; the latest number, counted from 1
    uint64_t gaps;        // numbers that were left out
    bool disorder;
};

static int begin(void **state)
{
    (void)state;
    temporary_make(directory, "lines");
    snprintf(path, sizeof path, "%s/x.jsonl", directory);
    return 0;
}

static int end(void **state)
{
    (void)state;
    temporary_remove(directory);
    return 0;
}

static bool take_number(void *context, const char *line, size_t bytes)
{
    struct seen *seen = context;
    char text[32] = "";
    memcpy(text, line, bytes < sizeof text ? bytes : sizeof text - 1);
    uint64_t number = strtoull(text, NULL, 10);
    seen->disorder |= number <= seen->last;
    seen->gaps += number - seen->last - 1;
    seen->last = number;
    seen->count++;
    return true;
}

static struct node_lines *open_writer(uint64_t bytes, unsigned files)
{
    struct node_lines *lines = NULL;
    assert_int_equal(node_lines_open(path, "test", (struct node_lines_bounds){bytes, files}, &lines, NULL),
                     BASE_OK);
    return lines;
}

static void write_numbers(struct node_lines *writer, uint64_t from, uint64_t to)
{
    for (uint64_t number = from; number <= to; number++) {
        char line[32];
        snprintf(line, sizeof line, "%llu", (unsigned long long)number);
        assert_int_equal(node_lines_append(writer, line), BASE_OK);
    }
}

static void test_all_parts_are_read_from_the_oldest_on(void **state)
{
    (void)state;
    struct lab_lines reader;
    struct seen seen = {0};
    struct node_lines *writer = open_writer(100, 50);
    write_numbers(writer, 1, 1000);
    node_lines_close(writer);
    lab_lines_start(path, &reader);
    lab_lines_read(&reader, take_number, &seen);
    lab_lines_close(&reader);
    assert_int_equal(seen.count, 1000);
    assert_false(seen.disorder);
}

// In the middle of a rename one number is unused.
static void test_a_reader_that_begins_while_files_are_renamed_begins_with_the_oldest(void **state)
{
    (void)state;
    char from[160], to[160];
    struct lab_lines reader;
    struct seen seen = {0};
    struct node_lines *writer = open_writer(64, 20);
    write_numbers(writer, 1, 200);
    for (unsigned number = 20; number > 3; number--) {
        snprintf(from, sizeof from, "%s.%u", path, number);
        snprintf(to, sizeof to, "%s.%u", path, number + 1);
        rename(from, to);
    }
    lab_lines_start(path, &reader);
    lab_lines_read(&reader, take_number, &seen);
    assert_false(seen.disorder);
    assert_int_equal(seen.count, seen.last);
    lab_lines_close(&reader);
    node_lines_close(writer);
}

static void test_a_reader_that_follows_misses_nothing(void **state)
{
    (void)state;
    struct lab_lines reader;
    struct seen seen = {0};
    struct node_lines *writer = open_writer(64, 20);
    lab_lines_start(path, &reader);
    for (uint64_t written = 0, turn = 0; written < 5000; turn++) {
        uint64_t more = 1 + turn * 7 % 90; // up to five files at once
        write_numbers(writer, written + 1, written + more);
        written += more;
        lab_lines_read(&reader, take_number, &seen);
        assert_int_equal(seen.count, written);
    }
    assert_false(seen.disorder);
    lab_lines_close(&reader);
    node_lines_close(writer);
}

// The process ends with half a line and is started again in the middle of a file.
static void test_a_restart_continues_in_the_same_part(void **state)
{
    (void)state;
    struct lab_lines reader;
    struct seen seen = {0};
    struct node_lines *writer = open_writer(64, 20);
    lab_lines_start(path, &reader);
    write_numbers(writer, 1, 30);
    node_lines_close(writer);
    FILE *torn = fopen(path, "a");
    assert_non_null(torn);
    fputs("31", torn);
    assert_int_equal(fclose(torn), 0);
    lab_lines_read(&reader, take_number, &seen);
    lab_lines_again(&reader);
    writer = open_writer(64, 20);
    write_numbers(writer, 31, 90);
    lab_lines_read(&reader, take_number, &seen);
    assert_int_equal(seen.count, 90);
    assert_int_equal(seen.gaps, 0);
    assert_false(seen.disorder);
    lab_lines_close(&reader);
    node_lines_close(writer);
}

static void test_a_reader_that_is_too_slow_goes_on_with_the_oldest_file(void **state)
{
    (void)state;
    struct lab_lines reader;
    struct seen seen = {0};
    struct node_lines *writer = open_writer(64, 3);
    lab_lines_start(path, &reader);
    write_numbers(writer, 1, 5);
    lab_lines_read(&reader, take_number, &seen);
    write_numbers(writer, 6, 1000);
    lab_lines_read(&reader, take_number, &seen);
    assert_false(seen.disorder);
    assert_int_equal(seen.last, 1000);
    assert_true(seen.count > 5 + 2 * 64 / 5 && seen.count < 100);
    lab_lines_close(&reader);
    node_lines_close(writer);
}

#define RACE 12000u

static void *write_race(void *writer)
{
    write_numbers(writer, 1, RACE);
    return NULL;
}

static void test_renaming_during_reading_loses_no_line(void **state)
{
    (void)state;
    struct lab_lines reader;
    struct seen seen = {0};
    pthread_t thread;
    struct node_lines *writer = open_writer(256, 1000); // some 250 files
    lab_lines_start(path, &reader);
    assert_int_equal(pthread_create(&thread, NULL, write_race, writer), 0);
    while (seen.last < RACE)
        lab_lines_read(&reader, take_number, &seen);
    pthread_join(thread, NULL);
    assert_int_equal(seen.count, RACE);
    assert_int_equal(seen.gaps, 0);
    assert_false(seen.disorder);
    lab_lines_close(&reader);
    node_lines_close(writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_parts_are_read_from_the_oldest_on, begin, end),
        cmocka_unit_test_setup_teardown(
            test_a_reader_that_begins_while_files_are_renamed_begins_with_the_oldest, begin, end),
        cmocka_unit_test_setup_teardown(test_a_reader_that_follows_misses_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_a_restart_continues_in_the_same_part, begin, end),
        cmocka_unit_test_setup_teardown(test_a_reader_that_is_too_slow_goes_on_with_the_oldest_file, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_renaming_during_reading_loses_no_line, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
