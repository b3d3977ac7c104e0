// What a program does first: standard files, and stacks for its threads.
#include "base/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PRODUCT_BYTES (700u * 1024u) // on the stack

// In a child, whose descriptors and limits are its own.
static void assert_in_a_child(bool (*holds)(void))
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0)
        _exit(holds() ? 0 : 1);
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static bool standard_files_are_open(void)
{
    struct stat null, in, error;
    close(STDIN_FILENO);
    close(STDERR_FILENO);
    base_process_begin();
    return !stat("/dev/null", &null) && !fstat(STDIN_FILENO, &in) && !fstat(STDERR_FILENO, &error) &&
           in.st_rdev == null.st_rdev && error.st_rdev == null.st_rdev && write(STDERR_FILENO, "x", 1) == 1 &&
           open("/dev/null", O_RDONLY) > STDERR_FILENO;
}

static void closed_standard_files_are_open_on_nothing(void **state)
{
    (void)state;
    assert_in_a_child(standard_files_are_open);
}

static void *use_stack(void *argument)
{
    volatile char bytes[PRODUCT_BYTES];
    for (size_t i = 0; i < sizeof bytes; i += 4096)
        bytes[i] = 1;
    *(bool *)argument = bytes[0] == 1;
    return NULL;
}

// As a C library does at the start of a program under ulimit -s 256.
static bool a_thread_has_a_stack(void)
{
    bool used = false;
    pthread_t thread;
    pthread_attr_t small;
    if (pthread_attr_init(&small) || pthread_attr_setstacksize(&small, 256 * 1024) ||
        pthread_setattr_default_np(&small))
        return false;
    base_process_begin();
    return !pthread_create(&thread, NULL, use_stack, &used) && !pthread_join(thread, NULL) && used;
}

static void threads_have_room_for_a_product(void **state)
{
    (void)state;
    assert_in_a_child(a_thread_has_a_stack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_standard_files_are_open_on_nothing),
        cmocka_unit_test(threads_have_room_for_a_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
