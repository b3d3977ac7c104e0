// What libp2pml refuses: calls out of order, invalid options, other shapes, a child process, a directory in
// use.
#include "lib_p2pml_nodes.h"

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
    assert_int_equal(p2pml_state(node, "x", 1, NULL, NULL), P2PML_EORDER);
    assert_null(p2pml_status(node));
    assert_int_equal(p2pml_start(node, WAIT_MS, NULL), P2PML_OK);
    assert_int_equal(p2pml_start(node, 0, NULL), P2PML_EORDER);
    assert_int_equal(p2pml_round_end(node, 0, NULL), P2PML_EORDER);
    assert_int_equal(p2pml_round_begin(node, 1, -1, NAN), P2PML_EINVAL);
    assert_int_equal(p2pml_round_begin(node, 1, NAN, NAN), P2PML_EINVAL);
    assert_int_equal(p2pml_round_begin(node, 1, 1e39, NAN), P2PML_EINVAL); // a double, but no float
    assert_non_null(strstr(p2pml_reason(node), "1e+39"));
    assert_int_equal(p2pml_round_begin(node, UINT64_MAX, rate, NAN), P2PML_EINVAL);
    assert_int_equal(p2pml_round_begin(node, 0, 0, NAN), P2PML_OK); // a round without steps is a round, too
    assert_int_equal(p2pml_round_begin(node, 0, 0, NAN), P2PML_EORDER);
    assert_int_equal(p2pml_round_end(node, WAIT_MS, NULL), P2PML_OK);
    assert_int_equal(p2pml_leave(node, -1), P2PML_ENDED);
    assert_int_equal(p2pml_round_end(node, 0, NULL), P2PML_ENDED);
    assert_int_equal(p2pml_leave(node, 0), P2PML_ENDED);
    assert_int_equal(p2pml_state(node, "x", 1, NULL, NULL), P2PML_ENDED);
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
                              empty = {"w", none, 1}, unnamed = {NULL, shape, 1}, deep = {"w", shape, 9},
                              red = {"w\x1b[31m", shape, 1};
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
        {{.tensors = &red, .n_tensors = 1}, "tensor 0: its name has a control character"},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_out_of_order_change_nothing),
        cmocka_unit_test(test_steps_beyond_the_end_do_not_count),
        cmocka_unit_test(test_invalid_options_are_refused_with_a_reason),
        cmocka_unit_test(test_shapes_that_differ_do_not_meet),
        cmocka_unit_test(test_a_child_can_only_close),
        cmocka_unit_test(test_a_directory_in_use_is_refused),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
