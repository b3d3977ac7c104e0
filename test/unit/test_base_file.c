// Whole files: read within a limit, and replaced completely or not at all.
#include "base/file.h"
#include "base/write_spans.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[256];

// What reaches the disk, in order: f a file, d a directory, r a rename. The functions below replace those of
// the C library.
static char calls[16];
static size_t n_calls;

static void note(char what)
{
    if (n_calls + 1 < sizeof calls)
        calls[n_calls++] = what;
    calls[n_calls] = '\0';
}

int fsync(int file)
{
    struct stat status;
    note(fstat(file, &status) == 0 && S_ISDIR(status.st_mode) ? 'd' : 'f');
    return (int)syscall(SYS_fsync, file);
}

int rename(const char *from, const char *to)
{
    note('r');
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

// Valid until the fourth call after this one.
static const char *in_directory(const char *name)
{
    static char paths[4][512];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static int make_directory(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%.200s/p2pml-file-XXXXXX", base ? base : "/tmp");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

static size_t entries(void)
{
    size_t count = 0;
    DIR *open = opendir(directory);
    assert_non_null(open);
    for (struct dirent *entry; (entry = readdir(open));)
        count += entry->d_name[0] != '.';
    closedir(open);
    return count;
}

static enum base_error put(const char *path, const char *text, struct base_reason *why)
{
    const struct base_span span = {text, strlen(text)};
    return base_file_write(path, 0644, &span, 1, why);
}

static void assert_content(const char *path, const char *expected)
{
    uint8_t *data;
    size_t bytes;
    assert_int_equal(base_file_read(path, 1000, &data, &bytes, NULL), BASE_OK);
    assert_int_equal(bytes, strlen(expected));
    assert_string_equal((char *)data, expected);
    free(data);
}

static void spans_are_written_in_order_with_the_mode(void **state)
{
    (void)state;
    const char *path = in_directory("key");
    const struct base_span spans[] = {{"one ", 4}, {NULL, 0}, {"two", 3}};
    struct base_reason why = {0};
    mode_t mask = umask(0);
    assert_int_equal(base_file_write(path, 0600, spans, 3, &why), BASE_OK);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    umask(mask);
    assert_content(path, "one two");
    assert_int_equal(put(path, "", &why), BASE_OK);
    assert_content(path, "");
    assert_string_equal(why.text, "");
    assert_int_equal(entries(), 1);
    unlink(path);
}

// SIGXFSZ ends the process in the first write(), as kill -9 at that moment would.
static void a_process_that_is_killed_while_it_creates_a_file_leaves_none(void **state)
{
    (void)state;
    const char *path = in_directory("new");
    struct base_reason why = {0};
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        signal(SIGXFSZ, SIG_DFL);
        setrlimit(RLIMIT_CORE, &none);
        setrlimit(RLIMIT_FSIZE, &none);
        _exit(!base_file_create(path, 0600, "text", 4, &why));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGXFSZ);
    assert_int_equal(access(path, F_OK), -1);
    base_file_sweep(directory, "");
    assert_int_equal(entries(), 0);
    assert_int_equal(base_file_create(path, 0600, "text", 4, &why), BASE_OK);
    assert_content(path, "text");
    assert_int_equal(base_file_create(path, 0600, "other", 5, &why), BASE_ESTATE);
    assert_content(path, "text");
    assert_int_equal(entries(), 1);
    unlink(path);
}

static void the_umask_counts_for_others_only(void **state)
{
    (void)state;
    static const struct {
        mode_t mask, mode;
    } cases[] = {{022, 0644}, {027, 0640}, {077, 0600}, {0777, 0600}};
    struct base_reason why = {0};
    const char *path = in_directory("model");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stat status;
        const mode_t mask = umask(cases[i].mask);
        const enum base_error error = put(path, "x", &why);
        umask(mask);
        assert_int_equal(error, BASE_OK);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, cases[i].mode);
    }
    assert_int_equal(entries(), 1);
    unlink(path);
}

static void a_name_without_a_directory_is_in_the_current_one(void **state)
{
    (void)state;
    char before[512];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(directory), 0);
    assert_int_equal(put("plain", "x", NULL), BASE_OK);
    assert_int_equal(chdir(before), 0);
    assert_content(in_directory("plain"), "x");
    unlink(in_directory("plain"));
}

// Otherwise a power failure leaves an empty file under the new name, or the old file.
static void the_bytes_reach_the_disk_before_the_name(void **state)
{
    (void)state;
    n_calls = 0;
    assert_int_equal(put(in_directory("durable"), "x", NULL), BASE_OK);
    assert_string_equal(calls, "frd");
    unlink(in_directory("durable"));
}

