// Who waits for whom, rule by rule: what each event changes, and where each bound lies.
#include "pace_scene.h"

// -- what happens

static void a_request_goes_out_waits_and_is_void(void **state)
{
    struct scene scene;
    struct gossip_pace_peer *peer = &scene.peer[0];

    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        open_scene(&scene, (enum gossip_pace_mode)mode, GOSSIP_PACE_DUE, FREE, FREE);
        peer->loose = true;
        scene.pace.answered = 1;
        gossip_pace_parked(&scene.pace, peer); // of no request
        assert_int_equal(peer->flight, GOSSIP_PACE_NO_FLIGHT);
        gossip_pace_asked(&scene.pace, peer, 0.25f);
        assert_int_equal(peer->flight, GOSSIP_PACE_OPEN);
        assert_true(peer->sent_ns == NOW && peer->weight == 0.25f && !peer->loose &&
                    scene.pace.answered == 0);
        assert_int_equal(scene.pace.done.asked, 1);
        assert_int_equal(scene.pace.turn, mode == GOSSIP_PACE_SYNC ? GOSSIP_PACE_DUE : GOSSIP_PACE_ASKED);
        gossip_pace_time(&scene.pace, NOW + MS);
        gossip_pace_parked(&scene.pace, peer);
        assert_int_equal(peer->flight, GOSSIP_PACE_PARKED);
        assert_true(peer->sent_ns == NOW + MS);
        peer->loose = true;
        gossip_pace_dropped(peer);
        assert_true(peer->flight == GOSSIP_PACE_NO_FLIGHT && !peer->loose);
        take_down(&scene);
    }
}

// The time until it asks again doubles, from 1 ms to 64; in sync the round goes on after 16 refusals by its
// partner.
static void a_refused_request_is_repeated_later_and_later(void **state)
{
    struct scene scene;

    (void)state;
    for (int other = 0; other < 2; other++)
        for (int mode = 0; mode < 2; mode++) {
            struct gossip_pace_peer *peer = &scene.peer[other];
            open_scene(&scene, (enum gossip_pace_mode)mode, GOSSIP_PACE_DUE, FREE, FREE);
            for (unsigned k = 0; k < 20; k++) {
                const uint64_t base = MS << (k < 6 ? k : 6);
                gossip_pace_asked(&scene.pace, peer, 0.5f);
                gossip_pace_refused(&scene.pace, peer);
                assert_int_equal(peer->flight, GOSSIP_PACE_NO_FLIGHT);
                assert_in_range(peer->retry_ns - NOW, base, 2 * base - 1);
                assert_int_equal(scene.pace.done.refused, k + 1);
                assert_int_equal(scene.pace.turn, mode == GOSSIP_PACE_SYNC && !other && k >= 15
                                                      ? GOSSIP_PACE_NO_TURN
                                                      : GOSSIP_PACE_DUE);
            }
            gossip_pace_leave(&scene.pace);
            scene.pace.turn = GOSSIP_PACE_ASKED;
            gossip_pace_refused(&scene.pace, &scene.peer[1]); // it says nothing of a round that is over
            assert_int_equal(scene.pace.turn, GOSSIP_PACE_ASKED);
            scene.pace.open = true;
            scene.pace.turn = GOSSIP_PACE_NO_TURN;
            gossip_pace_refused(&scene.pace, &scene.peer[1]); // this round needs no exchange
            assert_int_equal(scene.pace.turn, GOSSIP_PACE_NO_TURN);
            scene.pace.open = false;
            gossip_pace_begin(&scene.pace, &(struct gossip_pace_round){.round = ROUND + 1});
            assert_int_equal(peer->refusals, 0);
            take_down(&scene);
        }
}

