// libp2pml as a program sees it: nodes in one process over loopback, each with its own loss. The mean of the
// losses has its minimum where no single one has.
#include "lib/p2pml.h"
#include <arpa/inet.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 50, COLUMNS = 10, D = ROWS * COLUMNS, STEPS = 5, WAIT_MS = 30000 };

static const float rate = 0.02f;
static char root[] = "/tmp/p2pml-test-lib-XXXXXX";

static bool is_free(uint16_t port, int type)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    assert_true(s >= 0);
    const bool is = bind(s, (const struct sockaddr *)&at, sizeof at) == 0;
    close(s);
    return is;
}

// Outside the kernel's range, and reserved until this test ends: test/e2e/ports.py and lab/term/ports.c claim
// the same names.
static int free_port(void)
{
    for (;;) {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        uint16_t any = 0;
        assert_int_equal(getrandom(&any, sizeof any, 0), sizeof any);
        const uint16_t port = (uint16_t)(10240 + any % (32768 - 10240));
        const int length = snprintf(name.sun_path + 1, 32, "p2pml-port-%u", port);
        int claim = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        assert_true(claim >= 0);
        if (bind(claim, (const struct sockaddr *)&name,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0 &&
            is_free(port, SOCK_STREAM) && is_free(port, SOCK_DGRAM))
            return port; // the claim stays
        close(claim);
    }
}

struct wish {
    const char *name; // of its directory, below root
    int port, peer;   // peer 0: none
    size_t rows;      // 0: ROWS
    int resume, changes;
    const char *more[4]; // settings
};

static p2pml_node *open_node(const struct wish *w)
{
    char dir[100], listen[60], peers[60] = "peers=", why[600] = "";
    const size_t shape[] = {w->rows ? w->rows : ROWS, COLUMNS};
    const struct p2pml_tensor tensor = {"weight", shape, 2};
    snprintf(dir, sizeof dir, "node.dir=%s/%s", root, w->name);
    snprintf(listen, sizeof listen, "node.listen=127.0.0.1:%d", w->port);
    if (w->peer)
        snprintf(peers, sizeof peers, "peers=127.0.0.1:%d", w->peer);
    const char *settings[12] = {dir, listen, peers, "node.http=", "average.local_steps=5", "log.level=error"};
    for (size_t i = 0, at = 6; i < 4 && w->more[i]; i++)
        settings[at++] = w->more[i];
    const struct p2pml_options options = {.size = sizeof options,
                                          .settings = settings,
                                          .tensors = &tensor,
                                          .n_tensors = 1,
                                          .resume = w->resume,
                                          .changes = w->changes};
    p2pml_node *node = p2pml_open(&options, why, sizeof why);
    if (!node)
        fail_msg("%s", why);
    return node;
}

static void start_both(p2pml_node *a, p2pml_node *b, struct p2pml_round *round)
{
    assert_true(p2pml_start(a, 0, NULL) >= 0); // joins meanwhile
    assert_int_equal(p2pml_start(b, WAIT_MS, round), P2PML_OK);
    assert_int_equal(p2pml_start(a, WAIT_MS, NULL), P2PML_OK);
}

static void take_steps(p2pml_node *node, float own)
{
    float *x = p2pml_vector(node, P2PML_MODEL, NULL);
    const float *c = p2pml_vector(node, P2PML_CORRECTION, NULL);
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < D; i++)
            x[i] += rate * (sinf((float)i) + own - x[i]) + rate * c[i];
}

static void begin_round(p2pml_node *node, float own)
{
    take_steps(node, own);
    assert_int_equal(p2pml_round_begin(node, STEPS, STEPS * rate, NAN), P2PML_OK);
}

static double error_of(p2pml_node *node)
{
    const float *x = p2pml_vector(node, P2PML_MODEL, NULL);
    double sum = 0;
    for (int i = 0; i < D; i++)
        sum += pow(x[i] - sin(i), 2);
    return sqrt(sum / D);
}