// With RLIMIT_FSIZE the kernel refuses the bytes half-way, as a full disk does.
static enum base_error put_on_a_disk_with(size_t room, const char *path, size_t bytes,
                                          struct base_reason *why)
{
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = room;
    signal(SIGXFSZ, SIG_IGN);
    void *large = calloc(1, bytes);
    assert_non_null(large);
    const struct base_span span = {large, bytes};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum base_error error = base_file_write(path, 0644, &span, 1, why);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    free(large);
    return error;
}

static void a_full_disk_leaves_the_old_file_and_nothing_else(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{100000, 300000}, {BASE_DIRECT_MIN / 2 + 1000, BASE_DIRECT_MIN}};
    const char *path = in_directory("model");
    for (size_t i = 0; i < 2; i++) {
        struct base_reason why = {0};
        assert_int_equal(put(path, "old", NULL), BASE_OK);
        assert_int_equal(put_on_a_disk_with(sizes[i][0], path, sizes[i][1], &why), BASE_EIO);
        assert_non_null(strstr(why.text, path));
        assert_non_null(strstr(why.text, "File too large"));
        assert_content(path, "old");
        assert_int_equal(entries(), 1);
    }
    unlink(path);
}

// Sizes around those of a block, and a file that ends within one.
static void a_large_file_has_every_byte(void **state)
{
    (void)state;
    static const size_t ends[] = {1, 4095, 4096, 4097, 5000000, 9000001};
    enum { SPANS = sizeof ends / sizeof ends[0] + 1 };
    size_t bytes = BASE_DIRECT_MIN, read;
    for (size_t i = 0; i + 1 < SPANS; i++)
        bytes += ends[i];
    uint8_t *content = malloc(bytes), *found;
    assert_non_null(content);
    for (size_t i = 0; i < bytes; i++)
        content[i] = (uint8_t)(i * 2654435761u >> 13);
    struct base_span spans[SPANS] = {{content, BASE_DIRECT_MIN}};
    const uint8_t *at = content + BASE_DIRECT_MIN;
    for (size_t i = 0; i + 1 < SPANS; at += ends[i++])
        spans[i + 1] = (struct base_span){at, ends[i]};
    const char *path = in_directory("large");
    assert_int_equal(base_file_write(path, 0644, spans, SPANS, NULL), BASE_OK);
    assert_int_equal(base_file_read(path, bytes, &found, &read, NULL), BASE_OK);
    assert_int_equal(read, bytes);
    assert_memory_equal(found, content, bytes);
    free(found);
    free(content);
    unlink(path);
}

static void a_failed_rename_leaves_no_temporary_file(void **state)
{
    (void)state;
    struct base_reason why = {0};
    const char *path = in_directory("taken");
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(put(path, "x", &why), BASE_EIO);
    assert_non_null(strstr(why.text, "Is a directory"));
    assert_int_equal(entries(), 1);
    rmdir(path);
}

static void a_pipe_is_not_replaced(void **state)
{
    (void)state;
    struct base_reason why = {0};
    struct stat status;
    const char *path = in_directory("pipe"), *link = in_directory("link");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(symlink(path, link), 0); // as /dev/stdout is one
    assert_int_equal(put(path, "x", &why), BASE_EIO);
    assert_non_null(strstr(why.text, "a device or a pipe"));
    assert_int_equal(put(link, "x", &why), BASE_EIO);
    assert_int_equal(stat(link, &status), 0);
    assert_true(S_ISFIFO(status.st_mode));
    assert_int_equal(entries(), 2);
    unlink(link);
    unlink(path);
}

static void a_missing_directory_is_named(void **state)
{
    (void)state;
    struct base_reason why = {0};
    assert_int_equal(put(in_directory("no/such"), "x", &why), BASE_ENOTFOUND);
    assert_non_null(strstr(why.text, in_directory("no/such")));
    assert_non_null(strstr(why.text, "No such file or directory"));
}

