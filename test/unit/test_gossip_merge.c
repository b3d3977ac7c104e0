// Merging final models, rule by rule: one node, and the messages of two to four others written by the test.
#include "base/hash.h"
#include "gossip/merge/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ull

enum { D = 12, MOST = 5, KEPT = 64 };

static struct {
    struct gossip_merge *merge;
    struct gossip_merge_member member[MOST]; // [0] is the node itself
    size_t n;
    float own[D];
    uint64_t now_ns;
    struct {
        struct gossip_id peer;
        struct gossip_message message;
        uint8_t bytes[512];
    } sent[KEPT]; // since the latest take
    size_t n_sent;
    size_t giftless; // the member that gives nothing; 0: all give
} w;

static struct gossip_merge_member member(size_t i)
{
    return (struct gossip_merge_member){{{(uint8_t)(i + 1)}}, 100 + i};
}

static void take(void)
{
    struct gossip_message message;
    struct gossip_payload payload[GOSSIP_MESSAGE_PAYLOADS];

    w.n_sent = 0;
    while (gossip_merge_next(w.merge, &w.sent[w.n_sent].peer, &message)) {
        w.sent[w.n_sent].message = message;
        if (gossip_message_payloads(&message, payload) > 0)
            memcpy(w.sent[w.n_sent].bytes, payload[0].bytes, payload[0].count);
        w.n_sent++;
        assert_true(w.n_sent < KEPT);
    }
}

static void prepare(size_t n)
{
    const struct gossip_merge_options options = {
        .self = member(0).id, .parameters = D, .patience_ns = 9 * SECOND};

    memset(&w, 0, sizeof w);
    w.n = n;
    w.now_ns = SECOND;
    assert_int_equal(gossip_merge_create(&options, &w.merge), BASE_OK);
    for (size_t i = 0; i < n; i++)
        w.member[i] = member(i);
    for (size_t i = 0; i < D; i++)
        w.own[i] = 1;
    for (size_t i = 1; i < n; i++)
        gossip_merge_linked(w.merge, &w.member[i].id, w.now_ns);
}

static void begin(size_t n)
{
    prepare(n);
    gossip_merge_members(w.merge, w.member, n, w.now_ns);
    assert_int_equal(gossip_merge_begin(w.merge, w.own, true, w.now_ns), BASE_OK);
}

static int clean(void **state)
{
    (void)state;
    gossip_merge_destroy(w.merge);
    w.merge = NULL;
    return 0;
}

// Members from..to - 1 are the set that member i says.
static enum base_error say(size_t i, enum gossip_merge_phase phase, size_t from, size_t to, uint64_t hash)
{
    uint8_t keys[MOST * 8] = {0};
    struct gossip_message message = {.kind = GOSSIP_MERGE};

    for (size_t k = from; k < to; k++)
        keys[8 * (k - from)] = (uint8_t)(100 + k);
    message.as.merge = (struct gossip_merge_message){.phase = (uint8_t)phase,
                                                     .gives = i == 0 || i != w.giftless,
                                                     .hash = hash,
                                                     .keys = keys,
                                                     .keys_bytes = (uint32_t)(8 * (to - from))};
    return gossip_merge_heard(w.merge, &w.member[i].id, &message, w.now_ns);
}

static void all_say(enum gossip_merge_phase phase)
{
    for (size_t i = 1; i < w.n; i++)
        assert_int_equal(say(i, phase, 0, w.n, 0), BASE_OK);
}

// Answers the ask at `at` with this value in every element.
static enum base_error answer(size_t at, float value, uint64_t other)
{
    const struct gossip_snapshot_ask *ask = &w.sent[at].message.as.ask;
    float values[D];
    struct gossip_message message = {.kind = GOSSIP_SNAPSHOT_TELL};
    const size_t count = D / w.n;

