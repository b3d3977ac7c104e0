// Settings that do not fit: each is named when what is measured contradicts it, and only then.
#include "node/http/fit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull

struct world {
    struct node_status status;
    struct node_status_edge edges[3];
};

static void fill(struct world *w)
{
    static const char *const names[] = {"n1", "n2", "n3"};
    *w = (struct world){
        .status = {.settings = {.profile = "lan", .sync = true, .local_steps = 4, .ceiling_ns = 10000 * MS},
                   .started_ns = 1000 * MS,
                   .now_ns = 101000 * MS,
                   .progress = {.state = "training", .step_ns = 5 * MS},
                   .membership = {.answer_ns = 2 * MS, .period_ns = 500 * MS},
                   .n_edges = 3}};
    w->status.edges = w->edges;
    for (size_t i = 0; i < 3; i++)
        w->edges[i] = (struct node_status_edge){
            .name = names[i], .edge = {.state = GOSSIP_EDGE_LIVE, .answer_median_ns = 30 * MS}};
}

static void waits(struct world *w, uint64_t ns)
{
    w->status.totals.waits.ns[GOSSIP_PACE_FOR_ANSWER] = ns;
}

static void must_be_one(const struct world *w, enum node_fit what, const char *key, const char *says)
{
    struct node_unfit unfit[NODE_FITS];
    assert_int_equal(node_fit_of(&w->status, unfit), 1);
    assert_int_equal(unfit[0].what, what);
    assert_string_equal(unfit[0].key, key);
    assert_non_null(strstr(unfit[0].text, says));
    assert_true(strlen(unfit[0].text) + 1 < sizeof unfit[0].text); // not cut
}

static void must_be_none(const struct world *w)
{
    struct node_unfit unfit[NODE_FITS];
    assert_int_equal(node_fit_of(&w->status, unfit), 0);
}

static void a_node_on_a_fast_link_is_told_nothing(void **state)
{
    (void)state;
    struct world w;
    fill(&w);
    must_be_none(&w);
    waits(&w, 90000 * MS); // for a partner that computes
    must_be_none(&w);
    w.status.n_edges = 0;
    must_be_none(&w);
}

static void late_answers_do_not_fit_the_profile(void **state)
{
    (void)state;
    struct world w;
    fill(&w);
    w.status.membership.answer_ns = 250 * MS;
    must_be_none(&w);
    w.status.membership.answer_ns = 1300 * MS;
    must_be_one(&w, NODE_FIT_PROFILE, "cluster.profile",
                "lan asks a member every 0.5 s, and members take 1.30 s to answer. ");
    w.status.settings.profile = "wan";
    w.status.membership.period_ns = 2000 * MS;
    must_be_one(&w, NODE_FIT_PROFILE, "cluster.profile", "A link is full");
}

static void an_exchange_longer_than_the_ceiling_is_named(void **state)
{
    (void)state;
    struct world w;
    fill(&w);
    w.edges[1].edge.answer_median_ns = 10000 * MS;
    must_be_none(&w);
    w.edges[1].edge.answer_median_ns = 12500 * MS;
    must_be_one(&w, NODE_FIT_CEILING, "average.deadline_ceiling", "n2 takes 12.50 s, and a boundary waits");
    w.edges[1].edge.state = GOSSIP_EDGE_RESYNC; // its blocks are no exchanges
    must_be_none(&w);
    w.edges[1].edge.state = GOSSIP_EDGE_LIVE;
    w.status.settings.ceiling_ns = 0; // nothing is averaged
    must_be_none(&w);
}

static void one_slow_neighbour_does_not_fit_sync(void **state)
{
    (void)state;
    struct world w;
    fill(&w);
    waits(&w, 60000 * MS);
    w.edges[2].edge.answer_median_ns = 120 * MS;
    must_be_none(&w);
    w.edges[2].edge.answer_median_ns = 3000 * MS;
    must_be_one(&w, NODE_FIT_MODE, "average.mode",
                "With n3 one takes 3000 ms, usually 30 ms, and 60% of the time is waiting: ");
    waits(&w, 40000 * MS);
    must_be_none(&w);
    waits(&w, 60000 * MS);
    w.status.settings.sync = false;
    must_be_none(&w);
}

static void exchanges_longer_than_the_steps_between_them_are_named(void **state)
{
    (void)state;
    struct world w;
    fill(&w);
    waits(&w, 80000 * MS);
    for (size_t i = 0; i < 3; i++)
        w.edges[i].edge.answer_median_ns = 80 * MS; // four times 4 steps of 5 ms
    must_be_none(&w);
    for (size_t i = 0; i < 3; i++)
        w.edges[i].edge.answer_median_ns = 90 * MS;
    must_be_one(&w, NODE_FIT_ROUND, "average.local_steps",
                "An exchange takes 90 ms, the steps between two of them 20 ms: 80% of the time is waiting.");
    w.status.settings.sync = false;
    must_be_one(&w, NODE_FIT_ROUND, "average.local_steps", "80%");
    w.status.progress.step_ns = MS;
    for (size_t i = 0; i < 3; i++)
        w.edges[i].edge.answer_median_ns = 19 * MS; // short enough
    must_be_none(&w);
}

static void a_node_that_does_not_train_is_told_nothing(void **state)
{
    (void)state;
    struct world w;
    fill(&w);
    w.status.membership.answer_ns = 1300 * MS;
    w.status.progress.state = "lingering";
    must_be_none(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_on_a_fast_link_is_told_nothing),
        cmocka_unit_test(late_answers_do_not_fit_the_profile),
        cmocka_unit_test(an_exchange_longer_than_the_ceiling_is_named),
        cmocka_unit_test(one_slow_neighbour_does_not_fit_sync),
        cmocka_unit_test(exchanges_longer_than_the_steps_between_them_are_named),
        cmocka_unit_test(a_node_that_does_not_train_is_told_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
