// libp2pml as a program sees it: nodes in one process over loopback, each with its own loss. The mean of the
// losses has its minimum where no single one has.
#include "lib_p2pml_nodes.h"

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

// Own minima 1 and -1; with 30 and 10 examples that of all is 0.5.
static void test_gradients_count_by_examples(void **state)
{
    (void)state;
    const int port = free_port(), other = free_port();
    const struct wish w[2] = {
        {.name = "more", .port = port, .peer = other, .examples = 30, .more = {"average.mode=sync"}},
        {.name = "fewer", .port = other, .peer = port, .examples = 10, .more = {"average.mode=sync"}}};
    p2pml_node *const node[2] = {open_node(&w[0]), open_node(&w[1])};
    struct p2pml_round round[2];
    start_both(node[0], node[1], &round[1]);
    round[0] = round[1];
    for (int i = 0; i < 300; i++) {
        for (int k = 0; k < 2; k++) {
            float *x = p2pml_vector(node[k], P2PML_MODEL, NULL);
            const float *c = p2pml_vector(node[k], P2PML_CORRECTION, NULL);
            for (int j = 0; j < D; j++)
                x[j] += rate * ((float)round[k].weight * ((k ? -1 : 1) - x[j]) + c[j]);
            assert_int_equal(p2pml_round_begin(node[k], 1, rate, NAN), P2PML_OK);
        }
        assert_int_equal(p2pml_round_end(node[0], WAIT_MS, &round[0]), P2PML_OK);
        assert_int_equal(p2pml_round_end(node[1], WAIT_MS, &round[1]), P2PML_OK);
    }
    assert_float_equal(round[0].weight, 1.5, 1e-9);
    assert_float_equal(round[1].weight, 0.5, 1e-9);
    char *status = p2pml_status(node[0]);
    assert_non_null(strstr(status, "\"weight\": 1.5"));
    assert_non_null(strstr(status, "\"examples\": 10"));
    free(status);
    for (int k = 0; k < 2; k++)
        assert_float_equal(p2pml_vector(node[k], P2PML_MODEL, NULL)[7], 0.5, 0.05);
    p2pml_close(node[0]);
    p2pml_close(node[1]);
}

static void test_a_configured_weight_is_told(void **state)
{
    (void)state;
    struct p2pml_round round;
    p2pml_node *node = open_node(
        &(struct wish){.name = "given", .port = free_port(), .examples = 9, .more = {"train.weight=3"}});
    assert_int_equal(p2pml_start(node, WAIT_MS, &round), P2PML_OK);
    assert_float_equal(round.weight, 3, 1e-9);
    p2pml_close(node);
}

// Models and corrections of two nodes.
struct two {
    float model[2][D], correction[2][D];
};

static void train_in_lives(int lives, struct two *end)
{
    enum { ROUNDS = 60 };
    const int port = free_port(), other = free_port();
    char name[2][16];
    struct wish w[2] = {{.name = name[0], .port = port, .peer = other, .more = {"average.mode=sync"}},
                        {.name = name[1], .port = other, .peer = port, .more = {"average.mode=sync"}}};
    for (int i = 0; i < 2; i++)
        snprintf(name[i], sizeof name[i], "%d-lives-%d", lives, i);
    for (int life = 0; life < lives; life++) {
        w[0].resume = w[1].resume = life > 0;
        p2pml_node *const node[2] = {open_node(&w[0]), open_node(&w[1])};
        start_both(node[0], node[1], NULL);
        train_both(node[0], node[1], ROUNDS / lives);
        for (int i = 0; i < 2; i++) {
            memcpy(end->model[i], p2pml_vector(node[i], P2PML_MODEL, NULL), sizeof end->model[i]);
            memcpy(end->correction[i], p2pml_vector(node[i], P2PML_CORRECTION, NULL),
                   sizeof end->correction[i]);
        }
        assert_int_equal(p2pml_leave(node[0], -1), P2PML_ENDED);
        p2pml_close(node[0]);
        p2pml_close(node[1]);
    }
}