    for (size_t i = 0; i < count; i++)
        values[i] = value;
    message.as.tell = (struct gossip_snapshot_tell){.snapshot = ask->snapshot,
                                                    .part = ask->part,
                                                    .block = ask->block,
                                                    .hash = base_hash_vector(values, count) ^ other,
                                                    .values = (const uint8_t *)values,
                                                    .values_bytes = (uint32_t)(count * sizeof(float))};
    return gossip_merge_heard(w.merge, &w.sent[at].peer, &message, w.now_ns);
}

static size_t asks(enum gossip_snapshot_part part)
{
    size_t count = 0;

    for (size_t i = 0; i < w.n_sent; i++)
        count += w.sent[i].message.kind == GOSSIP_SNAPSHOT_ASK && w.sent[i].message.as.ask.part == part;
    return count;
}

static void answer_all(enum gossip_snapshot_part part, float value)
{
    for (size_t i = 0; i < w.n_sent; i++)
        if (w.sent[i].message.kind == GOSSIP_SNAPSHOT_ASK && w.sent[i].message.as.ask.part == part)
            assert_int_equal(answer(i, value, 0), BASE_OK);
}

static enum gossip_merge_phase phase(void)
{
    struct gossip_merge_info info;

    gossip_merge_info(w.merge, &info);
    return info.phase;
}

static uint64_t hash_of(float value)
{
    float values[D];

    for (size_t i = 0; i < D; i++)
        values[i] = value;
    return base_hash_vector(values, D);
}

static void test_from_the_offer_to_the_model_of_all(void **state)
{
    (void)state;
    begin(3);
    take();
    assert_int_equal(w.n_sent, 2); // its offers
    all_say(GOSSIP_MERGE_OFFERS);
    assert_int_equal(phase(), GOSSIP_MERGE_AGREED);
    take();
    assert_int_equal(asks(GOSSIP_PART_FINAL), 0); // the others have not agreed yet
    all_say(GOSSIP_MERGE_AGREED);
    take();
    assert_int_equal(asks(GOSSIP_PART_FINAL), 2);
    answer_all(GOSSIP_PART_FINAL, 4);
    assert_int_equal(phase(), GOSSIP_MERGE_REDUCED);
    all_say(GOSSIP_MERGE_REDUCED);
    take();
    assert_int_equal(asks(GOSSIP_PART_MERGED), 2);
    answer_all(GOSSIP_PART_MERGED, 3);
    assert_int_equal(phase(), GOSSIP_MERGE_HOLDS);
    assert_int_equal(say(1, GOSSIP_MERGE_HOLDS, 0, 3, hash_of(7)),
                     BASE_OK); // another mean: it does not count
    assert_int_equal(phase(), GOSSIP_MERGE_HOLDS);
    assert_int_equal(say(2, GOSSIP_MERGE_HOLDS, 0, 3, hash_of(3)), BASE_OK);
    assert_int_equal(phase(), GOSSIP_MERGE_DECIDED);
    assert_int_equal(gossip_merge_end(w.merge), GOSSIP_MERGE_GOES_ON); // the others may need it
    assert_int_equal(say(1, GOSSIP_MERGE_DECIDED, 0, 3, hash_of(3)), BASE_OK);
    assert_int_equal(say(2, GOSSIP_MERGE_DECIDED, 0, 3, hash_of(3)), BASE_OK);
    assert_int_equal(gossip_merge_end(w.merge), GOSSIP_MERGE_MERGED);
    for (size_t i = 0; i < D; i++)
        assert_true(gossip_merge_model(w.merge)[i] == 3); // (1 + 4 + 4) / 3 in its own chunk
    take();
    assert_true(w.n_sent > 0); // the others hear that it has decided
}

static void until_it_asks(size_t n)
{
    begin(n);
    all_say(GOSSIP_MERGE_OFFERS);
    all_say(GOSSIP_MERGE_AGREED);
    take();
    assert_int_equal(asks(GOSSIP_PART_FINAL), n - 1);
}

