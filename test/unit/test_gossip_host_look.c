// gossip/host/average: looks at neighbours, between the exchange that lends a reference and the trainer that
// compares it.
#include "gossip/exchange/state.h"
#include "gossip/host/average.h"
#include "test/support/cpu_kernels.h"
#include "test/support/graph_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { D = 40 };
#define SECOND 1000000000ull

static bool rests(const void *owner, struct gossip_snapshot_vectors *vectors)
{
    (void)owner, (void)vectors;
    return true;
}

struct node {
    float start[D], model[D];
    struct gossip_exchange *exchange;
    struct gossip_average *average;
    struct gossip_average_action judged; // the latest of its kind
};

// With a live edge over which all entries have been sent.
static struct gossip_edge *add_edge(struct node *node, size_t peer)
{
    const struct gossip_id id = graph_id(peer);
    struct gossip_edge *edge;
    assert_int_equal(gossip_edge_add(node->exchange, &id, &edge), BASE_OK);
    edge->state = GOSSIP_EDGE_LIVE;
    edge->exchanges = 2;
    assert_true(gossip_vector_make(cpu_kernels(), D, false, &edge->reference));
    for (size_t i = 0; i < D; i++)
        edge->reference.fp32[i] = (float)peer;
    return edge;
}

static void open_node(struct node *node)
{
    struct base_reason why;
    *node = (struct node){.exchange = NULL};
    const struct gossip_exchange_options exchange = {.self = graph_id(0),
                                                     .kernels = cpu_kernels(),
                                                     .parameters = D,
                                                     .start = node->start,
                                                     .ratio = 1,
                                                     .values = KERNELS_FP32,
                                                     .sync = true,
                                                     .robust = GOSSIP_ROBUST_CLIP,
                                                     .deadline_floor_ns = SECOND,
                                                     .deadline_ceiling_ns = SECOND};
    assert_int_equal(gossip_exchange_create(&exchange, &node->exchange, &why), BASE_OK);
    const struct gossip_average_options options = {.self = graph_id(0),
                                                   .exchange = node->exchange,
                                                   .merge_patience_ns = SECOND,
                                                   .rests = rests,
                                                   .owner = node};
    assert_int_equal(gossip_average_create(&options, &node->average), BASE_OK);
}

static void close_node(struct node *node)
{
    gossip_average_destroy(node->average);
    gossip_exchange_destroy(node->exchange);
}

// A boundary at which nobody is met.
static void end_round(struct node *node, uint64_t round, struct gossip_look *look)
{
    const struct gossip_average_round at = {
        .meet = {.round = round, .step_scale = 0.1f}, .vectors = {.model = node->model}, .look = look};
    struct gossip_average_action action = {.kind = GOSSIP_AVERAGE_SEND};
    bool done = false;
    gossip_average_round(node->average, &at);
    while (gossip_average_next(node->average, round * SECOND, &action)) {
        if (action.kind == GOSSIP_AVERAGE_JUDGED)
            node->judged = action;
        done |= action.kind == GOSSIP_AVERAGE_DONE;
    }
    assert_true(done);
}

static void a_look_goes_with_a_round_and_comes_back_with_the_next(void **state)
{
    float reference[D] = {0};
    struct gossip_look look = {.model = reference};
    struct node node;
    (void)state;
    open_node(&node);
    const struct gossip_edge *edge = add_edge(&node, 2), *other = add_edge(&node, 1);
    end_round(&node, 1, &look); // the trainer cannot afford one
    assert_int_equal(look.state, GOSSIP_LOOK_UNUSED);
    look.state = GOSSIP_LOOK_WANTED;
    end_round(&node, 2, &look);
    assert_int_equal(look.state, GOSSIP_LOOK_GIVEN);
    const size_t first = graph_number(&look.peer);
    assert_true(first == 1 || first == 2);
    assert_true(reference[0] == (float)first && reference[D - 1] == (float)first);
    end_round(&node, 3, &look); // the trainer took no steps in between
    assert_int_equal(look.state, GOSSIP_LOOK_GIVEN);
    look.state = GOSSIP_LOOK_JUDGED;
    look.losses = (struct gossip_losses){.nothing = 2, .own = 1, .other = 1.5};
    end_round(&node, 4, &look);
    assert_int_equal(look.state, GOSSIP_LOOK_UNUSED);
    assert_true((first == 2 ? edge : other)->trust.lost == 0.5);
    look.state = GOSSIP_LOOK_WANTED;
    end_round(&node, 5, &look); // the other one's turn
    assert_int_equal(graph_number(&look.peer), 3 - first);
    close_node(&node);
}

static void the_owner_hears_of_a_verdict(void **state)
{
    float reference[D];
    struct gossip_look look = {.model = reference};
    struct node node;
    (void)state;
    open_node(&node);
    struct gossip_edge *edge = add_edge(&node, 2), *other = add_edge(&node, 1);
    other->trust.looked = true;
    for (uint64_t round = 1; round <= GOSSIP_TRUST_LOOKS; round++) {
        assert_int_equal(node.judged.verdict, GOSSIP_VERDICT_NONE);
        look.state = GOSSIP_LOOK_JUDGED;
        look.peer = graph_id(2);
        look.losses = (struct gossip_losses){.nothing = 2, .own = 1, .other = 1.5};
        end_round(&node, round, &look);
    }
    assert_int_equal(node.judged.verdict, GOSSIP_VERDICT_DISTRUST);
    assert_int_equal(graph_number(&node.judged.peer), 2);
    assert_true(node.judged.trust.lost == 0.5 && node.judged.trust.state == GOSSIP_DISTRUSTED);
    assert_int_equal(edge->trust.state, GOSSIP_DISTRUSTED);
    close_node(&node);
}

static void compare(void *owner, size_t which, const float *model, struct gossip_losses *losses)
{
    *losses =
        (struct gossip_losses){.nothing = *(double *)owner, .own = (double)which, .other = (double)model[0]};
}

static void a_trainer_looks_when_it_can_afford_it(void **state)
{
    double nothing = 7;
    float model = 5;
    struct gossip_look look = {.model = &model};
    const struct gossip_learner learner = {.owner = &nothing, .compare = compare};
    const struct gossip_learner_steps poor = {0}, rich = {.affords = true};
    (void)state;
    gossip_look_want(NULL, &rich);
    gossip_look_compare(NULL, &learner, 0);
    gossip_look_want(&look, &poor);
    assert_int_equal(look.state, GOSSIP_LOOK_UNUSED);
    gossip_look_want(&look, &rich);
    assert_int_equal(look.state, GOSSIP_LOOK_WANTED);
    gossip_look_compare(&look, &learner, 3); // nothing was given
    assert_int_equal(look.state, GOSSIP_LOOK_WANTED);
    look.state = GOSSIP_LOOK_GIVEN;
    gossip_look_want(&look, &rich); // one at a time
    assert_int_equal(look.state, GOSSIP_LOOK_GIVEN);
    gossip_look_compare(&look, &learner, 3);
    assert_int_equal(look.state, GOSSIP_LOOK_JUDGED);
    assert_true(look.losses.nothing == 7 && look.losses.own == 3 && look.losses.other == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_goes_with_a_round_and_comes_back_with_the_next),
        cmocka_unit_test(the_owner_hears_of_a_verdict),
        cmocka_unit_test(a_trainer_looks_when_it_can_afford_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
