// The messages to a service manager, received on a socket like that of systemd.
#include "node/notify.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull

static char directory[] = "/tmp/p2pml-notify-XXXXXX", path[64];
static int manager = -1;

// Binds the manager's socket: a file, or with '@' an abstract name.
static void listen_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    memcpy(address.sun_path, name, length);
    if (name[0] == '@')
        address.sun_path[0] = 0;
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(manager >= 0);
    assert_int_equal(bind(manager, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
}

static int begin(void **state)
{
    (void)state;
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/notify", directory);
    listen_at(path);
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return 0;
}

static int end(void **state)
{
    (void)state;
    close(manager);
    unlink(path);
    return rmdir(directory);
}

// The next datagram that has arrived; "" if there is none.
static const char *heard(void)
{
    static char text[512];
    ssize_t bytes = recv(manager, text, sizeof text - 1, MSG_DONTWAIT);
    text[bytes > 0 ? bytes : 0] = 0;
    return text;
}

static void test_ready_and_stopping_are_sent_once(void **state)
{
    struct node_notify notify;
    (void)state;
    node_notify_open(&notify);
    assert_string_equal(heard(), "");
    node_notify_ready(&notify);
    assert_string_equal(heard(), "READY=1");
    node_notify_stopping(&notify);
    assert_string_equal(heard(), "STOPPING=1");
    node_notify_stopping(&notify);
    assert_string_equal(heard(), "");
    node_notify_close(&notify);
}

static void test_a_status_is_sent_when_it_changes(void **state)
{
    struct node_notify notify;
    char line[400];
    (void)state;
    node_notify_open(&notify);
    node_notify_tick(&notify, SECOND_NS, "step 1");
    assert_string_equal(heard(), "STATUS=step 1");
    node_notify_tick(&notify, 2 * SECOND_NS, "step 1");
    assert_string_equal(heard(), "");
    node_notify_tick(&notify, 3 * SECOND_NS, "step 2");
    assert_string_equal(heard(), "STATUS=step 2");
    node_notify_tick(&notify, 3 * SECOND_NS + SECOND_NS / 4, "step 3"); // too soon
    assert_string_equal(heard(), "");
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = 0;
    node_notify_tick(&notify, 4 * SECOND_NS, line);
    assert_int_equal(strlen(heard()), strlen("STATUS=") + NODE_NOTIFY_STATUS_BYTES - 1);
    node_notify_tick(&notify, 5 * SECOND_NS, line); // cut as before: no change
    assert_string_equal(heard(), "");
    node_notify_close(&notify);
}

static void test_the_watchdog_is_fed_twice_per_interval(void **state)
{
    struct node_notify notify;
    unsigned signs = 0;
    (void)state;
    setenv("WATCHDOG_USEC", "10000000", 1); // 10 s
    node_notify_open(&notify);
    for (uint64_t tick = 0; tick < 80; tick++) { // 20 s, every 250 ms
        node_notify_tick(&notify, SECOND_NS + tick * SECOND_NS / 4, "");
        signs += strcmp(heard(), "WATCHDOG=1\n") == 0;
    }
    assert_int_equal(signs, 4);
    node_notify_tick(&notify, 30 * SECOND_NS, "step 3");
    assert_string_equal(heard(), "WATCHDOG=1\nSTATUS=step 3");
    node_notify_close(&notify);
}

static void test_the_watchdog_of_another_process_is_not_fed(void **state)
{
    static const char *const patience[] = {"", "-", "10x", "99999999999999999999999"};
    struct node_notify notify;
    (void)state;
    setenv("WATCHDOG_USEC", "10000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    node_notify_open(&notify);
    node_notify_tick(&notify, SECOND_NS, "");
    assert_string_equal(heard(), "");
    node_notify_close(&notify);
    unsetenv("WATCHDOG_PID");
    for (size_t i = 0; i < sizeof patience / sizeof *patience; i++) {
        setenv("WATCHDOG_USEC", patience[i], 1);
        node_notify_open(&notify);
        assert_int_equal(notify.watchdog_ns, 0);
        node_notify_close(&notify);
    }
}

static void test_an_abstract_socket_name_works(void **state)
{
    struct node_notify notify;
    char name[64];
    (void)state;
    close(manager);
    snprintf(name, sizeof name, "@p2pml-notify-%d", (int)getpid());
    listen_at(name);
    node_notify_open(&notify);
    node_notify_ready(&notify);
    assert_string_equal(heard(), "READY=1");
    node_notify_close(&notify);
}

static void test_without_a_manager_nothing_happens(void **state)
{
    static const char *const wrong[] = {"", "relative", "/nowhere/notify"};
    struct node_notify notify;
    char longest[200];
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    node_notify_open(&notify);
    assert_int_equal(notify.socket, -1);
    memset(longest, '/', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        setenv("NOTIFY_SOCKET", i < sizeof wrong / sizeof *wrong ? wrong[i] : longest, 1);
        node_notify_open(&notify);
        assert_int_equal(notify.socket, -1);
        node_notify_ready(&notify);
        node_notify_tick(&notify, SECOND_NS, "step 1");
        node_notify_stopping(&notify);
        node_notify_close(&notify);
    }
    assert_string_equal(heard(), "");
}

// The manager may be restarted while the node runs.
static void test_a_manager_that_goes_away_does_no_harm(void **state)
{
    struct node_notify notify;
    (void)state;
    node_notify_open(&notify);
    close(manager);
    manager = -1;
    node_notify_ready(&notify);
    node_notify_tick(&notify, SECOND_NS, "step 1");
    node_notify_stopping(&notify);
    node_notify_close(&notify);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ready_and_stopping_are_sent_once, begin, end),
        cmocka_unit_test_setup_teardown(test_a_status_is_sent_when_it_changes, begin, end),
        cmocka_unit_test_setup_teardown(test_the_watchdog_is_fed_twice_per_interval, begin, end),
        cmocka_unit_test_setup_teardown(test_the_watchdog_of_another_process_is_not_fed, begin, end),
        cmocka_unit_test_setup_teardown(test_an_abstract_socket_name_works, begin, end),
        cmocka_unit_test_setup_teardown(test_without_a_manager_nothing_happens, begin, end),
        cmocka_unit_test_setup_teardown(test_a_manager_that_goes_away_does_no_harm, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