static void until_it_holds(float value)
{
    for (size_t turn = 0; turn < w.n && phase() < GOSSIP_MERGE_HOLDS; turn++) {
        answer_all(GOSSIP_PART_MERGED, value);
        take();
    }
    assert_int_equal(phase(), GOSSIP_MERGE_HOLDS);
}

static size_t first_ask(void)
{
    size_t at = 0;

    while (w.sent[at].message.kind != GOSSIP_SNAPSHOT_ASK)
        at++;
    return at;
}

static void test_a_block_that_no_honest_node_sends_is_refused(void **state)
{
    const float value[] = {NAN, INFINITY, 1e30f, 4};

    (void)state;
    for (int i = 0; i < 4; i++) {
        until_it_asks(3);
        assert_int_equal(answer(first_ask(), value[i], i == 3), BASE_EFORMAT); // the last one: another hash
        assert_int_equal(phase(), GOSSIP_MERGE_OFFERS);                        // to the others, without it
        clean(NULL);
    }
    begin(3);
    assert_int_equal(say(1, GOSSIP_MERGE_OFFERS, 0, 0, 0), BASE_EFORMAT);
    uint8_t keys[16] = {9, [8] = 3};
    const struct gossip_message message = {
        .kind = GOSSIP_MERGE,
        .as.merge = {.phase = GOSSIP_MERGE_OFFERS, .keys = keys, .keys_bytes = sizeof keys}};
    assert_int_equal(gossip_merge_heard(w.merge, &w.member[2].id, &message, w.now_ns), BASE_EFORMAT);
}

static void until_it_asks_for_the_mean(size_t n)
{
    until_it_asks(n);
    answer_all(GOSSIP_PART_FINAL, 4);
    all_say(GOSSIP_MERGE_REDUCED);
    take();
    assert_int_equal(asks(GOSSIP_PART_MERGED), n - 1);
}

// The mean is believed no more than a part of it; a block of another size is none.
static void test_a_mean_that_no_honest_node_sends_is_refused(void **state)
{
    const float value[] = {NAN, INFINITY, 1e30f, 4};

    (void)state;
    for (int i = 0; i < 4; i++) {
        until_it_asks_for_the_mean(3);
        assert_int_equal(answer(first_ask(), value[i], i == 3), BASE_EFORMAT);
        clean(NULL);
    }
    for (int mean = 0; mean < 2; mean++)
        for (size_t n = 2; n < 5; n += 2) { // the blocks of two have 6 values, those of four have 3
            mean ? until_it_asks_for_the_mean(3) : until_it_asks(3);
            w.n = n;
            assert_int_equal(answer(first_ask(), 4, 0), BASE_EFORMAT);
            clean(NULL);
        }
}

// An answer counts once, from the node that was asked, for a block of this merge.
static void test_only_what_was_asked_for_is_taken(void **state)
{
    (void)state;
    for (int mean = 0; mean < 2; mean++) {
        struct gossip_merge_info before, after;
        mean ? until_it_asks_for_the_mean(3) : until_it_asks(3);
        const size_t at = first_ask();
        const struct gossip_id asked = w.sent[at].peer;
        struct gossip_snapshot_ask *ask = &w.sent[at].message.as.ask;
        const struct gossip_snapshot_ask right = *ask;
        gossip_merge_info(w.merge, &before);
        w.sent[at].peer = w.member[asked.bytes[0] == 2 ? 2 : 1].id;
        if (mean)
            assert_int_equal(answer(at, NAN, 0), BASE_OK);
        w.sent[at].peer = asked;
        ask->snapshot++;
        assert_int_equal(answer(at, NAN, 0), BASE_OK);
        *ask = right;
        ask->block = 3;
        assert_int_equal(answer(at, NAN, 0), BASE_OK);
        ask->block = UINT32_MAX;
        assert_int_equal(answer(at, NAN, 0), BASE_OK);
        gossip_merge_info(w.merge, &after);
        assert_int_equal(after.bytes, before.bytes);
        *ask = right;
        assert_int_equal(answer(at, 4, 0), BASE_OK);
        assert_int_equal(answer(at, NAN, 0), BASE_OK); // again
        gossip_merge_info(w.merge, &after);
        assert_int_equal(after.bytes, before.bytes + D / 3 * sizeof(float));
        clean(NULL);
    }
}

