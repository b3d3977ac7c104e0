// Who waits for whom, every combination of states for one and two neighbours: what the node does next, that
// each wait has one reason, something that ends it and was asked for, and a deadline in the future at which
// it ends. No vector, no message.
#include "pace_scene.h"

// -- what a node may do

static void check_ask(const struct scene *scene, const struct gossip_pace_next *next)
{
    const struct gossip_id partner = partner_of(scene->all.meets);
    const struct gossip_pace_peer *peer = next->peer;

    must(scene, peer != NULL, "asks nobody");
    must(scene, !scene->all.idle, "asks though it stands still");
    must(scene, peer->tie == GOSSIP_PACE_LIVE, "asks over an edge that is not live");
    must(scene, peer->flight == GOSSIP_PACE_NO_FLIGHT, "asks over an edge whose request is out");
    must(scene, scene->pace.now_ns >= peer->retry_ns, "asks too soon after a refusal");
    must(scene, scene->pace.turn == GOSSIP_PACE_DUE, "asks though the round has its exchange");
    must(scene, next->weight > 0 && next->weight <= 1, "asks with no weight");
    must(scene, scene->all.mode != GOSSIP_PACE_SYNC || gossip_id_compare(&peer->peer, &partner) == 0,
         "in sync it asks another one than the partner");
}

static bool any_live(const struct scene *scene)
{
    bool any = false;

    for (size_t i = 0; i < scene->all.neighbours; i++)
        any |= scene->peer[i].tie == GOSSIP_PACE_LIVE && !gossip_pace_spent(&scene->pace, &scene->peer[i]);
    return any;
}

static bool all_spent(const struct scene *scene)
{
    bool all = true;

    for (size_t i = 0; i < scene->all.neighbours; i++)
        all &= gossip_pace_spent(&scene->pace, &scene->peer[i]);
    return all;
}

// What ends the wait has been asked for: a request is out, or a link, an edge or reports are on their way.
static void check_reason(const struct scene *scene, const struct gossip_pace_next *next)
{
    const struct gossip_pace_peer *peer = next->peer;
    const bool sync = scene->all.mode == GOSSIP_PACE_SYNC, others = scene->all.others;

    switch (next->reason) {
    case GOSSIP_PACE_FOR_ANSWER:
        must(scene, peer && peer->tie == GOSSIP_PACE_LIVE,
             "waits for an answer over an edge that is not live");
        must(scene, peer->flight != GOSSIP_PACE_NO_FLIGHT || next->until_ns <= peer->retry_ns,
             "waits for an answer that it has not asked for");
        break;
    case GOSSIP_PACE_FOR_PARTNER:
        must(scene, sync && peer && peer->tie == GOSSIP_PACE_LIVE && peer->flight == GOSSIP_PACE_PARKED,
             "waits for a partner that does not have its request");
        break;
    case GOSSIP_PACE_FOR_LINK:
        must(scene, sync && others && peer, "waits for a link that no round needs");
        must(scene, peer->tie == GOSSIP_PACE_LOST || peer->tie == GOSSIP_PACE_BEGINS,
             "waits for a link that does not come");
        break;
    case GOSSIP_PACE_FOR_EDGE:
        must(scene, others && !any_live(scene) && !all_spent(scene),
             "waits for an edge though one is live, all were waited for, or nobody trains");
        break;
    case GOSSIP_PACE_FOR_CLUSTER:
        must(scene, others && gossip_pace_ahead(&scene->pace), "waits for a cluster that is not behind");
        break;
    case GOSSIP_PACE_NO_REASON:
    case GOSSIP_PACE_REASONS:
        describe(&scene->all, "waits for no reason");
    }
}