static void train_both(p2pml_node *a, p2pml_node *b, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        begin_round(a, 1);
        begin_round(b, -1);
        assert_int_equal(p2pml_round_end(a, WAIT_MS, NULL), P2PML_OK);
        assert_int_equal(p2pml_round_end(b, WAIT_MS, NULL), P2PML_OK);
    }
}

// Alone, a node would be 1 away from the optimum.
static void test_two_nodes_meet_in_the_middle_and_go_on_after_a_restart(void **state)
{
    (void)state;
    const int port = free_port(), other = free_port();
    struct wish a = {.name = "a", .port = port, .peer = other, .more = {"average.mode=sync"}},
                b = {.name = "b", .port = other, .peer = port, .more = {"average.mode=sync"}};
    for (int life = 0; life < 2; life++) {
        struct p2pml_round round;
        a.resume = b.resume = life;
        p2pml_node *one = open_node(&a), *two = open_node(&b);
        start_both(one, two, &round);
        assert_int_equal(round.steps, STEPS);
        assert_true(life == 0 ? round.steps_done == 0 : round.steps_done >= 200 * STEPS);
        assert_true(life == 0 || error_of(two) < 0.1); // the error of the checkpoint
        train_both(one, two, life == 0 ? 200 : 3);
        assert_true(error_of(one) < 0.1 && error_of(two) < 0.1);
        char *status = p2pml_status(one);
        assert_non_null(status);
        assert_non_null(strstr(status, "\"state\": \"training\""));
        free(status);
        assert_int_equal(p2pml_leave(one, -1), P2PML_ENDED);
        assert_int_equal(p2pml_round_begin(one, 1, rate, NAN), P2PML_ENDED);
        assert_null(p2pml_status(one));
        p2pml_close(one);
        p2pml_close(two); // leaves by itself
    }
}

// A GPU program adds the changes to its copy: they are what the node did to the vector.
static void test_the_changes_are_all_that_changed(void **state)
{
    (void)state;
    const int port = free_port(), other = free_port();
    const struct wish a = {.name = "c",
                           .port = port,
                           .peer = other,
                           .changes = 1,
                           .more = {"average.mode=sync"}},
                      b = {.name = "d", .port = other, .peer = port, .more = {"average.mode=sync"}};
    p2pml_node *one = open_node(&a), *two = open_node(&b);
    float x[D], c[D];
    size_t told = 0;
    start_both(one, two, NULL);
    for (int i = 0; i < 50; i++) {
        struct p2pml_round round;
        take_steps(one, 1);
        begin_round(two, -1);
        memcpy(x, p2pml_vector(one, P2PML_MODEL, NULL), sizeof x);
        memcpy(c, p2pml_vector(one, P2PML_CORRECTION, NULL), sizeof c);
        assert_int_equal(p2pml_round_begin(one, STEPS, STEPS * rate, NAN), P2PML_OK);
        assert_int_equal(p2pml_round_end(one, WAIT_MS, &round), P2PML_OK);
        assert_int_equal(p2pml_round_end(two, WAIT_MS, NULL), P2PML_OK);
        if (round.dense)
            continue;
        for (size_t k = 0; k < round.changed; k++) {
            x[round.index[k]] += round.model[k];
            c[round.index[k]] = round.correction[k];
        }
        told += round.changed;
        for (int k = 0; k < D; k++)
            assert_true(fabsf(x[k] - p2pml_vector(one, P2PML_MODEL, NULL)[k]) < 1e-6f);
        assert_memory_equal(c, p2pml_vector(one, P2PML_CORRECTION, NULL), sizeof c);
    }
    assert_true(told > 0);
    p2pml_close(one);
    p2pml_close(two);
}

static void expect_blob(p2pml_node *node, const char *text)
{
    const void *now;
    size_t bytes;
    assert_int_equal(p2pml_blob(node, NULL, 0, &now, &bytes), P2PML_OK);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(now, text, bytes);
}