static void an_exchange_ends_what_waited_for_it(void **state)
{
    struct scene scene;

    (void)state;
    for (int k = 0; k < 8; k++) {
        const bool sync = k & 1, other = k & 2, over = k & 4;
        struct gossip_pace_peer *peer = &scene.peer[other];
        open_scene(&scene, sync ? GOSSIP_PACE_SYNC : GOSSIP_PACE_ASYNC, GOSSIP_PACE_DUE, OPEN, PARKED);
        scene.pace.met = 0;
        peer->answers = (struct gossip_answers){0};
        peer->waited_ns = peer->refusals = 5;
        peer->met = 0;
        if (over)
            gossip_pace_leave(&scene.pace);
        gossip_pace_time(&scene.pace, NOW + MS);
        gossip_pace_met(&scene.pace, peer, ROUND + 5);
        assert_true(gossip_answers_median(&peer->answers) ==
                    (other ? 0 : MS + MS / 2)); // a parked one takes the other's time
        assert_true(peer->flight == GOSSIP_PACE_NO_FLIGHT && peer->waited_ns == 0 && peer->refusals == 0);
        assert_true(peer->met == scene.pace.rounds && scene.pace.met == scene.pace.rounds);
        assert_true(peer->clock == ROUND + 5 && peer->met_ns == NOW + MS);
        assert_int_equal(scene.pace.turn, sync && !other && !over ? GOSSIP_PACE_NO_TURN : GOSSIP_PACE_DUE);
        gossip_pace_met(&scene.pace, peer, ROUND); // an older round
        assert_true(peer->clock == ROUND + 5);
        take_down(&scene);
    }
}

static void answers_and_news_are_counted(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene, GOSSIP_PACE_ASYNC, GOSSIP_PACE_DUE, FREE, LOST);
    gossip_pace_answered(&scene.pace, 0.5f);
    gossip_pace_answered(&scene.pace, 0.25f);
    assert_true(scene.pace.answered == 0.75f && scene.pace.done.answered == 2);
    gossip_pace_hear(&scene.pace, &scene.peer[0], ROUND + 7);
    gossip_pace_hear(&scene.pace, &scene.peer[0], ROUND + 3);
    assert_true(scene.peer[0].round == ROUND + 7 && scene.pace.news.report[0].round == ROUND + 7);
    gossip_pace_tie(&scene.pace, &scene.peer[0], GOSSIP_PACE_LIVE); // no change
    assert_true(scene.peer[0].tie_ns == NOW - 10 * MS);
    gossip_pace_tie(&scene.pace, &scene.peer[0], GOSSIP_PACE_BEGINS);
    assert_true(scene.peer[0].tie_ns == NOW && scene.peer[0].round == ROUND + 7);
    gossip_pace_tie(&scene.pace, &scene.peer[0], GOSSIP_PACE_LOST);
    assert_true(scene.peer[0].round == 0); // what it said before may be old when it returns
    gossip_pace_left(&scene.pace);
    assert_false(scene.pace.others);
    gossip_pace_skip(&scene.pace);
    assert_int_equal(scene.pace.turn, GOSSIP_PACE_NO_TURN);
    gossip_pace_remove(&scene.pace, &scene.peer[0]);
    assert_true(scene.pace.n_peers == 1 && scene.pace.peers[0] == &scene.peer[1]);
    gossip_pace_remove(&scene.pace, &scene.peer[0]);
    assert_true(scene.pace.n_peers == 1);
    take_down(&scene);
}

// Each moment of a wait is accounted to its reason and its neighbour; the longest wait of a boundary is kept.
static void waits_are_accounted(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene, GOSSIP_PACE_ASYNC, GOSSIP_PACE_DUE, OPEN, OPEN);
    assert_int_equal(gossip_pace_next(&scene.pace).reason, GOSSIP_PACE_FOR_ANSWER);
    assert_int_equal(gossip_id_compare(&scene.pace.waits_for, &scene.peer[0].peer), 0);
    gossip_pace_time(&scene.pace, NOW + 2 * MS);
    gossip_pace_time(&scene.pace, NOW + MS); // of another thread
    gossip_pace_time(&scene.pace, NOW + 5 * MS);
    assert_true(scene.pace.now_ns == NOW + 5 * MS && scene.peer[0].waited_ns == 5 * MS);
    gossip_pace_met(&scene.pace, &scene.peer[0], ROUND);
    assert_true(gossip_pace_next(&scene.pace).peer == &scene.peer[1]);
    gossip_pace_time(&scene.pace, NOW + 8 * MS);
    assert_true(scene.peer[0].waited_ns == 0 && scene.peer[1].waited_ns == 3 * MS);
    assert_true(scene.pace.waits.ns[GOSSIP_PACE_FOR_ANSWER] == 8 * MS);
    assert_true(scene.pace.wait.ns == 3 * MS && scene.pace.longest.ns == 5 * MS);
    assert_int_equal(gossip_id_compare(&scene.pace.longest.whom, &scene.peer[0].peer), 0);
    scene.peer[1].tie =
        GOSSIP_PACE_BEGINS; // the same boundary waits for something else, of nobody in particular
    scene.peer[0].tie = GOSSIP_PACE_BEGINS;
    scene.pace.met = 0;
    scene.peer[0].ended = true;
    assert_int_equal(gossip_pace_next(&scene.pace).reason, GOSSIP_PACE_FOR_EDGE);
    assert_int_equal(gossip_id_compare(&scene.pace.waits_for, &scene.pace.options.self), 0);
    scene.peer[1].tie = GOSSIP_PACE_LIVE;
    gossip_pace_leave(&scene.pace);
    gossip_pace_time(&scene.pace, NOW + 20 * MS); // the trainer takes its steps
    assert_true(scene.pace.waits.ns[GOSSIP_PACE_FOR_ANSWER] == 8 * MS && scene.pace.ended_ns == NOW + 8 * MS);
    gossip_pace_begin(&scene.pace, &(struct gossip_pace_round){.round = ROUND + 1});
    assert_true(scene.pace.longest.ns == 0 && scene.pace.began_ns == NOW + 8 * MS);
    take_down(&scene);
}

