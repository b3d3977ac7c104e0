// How long evidence counts: against an identity, and against the host of new ones. The host of a node is the
// first byte of its id, unless the test says which.
#include "gossip/links/links.h"
#include "test/support/links_rules.h"

enum { HOUSE = 200, ELSEWHERE = 201, LIARS = 20 }; // two hosts; the first bytes of ids that are made there

static uint64_t accept_of(uint64_t host, uint8_t first)
{
    const uint64_t link = gossip_links_accept(w.links, w.now_ns, host, false, NULL);
    assert_true(link != 0);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(first),
        .alive = true);
    return link;
}

static bool is_let_in(uint64_t host, uint8_t first)
{
    const uint64_t link = accept_of(host, first);
    const struct gossip_links_action *close = find(GOSSIP_LINKS_CLOSE);
    if (close)
        assert_int_equal(close->why, GOSSIP_CLOSE_BANNED);
    else
        SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
    if (close)
        SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
    return !close;
}

static void misbehave(uint64_t host, uint8_t first)
{
    const uint64_t link = accept_of(host, first);
    greet_with_life(link, 1);
    SAY(GOSSIP_LINKS_BROKEN, .link = link);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_BROKEN);
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
}

// How long it is kept out from now on, in steps of 100 ms.
static uint64_t kept_out_ns(uint64_t host, uint8_t first)
{
    const uint64_t begin_ns = w.now_ns;
    while (!is_let_in(host, first))
        w.now_ns += 100 * MS;
    return w.now_ns - begin_ns;
}

static void each_evidence_keeps_an_identity_out_for_twice_as_long(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        misbehave(HOUSE, LIARS);
        const uint64_t expected_ns = GOSSIP_LINKS_BAN_MIN_NS << i;
        assert_int_equal(kept_out_ns(HOUSE, LIARS),
                         expected_ns < GOSSIP_LINKS_BAN_MAX_NS ? expected_ns : GOSSIP_LINKS_BAN_MAX_NS);
    }
}

// The figure of the issue: with the numbers of a liar it was back 17 to 29 times in 10 s.
static void a_liar_that_calls_without_rest_is_heard_three_times_in_ten_seconds(void **state)
{
    (void)state;
    unsigned heard = 0;
    for (const uint64_t end_ns = w.now_ns + 10 * S; w.now_ns < end_ns; w.now_ns += 100 * MS)
        if (is_let_in(HOUSE, LIARS)) {
            misbehave(HOUSE, LIARS);
            heard++;
            const struct gossip_id liar = id(LIARS), other = id(LIARS + 1);
            assert_int_equal(gossip_links_banned_ns(w.links, w.now_ns, &liar),
                             GOSSIP_LINKS_BAN_MIN_NS << (heard - 1));
            assert_int_equal(gossip_links_banned_ns(w.links, w.now_ns, &other), 0);
        }
    assert_int_equal(heard, 3);
}

static void evidence_is_forgotten(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        misbehave(HOUSE, LIARS);
        w.now_ns += kept_out_ns(HOUSE, LIARS);
    }
    w.now_ns += GOSSIP_LINKS_BAN_FORGET_NS;
    misbehave(HOUSE, LIARS);
    assert_int_equal(kept_out_ns(HOUSE, LIARS), GOSSIP_LINKS_BAN_MIN_NS);
    w.now_ns += GOSSIP_LINKS_BAN_FORGET_NS - S; // not yet
    misbehave(HOUSE, LIARS);
    assert_int_equal(kept_out_ns(HOUSE, LIARS), 2 * GOSSIP_LINKS_BAN_MIN_NS);
}

static void values_out_of_all_proportion_are_evidence_and_other_ends_are_not(void **state)
{
    static const struct {
        enum gossip_close why;
        bool bans;
    } cases[] = {{GOSSIP_CLOSE_IMPLAUSIBLE, true},    {GOSSIP_CLOSE_BROKEN, true},
                 {GOSSIP_CLOSE_SILENT, false},        {GOSSIP_CLOSE_IDLE, false},
                 {GOSSIP_CLOSE_OTHER_SCALING, false}, {GOSSIP_CLOSE_LEAVING, false}};
    (void)state;
    for (uint8_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint8_t first = (uint8_t)(HIGH + i);
        (void)accept_active(first);
        SAY(GOSSIP_LINKS_PART, .peer = id(first), .why = cases[i].why);
        assert_int_equal(is_let_in(first, first), !cases[i].bans);
    }
}

