// A node's directory that is removed while the node runs.
#include "base/file.h"
#include "node/store/keeper.h"
#include "node/store/lines.h"
#include "test/support/temporary.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    char parent[TEMPORARY_BYTES], directory[TEMPORARY_BYTES + 8];
    int lock;
    struct node_keeper *keeper;
};

static void path_in(const struct place *p, const char *name, char path[256])
{
    snprintf(path, 256, "%s/%s", p->directory, name);
}

static void put(const struct place *p, const char *name, const char *text, unsigned mode)
{
    char path[256];
    struct base_reason why;
    const struct base_span span = {text, strlen(text)};
    path_in(p, name, path);
    assert_int_equal(base_file_write(path, mode, &span, 1, &why), BASE_OK);
}

static bool holds(const struct place *p, const char *name, const char *text, unsigned mode)
{
    char path[256];
    uint8_t *found = NULL;
    size_t bytes = 0;
    struct stat status;
    struct base_reason why;
    path_in(p, name, path);
    if (base_file_read(path, 4096, &found, &bytes, &why) || stat(path, &status))
        return false;
    const bool same = strcmp((char *)found, text) == 0 && (status.st_mode & 0777) == mode;
    free(found);
    return same;
}

static int lock_of(const struct place *p)
{
    char path[256];
    path_in(p, "lock", path);
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    return file;
}

static int make(void **state)
{
    static struct place place;
    struct base_reason why;
    temporary_make(place.parent, "keeper");
    snprintf(place.directory, sizeof place.directory, "%s/node", place.parent);
    assert_int_equal(base_directory_make(place.directory, 0777, &why), BASE_OK);
    place.lock = lock_of(&place);
    assert_int_equal(flock(place.lock, LOCK_EX | LOCK_NB), 0);
    put(&place, "identity", "seed\n", 0600);
    put(&place, "boot", "3 1 2\n", 0600);
    assert_int_equal(node_keeper_create(place.directory, place.lock, &place.keeper, &why), BASE_OK);
    *state = &place;
    return 0;
}

static int clean(void **state)
{
    struct place *p = *state;
    node_keeper_destroy(p->keeper);
    close(p->lock);
    temporary_remove(p->parent);
    return 0;
}

static void remove_directory(const struct place *p)
{
    char gone[256];
    snprintf(gone, sizeof gone, "%s/gone", p->parent);
    assert_int_equal(rename(p->directory, gone), 0);
    temporary_remove(gone);
}

static void expect(struct place *p, enum base_error error, bool restored)
{
    struct base_reason why = {""};
    bool was = false;
    if (node_keeper_look(p->keeper, &was, &why) != error || was != restored)
        fail_msg("restored %d: %s", was, why.text);
}

static void a_whole_directory_is_left_alone(void **state)
{
    struct place *p = *state;
    expect(p, BASE_OK, false);
    put(p, "boot", "4 1 2\n", 0600); // this node was told of a later start
    expect(p, BASE_OK, false);
    assert_true(holds(p, "boot", "4 1 2\n", 0600));
}

static void a_removed_directory_is_restored_and_locked(void **state)
{
    struct place *p = *state;
    put(p, "boot", "4 1 2\n", 0600);
    expect(p, BASE_OK, false);
    remove_directory(p);
    expect(p, BASE_OK, true);
    assert_true(holds(p, "identity", "seed\n", 0600) && holds(p, "boot", "4 1 2\n", 0600)); // the latest
    const int other = lock_of(p);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1); // by p->lock
    close(other);
    expect(p, BASE_OK, false);
}

static void single_files_are_restored(void **state)
{
    struct place *p = *state;
    char path[256];
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"identity", "boot", "lock"};
        path_in(p, names[i], path);
        assert_int_equal(unlink(path), 0);
        expect(p, BASE_OK, true);
        assert_int_equal(access(path, F_OK), 0);
    }
    put(p, "joined", "train.rate=0.1\n", 0644);
    expect(p, BASE_OK, false);
    path_in(p, "joined", path);
    assert_int_equal(unlink(path), 0); // perhaps on purpose
    expect(p, BASE_OK, false);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void the_directory_of_another_process_is_not_touched(void **state)
{
    struct place *p = *state;
    struct base_reason why;
    remove_directory(p);
    assert_int_equal(base_directory_make(p->directory, 0777, &why), BASE_OK);
    const int other = lock_of(p);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    expect(p, BASE_ESTATE, false);
    close(other); // it has ended, but its node lives there
    expect(p, BASE_ESTATE, false);
    assert_false(holds(p, "identity", "seed\n", 0600));
}

static void another_identity_is_another_node(void **state)
{
    struct place *p = *state;
    struct base_reason why;
    remove_directory(p);
    assert_int_equal(base_directory_make(p->directory, 0777, &why), BASE_OK);
    put(p, "identity", "other\n", 0600);
    expect(p, BASE_ESTATE, false);
    assert_true(holds(p, "identity", "other\n", 0600));
}

static void what_cannot_be_restored_now_is_tried_again(void **state)
{
    struct place *p = *state;
    remove_directory(p);
    FILE *file = fopen(p->directory, "w"); // a file in its place
    assert_non_null(file);
    fclose(file);
    expect(p, BASE_EIO, false);
    expect(p, BASE_EIO, false);
    assert_int_equal(unlink(p->directory), 0);
    expect(p, BASE_OK, true);
}

static void lines_continue_in_a_new_file(void **state)
{
    struct place *p = *state;
    char path[256];
    struct node_lines *lines;
    struct base_reason why;
    path_in(p, "metrics.jsonl", path);
    assert_int_equal(node_lines_open(path, "metrics", (struct node_lines_bounds){0}, &lines, &why), BASE_OK);
    assert_int_equal(node_lines_append(lines, "one"), BASE_OK);
    remove_directory(p);
    assert_int_equal(node_lines_append(lines, "two"),
                     BASE_OK); // into the removed file: there is no directory
    expect(p, BASE_OK, true);
    assert_int_equal(node_lines_append(lines, "three"), BASE_OK);
    assert_true(holds(p, "metrics.jsonl", "three\n", 0600));
    node_lines_close(lines);
}

int main(void)
{
    umask(022);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_whole_directory_is_left_alone, make, clean),
        cmocka_unit_test_setup_teardown(a_removed_directory_is_restored_and_locked, make, clean),
        cmocka_unit_test_setup_teardown(single_files_are_restored, make, clean),
        cmocka_unit_test_setup_teardown(the_directory_of_another_process_is_not_touched, make, clean),
        cmocka_unit_test_setup_teardown(another_identity_is_another_node, make, clean),
        cmocka_unit_test_setup_teardown(what_cannot_be_restored_now_is_tried_again, make, clean),
        cmocka_unit_test_setup_teardown(lines_continue_in_a_new_file, make, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