// Rounds count if steps were taken; most of those with a partner must have had no exchange before a node is
// apart. A node of async that had none for `max_delay` rounds meets anybody.
static void rounds_without_an_exchange_are_counted(void **state)
{
    struct scene scene;

    (void)state;
    for (int k = 0; k < 32; k++) {
        const bool sync = k & 1, others = k & 2, idle = k & 4, long_ago = k & 8, counts = k & 16;
        open_scene(&scene, sync ? GOSSIP_PACE_SYNC : GOSSIP_PACE_ASYNC, GOSSIP_PACE_NO_TURN, FREE, FREE);
        gossip_pace_leave(&scene.pace);
        const uint64_t rounds = scene.pace.rounds, planned = scene.pace.planned;
        scene.pace.met = rounds + counts - 4 - long_ago;
        gossip_pace_begin(&scene.pace,
                          &(struct gossip_pace_round){
                              .round = ROUND + 1, .others = others, .idle = idle, .counts = counts});
        assert_int_equal(scene.pace.rounds - rounds, counts);
        assert_int_equal(scene.pace.planned, planned); // the plan names nobody
        gossip_pace_leave(&scene.pace);
        gossip_pace_begin(&scene.pace,
                          &(struct gossip_pace_round){.round = ROUND + 1, .meets = true, .counts = counts});
        assert_int_equal(scene.pace.planned, planned + counts);
        gossip_pace_leave(&scene.pace);
        scene.pace.rounds = rounds;
        gossip_pace_begin(&scene.pace,
                          &(struct gossip_pace_round){
                              .round = ROUND + 1, .others = others, .idle = idle, .counts = counts});
        assert_int_equal(scene.pace.turn,
                         !sync && others && !idle && long_ago ? GOSSIP_PACE_DUE : GOSSIP_PACE_NO_TURN);
        take_down(&scene);
    }
    open_scene(&scene, GOSSIP_PACE_SYNC, GOSSIP_PACE_DUE, FREE, FREE);
    scene.pace.planned = 10;
    scene.pace.unmet = 5;
    assert_false(gossip_pace_apart(&scene.pace));
    scene.pace.unmet = 6;
    assert_true(gossip_pace_apart(&scene.pace));
    const uint64_t most = ROUND + LEAD + NEIGHBOURS + 2 * MEMBERS; // the news are that old
    scene.pace.round = most;
    assert_false(gossip_pace_ahead(&scene.pace));
    scene.pace.round++;
    assert_true(gossip_pace_ahead(&scene.pace));
    scene.pace.n_peers = 0; // alone it has nobody to be apart from
    assert_false(gossip_pace_apart(&scene.pace));
    take_down(&scene);
}

// -- bounds

