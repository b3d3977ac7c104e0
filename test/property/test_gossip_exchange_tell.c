// What an exchange tells: the lines of a step, that telling changes nothing, and the account of rounds.
#include "exchange_cases.h"

#include "gossip/exchange/tell.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D = 40, TEXT_BYTES = 1 << 20 };
#define MS 1000000ull

struct told {
    char text[TEXT_BYTES];
    size_t bytes;
};

static void name(void *owner, const struct gossip_id *id, char text[GOSSIP_TELL_NAME])
{
    (void)owner;
    snprintf(text, GOSSIP_TELL_NAME, "n%zu", net_index(id));
}

static void keep_line(void *owner, const char *line)
{
    struct told *told = owner;
    told->bytes += (size_t)snprintf(told->text + told->bytes, TEXT_BYTES - told->bytes, "%s\n", line);
    assert_true(told->bytes < TEXT_BYTES);
    assert_null(strchr(line, '\n'));
}

static void has(const struct told *told, const char *line)
{
    if (!strstr(told->text, line))
        fail_msg("'%s' is missing in\n%s", line, told->text);
}

static struct net *net_of(size_t nodes, bool sync, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(sync);
    struct net *net = net_create(nodes, D, TOPOLOGY_RING, seed, &options);
    for (size_t i = 0; i < nodes; i++)
        net->node[i].others = true;
    net_link_all(net);
    return net;
}

// Both ends of an exchange, a wait and its end, a link that goes.
static void test_lines(void **state)
{
    struct told *told = calloc(1, sizeof *told);
    const struct gossip_teller teller = {.owner = told, .name = name, .line = keep_line};
    struct net *net = net_of(2, true, net_seed(7));
    (void)state;
    assert_non_null(told);
    net->teller = &teller;
    net->delay_ns = MS;
    change_model(net, 0);
    net_round(net, 0, 1);
    has(told,
        "round 1 ends, is to meet n1; edge live, epoch 0, seq 0\nto n1: xchg, round 1, epoch 0, seq 0, delta of ");
    has(told, "round 1 waits for answer of n1, ");
    net_settle(net, 300 * MS);
    has(told, "from n0: xchg, round 1, epoch 0, seq 0, delta of ");
    has(told, "timer, at round 0\nto n0: parked, epoch 0, seq 0, it is at round 0\n");
    has(told, "round 1 waits for partner of n1, ");
    change_model(net, 1);
    net_round(net, 1, 1);
    net_settle(net, 10 * MS);
    has(told, "n0: live -> edge live, epoch 0, seq 1; exchange made\n");
    has(told, "n1: live -> edge live, epoch 0, seq 1; exchange made\nround 1 is done\n");
    net_unlink(net, 0, 1);
    has(told,
        "from n1: link_down; edge live, epoch 0, seq 1, at round 1\nn1: live -> edge down, epoch 0, seq 1\n");
    net_destroy(net);
    free(told);
}

// The same seed with and without: the same models, bit for bit.
static void test_telling_changes_nothing(void **state)
{
    struct told *told = calloc(1, sizeof *told);
    const struct gossip_teller teller = {.owner = told, .name = name, .line = keep_line};
    const uint64_t seed = net_seed(11);
    struct net *net[2];
    (void)state;
    assert_non_null(told);
    for (size_t k = 0; k < 2; k++) {
        net[k] = net_of(4, false, seed);
        net[k]->teller = k ? &teller : NULL;
        net[k]->cut_chance = 0.02;
        net[k]->loss_chance = 0.02;
        net[k]->delay_ns = MS;
        for (uint64_t round = 1; round <= 30; round++) {
            for (size_t i = 0; i < 4; i++)
                change_model(net[k], i);
            net_round_all(net[k], round);
        }
    }
    for (size_t i = 0; i < 4; i++)
        assert_memory_equal(net[0]->node[i].x, net[1]->node[i].x, D * sizeof(float));
    assert_true(told->bytes > 1000);
    net_destroy(net[0]);
    net_destroy(net[1]);
    free(told);
}