// Whoever is on the path can change bytes: they do not authenticate.
static void a_stream_that_breaks_on_the_way_is_no_evidence(void **state)
{
    (void)state;
    const uint64_t link = accept_active(HIGH);
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_BROKEN);
    assert_true(is_let_in(HIGH, HIGH));
}

static void what_others_say_of_it_is_no_evidence(void **state)
{
    (void)state;
    const uint64_t link = accept_active(HIGH);
    SAY(GOSSIP_LINKS_BYE, .link = link, .reason = gossip_close_bye(GOSSIP_CLOSE_BANNED));
    assert_true(is_let_in(HIGH, HIGH));
}

static void no_other_link_takes_the_place_of_one_that_is_closed_for_evidence(void **state)
{
    (void)state;
    const uint64_t active = accept_active(HIGH), waits = accept_authenticated(HIGH, true);
    greet_with_life(waits, 1);
    SAY(GOSSIP_LINKS_BROKEN, .link = active);
    assert_null(find(GOSSIP_LINKS_UP));
    const uint64_t other = accept_active(HIGHER), second = accept_authenticated(HIGHER, true);
    greet_with_life(second, 1);
    SAY(GOSSIP_LINKS_BROKEN, .link = second); // the one that waits is no better than the other
    assert_null(find(GOSSIP_LINKS_UP));
    assert_non_null(find(GOSSIP_LINKS_DOWN));
    const struct gossip_id id_of_other = id(HIGHER);
    assert_int_equal(gossip_links_active(w.links, &id_of_other, NULL), 0);
    assert_true(other != second);
}

static void a_banned_neighbour_is_not_called_and_not_missed(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    want(HIGH);
    uint64_t link = call_of_member(HIGH);
    for (int i = 0; i < 6; i++) {
        SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(HIGH),
            .alive = true);
        greet_with_life(link, 1);
        SAY(GOSSIP_LINKS_PART, .peer = id(HIGH), .why = GOSSIP_CLOSE_IMPLAUSIBLE);
        SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
        const uint64_t banned_ns = w.now_ns, end_ns = w.now_ns + (GOSSIP_LINKS_BAN_MIN_NS << i);
        while (w.now_ns < end_ns) { // the entry of the list is another one's
            w.now_ns = gossip_links_deadline(w.links) > w.now_ns ? gossip_links_deadline(w.links) : w.now_ns;
            SAY(GOSSIP_LINKS_TIMER);
            assert_null(find(GOSSIP_LINKS_MISSING));
            const struct gossip_links_action *resolve = find(GOSSIP_LINKS_RESOLVE);
            if (resolve && resolve->target.entry == GOSSIP_NO_ENTRY)
                break;
        }
        assert_int_equal(w.now_ns - banned_ns, GOSSIP_LINKS_BAN_MIN_NS << i);
        link = call_of_member(HIGH);
    }
}

// -- hosts

static void many_honest_nodes_share_the_host_of_a_liar(void **state)
{
    (void)state;
    misbehave(HOUSE, LIARS);
    misbehave(HOUSE, LIARS + 1);
    for (uint8_t i = 0; i < 8; i++)
        assert_true(is_let_in(HOUSE, (uint8_t)(HIGH + i)));
}

static void a_host_that_makes_liars_has_to_wait_with_the_next(void **state)
{
    (void)state;
    uint8_t next = LIARS;
    for (unsigned i = 0; i < GOSSIP_LINKS_BAN_SPARED; i++)
        misbehave(HOUSE, next++);
    for (unsigned i = 0; i < 10; i++) {
        misbehave(HOUSE, next++);
        const uint64_t expected_ns = GOSSIP_LINKS_BAN_MIN_NS << i;
        assert_true(is_let_in(ELSEWHERE, next));
        assert_int_equal(kept_out_ns(HOUSE, next),
                         expected_ns < GOSSIP_LINKS_BAN_MAX_NS ? expected_ns : GOSSIP_LINKS_BAN_MAX_NS);
    }
}