static enum base_error ask(size_t i, enum gossip_snapshot_part part, uint32_t block, uint64_t snapshot)
{
    const struct gossip_message message = {
        .kind = GOSSIP_SNAPSHOT_ASK, .as.ask = {.snapshot = snapshot, .part = (uint8_t)part, .block = block}};

    return gossip_merge_heard(w.merge, &w.member[i].id, &message, w.now_ns);
}

static size_t tells(void)
{
    size_t count = 0;

    for (size_t i = 0; i < w.n_sent; i++)
        count += w.sent[i].message.kind == GOSSIP_SNAPSHOT_TELL;
    return count;
}

// Who asks for a block that this node has gets it: its own values, or the mean of its chunk once it has that.
// Over a link that has ended nothing is answered.
static void test_a_node_that_asks_is_answered(void **state)
{
    (void)state;
    until_it_asks(3);
    const uint64_t snapshot = w.sent[first_ask()].message.as.ask.snapshot;
    assert_int_equal(ask(2, GOSSIP_PART_FINAL, 2, snapshot), BASE_OK);
    assert_int_equal(ask(2, GOSSIP_PART_FINAL, 3, snapshot), BASE_OK);     // no such block
    assert_int_equal(ask(2, GOSSIP_PART_FINAL, 2, snapshot + 1), BASE_OK); // of another merge
    assert_int_equal(ask(1, GOSSIP_PART_MERGED, 0, snapshot), BASE_OK);    // not yet
    take();
    assert_int_equal(tells(), 1);
    const size_t at = w.sent[0].message.kind == GOSSIP_SNAPSHOT_TELL ? 0 : w.n_sent - 1;
    const struct gossip_snapshot_tell *tell = &w.sent[at].message.as.tell;
    assert_int_equal(gossip_id_compare(&w.sent[at].peer, &w.member[2].id), 0);
    assert_true(tell->part == GOSSIP_PART_FINAL && tell->block == 2 &&
                tell->values_bytes == D / 3 * sizeof(float));
    assert_true(((const float *)(const void *)w.sent[at].bytes)[0] == 1);
    clean(NULL);
    until_it_asks_for_the_mean(3);
    assert_int_equal(ask(1, GOSSIP_PART_MERGED, 0, snapshot), BASE_OK);
    take();
    assert_int_equal(tells(), 1);
    assert_true(((const float *)(const void *)w.sent[0].bytes)[0] == 3);
    assert_int_equal(ask(1, GOSSIP_PART_MERGED, 0, snapshot), BASE_OK);
    assert_int_equal(ask(2, GOSSIP_PART_MERGED, 0, snapshot), BASE_OK);
    gossip_merge_unlinked(w.merge, &w.member[1].id, w.now_ns);
    take();
    assert_int_equal(tells(), 1);
    assert_int_equal(ask(1, GOSSIP_PART_MERGED, 0, snapshot), BASE_OK); // it has no link
    assert_int_equal(ask(2, GOSSIP_PART_MERGED, 0, snapshot), BASE_OK);
    gossip_merge_finish(w.merge);
    assert_int_equal(ask(2, GOSSIP_PART_MERGED, 0, snapshot), BASE_OK);
    take();
    assert_int_equal(w.n_sent, 0);
    assert_true(gossip_merge_deadline(w.merge) == UINT64_MAX);
}

static enum base_error offer_keys(size_t i, size_t count, size_t same)
{
    uint8_t keys[8 * (GOSSIP_MERGE_MOST + 1)] = {0};