// Every exchange is in one account at each of its two ends, whoever asked.
static void test_accounts_agree(void **state)
{
    enum { NODES = 5, ROUNDS = 40 };
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct net *net = net_of(NODES, sync, net_seed(23));
        unsigned met[NODES][NODES] = {{0}};
        uint64_t asked = 0, answered = 0, exchanges = 0, missed = 0;
        net->delay_ns = MS / 10;
        for (uint64_t round = 1; round <= ROUNDS; round++) {
            for (size_t i = 0; i < NODES; i++)
                change_model(net, i);
            for (size_t i = 0; i < NODES; i++) { // some requests cross, others are answered
                net_round(net, (i + round) % NODES, round);
                net_settle(net, i % 2 * MS);
            }
            net_settle(net, 60000 * MS);
            for (size_t i = 0; i < NODES; i++) {
                struct gossip_round_account account;
                const size_t partner = topology_plan_partner(net->plan, i, round);
                const struct gossip_id id = net_id(partner == TOPOLOGY_NOBODY ? i : partner);
                const struct gossip_id *meets = partner == TOPOLOGY_NOBODY ? NULL : &id;
                gossip_exchange_account(net->node[i].exchange, meets,
                                        gossip_exchange_met(net->node[i].exchange, meets, round), &account);
                assert_int_equal(account.planned, meets != NULL);
                for (size_t k = 0; k < account.n_met; k++)
                    met[i][net_index(&account.met[k])]++;
                asked += account.done.asked;
                answered += account.done.answered;
                missed += account.missed != GOSSIP_MISS_NONE;
            }
        }
        for (size_t i = 0; i < NODES; i++) {
            struct gossip_exchange_totals totals;
            gossip_exchange_totals(net->node[i].exchange, &totals);
            exchanges += totals.exchanges;
            for (size_t k = 0; k < NODES; k++)
                assert_int_equal(met[i][k], met[k][i]);
        }
        print_message("%s: %llu exchanges at both ends, %llu asked, %llu answered\n", sync ? "sync" : "async",
                      (unsigned long long)exchanges, (unsigned long long)asked, (unsigned long long)answered);
        assert_true(asked >= answered && (sync || answered > 0));
        assert_int_equal(exchanges, asked + answered); // two that cross are asked at both ends
        assert_int_equal(missed, 0);
        net_destroy(net);
    }
}

static void test_what_is_missed(void **state)
{
    struct net *net = net_of(2, true, net_seed(29));
    struct gossip_round_account account;
    const struct gossip_id other = net_id(1);
    (void)state;
    net_unlink(net, 0, 1);
    net_round(net, 0, 1);
    net_settle(net, 100000 * MS);
    assert_false(net->node[0].in_round); // it has waited for the link
    gossip_exchange_account(net->node[0].exchange, &other,
                            gossip_exchange_met(net->node[0].exchange, &other, 1), &account);
    assert_int_equal(account.missed, GOSSIP_MISS_LINK);
    assert_int_equal(account.n_met, 0);
    assert_true(account.wait_ns[GOSSIP_PACE_FOR_LINK] > 0);
    assert_int_equal(account.longest.reason, GOSSIP_PACE_FOR_LINK);
    assert_int_equal(account.longest.ns, account.wait_ns[GOSSIP_PACE_FOR_LINK]);
    assert_int_equal(gossip_id_compare(&account.longest.whom, &other), 0);
    gossip_exchange_account(net->node[0].exchange, NULL, true, &account); // nothing since
    assert_int_equal(account.missed, GOSSIP_MISS_NONE);
    assert_int_equal(account.wait_ns[GOSSIP_PACE_FOR_LINK], 0);
    const struct gossip_id stranger = net_id(9);
    gossip_exchange_account(net->node[0].exchange, &stranger, false, &account);
    assert_int_equal(account.missed, GOSSIP_MISS_STRANGER);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_telling_changes_nothing),
        cmocka_unit_test(test_accounts_agree),
        cmocka_unit_test(test_what_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
