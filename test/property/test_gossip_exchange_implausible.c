// Implausible values are refused: a member that sends finite but huge numbers moves no model, from its first
// exchange on. An honest member is never refused.
#include "exchange_cases.h"

#include <math.h>
#include <stdio.h>

enum { NODES = 6, D = 300, LIAR = 2, ROUNDS = 60 };

static uint64_t refused_by(const struct net *net, size_t node)
{
    struct gossip_exchange_totals totals;

    gossip_exchange_totals(net->node[node].exchange, &totals);
    return totals.implausible;
}

static uint64_t refused(const struct net *net)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < net->nodes; i++)
        if (i != LIAR)
            sum += refused_by(net, i);
    return sum;
}

static float largest(const float *values)
{
    float most = 0;

    for (size_t j = 0; j < D; j++)
        most = fabsf(values[j]) > most || !isfinite(values[j]) ? fabsf(values[j]) : most;
    return most;
}

static void check_honest(const struct net *net, float most)
{
    for (size_t i = 0; i < net->nodes; i++) {
        if (i == LIAR)
            continue;
        assert_true(largest(gossip_exchange_model(net->node[i].exchange)) < most);
        assert_true(largest(net->node[i].x) < most);
        assert_true(largest(net->node[i].correction) < most);
        if (net->node[i].v)
            assert_true(largest(net->node[i].v) < most);
    }
}

struct lie {
    uint64_t first, last;  // rounds in which it lies
    float model, v, scale; // what it hands in
};

static void run_liar(const struct lie *lie, enum kernels_format values, bool sync, uint64_t round,
                     uint64_t seed)
{
    struct gossip_exchange_options options = defaults(sync);

    options.values = values;
    options.share_second_moment = lie->v > 0 ? 3 : 0;
    struct net *net = net_create(NODES, D, TOPOLOGY_RING, seed, &options);
    net->forgets = true; // refused messages end their links
    if (lie->scale > 0 && lie->scale < 1)
        net->step_scale = 0; // of the nodes whose drift is over
    for (size_t i = 0; i < NODES; i++)
        net_round(net, i, round);
    net_settle(net, 20 * SECOND);
    net_link_all(net);
    for (uint64_t r = 1; r <= ROUNDS; r++) {
        for (size_t i = 0; i < NODES; i++)
            for (size_t j = 0; j < D; j++) {
                net->node[i].x[j] += 0.1f * (float)base_rng_normal(&net->rng);
                if (net->node[i].v)
                    net->node[i].v[j] = 0.01f;
            }
        bool lies = r >= lie->first && r <= lie->last;
        for (size_t j = 0; lies && j < D; j++) {
            if (lie->model > 0)
                net->node[LIAR].x[j] = j % 2 ? lie->model : -lie->model;
            if (lie->v > 0)
                net->node[LIAR].v[j] = lie->v;
        }
        for (size_t i = 0; i < NODES; i++) {
            float scale = net->step_scale;
            if (i == LIAR && lies && lie->scale > 0)
                net->step_scale = lie->scale;
            net_round(net, i, round + r);
            net->step_scale = scale;
        }
        net_settle(net, 20 * SECOND);
        check_honest(net, 50);
    }
    assert_true(lie->scale > 0 || refused(net) > 0);
    assert_int_equal(net->implausible, refused(net) + refused_by(net, LIAR)); // none as broken
    net_destroy(net);
}