// Where each bound of async lies: an edge without answers is none to compare with, one round behind is in
// step, and so on.
static void async_waits_no_longer_than_it_should(void **state)
{
    struct scene scene;
    struct gossip_pace *pace = &scene.pace;
    struct gossip_pace_peer *peer = scene.peer;

    (void)state;
    open_scene(&scene, GOSSIP_PACE_ASYNC, GOSSIP_PACE_DUE, OPEN, FREE);
    for (size_t i = 0; i < GOSSIP_ANSWERS; i++)
        gossip_answers_learn(&peer[0].answers, 300 * MS);
    assert_int_equal(gossip_pace_next(pace).peer == &peer[1], true); // 4 times 1 ms are less than 300
    peer[0].loose = false;
    peer[1].answers = (struct gossip_answers){0};
    assert_ptr_equal(gossip_pace_next(pace).peer, &peer[0]);
    take_down(&scene);
    for (uint64_t behind = 0; behind < 4; behind++)
        for (uint64_t alone = 8; alone < 12; alone++) {
            struct gossip_report reports[] = {{id_of(10), ROUND + behind}, {id_of(11), ROUND + behind}};
            open_scene(&scene, GOSSIP_PACE_ASYNC, GOSSIP_PACE_DUE, OPEN, OPEN);
            gossip_news_members(&pace->news, reports, 2, 2);
            pace->met = pace->rounds - alone;
            assert_int_equal(gossip_pace_next(pace).todo,
                             behind >= 2 && alone < 10 ? GOSSIP_PACE_LEAVE : GOSSIP_PACE_WAIT);
            take_down(&scene);
        }
    open_scene(&scene, GOSSIP_PACE_ASYNC, GOSSIP_PACE_DUE, REFUSED, APART);
    peer[0].retry_ns = NOW;
    assert_int_equal(gossip_pace_next(pace).todo, GOSSIP_PACE_ASK);
    peer[0].retry_ns = NOW + 1;
    assert_true(gossip_pace_next(pace).until_ns == NOW + 1);
    take_down(&scene);
}

// With nobody free, the boundary waits for the request that went out first, or until the first that refused
// is asked again; an edge that is not live has no part in it.
static void with_nobody_free_it_waits_for_the_first(void **state)
{
    struct scene scene;
    struct gossip_pace *pace = &scene.pace;
    struct gossip_pace_peer *peer = scene.peer;
    struct gossip_pace_next next;

    (void)state;
    for (int later = 0; later < 2; later++) {
        open_scene(&scene, GOSSIP_PACE_ASYNC, GOSSIP_PACE_DUE, LOOSE, LOOSE);
        peer[later].sent_ns = NOW - MS / 4;
        next = gossip_pace_next(pace);
        assert_ptr_equal(next.peer, &peer[1 - later]);
        assert_true(next.until_ns == NOW + CEILING);
        peer[later].sent_ns = peer[1 - later].sent_ns;
        assert_ptr_equal(gossip_pace_next(pace).peer, &peer[0]);
        gossip_pace_time(pace, NOW + CEILING);
        peer[0].waited_ns = peer[1].waited_ns = 0;
        assert_int_equal(gossip_pace_next(pace).todo, GOSSIP_PACE_LEAVE);
        take_down(&scene);
    }
    open_scene(&scene, GOSSIP_PACE_ASYNC, GOSSIP_PACE_DUE, LOOSE, APART);
    peer[1].retry_ns = NOW + MS;
    assert_true(gossip_pace_next(pace).until_ns == NOW + CEILING);
    peer[1].tie = GOSSIP_PACE_LIVE;
    assert_true(gossip_pace_next(pace).until_ns == NOW + MS);
    take_down(&scene);
}

// One that was overlooked for more than `max_delay` turns is asked, whatever the plan says and the partner
// has asked.
static void an_overlooked_neighbour_is_asked(void **state)
{
    struct scene scene;

    (void)state;
    for (int has_met = 0; has_met < 2; has_met++)
        for (uint64_t turns = 3; turns < 8; turns++) {
            open_scene(&scene, GOSSIP_PACE_ASYNC, GOSSIP_PACE_DUE, FREE, FREE);
            scene.peer[0].met = scene.pace.rounds;
            scene.peer[0].clock = has_met ? ROUND : ROUND - 1;
            scene.peer[1].met = scene.pace.rounds - NEIGHBOURS * turns;
            const struct gossip_pace_next next = gossip_pace_next(&scene.pace);
            const bool overlooked = turns > 5;
            assert_int_equal(next.todo, overlooked || !has_met ? GOSSIP_PACE_ASK : GOSSIP_PACE_LEAVE);
            if (next.todo == GOSSIP_PACE_ASK)
                assert_ptr_equal(next.peer, &scene.peer[overlooked]);
            take_down(&scene);
        }
}