static void check_wait(const struct scene *scene, const struct gossip_pace_next *next)
{
    const uint64_t now_ns = scene->pace.now_ns;

    must(scene, !scene->all.idle, "waits though it stands still");
    must(scene, next->until_ns > now_ns, "waits until a moment that has passed");
    must(scene, next->until_ns <= now_ns + 4 * CEILING, "waits for longer than any deadline");
    must(scene, !next->peer || !gossip_pace_spent(&scene->pace, next->peer) || next->peer->retry_ns > now_ns,
         "waits for one that was waited for in vain");
    must(scene, scene->pace.reason == next->reason, "another reason in the account");
    check_reason(scene, next);
}

// What the owner does with a request that is due: it asks the other end where it is.
static void doubt(struct scene *scene)
{
    for (size_t i = 0; i < scene->all.neighbours; i++)
        if (scene->pace.now_ns >= gossip_pace_due(&scene->pace, &scene->peer[i])) {
            gossip_pace_tie(&scene->pace, &scene->peer[i], GOSSIP_PACE_BEGINS);
            gossip_pace_dropped(&scene->peer[i]);
        }
}

// From here on nothing arrives: the boundary ends by itself, and soon.
static void follow(struct scene *scene)
{
    struct gossip_pace *pace = &scene->pace;
    unsigned asks = 0, waits = 0;

    for (;;) {
        const struct gossip_pace_next next = gossip_pace_next(pace);
        switch (next.todo) {
        case GOSSIP_PACE_ASK:
            check_ask(scene, &next);
            must(scene, ++asks <= 2, "asks again and again");
            gossip_pace_asked(pace, next.peer, next.weight);
            break;
        case GOSSIP_PACE_WAIT:
            check_wait(scene, &next);
            must(scene, ++waits <= 8, "waits again and again");
            gossip_pace_time(pace, next.until_ns);
            doubt(scene);
            break;
        case GOSSIP_PACE_LEAVE:
            must(scene, pace->now_ns <= NOW + 5 * CEILING, "waits too long in all");
            must(scene, waits > 0 || pace->reason == GOSSIP_PACE_NO_REASON, "leaves with a reason to wait");
            gossip_pace_leave(pace);
            must(scene, gossip_pace_next(pace).todo == GOSSIP_PACE_NOTHING, "goes on after its end");
            return;
        case GOSSIP_PACE_NOTHING:
            describe(&scene->all, "an open boundary with nothing to do");
        }
    }
}

// -- single answers

static void check_first(struct scene *scene)
{
    const struct all *all = &scene->all;
    const struct gossip_pace_next next = gossip_pace_next(&scene->pace);
    const bool waits = next.todo == GOSSIP_PACE_WAIT;

    if (all->idle)
        must(scene, next.todo == GOSSIP_PACE_LEAVE, "stands still and does not leave");
    if (all->others && all->place == AHEAD && !all->idle)
        must(scene, next.todo != GOSSIP_PACE_LEAVE, "runs away from the cluster");
    if (!all->others)
        must(scene, !waits || next.reason == GOSSIP_PACE_FOR_ANSWER || next.reason == GOSSIP_PACE_FOR_PARTNER,
             "waits for the cluster though nobody else trains");
    if (all->mode == GOSSIP_PACE_ASYNC && all->turn == GOSSIP_PACE_ASKED && all->place != AHEAD)
        must(scene, next.todo == GOSSIP_PACE_LEAVE, "async: waits for the exchange of its own round");
    for (size_t i = 0; i < all->neighbours && all->mode == GOSSIP_PACE_ASYNC && all->neighbours > 1; i++) {
        const struct one *other = &all->one[1 - i];
        if (all->one[i].kind == OPEN && all->one[i].past == SLOW && other->kind == FREE &&
            other->past == FRESH)
            must(scene, !waits || next.peer != &scene->peer[i],
                 "async: waits for an edge that is much slower");
    }
    if (all->mode == GOSSIP_PACE_SYNC && all->others && !all->idle && !any_live(scene) && !all_spent(scene))
        must(scene, next.todo != GOSSIP_PACE_LEAVE, "sync: a step alone");
    if (all->mode == GOSSIP_PACE_SYNC && all->turn == GOSSIP_PACE_DUE && all->meets < UNKNOWN && !all->idle &&
        all->meets < (enum meets)all->neighbours) {
        const struct one *partner = &all->one[all->meets];
        if (partner->kind == FREE && !partner->met)
            must(scene, next.todo == GOSSIP_PACE_ASK, "sync: does not ask its partner");
        if (partner->kind == OPEN && !partner->met && partner->past != LONG_SPENT)
            must(scene, waits && next.reason == GOSSIP_PACE_FOR_ANSWER, "sync: leaves before its exchange");
        if (partner->kind == RESYNCS && any_live(scene) && all->place != AHEAD)
            must(scene, next.todo == GOSSIP_PACE_LEAVE, "sync: waits for a RESYNC");
    }
}