    for (size_t k = 0; k < count; k++)
        keys[8 * k] = (uint8_t)(100 + k - (same && k >= same));
    const struct gossip_message message = {
        .kind = GOSSIP_MERGE,
        .as.merge = {.phase = GOSSIP_MERGE_OFFERS, .keys = keys, .keys_bytes = (uint32_t)(8 * count)}};
    return gossip_merge_heard(w.merge, &w.member[i].id, &message, w.now_ns);
}

// Up to 64 keys in their order, each once. Who says anything else is not heard again, and hears nothing.
static void test_a_set_that_is_none_is_refused(void **state)
{
    (void)state;
    begin(3);
    assert_int_equal(offer_keys(1, GOSSIP_MERGE_MOST, 0), BASE_OK);
    assert_int_equal(offer_keys(2, 3, 2), BASE_EFORMAT); // one of them twice
    assert_int_equal(offer_keys(2, 3, 2), BASE_OK);      // no more heard
    clean(NULL);
    begin(3);
    assert_int_equal(offer_keys(1, GOSSIP_MERGE_MOST + 1, 0), BASE_EFORMAT);
    take();
    for (size_t i = 0; i < w.n_sent; i++)
        assert_int_equal(gossip_id_compare(&w.sent[i].peer, &w.member[2].id), 0);
    assert_true(w.n_sent > 0);
}

static uint32_t offered(void)
{
    uint32_t bytes = 0;

    take();
    for (size_t i = 0; i < w.n_sent; i++)
        if (w.sent[i].message.kind == GOSSIP_MERGE)
            bytes = w.sent[i].message.as.merge.keys_bytes;
    return bytes;
}

// The time without a link counts from its end, however long the merge has gone on.
static void test_a_link_that_ends_may_come_back(void **state)
{
    (void)state;
    begin(3);
    assert_int_equal(offered(), 24);
    for (int i = 0; i < 5; i++) {
        w.now_ns += SECOND;
        all_say(GOSSIP_MERGE_OFFERS);
    }
    (void)offered();
    w.now_ns += SECOND;
    gossip_merge_unlinked(w.merge, &w.member[2].id, w.now_ns);
    w.now_ns += 2 * SECOND;
    gossip_merge_tick(w.merge, w.now_ns);
    assert_true(offered() != 16);
    w.now_ns += SECOND + 1;
    gossip_merge_tick(w.merge, w.now_ns);
    assert_int_equal(offered(), 16);
}

// However much the others talk.
static void test_all_in_all_it_takes_sixty_times_the_patience(void **state)
{
    const uint64_t begin_ns = SECOND, most_ns = 60 * 9 * SECOND;

    (void)state;
    begin(2);
    while (!gossip_merge_end(w.merge) && w.now_ns - begin_ns < 2 * most_ns) {
        w.now_ns += SECOND;
        assert_int_equal(say(1, GOSSIP_MERGE_AGREED, 0, 2, 0), BASE_OK);
        gossip_merge_tick(w.merge, w.now_ns);
    }
    assert_int_equal(gossip_merge_end(w.merge), GOSSIP_MERGE_LATE);
    assert_int_equal(w.now_ns - begin_ns, most_ns);
}

// Its model has not come from the training: it takes the mean, and is no part of it.
static void test_a_node_that_gives_nothing_does_not_count(void **state)
{
    (void)state;
    begin(3);
    w.giftless = 2;
    all_say(GOSSIP_MERGE_OFFERS);
    all_say(GOSSIP_MERGE_AGREED);
    take();
    assert_int_equal(asks(GOSSIP_PART_FINAL), 1);
    const uint64_t snapshot = w.sent[first_ask()].message.as.ask.snapshot;
    answer_all(GOSSIP_PART_FINAL, 4);
    struct gossip_merge_info info;
    gossip_merge_info(w.merge, &info);
    assert_true(info.gave == 2 && info.phase == GOSSIP_MERGE_REDUCED);
    assert_int_equal(ask(2, GOSSIP_PART_MERGED, 0, snapshot), BASE_OK);
    take();
    assert_int_equal(tells(), 1);
    for (size_t i = 0; i < w.n_sent; i++)
        if (w.sent[i].message.kind == GOSSIP_SNAPSHOT_TELL)
            assert_true(((const float *)(const void *)w.sent[i].bytes)[0] == 2.5f);
}