static void test_a_member_that_lies_moves_no_model(void **state)
{
    static const struct lie lies[] = {{1, 1, 3e38f, 0, 0},        {1, ROUNDS, 1e38f, 0, 0},
                                      {30, 31, 1e38f, 0, 0},      {30, ROUNDS, 1e20f, 0, 0},
                                      {1, ROUNDS, 1e10f, 0, 0},   {20, 22, 0, 1e38f, 0},
                                      {1, ROUNDS, 0, 1e20f, 0},   {20, 30, 0, 0, 1e38f},
                                      {20, ROUNDS, 0, 0, 1e-38f}, {1, ROUNDS, 0, 0, 1e-30f}};
    static const enum kernels_format formats[] = {KERNELS_INT8, KERNELS_FP32, KERNELS_BF16,
                                                  KERNELS_SIGN, KERNELS_INT4, KERNELS_INT2};
    uint64_t seed = net_seed(701);

    (void)state;
    for (size_t k = 0; k < sizeof lies / sizeof *lies; k++)
        for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
            run_liar(&lies[k], formats[f], f % 2, 1, seed + k);
            run_liar(&lies[k], formats[f], f % 2, 5000, seed + k); // edges begin late: with a RESYNC
        }
}

// Messages with a number from which the receiver goes on counting.
static void test_counters_that_would_overflow_are_refused(void **state)
{
    static const struct gossip_message messages[] = {
        {.kind = GOSSIP_PARKED, .as.parked.round = UINT64_MAX},
        {.kind = GOSSIP_PARKED, .as.parked.round = UINT64_MAX / 2},
        {.kind = GOSSIP_HELLO, .as.hello = {.epoch = UINT64_MAX}},
        {.kind = GOSSIP_HELLO, .as.hello = {.sequence = UINT64_MAX / 2}},
        {.kind = GOSSIP_XCHG, .as.exchange = {.clock = UINT64_MAX / 2, .weight = 0.5f}},
        {.kind = GOSSIP_XACK, .as.exchange = {.clock = UINT64_MAX / 2, .weight = 0.5f}},
    };
    uint64_t seed = net_seed(702);

    (void)state;
    for (size_t k = 0; k < sizeof messages / sizeof *messages; k++) {
        struct net *net = linked_net(2, D, true, seed);
        struct gossip_exchange_event event = {
            .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &messages[k]};
        assert_true(net_refuses(net, 0, &event, GOSSIP_REFUSAL_BROKEN));
        assert_int_equal(refused_by(net, 0), 1);
        net_destroy(net);
    }
}

enum { HONEST = 1 }; // of the next test, beside node 0 and LIAR

struct blame {                 // what node 0 has refused
    size_t refusals, unjust;   // unjust: of another node than the liar
    bool in_a_step_of_another; // the first one
    enum gossip_refusal why;
};

static void note_blame(struct net *net, size_t node, const struct gossip_exchange_event *event,
                       const struct gossip_exchange_actions *actions)
{
    struct blame *blame = net->watcher;

    for (size_t i = 0; node == 0 && i < actions->count; i++) {
        if (actions->list[i].kind != GOSSIP_EXCHANGE_REFUSE)
            continue;
        blame->unjust += net_index(&actions->list[i].peer) != LIAR;
        if (blame->refusals++ > 0) // the liar comes back, and lies again
            continue;
        blame->in_a_step_of_another =
            event->kind == GOSSIP_EXCHANGE_ROUND || net_index(&event->peer) == HONEST;
        blame->why = actions->list[i].why;
    }
}

// Two rounds ahead, so that it waits at node 0 for the end of its exchange (async) or for its next round
// (sync).
static void send_lie(struct net *net, enum gossip_refusal why)
{
    static const uint8_t garbage[8] = {0xff};
    struct gossip_edge_info info;
    struct gossip_message message = {.kind = GOSSIP_XCHG};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(LIAR), .message = &message};

    if (why == GOSSIP_REFUSAL_IMPLAUSIBLE) {
        for (size_t j = 0; j < D; j++)
            net->node[LIAR].x[j] = 1e30f;
        ask(net, LIAR, 0, 3);
        net->node[HONEST].paused = true;
        net_settle(net, SECOND / 100);
        net->node[HONEST].paused = false;
        return;
    }
    net_edge(net, 0, LIAR, &info);
    message.as.exchange = (struct gossip_exchange_message){.epoch = info.epoch,
                                                           .sequence = info.sequence,
                                                           .clock = 3,
                                                           .step_scale = 0.1f,
                                                           .weight = 0.5f,
                                                           .limit = INFINITY,
                                                           .bound = INFINITY,
                                                           .delta = garbage,
                                                           .delta_bytes = sizeof garbage};
    assert_int_equal(net_step(net, 0, &event), BASE_OK);
}