// Leaving is no round: with one more exchange in each life the bits would differ.
static void test_a_program_that_leaves_and_resumes_changes_no_bit(void **state)
{
    static struct two undisturbed, resumed;
    (void)state;
    train_in_lives(1, &undisturbed);
    train_in_lives(4, &resumed);
    assert_true(undisturbed.correction[0][1] != 0);
    assert_memory_equal(&undisturbed, &resumed, sizeof resumed);
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

// The model of a program that holds a part back, as others get it.
static void whole_model(p2pml_node *node, float x[D])
{
    const float *y = p2pml_vector(node, P2PML_MODEL, NULL), *held = p2pml_vector(node, P2PML_HELD, NULL);
    for (int i = 0; i < D; i++)
        x[i] = y[i] + held[i];
}

static double held_by(p2pml_node *node)
{
    const float *held = p2pml_vector(node, P2PML_HELD, NULL);
    double sum = 0;
    for (int i = 0; i < D; i++)
        sum += fabs(held[i]);
    return sum / D;
}

static void expect_model(p2pml_node *node, const float x[D])
{
    const float *y = p2pml_vector(node, P2PML_MODEL, NULL);
    for (int i = 0; i < D; i++)
        assert_float_equal(y[i], x[i], 1e-5);
}

// Rounds without steps move both models, but not their sum, unless what a program holds back is lost or
// counted twice.
static void expect_one_sum(p2pml_node *const node[2])
{
    float before[2][D], after[2][D];
    for (int i = 0; i < 2; i++)
        whole_model(node[i], before[i]);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 2; i++)
            assert_int_equal(p2pml_round_begin(node[i], 0, 0, NAN), P2PML_OK);
        for (int i = 0; i < 2; i++)
            assert_int_equal(p2pml_round_end(node[i], WAIT_MS, NULL), P2PML_OK);
    }
    for (int i = 0; i < 2; i++)
        whole_model(node[i], after[i]);
    assert_memory_not_equal(before, after, sizeof before);
    for (int j = 0; j < D; j++)
        assert_float_equal(before[0][j] + before[1][j], after[0][j] + after[1][j], 1e-4);
}

// A program takes its steps at a model that lacks a part; what it leaves, and its checkpoint, lack nothing.
static void test_what_a_program_holds_back_is_in_its_model_again(void **state)
{
    (void)state;
    const int port = free_port(), other = free_port();
    struct wish w[2] = {
        {.name = "h", .port = port, .peer = other, .more = {"average.mode=sync", "average.hold=0.5"}},
        {.name = "i", .port = other, .peer = port, .more = {"average.mode=sync", "average.hold=0.5"}}};
    p2pml_node *node[2] = {open_node(&w[0]), open_node(&w[1])};
    float x[2][D];
    start_both(node[0], node[1], NULL);
    assert_true(held_by(node[0]) == 0);
    train_both(node[0], node[1], 20);
    assert_true(held_by(node[0]) > 1e-3 && held_by(node[1]) > 1e-3);
    expect_one_sum(node);
    train_both(node[0], node[1], 1);
    for (int i = 0; i < 2; i++) {
        assert_true(held_by(node[i]) > 1e-4);
        whole_model(node[i], x[i]);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p2pml_leave(node[i], -1), P2PML_ENDED);
        assert_true(held_by(node[i]) == 0);
    }
    expect_model(node[0], x[0]);
    p2pml_close(node[0]);
    p2pml_close(node[1]);
    w[0].resume = 1;
    w[0].peer = 0; // alone, so that nobody changes the model
    node[0] = open_node(&w[0]);
    assert_int_equal(p2pml_start(node[0], WAIT_MS, NULL), P2PML_OK);
    assert_true(held_by(node[0]) == 0);
    expect_model(node[0], x[0]);
    p2pml_close(node[0]);
}