// A checkpoint keeps it as well.
static void test_a_late_joiner_gets_the_blob_with_the_model(void **state)
{
    (void)state;
    static const char large[65537];
    const int port = free_port(), other = free_port();
    struct wish a = {.name = "k", .port = port}, b = {.name = "l", .port = other, .peer = port};
    p2pml_node *one = open_node(&a), *two = open_node(&b);
    struct p2pml_round round;
    expect_blob(one, "");
    assert_int_equal(p2pml_blob(one, "first", 5, NULL, NULL), P2PML_OK);
    assert_int_equal(p2pml_blob(one, large, sizeof large, NULL, NULL), P2PML_ELIMIT);
    assert_non_null(strstr(p2pml_reason(one), "65536"));
    assert_int_equal(p2pml_start(one, WAIT_MS, NULL), P2PML_OK);
    assert_int_equal(p2pml_blob(one, "the cluster's", 13, NULL, NULL), P2PML_OK);
    begin_round(one, 0);
    assert_int_equal(p2pml_blob(one, "x", 1, NULL, NULL), P2PML_EORDER);
    assert_int_equal(p2pml_round_end(one, WAIT_MS, NULL), P2PML_OK);
    assert_int_equal(p2pml_blob(two, "its own", 7, NULL, NULL), P2PML_OK);
    int code = P2PML_AGAIN;
    for (int i = 0; i < 3000 && code == P2PML_AGAIN; i++) { // a member gives its model at its boundaries
        begin_round(one, 0);
        assert_int_equal(p2pml_round_end(one, WAIT_MS, NULL), P2PML_OK);
        code = p2pml_start(two, 10, &round);
    }
    assert_int_equal(code, P2PML_OK);
    assert_true(round.another);
    expect_blob(two, "the cluster's");
    p2pml_close(one);
    assert_int_equal(p2pml_leave(two, -1), P2PML_ENDED);
    expect_blob(two, "the cluster's");
    p2pml_close(two);
    a.resume = 1;
    one = open_node(&a);
    assert_int_equal(p2pml_start(one, WAIT_MS, NULL), P2PML_OK);
    expect_blob(one, "the cluster's");
    p2pml_close(one);
}

static void test_a_model_that_is_not_finite_is_taken_back(void **state)
{
    (void)state;
    const struct wish alone = {.name = "e", .port = free_port()};
    struct p2pml_round round;
    p2pml_node *node = open_node(&alone);
    assert_int_equal(p2pml_start(node, WAIT_MS, NULL), P2PML_OK);
    begin_round(node, 0);
    assert_int_equal(p2pml_round_end(node, WAIT_MS, &round), P2PML_OK);
    assert_false(round.rolled_back);
    const float good = p2pml_vector(node, P2PML_MODEL, NULL)[7];
    p2pml_vector(node, P2PML_MODEL, NULL)[7] = NAN;
    assert_int_equal(p2pml_round_begin(node, STEPS, STEPS * rate, NAN), P2PML_OK);
    assert_int_equal(p2pml_round_end(node, WAIT_MS, &round), P2PML_OK);
    assert_true(round.rolled_back);
    assert_true(p2pml_vector(node, P2PML_MODEL, NULL)[7] == good);
    p2pml_close(node);
}

// The message names the cause that the learner knows, although the loop has logged an error before.
static void test_the_reason_of_an_end_is_its_cause(void **state)
{
    (void)state;
    const int port = free_port(), other = free_port();
    const struct wish a = {.name = "cause-a", .port = port}, b = {.name = "cause-b",
                                                                  .port = other,
                                                                  .peer = port,
                                                                  .rows = ROWS + 1,
                                                                  .more = {"node.start_timeout=2s"}};
    p2pml_node *one = open_node(&a), *two = open_node(&b);
    int code = p2pml_start(one, WAIT_MS, NULL);
    assert_int_equal(p2pml_start(two, WAIT_MS, NULL), P2PML_ENDED); // `one` logs that it refused it
    p2pml_close(two);
    for (int i = 0; i < 100 && code == P2PML_OK; i++) {
        p2pml_vector(one, P2PML_MODEL, NULL)[7] = NAN;
        assert_int_equal(p2pml_round_begin(one, STEPS, STEPS * rate, NAN), P2PML_OK);
        code = p2pml_round_end(one, WAIT_MS, NULL);
    }
    assert_int_equal(code, P2PML_ENDED);
    assert_non_null(strstr(p2pml_reason(one), "rounds in a row"));
    assert_null(strstr(p2pml_reason(one), "trains another model"));
    p2pml_close(one);
}