// Requests: async answers all; sync keeps only those of later rounds, and not the partner's while it waits.
static void check_answers(const struct scene *scene)
{
    const struct all *all = &scene->all;

    for (size_t i = 0; i < all->neighbours; i++) {
        const struct gossip_pace_peer *peer = &scene->peer[i];
        const bool partner = all->meets == (enum meets)i && all->turn == GOSSIP_PACE_DUE;
        for (uint64_t round = ROUND - 1; round <= ROUND + 1; round++) {
            const bool kept = all->mode == GOSSIP_PACE_SYNC && !all->idle && round > ROUND && !partner;
            must(scene, gossip_pace_answers(&scene->pace, peer, round) == !kept,
                 kept ? "answers a round that it has not reached" : "keeps a request that it could answer");
        }
    }
}

// Updates that are under way together move a model by less than their mean allows.
static void check_weight(const struct scene *scene)
{
    for (size_t i = 0; i < scene->all.neighbours; i++) {
        const struct gossip_pace_peer *peer = &scene->peer[i], *other = &scene->peer[1 - i];
        if (peer->tie != GOSSIP_PACE_LIVE)
            continue;
        const float weight = gossip_pace_weight(&scene->pace, peer, 0.5f);
        must(scene, weight > 0 && weight <= 0.5f, "a weight beyond the plan's");
        if (scene->all.neighbours > 1 && other->tie == GOSSIP_PACE_LIVE && other->flight)
            must(scene, weight + other->weight < 1, "updates under way move a model beyond their mean");
    }
}

// -- all combinations

static unsigned long tried;

static void try_one(const struct all *all)
{
    static struct scene scene;

    set_up(&scene, all);
    check_answers(&scene);
    check_weight(&scene);
    check_first(&scene);
    take_down(&scene);
    set_up(&scene, all);
    follow(&scene);
    take_down(&scene);
    tried++;
}

static void with_cluster(struct all *all)
{
    for (int meets = 0; meets < MEETS; meets++)
        for (int turn = 0; turn < GOSSIP_PACE_TURNS; turn++)
            for (int flags = 0; flags < 4; flags++)
                for (int place = 0; place < PLACES; place++) {
                    all->meets = (enum meets)meets;
                    all->turn = (enum gossip_pace_turn)turn;
                    all->place = (enum place)place;
                    all->others = flags & 1;
                    all->idle = flags & 2;
                    if ((all->mode == GOSSIP_PACE_SYNC && turn == GOSSIP_PACE_ASKED) ||
                        (meets == NOBODY && turn != GOSSIP_PACE_NO_TURN))
                        continue; // no such state
                    try_one(all);
                }
}

static struct one one_of(unsigned number)
{
    return (struct one){.kind = (enum peer_kind)(number / 2 / PASTS),
                        .past = (enum past)(number / 2 % PASTS),
                        .met = number % 2};
}

// A loose request is one of async; a parked one, of sync.
static bool exists(enum gossip_pace_mode mode, const struct one *one)
{
    return one->kind != (mode == GOSSIP_PACE_SYNC ? LOOSE : PARKED);
}