// auto is for the trainer of the node: a program that saves its own vectors would save a model that lacks a
// part.
static void test_a_program_holds_nothing_back_unless_it_asks_for_it(void **state)
{
    (void)state;
    struct wish w = {.name = "j", .port = free_port(), .more = {"train.optimizer=adamw"}};
    p2pml_node *node = open_node(&w);
    assert_null(p2pml_vector(node, P2PML_HELD, NULL));
    p2pml_close(node);
    w.more[1] = "average.hold=auto";
    node = open_node(&w);
    assert_non_null(p2pml_vector(node, P2PML_HELD, NULL));
    p2pml_close(node);
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

static void rounds_of_loss(p2pml_node *node, int rounds, double loss)
{
    for (int i = 0; i < rounds; i++) {
        take_steps(node, 0);
        assert_int_equal(p2pml_round_begin(node, STEPS, STEPS * rate, loss), P2PML_OK);
        assert_int_equal(p2pml_round_end(node, WAIT_MS, NULL), P2PML_OK);
    }
}

// Progress is told ten times a second at most: the node goes on until its status shows it.
static void go_on_until(p2pml_node *node, double loss, bool diverged)
{
    for (int i = 0; i < 3000; i++) {
        char *status = p2pml_status(node);
        assert_non_null(status);
        const bool shown = strstr(status, "\"condition\": \"diverged\"");
        free(status);
        if (shown == diverged)
            return;
        rounds_of_loss(node, 1, loss);
        usleep(10000);
    }
    fail_msg("the condition %s diverged", diverged ? "is not" : "stays");
}

// The losses that a program passes are watched, as those of the built-in trainer; its model is left alone.
static void test_losses_that_rise_are_told(void **state)
{
    (void)state;
    const struct wish alone = {.name = "loss", .port = free_port()};
    p2pml_node *node = open_node(&alone);
    assert_int_equal(p2pml_start(node, WAIT_MS, NULL), P2PML_OK);
    rounds_of_loss(node, 8, 2.0);
    rounds_of_loss(node, 200, 0.2);
    char *status = p2pml_status(node);
    assert_null(strstr(status, "\"condition\": \"diverged\""));
    free(status);
    rounds_of_loss(node, 32, 1.9);
    go_on_until(node, 1.9, true);
    assert_true(error_of(node) < 0.1); // nothing has returned to an earlier model
    rounds_of_loss(node, 32, 0.2);
    go_on_until(node, 0.2, false);
    p2pml_close(node);
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

static void expect_state(p2pml_node *node, const char *text)
{
    const void *now = NULL;
    size_t bytes = 1;
    assert_int_equal(p2pml_state(node, NULL, 0, &now, &bytes), P2PML_OK);
    assert_int_equal(bytes, strlen(text));
    if (bytes > 0)
        assert_memory_equal(now, text, bytes);
}

static void give_state(p2pml_node *node, const char *text)
{
    assert_int_equal(p2pml_state(node, text, strlen(text), NULL, NULL), P2PML_OK);
}

static void round_alone(p2pml_node *node, struct p2pml_round *round)
{
    begin_round(node, 0);
    assert_int_equal(p2pml_round_end(node, WAIT_MS, round), P2PML_OK);
}

static p2pml_node *resume_alone(const struct wish *alone, int another, struct p2pml_round *round)
{
    p2pml_node *node = open_node(alone);
    assert_int_equal(p2pml_start(node, WAIT_MS, round), P2PML_OK);
    assert_int_equal(round->another, another);
    return node;
}

// A program's state belongs to the checkpoint of the turn in which it was given, and to no later one.
static void test_a_program_has_its_state_from_the_checkpoint(void **state)
{
    (void)state;
    const struct wish alone = {.name = "state", .port = free_port(), .resume = 1};
    struct p2pml_round round;
    p2pml_node *node = resume_alone(&alone, 0, &round);
    assert_true(round.saves); // a new node writes one after its first round
    expect_state(node, "");
    give_state(node, "first");
    round_alone(node, &round);
    assert_false(round.saves || round.another);
    expect_state(node, "");
    give_state(node, "of a turn that writes no checkpoint");
    round_alone(node, &round);
    expect_state(node, "");
    give_state(node, "of the last");
    p2pml_close(node); // leaves in the same turn

    node = resume_alone(&alone, P2PML_RESTORED, &round);
    expect_state(node, "of the last");
    p2pml_close(node); // at once: it is still that of the checkpoint
    node = resume_alone(&alone, P2PML_RESTORED, &round);
    expect_state(node, "of the last");
    round_alone(node, &round); // which writes none: it was not announced
    assert_int_equal(round.another, 0);
    assert_int_equal(p2pml_save(node), P2PML_OK);
    give_state(node, "asked for");
    round_alone(node, &round);
    assert_int_equal(p2pml_round_begin(node, 0, 0, NAN), P2PML_OK); // lent without a state
    assert_int_equal(p2pml_state(node, "x", 1, NULL, NULL), P2PML_EORDER);
    p2pml_close(node);

    node = resume_alone(&alone, P2PML_RESTORED, &round);
    expect_state(node, ""); // better none than an older one
    const size_t most = 65536 + 64 * D * sizeof(float);
    char *much = calloc(1, most + 1);
    assert_non_null(much);
    assert_int_equal(p2pml_state(node, much, most + 1, NULL, NULL), P2PML_ELIMIT);
    expect_state(node, "");
    assert_int_equal(p2pml_state(node, much, most, NULL, NULL), P2PML_OK);
    free(much);
    p2pml_close(node);
    node = resume_alone(&alone, P2PML_RESTORED, &round); // a file of that size can be read
    p2pml_close(node);
}

static void test_an_accuracy_is_shown(void **state)
{
    (void)state;
    const struct wish alone = {.name = "accuracy", .port = free_port()};
    struct p2pml_round round;
    p2pml_node *node = open_node(&alone);
    assert_int_equal(p2pml_accuracy(node, 0.5), P2PML_EORDER);
    assert_int_equal(p2pml_start(node, WAIT_MS, NULL), P2PML_OK);
    assert_int_equal(p2pml_accuracy(node, 1.5), P2PML_EINVAL);
    assert_int_equal(p2pml_accuracy(node, (double)NAN), P2PML_EINVAL);
    assert_int_equal(p2pml_accuracy(node, 0.8125), P2PML_OK);
    bool shown = false;
    for (int i = 0; i < 1000000 && !shown; i++) { // it is told ten times a second
        round_alone(node, &round);
        char *status = p2pml_status(node);
        assert_non_null(status);
        shown = strstr(status, "\"accuracy\":0.8125") || strstr(status, "\"accuracy\": 0.8125");
        free(status);
    }
    assert_true(shown);
    p2pml_close(node);
}

// -- the program judges

enum { JUDGED_MOST = 12 };

// Its losses are those of the models that are asked for: of the seed model, of its own, of the other one.
struct judge {
    double loss[3];
    int not_now; // how often it puts off
    int calls;
    const float *own;           // its vector
    float seen[JUDGED_MOST][2]; // of each model: two of its values
};

static int judge_losses(void *context, const float *model, double *losses, int most)
{
    struct judge *j = context;
    const int which = j->calls % 3;
    assert_true(most >= 100 && j->calls < JUDGED_MOST);
    if (j->not_now > 0)
        return -(j->not_now--);
    assert_true(which != 1 || model == j->own);
    j->seen[j->calls][0] = model[1];
    j->seen[j->calls++][1] = model[2];
    for (int i = 0; i < 20; i++)
        losses[i] = j->loss[which];
    return 20;
}

// A late joiner is offered the model of a member.
static void meet_a_donor(bool refuses)
{
    struct judge judge = {.loss = {2.3, 2.4, refuses ? 50 : 0.3}, .not_now = 2};
    const int port[2] = {free_port(), free_port()};
    p2pml_node *donor = open_node(&(struct wish){.name = refuses ? "liar" : "donor", .port = port[0]}),
               *node = open_node(&(struct wish){.name = refuses ? "refuses" : "takes",
                                                .port = port[1],
                                                .peer = port[0],
                                                .judge = judge_losses,
                                                .judge_context = &judge});
    struct p2pml_round round = {0};
    judge.own = p2pml_vector(node, P2PML_MODEL, NULL);
    assert_int_equal(p2pml_start(donor, WAIT_MS, NULL), P2PML_OK);
    int code = P2PML_AGAIN;
    for (int i = 0; i < 3000 && code == P2PML_AGAIN && !(refuses && judge.calls == 3); i++) {
        round_alone(donor, &(struct p2pml_round){0});
        code = p2pml_start(node, 10, &round);
    }
    assert_int_equal(code, refuses ? P2PML_AGAIN : P2PML_OK);
    assert_int_equal(round.another, refuses ? 0 : P2PML_TAKEN);
    assert_true(judge.not_now == 0 && judge.calls == 3);
    assert_true(judge.seen[0][0] == 0 && judge.seen[1][0] == 0 && judge.seen[2][0] != 0);
    for (int i = 0; i < 2; i++)
        assert_true((judge.own[i + 1] == 0) == refuses); // exchanges may have changed the other one by now
    p2pml_close(node);
    p2pml_close(donor);
}

static void test_a_program_takes_a_donor_s_model_that_serves_its_examples(void **state)
{
    (void)state;
    meet_a_donor(false);
}

static void test_a_program_refuses_a_donor_s_model_that_is_worse(void **state)
{
    (void)state;
    meet_a_donor(true);
}

static void finish_with(p2pml_node *const node[2])
{
    bool over[2] = {false, false};
    while (!over[0] || !over[1])
        for (int k = 0; k < 2; k++) {
            const int code = over[k] ? P2PML_AGAIN : p2pml_round_end(node[k], 10, NULL);
            over[k] = over[k] || code == P2PML_ENDED;
            if (code == P2PML_OK)
                begin_round(node[k], k ? -1 : 1);
        }
}

// No example is known any more.
static void test_a_program_keeps_its_own_model_where_the_merged_one_is_worse(void **state)
{
    (void)state;
    struct judge judge = {.loss = {2.3, 0.1, 2.3}};
    const int port[2] = {free_port(), free_port()};
    const char *steps = "train.steps=150";
    p2pml_node *const node[2] = {
        open_node(&(struct wish){.name = "merge1",
                                 .port = port[0],
                                 .peer = port[1],
                                 .more = {steps, "average.mode=sync", "average.robust=clip"}, // no looks
                                 .judge = judge_losses,
                                 .judge_context = &judge}),
        open_node(&(struct wish){
            .name = "merge2", .port = port[1], .peer = port[0], .more = {steps, "average.mode=sync"}})};
    judge.own = p2pml_vector(node[0], P2PML_MODEL, NULL);
    start_both(node[0], node[1], NULL);
    const int calls = judge.calls; // it may have begun with the other one's model
    begin_round(node[0], 1);
    begin_round(node[1], -1);
    finish_with(node); // after 150 steps there is something to lose
    assert_int_equal(judge.calls, calls + 3);
    assert_true(judge.own[1] != judge.seen[calls + 2][0]);
    p2pml_close(node[0]);
    p2pml_close(node[1]);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_nodes_meet_in_the_middle_and_go_on_after_a_restart),
        cmocka_unit_test(test_gradients_count_by_examples),
        cmocka_unit_test(test_a_configured_weight_is_told),
        cmocka_unit_test(test_a_program_that_leaves_and_resumes_changes_no_bit),
        cmocka_unit_test(test_the_changes_are_all_that_changed),
        cmocka_unit_test(test_what_a_program_holds_back_is_in_its_model_again),
        cmocka_unit_test(test_a_program_holds_nothing_back_unless_it_asks_for_it),
        cmocka_unit_test(test_a_late_joiner_gets_the_blob_with_the_model),
        cmocka_unit_test(test_losses_that_rise_are_told),
        cmocka_unit_test(test_a_model_that_is_not_finite_is_taken_back),
        cmocka_unit_test(test_the_reason_of_an_end_is_its_cause),
        cmocka_unit_test(test_a_second_moment_that_is_not_finite_begins_again),
        cmocka_unit_test(test_a_program_has_its_state_from_the_checkpoint),
        cmocka_unit_test(test_an_accuracy_is_shown),
        cmocka_unit_test(test_a_program_takes_a_donor_s_model_that_serves_its_examples),
        cmocka_unit_test(test_a_program_refuses_a_donor_s_model_that_is_worse),
        cmocka_unit_test(test_a_program_keeps_its_own_model_where_the_merged_one_is_worse),
        cmocka_unit_test(test_the_node_does_not_notify_a_service_manager),
        cmocka_unit_test(test_numbers_have_points_in_every_locale),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