// The model may be there before the members are known.
static void test_a_merge_waits_until_it_knows_its_members(void **state)
{
    (void)state;
    prepare(3);
    assert_int_equal(gossip_merge_begin(w.merge, w.own, true, w.now_ns), BASE_OK);
    take();
    assert_int_equal(w.n_sent, 0);
    gossip_merge_members(w.merge, w.member, 3, w.now_ns);
    take();
    assert_int_equal(w.n_sent, 2);
}

static void test_a_death_begins_another_attempt_with_those_that_are_left(void **state)
{
    (void)state;
    until_it_asks(4);
    gossip_merge_unlinked(w.merge, &w.member[3].id, w.now_ns);
    assert_int_equal(phase(), GOSSIP_MERGE_AGREED); // a link may come back
    gossip_merge_members(w.merge, w.member, 3, w.now_ns);
    assert_int_equal(phase(), GOSSIP_MERGE_OFFERS);
    w.n = 3;
    all_say(GOSSIP_MERGE_OFFERS);
    assert_int_equal(phase(), GOSSIP_MERGE_AGREED);
    struct gossip_merge_info info;
    gossip_merge_info(w.merge, &info);
    assert_true(info.nodes == 3 && info.attempts == 2);
}

// Its mean may be that of the cluster already: it offers no other one, and takes another one only as decided.
static void test_a_node_that_holds_the_mean_agrees_to_no_other(void **state)
{
    (void)state;
    until_it_asks(4);
    while (phase() == GOSSIP_MERGE_AGREED) {
        answer_all(GOSSIP_PART_FINAL, 1);
        take();
    }
    all_say(GOSSIP_MERGE_REDUCED);
    take();
    until_it_holds(1);
    gossip_merge_members(w.merge, w.member, 3, w.now_ns); // the last one has died
    for (size_t i = 1; i < 3; i++)
        assert_int_equal(say(i, GOSSIP_MERGE_OFFERS, 0, 3, 0), BASE_OK);
    assert_int_equal(phase(), GOSSIP_MERGE_HOLDS);
    w.n = 3;
    assert_int_equal(say(1, GOSSIP_MERGE_DECIDED, 0, 3, hash_of(2)), BASE_OK);
    take();
    assert_true(asks(GOSSIP_PART_MERGED) > 0);
    for (int turn = 0; turn < 3; turn++) {
        answer_all(GOSSIP_PART_MERGED, 2);
        take();
    }
    assert_int_equal(phase(), GOSSIP_MERGE_DECIDED);
}

static void test_the_mean_that_one_node_holds_comes_before_another_attempt(void **state)
{
    (void)state;
    until_it_asks(4);
    gossip_merge_members(w.merge, w.member, 3, w.now_ns);
    assert_int_equal(phase(), GOSSIP_MERGE_OFFERS);
    assert_int_equal(say(1, GOSSIP_MERGE_HOLDS, 0, 4, hash_of(2)), BASE_OK);
    assert_int_equal(phase(), GOSSIP_MERGE_AGREED);
    answer_all(GOSSIP_PART_FINAL, 2); // the asks of before
    take();
    assert_true(asks(GOSSIP_PART_MERGED) > 0);
    for (int turn = 0; turn < 4; turn++) {
        answer_all(GOSSIP_PART_MERGED, 2);
        take();
    }
    assert_true(phase() >= GOSSIP_MERGE_HOLDS);
}