static void every_combination(size_t neighbours)
{
    enum { ALL = PEER_KINDS * PASTS * 2 };

    for (int mode = 0; mode < 3; mode++)
        for (unsigned a = 0; a < ALL; a++)
            for (unsigned b = 0; b < (neighbours > 1 ? ALL : 1); b++) {
                struct all all = {.mode = mode ? GOSSIP_PACE_ASYNC : GOSSIP_PACE_SYNC,
                                  .overlap = mode == 2 ? OVERLAP : 0,
                                  .neighbours = neighbours,
                                  .one = {one_of(a), one_of(b)}};
                if (exists(all.mode, &all.one[0]) && exists(all.mode, &all.one[1]))
                    with_cluster(&all);
            }
}

static void every_pair_of_states_is_sound(void **state)
{
    (void)state;
    tried = 0;
    every_combination(1);
    every_combination(NEIGHBOURS);
    print_message("%lu combinations\n", tried);
    assert_true(tried > 300000);
}

// The only neighbour takes 300 ms for an exchange, and a round's step none: what a boundary does `rounds`
// after the latest exchange.
static enum gossip_pace_todo after(uint64_t overlap, uint64_t rounds, enum peer_kind kind)
{
    struct scene scene;
    const struct all all = {.mode = GOSSIP_PACE_ASYNC,
                            .turn = GOSSIP_PACE_DUE,
                            .overlap = overlap,
                            .others = true,
                            .neighbours = 1,
                            .one = {{.kind = kind, .past = SLOW}}};

    set_up(&scene, &all);
    scene.pace.met = scene.pace.rounds - rounds;
    const enum gossip_pace_todo todo = gossip_pace_next(&scene.pace).todo;
    take_down(&scene);
    return todo;
}

static void an_exchange_may_take_several_rounds(void **state)
{
    (void)state;
    for (uint64_t rounds = 1; rounds < 2 * OVERLAP; rounds++) {
        assert_int_equal(after(0, rounds, OPEN), GOSSIP_PACE_WAIT);
        assert_int_equal(after(OVERLAP, rounds, OPEN),
                         rounds < OVERLAP ? GOSSIP_PACE_LEAVE : GOSSIP_PACE_WAIT);
        assert_int_equal(after(OVERLAP, rounds, FREE), GOSSIP_PACE_ASK); // the next one begins at once
    }
}

// Rounds without an exchange of their own are not those of a node that is apart, as long as one is under way.
static void overlapping_rounds_are_not_apart(void **state)
{
    struct scene scene;
    const struct all all = {.mode = GOSSIP_PACE_ASYNC,
                            .others = true,
                            .neighbours = 1,
                            .overlap = OVERLAP,
                            .one = {{.kind = OPEN, .past = SLOW}}};

    (void)state;
    set_up(&scene, &all);
    for (uint64_t round = ROUND + 1; round < ROUND + 50; round++) {
        gossip_pace_leave(&scene.pace);
        gossip_pace_begin(
            &scene.pace,
            &(struct gossip_pace_round){
                .round = round, .meets = true, .others = true, .counts = true, .partner = id_of(10)});
        if (round < ROUND + OVERLAP)
            assert_false(gossip_pace_apart(&scene.pace));
    }
    assert_true(gossip_pace_apart(&scene.pace)); // in the end nothing came of it
    take_down(&scene);
}

// Many requests out, and many answered meanwhile: what is left of 1 becomes small, and never less than
// nothing.
static void weights_stay_weights(void **state)
{
    enum { PEERS = 6 };

    (void)state;
    for (int mode = 0; mode < 2; mode++)
        for (size_t flights = 0; flights < PEERS; flights++) {
            struct gossip_pace pace = {
                .options = {.mode = (enum gossip_pace_mode)mode, .ceiling_ns = CEILING}};
            struct gossip_pace_peer peer[PEERS];
            float all = 0;
            for (size_t i = 0; i < PEERS; i++) {
                peer[i].peer = id_of((uint8_t)(10 + i));
                assert_true(gossip_pace_add(&pace, &peer[i]));
                gossip_pace_tie(&pace, &peer[i], GOSSIP_PACE_LIVE);
            }
            for (size_t i = 0; i < 8; i++) {
                const bool asks = i < flights;
                const struct gossip_pace_peer *to = &peer[asks ? i : PEERS - 1];
                const float weight = gossip_pace_weight(&pace, to, 0.5f);
                assert_true(weight > 0 && weight <= 0.5f);
                if (asks)
                    gossip_pace_asked(&pace, &peer[i], weight);
                else
                    gossip_pace_answered(&pace, weight);
                all += asks || flights > 0 ? weight : 0;
            }
            assert_true(all <= 1 + 8 / 64.0f); // however little room is left, each has a 64th
            free(pace.peers);
        }
}