static void test_a_second_moment_that_is_not_finite_begins_again(void **state)
{
    (void)state;
    const struct wish alone = {
        .name = "v", .port = free_port(), .more = {"train.optimizer=adamw", "average.share_second_moment=0"}};
    struct p2pml_round round;
    p2pml_node *node = open_node(&alone);
    float *second = p2pml_vector(node, P2PML_SECOND_MOMENT, NULL);
    assert_non_null(second);
    assert_int_equal(p2pml_start(node, WAIT_MS, NULL), P2PML_OK);
    for (int i = 0; i < D; i++)
        second[i] = i == 7 ? INFINITY : 1;
    for (int taken_back = 1; taken_back >= 0; taken_back--) {
        begin_round(node, 0);
        assert_int_equal(p2pml_round_end(node, WAIT_MS, &round), P2PML_OK);
        assert_int_equal(round.rolled_back, taken_back);
        assert_true(second[7] == 0 && second[8] == 0);
    }
    p2pml_close(node);
}

static void test_calls_out_of_order_change_nothing(void **state)
{
    (void)state;
    const struct wish alone = {.name = "f", .port = free_port()};
    p2pml_node *node = open_node(&alone);
    assert_int_equal(p2pml_fd(node), -1);
    assert_int_equal(p2pml_round_begin(node, 1, rate, NAN), P2PML_EORDER);
    assert_non_null(strstr(p2pml_reason(node), "p2pml_start"));
    assert_int_equal(p2pml_round_end(node, 0, NULL), P2PML_EORDER);
    assert_int_equal(p2pml_save(node), P2PML_EORDER);
    assert_null(p2pml_status(node));
    assert_int_equal(p2pml_start(node, WAIT_MS, NULL), P2PML_OK);
    assert_int_equal(p2pml_start(node, 0, NULL), P2PML_EORDER);
    assert_int_equal(p2pml_round_end(node, 0, NULL), P2PML_EORDER);
    assert_int_equal(p2pml_round_begin(node, 1, -1, NAN), P2PML_EINVAL);
    assert_int_equal(p2pml_round_begin(node, 1, NAN, NAN), P2PML_EINVAL);
    assert_int_equal(p2pml_round_begin(node, UINT64_MAX, rate, NAN), P2PML_EINVAL);
    assert_int_equal(p2pml_round_begin(node, 0, 0, NAN), P2PML_OK); // a round without steps is a round, too
    assert_int_equal(p2pml_round_begin(node, 0, 0, NAN), P2PML_EORDER);
    assert_int_equal(p2pml_round_end(node, WAIT_MS, NULL), P2PML_OK);
    assert_int_equal(p2pml_leave(node, -1), P2PML_ENDED);
    assert_int_equal(p2pml_round_end(node, 0, NULL), P2PML_ENDED);
    assert_int_equal(p2pml_leave(node, 0), P2PML_ENDED);
    p2pml_close(node);
    p2pml_close(NULL);
    node = open_node(&alone); // never started
    assert_int_equal(p2pml_leave(node, 0), P2PML_ENDED);
    p2pml_close(node);
}

static void test_steps_beyond_the_end_do_not_count(void **state)
{
    (void)state;
    p2pml_node *node =
        open_node(&(struct wish){.name = "end", .port = free_port(), .more = {"train.steps=12"}});
    assert_int_equal(p2pml_start(node, WAIT_MS, NULL), P2PML_OK);
    assert_int_equal(p2pml_round_begin(node, 1000, rate, NAN), P2PML_OK);
    assert_int_equal(p2pml_round_end(node, WAIT_MS, NULL), P2PML_ENDED);
    p2pml_close(node);
}