static void test_a_node_that_finishes_late_takes_the_mean(void **state)
{
    (void)state;
    prepare(3);
    for (size_t i = 1; i < 3; i++) // before it has finished
        assert_int_equal(say(i, GOSSIP_MERGE_DECIDED, 1, 3, hash_of(2)), BASE_OK);
    w.n = 2; // participants, of which each has half of the model
    gossip_merge_members(w.merge, w.member, 3, w.now_ns);
    assert_int_equal(gossip_merge_begin(w.merge, w.own, true, w.now_ns), BASE_OK);
    take();
    assert_int_equal(asks(GOSSIP_PART_MERGED), 2);
    answer_all(GOSSIP_PART_MERGED, 2);
    assert_int_equal(gossip_merge_end(w.merge), GOSSIP_MERGE_MERGED);
    assert_true(gossip_merge_model(w.merge)[0] == 2 && gossip_merge_model(w.merge)[D - 1] == 2);
}

static void test_too_few_are_left(void **state)
{
    (void)state;
    begin(5);
    all_say(GOSSIP_MERGE_OFFERS);
    const struct gossip_merge_member left[2] = {w.member[0], w.member[4]};
    gossip_merge_members(w.merge, left, 2, w.now_ns);
    assert_int_equal(gossip_merge_end(w.merge), GOSSIP_MERGE_GOES_ON); // the other may know of a mean
    assert_int_equal(say(4, GOSSIP_MERGE_OFFERS, 4, 5, 0), BASE_OK);
    assert_int_equal(gossip_merge_end(w.merge), GOSSIP_MERGE_FEW);
}

static void test_one_and_more_than_sixty_four(void **state)
{
    struct gossip_merge_member members[GOSSIP_MERGE_MOST + 1];

    (void)state;
    begin(1);
    assert_int_equal(gossip_merge_end(w.merge), GOSSIP_MERGE_ALONE);
    clean(NULL);
    const struct gossip_merge_options options = {
        .self = member(0).id, .parameters = D, .patience_ns = 9 * SECOND};
    assert_int_equal(gossip_merge_create(&options, &w.merge), BASE_OK);
    for (size_t i = 0; i <= GOSSIP_MERGE_MOST; i++)
        members[i] = member(i);
    gossip_merge_members(w.merge, members, GOSSIP_MERGE_MOST + 1, w.now_ns);
    assert_int_equal(gossip_merge_begin(w.merge, w.own, true, w.now_ns), BASE_OK);
    assert_int_equal(gossip_merge_end(w.merge), GOSSIP_MERGE_MANY);
}

static void test_it_waits_for_no_other_for_ever(void **state)
{
    (void)state;
    begin(2);
    while (gossip_merge_deadline(w.merge) != UINT64_MAX && w.now_ns < 60 * SECOND) {
        w.now_ns = gossip_merge_deadline(w.merge);
        gossip_merge_tick(w.merge, w.now_ns);
    }
    assert_true(gossip_merge_end(w.merge) >= GOSSIP_MERGE_FEW);
    assert_true(w.now_ns < 30 * SECOND);
}

// Answers the first of this node's asks for blocks of another model; the number that it then sends.
static size_t asks_after(uint64_t took_ns)
{
    static const float zeros[LIMIT_SNAPSHOT_BLOCK];
    const struct gossip_snapshot_ask ask = w.sent[0].message.as.ask;
    struct gossip_message message = {.kind = GOSSIP_SNAPSHOT_TELL};

    assert_int_equal(w.sent[0].message.kind, GOSSIP_SNAPSHOT_ASK);
    message.as.tell = (struct gossip_snapshot_tell){.snapshot = ask.snapshot,
                                                    .part = ask.part,
                                                    .block = ask.block,
                                                    .hash = base_hash_vector(zeros, LIMIT_SNAPSHOT_BLOCK),
                                                    .values = (const uint8_t *)zeros,
                                                    .values_bytes = sizeof zeros};
    w.now_ns += took_ns;
    assert_int_equal(gossip_merge_heard(w.merge, &w.member[1].id, &message, w.now_ns), BASE_OK);
    take();
    return w.n_sent;
}