static void a_liar_with_an_identity_for_each_call_is_heard_five_times_in_ten_seconds(void **state)
{
    (void)state;
    uint8_t next = LIARS;
    for (const uint64_t end_ns = w.now_ns + 10 * S; w.now_ns < end_ns; w.now_ns += 100 * MS)
        while (is_let_in(HOUSE, next))
            misbehave(HOUSE, next++);
    assert_int_equal(next - LIARS, 5);
}

static void the_same_liar_again_and_again_does_not_ban_its_host(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        misbehave(HOUSE, LIARS);
        (void)kept_out_ns(HOUSE, LIARS);
    }
    assert_true(is_let_in(HOUSE, HIGH));
}

// Also after it was started anew: it is known by its identity.
static void whoever_had_a_link_for_a_minute_is_not_new(void **state)
{
    (void)state;
    const uint64_t old = accept_of(HOUSE, HIGH);
    greet_with_life(old, 1);
    const uint64_t young = accept_of(HOUSE, HIGHER);
    greet_with_life(young, 1);
    w.now_ns += GOSSIP_LINKS_PROVEN_NS;
    const uint64_t younger = accept_of(HOUSE, LOW);
    greet_with_life(younger, 1);
    SAY(GOSSIP_LINKS_ENDED, .link = old, .end = GOSSIP_END_GONE);
    SAY(GOSSIP_LINKS_ENDED, .link = younger, .end = GOSSIP_END_GONE);
    for (uint8_t i = 0; i <= GOSSIP_LINKS_BAN_SPARED; i++)
        misbehave(HOUSE, (uint8_t)(LIARS + i));
    assert_true(is_let_in(HOUSE, HIGH));
    assert_true(is_let_in(HOUSE, HIGHER)); // whose link is still there
    assert_false(is_let_in(HOUSE, LOW));
}

// The training of eight nodes on one host has diverged after a while: they are no throwaways.
static void evidence_against_old_members_does_not_ban_their_host(void **state)
{
    (void)state;
    for (uint8_t i = 0; i < 8; i++)
        greet_with_life(accept_of(HOUSE, (uint8_t)(HIGH + i)), 1);
    w.now_ns += GOSSIP_LINKS_PROVEN_NS;
    for (uint8_t i = 0; i < 8; i++)
        SAY(GOSSIP_LINKS_PART, .peer = id((uint8_t)(HIGH + i)), .why = GOSSIP_CLOSE_IMPLAUSIBLE);
    assert_true(is_let_in(HOUSE, LIARS));
}

static void a_listed_peer_is_called_whoever_shares_its_host(void **state)
{
    (void)state;
    for (uint8_t i = 0; i <= GOSSIP_LINKS_BAN_SPARED; i++)
        misbehave(HOUSE, (uint8_t)(LIARS + i));
    SAY(GOSSIP_LINKS_START);
    const uint64_t link = call_of_entry(0, 1);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(HIGH),
        .host = HOUSE);
    assert_null(find(GOSSIP_LINKS_CLOSE));
    want(HIGHER);
    const uint64_t heard_of = call_of_member(HIGHER); // the record of anybody led there
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = heard_of, .peer = id(HIGHER),
        .host = HOUSE);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_BANNED);
}

// -- bounds

static void fresh_liars_do_not_displace_the_memory_of_an_old_one(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        misbehave(HOUSE, LIARS);
        (void)kept_out_ns(HOUSE, LIARS);
    }
    misbehave(HOUSE, LIARS);
    for (uint64_t i = 0; i < 2 * GOSSIP_LINKS_BANS; i++) { // from as many hosts
        const uint64_t link = gossip_links_accept(w.links, w.now_ns, 1000 + i, false, NULL);
        struct gossip_id many = id(HIGH);
        many.bytes[1] = (uint8_t)(i & 255);
        many.bytes[2] = (uint8_t)(i >> 8);
        SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = many);
        SAY(GOSSIP_LINKS_BROKEN, .link = link);
        SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
    }
    assert_int_equal(kept_out_ns(HOUSE, LIARS), GOSSIP_LINKS_BAN_MAX_NS);
}

// -- the rate of new identities

static void begin_with_rate(uint64_t join_rate)
{
    const struct gossip_links_options options = {
        .self = id(SELF), .greeting = &w.greeting, .join_rate = join_rate, .entries = 1, .now_ns = w.now_ns};
    end(NULL);
    assert_int_equal(gossip_links_create(&options, &w.links), BASE_OK);
}