// The neighbour that was met longest ago; a slow one too, unless an exchange goes on alone already.
static void the_longest_unmet_is_asked(void **state)
{
    struct scene scene;

    (void)state;
    for (size_t older = 0; older < NEIGHBOURS; older++)
        for (int stale = 0; stale < 2; stale++) {
            open_scene(&scene, GOSSIP_PACE_ASYNC, GOSSIP_PACE_DUE, FREE, FREE);
            scene.pace.plan.partner = id_of(99);
            scene.peer[older].met = scene.pace.rounds - 1;
            scene.peer[1 - older].met = scene.pace.rounds;
            scene.peer[1 - older].loose = stale; // of a request that is over
            for (size_t i = 0; i < GOSSIP_ANSWERS; i++)
                gossip_answers_learn(&scene.peer[older].answers, 300 * MS);
            assert_ptr_equal(gossip_pace_next(&scene.pace).peer, &scene.peer[older]);
            scene.peer[1 - older].flight = GOSSIP_PACE_OPEN;
            assert_int_equal(gossip_pace_next(&scene.pace).todo, GOSSIP_PACE_WAIT);
            take_down(&scene);
        }
}

// Where both were overlooked, the plan says which is asked.
static void of_two_overlooked_the_partner_is_asked(void **state)
{
    struct scene scene;

    (void)state;
    for (size_t partner = 0; partner < NEIGHBOURS; partner++) {
        open_scene(&scene, GOSSIP_PACE_ASYNC, GOSSIP_PACE_DUE, FREE, FREE);
        scene.pace.plan.partner = scene.peer[partner].peer;
        scene.peer[0].met = scene.peer[1].met = scene.pace.rounds - 100;
        assert_ptr_equal(gossip_pace_next(&scene.pace).peer, &scene.peer[partner]);
        take_down(&scene);
    }
}

// What an earlier request weighed is nothing once it has been answered; the room that answers took counts
// beside one that the boundary waits for.
static void a_weight_counts_while_its_request_is_out(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene, GOSSIP_PACE_ASYNC, GOSSIP_PACE_DUE, OPEN, FREE);
    scene.pace.answered = 0.25f;
    assert_true(gossip_pace_weight(&scene.pace, &scene.peer[0], 0.5f) ==
                0.5f);                                                         // beside itself nothing is out
    assert_true(gossip_pace_weight(&scene.pace, &scene.peer[1], 0.5f) < 0.2f); // 2/3 of 1/4
    scene.peer[0].loose = true;
    assert_true(gossip_pace_weight(&scene.pace, &scene.peer[1], 0.5f) > 0.3f); // 2/3 of 1/2
    scene.peer[0].tie = GOSSIP_PACE_LOST;                                      // its request is void
    assert_true(gossip_pace_weight(&scene.pace, &scene.peer[1], 0.5f) == 0.5f);
    scene.peer[0].tie = GOSSIP_PACE_LIVE;
    gossip_pace_dropped(&scene.peer[0]);
    assert_true(gossip_pace_weight(&scene.pace, &scene.peer[1], 0.5f) == 0.5f);
    assert_true(gossip_pace_due(&scene.pace, &scene.peer[0]) == UINT64_MAX);
    take_down(&scene);
}

// A neighbour that has not answered yet is given the time of the slowest other one.
static void a_request_is_due_after_a_ceiling_and_the_usual_time(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene, GOSSIP_PACE_SYNC, GOSSIP_PACE_DUE, OPEN, FREE);
    const uint64_t sent_ns = scene.peer[0].sent_ns;
    for (size_t i = 0; i < GOSSIP_ANSWERS; i++)
        gossip_answers_learn(&scene.peer[1].answers, 7 * MS);
    assert_true(gossip_pace_due(&scene.pace, &scene.peer[0]) == sent_ns + CEILING + 4 * MS);
    scene.peer[0].answers = (struct gossip_answers){0};
    assert_true(gossip_pace_due(&scene.pace, &scene.peer[0]) == sent_ns + CEILING + 4 * 7 * MS);
    take_down(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_goes_out_waits_and_is_void),
        cmocka_unit_test(a_refused_request_is_repeated_later_and_later),
        cmocka_unit_test(an_exchange_ends_what_waited_for_it),
        cmocka_unit_test(answers_and_news_are_counted),
        cmocka_unit_test(waits_are_accounted),
        cmocka_unit_test(rounds_without_an_exchange_are_counted),
        cmocka_unit_test(async_waits_no_longer_than_it_should),
        cmocka_unit_test(with_nobody_free_it_waits_for_the_first),
        cmocka_unit_test(an_overlooked_neighbour_is_asked),
        cmocka_unit_test(the_longest_unmet_is_asked),
        cmocka_unit_test(of_two_overlooked_the_partner_is_asked),
        cmocka_unit_test(a_weight_counts_while_its_request_is_out),
        cmocka_unit_test(a_request_is_due_after_a_ceiling_and_the_usual_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