static void reading_stays_within_its_limit(void **state)
{
    (void)state;
    const char *path = in_directory("five");
    uint8_t *data = NULL;
    size_t bytes = 77;
    struct base_reason why = {0};
    assert_int_equal(put(path, "12345", NULL), BASE_OK);
    assert_int_equal(base_file_read(path, 4, &data, &bytes, &why), BASE_ELIMIT);
    assert_non_null(strstr(why.text, path));
    assert_int_equal(base_file_read("/dev/zero", 100000, &data, &bytes, NULL), BASE_ELIMIT);
    assert_int_equal(base_file_read(in_directory("none"), 4, &data, &bytes, &why), BASE_ENOTFOUND);
    assert_int_equal(base_file_read(directory, 4, &data, &bytes, &why), BASE_EIO);
    assert_non_null(strstr(why.text, "directory"));
    assert_null(data);
    assert_int_equal(bytes, 77);
    assert_int_equal(base_file_read(path, 5, &data, &bytes, NULL), BASE_OK);
    assert_int_equal(bytes, 5);
    free(data);
    assert_int_equal(base_file_read("/dev/null", 0, &data, &bytes, NULL), BASE_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(data[0], 0);
    free(data);
    unlink(path);
}

static void a_pipe_without_a_writer_is_not_waited_for(void **state)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    struct base_reason why;
    (void)state;
    const char *path = in_directory("boot");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(base_file_read_regular(path, 100, &data, &bytes, &why), BASE_EIO);
    assert_non_null(strstr(why.text, "it is a pipe"));
    assert_null(data);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(base_file_read_regular(path, 100, &data, &bytes, &why), BASE_ENOTFOUND);
}

// The size of a pipe says nothing, and its bytes come in pieces.
static void a_file_of_unknown_size_is_read_to_its_end(void **state)
{
    (void)state;
    int ends[2];
    char path[64], content[30000];
    assert_int_equal(pipe(ends), 0);
    memset(content, 'z', sizeof content);
    assert_int_equal(write(ends[1], content, sizeof content), sizeof content);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    uint8_t *data;
    size_t bytes;
    assert_int_equal(base_file_read(path, 40000, &data, &bytes, NULL), BASE_OK);
    assert_int_equal(bytes, sizeof content);
    assert_memory_equal(data, content, sizeof content);
    free(data);
    close(ends[0]);
}

static void directories_are_made_with_their_parents(void **state)
{
    (void)state;
    struct base_reason why = {0};
    assert_int_equal(base_directory_make(in_directory("a//b/c/"), 0777, &why), BASE_OK);
    assert_int_equal(base_directory_make(in_directory("a/b/c"), 0777, &why), BASE_OK);
    assert_int_equal(put(in_directory("a/b/c/file"), "x", &why), BASE_OK);
    assert_int_equal(base_directory_make("", 0777, &why), BASE_EINVAL);
    assert_int_equal(base_directory_make(in_directory("a/b/c/file"), 0777, &why), BASE_EIO);
    assert_non_null(strstr(why.text, "is a file"));
    assert_int_equal(base_directory_make(in_directory("a/b/c/file/d"), 0777, &why), BASE_ENOTFOUND);
    assert_non_null(strstr(why.text, "Not a directory"));
}

static void the_temporary_file_of_a_killed_writer_is_removed(void **state)
{
    (void)state;
    struct base_reason why = {0};
    static const char *const names[] = {"state.tmp-aB3dEf",
                                        "state-2.tmp-123456",
                                        "other.tmp-aB3dEf",
                                        "state.tmp-aB3dE",
                                        "state.tmp-aB3dEfg",
                                        ".tmp-aB3dEf",
                                        "state",
                                        "state.tmp",
                                        "s.tmp-1.tmp-abcdef"};
    static const bool after_state[] = {false, false, true, true, true, true, true, true, true},
                      after_all[] = {false, false, false, true, true, true, true, true, false};
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(put(in_directory(names[i]), "x", &why), BASE_OK);
    base_file_sweep(directory, "state");
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(access(in_directory(names[i]), F_OK) == 0, after_state[i]);
    base_file_sweep(directory, "");
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(access(in_directory(names[i]), F_OK) == 0, after_all[i]);
    base_file_sweep(in_directory("nowhere"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_written_in_order_with_the_mode),
        cmocka_unit_test(the_umask_counts_for_others_only),
        cmocka_unit_test(a_process_that_is_killed_while_it_creates_a_file_leaves_none),
        cmocka_unit_test(a_name_without_a_directory_is_in_the_current_one),
        cmocka_unit_test(the_bytes_reach_the_disk_before_the_name),
        cmocka_unit_test(a_full_disk_leaves_the_old_file_and_nothing_else),
        cmocka_unit_test(a_large_file_has_every_byte),
        cmocka_unit_test(a_failed_rename_leaves_no_temporary_file),
        cmocka_unit_test(a_pipe_is_not_replaced),
        cmocka_unit_test(a_pipe_without_a_writer_is_not_waited_for),
        cmocka_unit_test(a_missing_directory_is_named),
        cmocka_unit_test(reading_stays_within_its_limit),
        cmocka_unit_test(a_file_of_unknown_size_is_read_to_its_end),
        cmocka_unit_test(directories_are_made_with_their_parents),
        cmocka_unit_test(the_temporary_file_of_a_killed_writer_is_removed),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