static uint64_t exchanges_with(const struct net *net, size_t peer)
{
    struct gossip_edge_info info;

    assert_non_null(net_edge(net, 0, peer, &info));
    return info.exchanges;
}

// A request that waits is answered in a step of another event. Its sender is to blame, not the peer of that
// event, whose link stays, and the round of this node keeps its exchange.
static void test_a_lie_that_waited_is_blamed_on_its_sender(void **state)
{
    uint64_t seed = net_seed(704);

    (void)state;
    for (unsigned k = 0; k < 2; k++) {
        const enum gossip_refusal why = k ? GOSSIP_REFUSAL_BROKEN : GOSSIP_REFUSAL_IMPLAUSIBLE;
        struct net *net = linked_net(4, D, true, seed + k);
        struct blame blame = {0};
        net_round_all(net, 1);
        net->forgets = true;
        net->watch = note_blame;
        net->watcher = &blame;
        const uint64_t met = exchanges_with(net, HONEST), cuts = net->cuts;
        send_lie(net, why);
        assert_int_equal(blame.refusals, 0); // it waits
        ask(net, 0, HONEST, 3);
        ask(net, HONEST, 0, 3);
        net_settle(net, 5 * SECOND);
        assert_true(blame.refusals > 0 && blame.in_a_step_of_another && blame.why == why);
        assert_int_equal(blame.unjust, 0);
        assert_int_equal(net->cuts, cuts + blame.refusals);
        assert_int_equal(exchanges_with(net, HONEST), met + 1);
        assert_false(net->node[0].in_round);
        check_honest(net, 50);
        net_destroy(net);
    }
}

static void set_links(struct net *net, size_t node, bool away)
{
    size_t peers[64], count = topology_plan_neighbours(net->plan, node, peers, 64);

    for (size_t i = 0; i < count; i++)
        (away ? net_unlink : net_link)(net, node, peers[i]);
}

// Honest runs with steps of any size, from a model of zeros, with shards that have nothing in common, and
// after long absences: no member is refused.
static void test_no_honest_member_is_refused(void **state)
{
    static const float sizes[] = {1e-6f, 1e-3f, 1, 100, 1000};
    uint64_t seed = net_seed(703);

    (void)state;
    for (uint64_t k = 0; k < 40; k++) {
        struct gossip_exchange_options options = defaults(k % 2);
        options.values = (enum kernels_format)(k % KERNELS_FORMATS);
        options.share_second_moment = k % 3 ? 0 : 4;
        struct net *net =
            net_create(NODES, D, k % 4 < 2 ? TOPOLOGY_RING : TOPOLOGY_BUTTERFLY, seed + k, &options);
        float size = sizes[k % (sizeof sizes / sizeof *sizes)];
        net_link_all(net);
        for (uint64_t round = 1; round <= 200; round++) {
            bool away = round > 50 && round <= 150;
            if (round == 51 || round == 151)
                set_links(net, 0, away);
            for (size_t i = 0; i < NODES; i++) // each has its own part, which grows all the time
                for (size_t j = i; j < D; j += NODES) {
                    float step = size * (1 + (float)base_rng_normal(&net->rng));
                    net->node[i].x[j] += step;
                    if (net->node[i].v)
                        net->node[i].v[j] = 0.9f * net->node[i].v[j] + 0.1f * step * step;
                }
            net_round_all(net, round);
        }
        assert_int_equal(refused(net) + refused_by(net, LIAR), 0);
        net_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_member_that_lies_moves_no_model),
        cmocka_unit_test(test_counters_that_would_overflow_are_refused),
        cmocka_unit_test(test_a_lie_that_waited_is_blamed_on_its_sender),
        cmocka_unit_test(test_no_honest_member_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