// As many blocks are on their way as the link carries in a moment.
static void test_a_slow_link_is_asked_for_one_block_at_a_time(void **state)
{
    enum { BLOCKS = 12, LONG = 2 * BLOCKS * LIMIT_SNAPSHOT_BLOCK };
    const struct gossip_merge_options options = {
        .self = member(0).id, .parameters = LONG, .patience_ns = 9 * SECOND};
    float *own = calloc(LONG, sizeof *own);

    (void)state;
    assert_non_null(own);
    prepare(2);
    gossip_merge_destroy(w.merge);
    assert_int_equal(gossip_merge_create(&options, &w.merge), BASE_OK);
    gossip_merge_linked(w.merge, &w.member[1].id, w.now_ns);
    gossip_merge_members(w.merge, w.member, 2, w.now_ns);
    assert_int_equal(gossip_merge_begin(w.merge, own, true, w.now_ns), BASE_OK);
    all_say(GOSSIP_MERGE_OFFERS);
    all_say(GOSSIP_MERGE_AGREED);
    take();
    assert_int_equal(asks(GOSSIP_PART_FINAL), 1); // the link is not known yet
    while (w.sent[0].message.kind != GOSSIP_SNAPSHOT_ASK)
        w.sent[0] = w.sent[--w.n_sent];
    assert_int_equal(asks_after(SECOND / 100), 2); // 10 ms: two on their way
    assert_int_equal(asks_after(3 * SECOND), 0);   // 6 s for both: one is enough
    clean(NULL);
    free(own);
}

static void test_a_node_without_a_link_is_left_out(void **state)
{
    (void)state;
    begin(3);
    gossip_merge_unlinked(w.merge, &w.member[2].id, w.now_ns);
    assert_int_equal(say(1, GOSSIP_MERGE_OFFERS, 0, 2, 0), BASE_OK); // the other one has left it out already
    assert_int_equal(phase(), GOSSIP_MERGE_AGREED);
    clean(NULL);
    begin(3);
    gossip_merge_unlinked(w.merge, &w.member[2].id, w.now_ns);
    w.now_ns += 4 * SECOND;
    gossip_merge_tick(w.merge, w.now_ns);
    take();
    assert_int_equal(w.sent[0].message.as.merge.keys_bytes, 16);
}

#define TEST(function) cmocka_unit_test_teardown(function, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_from_the_offer_to_the_model_of_all),
        TEST(test_a_block_that_no_honest_node_sends_is_refused),
        TEST(test_a_mean_that_no_honest_node_sends_is_refused),
        TEST(test_only_what_was_asked_for_is_taken),
        TEST(test_a_node_that_asks_is_answered),
        TEST(test_a_set_that_is_none_is_refused),
        TEST(test_a_link_that_ends_may_come_back),
        TEST(test_all_in_all_it_takes_sixty_times_the_patience),
        TEST(test_a_node_that_gives_nothing_does_not_count),
        TEST(test_a_merge_waits_until_it_knows_its_members),
        TEST(test_a_death_begins_another_attempt_with_those_that_are_left),
        TEST(test_a_node_that_holds_the_mean_agrees_to_no_other),
        TEST(test_the_mean_that_one_node_holds_comes_before_another_attempt),
        TEST(test_a_node_that_finishes_late_takes_the_mean),
        TEST(test_too_few_are_left),
        TEST(test_one_and_more_than_sixty_four),
        TEST(test_it_waits_for_no_other_for_ever),
        TEST(test_a_slow_link_is_asked_for_one_block_at_a_time),
        TEST(test_a_node_without_a_link_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