static bool comes(unsigned number)
{
    const uint64_t link = gossip_links_accept(w.links, w.now_ns, 1000 + number, false, NULL);
    struct gossip_id its = id(HIGH);
    its.bytes[1] = (uint8_t)(number & 255);
    its.bytes[2] = (uint8_t)(number >> 8);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = its);
    const struct gossip_links_action *close = find(GOSSIP_LINKS_CLOSE);
    const bool in = !close;
    if (close)
        assert_int_equal(close->why, GOSSIP_CLOSE_CROWD);
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
    return in;
}

static void a_cluster_that_starts_at_once_twice_is_not_slowed(void **state)
{
    (void)state;
    begin_with_rate(2048); // the default of cluster.join_rate
    for (unsigned start = 0; start < 2; start++)
        for (unsigned calls = 0; calls < 3; calls++)
            for (unsigned i = 0; i < 1024; i++)
                assert_true(comes(1024 * start + i));
    assert_false(comes(2048));
}

static void new_identities_beyond_the_rate_wait_for_their_turn(void **state)
{
    (void)state;
    begin_with_rate(2);
    assert_true(comes(1) && comes(2));
    assert_false(comes(3));
    assert_true(comes(1)); // it is not new any more
    w.now_ns += 29 * S;
    assert_false(comes(3));
    w.now_ns += S;
    assert_true(comes(3));
    assert_false(comes(4));
    w.now_ns += 1000 * S; // no more than a minute is saved up
    assert_true(comes(4) && comes(5));
    assert_false(comes(6));
    begin_with_rate(0);
    for (unsigned i = 0; i < 5000; i++)
        assert_true(comes(i));
}

static void whom_this_node_calls_does_not_count(void **state)
{
    (void)state;
    begin_with_rate(1);
    assert_true(comes(1));
    SAY(GOSSIP_LINKS_START);
    const uint64_t link = call_of_entry(0, 1);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(HIGHER));
    assert_null(find(GOSSIP_LINKS_CLOSE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_evidence_keeps_an_identity_out_for_twice_as_long, begin, end),
        cmocka_unit_test_setup_teardown(a_liar_that_calls_without_rest_is_heard_three_times_in_ten_seconds,
                                        begin, end),
        cmocka_unit_test_setup_teardown(evidence_is_forgotten, begin, end),
        cmocka_unit_test_setup_teardown(values_out_of_all_proportion_are_evidence_and_other_ends_are_not,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_stream_that_breaks_on_the_way_is_no_evidence, begin, end),
        cmocka_unit_test_setup_teardown(what_others_say_of_it_is_no_evidence, begin, end),
        cmocka_unit_test_setup_teardown(no_other_link_takes_the_place_of_one_that_is_closed_for_evidence,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_banned_neighbour_is_not_called_and_not_missed, begin, end),
        cmocka_unit_test_setup_teardown(many_honest_nodes_share_the_host_of_a_liar, begin, end),
        cmocka_unit_test_setup_teardown(a_host_that_makes_liars_has_to_wait_with_the_next, begin, end),
        cmocka_unit_test_setup_teardown(
            a_liar_with_an_identity_for_each_call_is_heard_five_times_in_ten_seconds, begin, end),
        cmocka_unit_test_setup_teardown(the_same_liar_again_and_again_does_not_ban_its_host, begin, end),
        cmocka_unit_test_setup_teardown(whoever_had_a_link_for_a_minute_is_not_new, begin, end),
        cmocka_unit_test_setup_teardown(evidence_against_old_members_does_not_ban_their_host, begin, end),
        cmocka_unit_test_setup_teardown(a_listed_peer_is_called_whoever_shares_its_host, begin, end),
        cmocka_unit_test_setup_teardown(a_cluster_that_starts_at_once_twice_is_not_slowed, begin, end),
        cmocka_unit_test_setup_teardown(new_identities_beyond_the_rate_wait_for_their_turn, begin, end),
        cmocka_unit_test_setup_teardown(whom_this_node_calls_does_not_count, begin, end),
        cmocka_unit_test_setup_teardown(fresh_liars_do_not_displace_the_memory_of_an_old_one, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