static void test_invalid_options_are_refused_with_a_reason(void **state)
{
    (void)state;
    const size_t shape[] = {4}, none[] = {0};
    const struct p2pml_tensor good = {"w", shape, 1}, twice[] = {{"w", shape, 1}, {"w", shape, 1}},
                              empty = {"w", none, 1}, unnamed = {NULL, shape, 1}, deep = {"w", shape, 9};
    const char *outer[] = {"average.outer_momentum=0.5", NULL}, *unknown[] = {"average.ration=1", NULL};
    const struct {
        struct p2pml_options options;
        const char *words;
    } cases[] = {
        {{.size = 8}, "another version"},
        {{.n_tensors = 0}, "0 tensors"},
        {{.tensors = twice, .n_tensors = 2}, "both named 'w'"},
        {{.tensors = &empty, .n_tensors = 1}, "dimension of 0"},
        {{.tensors = &unnamed, .n_tensors = 1}, "tensor 0"},
        {{.tensors = &deep, .n_tensors = 1}, "9 dimensions"},
        {{.tensors = &good, .n_tensors = 1, .settings = outer}, "outer_momentum"},
        {{.tensors = &good, .n_tensors = 1, .settings = unknown}, "average.ratio"},
        {{.tensors = &good, .n_tensors = 1, .config_file = "/nowhere.yaml"}, "/nowhere.yaml"},
        {{.tensors = &good, .n_tensors = 1, .config_text = "average:\n  ratio: 2\n"}, "config_text:2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[600] = "";
        struct p2pml_options options = cases[i].options;
        options.size = options.size ? options.size : sizeof options;
        assert_null(p2pml_open(&options, why, sizeof why));
        if (!strstr(why, cases[i].words))
            fail_msg("expected '%s' in '%s'", cases[i].words, why);
    }
}

// Two different models are never averaged: a node that finds only other models ends, and reports it.
static void test_shapes_that_differ_do_not_meet(void **state)
{
    (void)state;
    const int port = free_port(), other = free_port();
    const struct wish a = {.name = "g", .port = port}, b = {.name = "h",
                                                            .port = other,
                                                            .peer = port,
                                                            .rows = ROWS + 1,
                                                            .more = {"node.start_timeout=2s"}};
    p2pml_node *one = open_node(&a), *two = open_node(&b);
    assert_int_equal(p2pml_start(one, WAIT_MS, NULL), P2PML_OK);
    assert_int_equal(p2pml_start(two, WAIT_MS, NULL), P2PML_ENDED);
    assert_non_null(strstr(p2pml_reason(two), "trains another model"));
    p2pml_close(two);
    begin_round(one, 0);
    assert_int_equal(p2pml_round_end(one, WAIT_MS, NULL), P2PML_OK);
    p2pml_close(one);
}

static void test_a_child_can_only_close(void **state)
{
    (void)state;
    const struct wish alone = {.name = "i", .port = free_port()};
    p2pml_node *node = open_node(&alone);
    assert_int_equal(p2pml_start(node, WAIT_MS, NULL), P2PML_OK);
    pid_t child = fork();
    if (child == 0) {
        alarm(20); // ends a child that hangs
        bool right = p2pml_round_begin(node, 0, 0, NAN) == P2PML_EFORK &&
                     p2pml_leave(node, -1) == P2PML_EFORK && p2pml_start(node, -1, NULL) == P2PML_EFORK &&
                     !p2pml_status(node);
        p2pml_close(node);
        _exit(right ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    begin_round(node, 0); // the parent's round goes on
    assert_int_equal(p2pml_round_end(node, WAIT_MS, NULL), P2PML_OK);
    p2pml_close(node);
}

// A second node in the same directory is refused and the first goes on; the second may start once the first
// has ended.
static void test_a_directory_in_use_is_refused(void **state)
{
    (void)state;
    const struct wish wish = {.name = "j", .port = free_port()};
    p2pml_node *one = open_node(&wish), *two = open_node(&wish);
    assert_int_equal(p2pml_start(one, WAIT_MS, NULL), P2PML_OK);
    assert_true(p2pml_start(two, WAIT_MS, NULL) < 0);
    assert_non_null(strstr(p2pml_reason(two), "in use"));
    p2pml_close(one);
    assert_int_equal(p2pml_start(two, WAIT_MS, NULL), P2PML_OK);
    p2pml_close(two);
}

// The service belongs to the program: only the program knows when it is ready.
static void test_the_node_does_not_notify_a_service_manager(void **state)
{
    (void)state;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char text[8];
    const int manager = socket(AF_UNIX, SOCK_DGRAM, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s/manager", root);
    assert_int_equal(bind(manager, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", at.sun_path, 1), 0);
    const struct wish wish = {.name = "m", .port = free_port()};
    p2pml_node *node = open_node(&wish);
    assert_int_equal(p2pml_start(node, WAIT_MS, NULL), P2PML_OK);
    p2pml_close(node);
    assert_true(recv(manager, text, sizeof text, MSG_DONTWAIT) < 0);
    unsetenv("NOTIFY_SOCKET");
    close(manager);
}

static void make_comma_locale(void)
{
    char command[300];
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s/localedef 2>&1", root,
             root);
    assert_int_equal(setenv("LOCPATH", root, 1), 0);
    if (system(command) == 0 && setlocale(LC_ALL, "de_DE.UTF-8"))
        return;
    print_message("no locale with a decimal comma can be made here (localedef, Debian: locales)\n");
    skip();
}

static void get(int port, const char *path, char *answer, size_t capacity)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    size_t used = 0;
    char request[100];
    const int bytes = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", path);
    assert_int_equal(connect(s, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(send(s, request, (size_t)bytes, 0), bytes);
    for (ssize_t got; (got = recv(s, answer + used, capacity - 1 - used, 0)) > 0;)
        used += (size_t)got;
    answer[used] = 0;
    close(s);
}

static void test_numbers_have_points_in_every_locale(void **state)
{
    (void)state;
    static char page[1 << 17];
    char http[60];
    const int port = free_port();
    make_comma_locale();
    snprintf(http, sizeof http, "node.http=127.0.0.1:%d", port);
    p2pml_node *node =
        open_node(&(struct wish){.name = "locale", .port = free_port(), .more = {http, "train.alone=go-on"}});
    assert_int_equal(p2pml_start(node, WAIT_MS, NULL), P2PML_OK);
    get(port, "/metrics", page, sizeof page);
    p2pml_close(node);
    assert_non_null(setlocale(LC_ALL, "C"));
    const char *uptime = strstr(page, "\np2pml_uptime_seconds ");
    assert_non_null(uptime);
    uptime = strchr(uptime, ' ') + 1;
    assert_int_equal(uptime[strspn(uptime, "0123456789")], '.');
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_nodes_meet_in_the_middle_and_go_on_after_a_restart),
        cmocka_unit_test(test_the_changes_are_all_that_changed),
        cmocka_unit_test(test_a_late_joiner_gets_the_blob_with_the_model),
        cmocka_unit_test(test_a_model_that_is_not_finite_is_taken_back),
        cmocka_unit_test(test_the_reason_of_an_end_is_its_cause),
        cmocka_unit_test(test_a_second_moment_that_is_not_finite_begins_again),
        cmocka_unit_test(test_calls_out_of_order_change_nothing),
        cmocka_unit_test(test_steps_beyond_the_end_do_not_count),
        cmocka_unit_test(test_invalid_options_are_refused_with_a_reason),
        cmocka_unit_test(test_shapes_that_differ_do_not_meet),
        cmocka_unit_test(test_a_child_can_only_close),
        cmocka_unit_test(test_a_directory_in_use_is_refused),
        cmocka_unit_test(test_the_node_does_not_notify_a_service_manager),
        cmocka_unit_test(test_numbers_have_points_in_every_locale),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
