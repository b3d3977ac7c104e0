// lib: programs that judge look at their neighbours, too, and distrust one that lies.
#include "gossip/exchange/state.h"
#include "lib/node.h"
#include "test/unit/lib_p2pml_nodes.h"
#include <time.h>

enum { MOST_ROUNDS = 4000, EXAMPLES = 64, LIAR = 2, NODES = 3 };
#define LOOK_PART 25 // a look costs 4% of the time

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// A program whose examples are best served by sin(i), or that knows no losses.
struct looks {
    bool blind;
    double takes_s;               // at least, for one model
    int models;                   // that it was asked about; three are a look
    double begun_s, not_before_s; // of the latest look; of the next one
};

static int losses_of(void *context, const float *model, double *losses, int most)
{
    struct looks *l = context;
    const int at = l->blind ? 0 : l->models % 3;
    l->models++;
    if (at == 0) {
        l->begun_s = now_s();
        assert_true(l->begun_s >= l->not_before_s);
    }
    for (const double begun_s = now_s(); now_s() < begun_s + l->takes_s;)
        ;
    if (l->blind)
        return 0;
    assert_true(most >= EXAMPLES);
    for (int i = 0; i < EXAMPLES; i++)
        losses[i] = pow(model[i] - sin(i), 2);
    if (at == 2)
        l->not_before_s = now_s() + LOOK_PART * (now_s() - l->begun_s);
    return EXAMPLES;
}

static void start_three(p2pml_node *const node[NODES])
{
    int code[NODES] = {P2PML_AGAIN, P2PML_AGAIN, P2PML_AGAIN};
    while (code[0] == P2PML_AGAIN || code[1] == P2PML_AGAIN || code[2] == P2PML_AGAIN)
        for (int k = 0; k < NODES; k++) {
            code[k] = code[k] == P2PML_AGAIN ? p2pml_start(node[k], 10, NULL) : code[k];
            assert_true(code[k] >= 0);
        }
}

// They begin far from what two of them learn.
static void open_three(p2pml_node *node[NODES], struct looks looks[NODES], const char *name)
{
    int port[NODES];
    for (int k = 0; k < NODES; k++)
        port[k] = free_port();
    for (int k = 0; k < NODES; k++) {
        char own[32];
        snprintf(own, sizeof own, "%s%d", name, k);
        node[k] = open_node(&(struct wish){.name = own,
                                           .port = port[k],
                                           .peer = port[(k + 1) % NODES],
                                           .more = {"node.start_members=3"},
                                           .judge = losses_of,
                                           .judge_context = &looks[k]});
        for (int i = 0; i < D; i++)
            p2pml_vector(node[k], P2PML_MODEL, NULL)[i] = 3;
    }
    start_three(node);
}

static void train_three(p2pml_node *const node[NODES])
{
    for (int k = 0; k < NODES; k++)
        begin_round(node[k], k == LIAR ? -6 : 0);
    for (int k = 0; k < NODES; k++)
        assert_int_equal(p2pml_round_end(node[k], WAIT_MS, NULL), P2PML_OK);
}

static void close_three(p2pml_node *const node[NODES])
{
    for (int k = 0; k < NODES; k++)
        p2pml_close(node[k]);
}

static int distrusted(p2pml_node *node)
{
    int count = 0;
    char *status = p2pml_status(node);
    assert_non_null(status);
    for (const char *at = status; (at = strstr(at, "\"distrusted\": true")); at++)
        count++;
    free(status);
    return count;
}

static void test_a_program_that_judges_distrusts_a_neighbour_that_lies(void **state)
{
    (void)state;
    struct looks looks[NODES] = {[LIAR] = {.blind = true}};
    p2pml_node *node[NODES];
    open_three(node, looks, "looks");
    bool over = false;
    for (int round = 0; round < MOST_ROUNDS && !over; round++) {
        train_three(node);
        over = round % 20 == 19 && distrusted(node[0]) == 1 && distrusted(node[1]) == 1 &&
               error_of(node[0]) < 0.2 && error_of(node[1]) < 0.2;
    }
    assert_true(over);
    assert_true(looks[0].models >= 15 && looks[1].models >= 15); // five bad looks
    close_three(node);
}

static void test_losses_that_are_not_known_are_no_verdict(void **state)
{
    (void)state;
    struct looks looks[NODES] = {{.blind = true}, {.blind = true}, {.blind = true}};
    p2pml_node *node[NODES];
    open_three(node, looks, "blind");
    for (int round = 0; round < MOST_ROUNDS && (looks[0].models < 20 || looks[1].models < 20); round++)
        train_three(node);
    assert_true(looks[0].models >= 20 && looks[1].models >= 20);
    for (int k = 0; k < NODES; k++)
        assert_int_equal(distrusted(node[k]), 0);
    close_three(node);
}

static void test_a_look_costs_a_small_part_of_the_time(void **state)
{
    (void)state;
    struct looks looks[NODES] = {{.takes_s = 0.01}, {.blind = true}, {.blind = true}};
    p2pml_node *node[NODES];
    open_three(node, looks, "costs");
    while (looks[0].models < 9)
        train_three(node);
    close_three(node);
}

// A limit that is halved waits for a look.
static void test_clipping_waits_for_looks_only_of_a_program_that_judges(void **state)
{
    (void)state;
    struct looks looks = {.blind = true};
    p2pml_node *judges = open_node(
        &(struct wish){.name = "judges", .port = free_port(), .judge = losses_of, .judge_context = &looks});
    p2pml_node *takes_all = open_node(&(struct wish){.name = "takes-all", .port = free_port()});
    assert_int_equal(p2pml_start(judges, WAIT_MS, NULL), P2PML_OK);
    assert_int_equal(p2pml_start(takes_all, WAIT_MS, NULL), P2PML_OK);
    assert_int_equal(judges->setup.exchange->options.robust, GOSSIP_ROBUST_PROBE);
    assert_int_equal(takes_all->setup.exchange->options.robust, GOSSIP_ROBUST_CLIP);
    p2pml_close(judges);
    p2pml_close(takes_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_that_judges_distrusts_a_neighbour_that_lies),
        cmocka_unit_test(test_losses_that_are_not_known_are_no_verdict),
        cmocka_unit_test(test_a_look_costs_a_small_part_of_the_time),
        cmocka_unit_test(test_clipping_waits_for_looks_only_of_a_program_that_judges),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