// A neighbour that was dead for an hour is waited for a ceiling, like any other, and not for twelve minutes.
static void an_absence_is_no_credit(void **state)
{
    struct gossip_pace pace = {.options = {.ceiling_ns = CEILING}, .now_ns = 4000 * CEILING};
    struct gossip_pace_peer peer = {
        .tie = GOSSIP_PACE_LIVE, .tie_ns = 3998 * CEILING, .met_ns = 100 * CEILING, .waited_ns = CEILING};

    (void)state;
    assert_true(gossip_pace_spent(&pace, &peer));
    peer.tie_ns = 100 * CEILING; // it was here all the time, and answers seldom
    assert_false(gossip_pace_spent(&pace, &peer));
}

// Sync: rounds that every neighbour has passed are skipped, at most `reach` at once, so that the next one is
// at most the round of the hindmost. One in step is up to two turns of the plan ahead. An edge that is down
// says nothing.
static void only_rounds_that_all_have_passed_are_skipped(void **state)
{
    enum { REACH = 20, TURN = 3, IN_STEP = 2 * (TURN + 1) };
    const uint64_t ahead[] = {0, 1, IN_STEP, IN_STEP + 1, IN_STEP + 2, REACH + 1, REACH + 2, 5 * REACH};
    const size_t n = sizeof ahead / sizeof *ahead;

    (void)state;
    for (size_t k = 0; k < 2 * n * n; k++) {
        const uint64_t first = ahead[k % n], second = ahead[k / n % n];
        const bool sync = k >= n * n;
        struct scene scene;
        const struct all all = {.mode = sync ? GOSSIP_PACE_SYNC : GOSSIP_PACE_ASYNC,
                                .neighbours = NEIGHBOURS,
                                .one = {{.kind = FREE}, {.kind = RESYNCS}}};
        set_up(&scene, &all);
        scene.pace.plan.turn = TURN;
        scene.peer[0].round = ROUND + first;
        scene.peer[1].round = ROUND + second;
        const uint64_t least = first < second ? first : second, most = least > REACH ? REACH : least - 1;
        const uint64_t skipped = gossip_pace_goes_on(&scene.pace) - ROUND;
        assert_int_equal(skipped, sync && least > IN_STEP ? most : 0);
        gossip_pace_tie(&scene.pace, &scene.peer[0], GOSSIP_PACE_BEGINS);
        scene.peer[1].round = 0; // nothing has been heard
        assert_int_equal(gossip_pace_goes_on(&scene.pace), ROUND);
        take_down(&scene);
    }
}

static void every_reason_has_a_name(void **state)
{
    (void)state;
    for (int a = 0; a < GOSSIP_PACE_REASONS; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(gossip_pace_reason_name((enum gossip_pace_reason)a),
                                    gossip_pace_reason_name((enum gossip_pace_reason)b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_states_is_sound),
        cmocka_unit_test(an_exchange_may_take_several_rounds),
        cmocka_unit_test(overlapping_rounds_are_not_apart),
        cmocka_unit_test(weights_stay_weights),
        cmocka_unit_test(an_absence_is_no_credit),
        cmocka_unit_test(only_rounds_that_all_have_passed_are_skipped),
        cmocka_unit_test(every_reason_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
