// The cluster's round: what a node knows of the rounds of others, how it travels, and the lower median of it.
// And which members the exchange is told of (gossip/life).
#include "gossip/pace/news.h"
#include "test/support/life_world.h"
#include "test/support/seeded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static int begin(void **state)
{
    (void)state;
    seeded_begin(20261129);
    return 0;
}

static struct gossip_id id_of(uint8_t number)
{
    return (struct gossip_id){{number}};
}

static struct gossip_news news_of(const uint64_t *rounds, size_t count)
{
    struct gossip_report reports[GOSSIP_NEWS_MEMBERS];
    struct gossip_news news = {.count = 0};

    for (size_t i = 0; i < count; i++)
        reports[i] = (struct gossip_report){id_of((uint8_t)(i + 1)), rounds[i]};
    gossip_news_members(&news, reports, count, count);
    return news;
}

static uint64_t round_of(const struct gossip_news *news, uint8_t number)
{
    const struct gossip_id id = id_of(number);

    for (size_t i = 0; i < news->count; i++)
        if (gossip_id_compare(&news->report[i].id, &id) == 0)
            return news->report[i].round;
    return 0;
}

// -- the median

static void the_clusters_round_is_the_lower_median(void **state)
{
    static const struct {
        uint64_t own, others[5];
        size_t count;
        uint64_t cluster;
    } cases[] = {
        {7, {0}, 0, 7},                         // nobody else is known
        {9, {4}, 1, 4},                         // of two: the slower one's
        {4, {9}, 1, 4},                         //
        {9, {1, 9}, 2, 9},                      // a straggler does not count,
        {9, {0, 9}, 2, 9},                      // nor one that has not reported
        {9, {1 << 20, 9}, 2, 9},                // nor a liar
        {100, {100, 5, 5, 5}, 4, 5},            // a fast pair of five
        {100, {100, 5, 5}, 3, 5},               // ... of four: lower
        {3, {8, 8, 8, 8, 8}, 5, 8},             // this node is behind
        {8, {1, 2, 9, 10, 11}, 5, 8},           //
        {8, {GOSSIP_NEWS_DONE, 2, 8, 9}, 4, 8}, // one that has finished is further than all
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct gossip_news news = news_of(cases[i].others, cases[i].count);
        assert_int_equal(gossip_news_cluster(&news, cases[i].own), cases[i].cluster);
    }
}

// -- reports

static void a_round_only_grows(void **state)
{
    const uint64_t rounds[] = {10, 20};
    const struct gossip_id first = id_of(1), stranger = id_of(9);
    struct gossip_news news = news_of(rounds, 2);

    (void)state;
    gossip_news_hear(&news, &first, 15);
    assert_int_equal(round_of(&news, 1), 15);
    gossip_news_hear(&news, &first, 12);
    assert_int_equal(round_of(&news, 1), 15);
    gossip_news_hear(&news, &stranger, 99); // it is not of the sample
    assert_int_equal(news.count, 2);
    assert_int_equal(gossip_news_cluster(&news, 15), 15);
}

// A report of membership is older than what packets have said since; a member that is gone does not count.
static void members_come_and_go(void **state)
{
    const uint64_t rounds[] = {10, 20, 30};
    const struct gossip_id second = id_of(2);
    struct gossip_news news = news_of(rounds, 3);
    const struct gossip_report fresh[] = {{id_of(2), 21}, {id_of(4), 5}};

    (void)state;
    gossip_news_hear(&news, &second, 25);
    gossip_news_members(&news, fresh, 2, 40);
    assert_int_equal(news.count, 2);
    assert_int_equal(news.members, 40);
    assert_int_equal(round_of(&news, 1), 0);
    assert_int_equal(round_of(&news, 2), 25);
    assert_int_equal(round_of(&news, 4), 5);
    gossip_news_members(&news, &(struct gossip_report){id_of(1), 3}, 1, 1);
    assert_int_equal(round_of(&news, 1), 3); // it came back, from an old checkpoint
    gossip_news_members(&news, NULL, 0, 0);
    assert_int_equal(gossip_news_cluster(&news, 8), 8);
}

// -- the wire

// Little-endian: two bytes of the hashed id, and the round less the sender's as a signed number.
static void an_entry_has_four_bytes(void **state)
{
    const uint64_t rounds[] = {1000, 1002, 997};
    const struct gossip_news news = news_of(rounds, 3);
    uint8_t bytes[GOSSIP_NEWS_BYTES];

    (void)state;
    assert_int_equal(gossip_news_write(&news, 1000, bytes), 12);
    for (size_t i = 0; i < 3; i++) {
        const uint64_t rank = gossip_news_rank(&news.report[i].id);
        assert_int_equal(bytes[4 * i], rank >> 48 & 0xff);
        assert_int_equal(bytes[4 * i + 1], rank >> 56);
        const uint16_t apart = (uint16_t)(bytes[4 * i + 2] | bytes[4 * i + 3] << 8);
        assert_int_equal((int16_t)apart, (int16_t)(rounds[i] - 1000));
    }
}

static void what_is_known_travels(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 2000; k++) {
        const size_t count = base_rng_below(&rng, GOSSIP_NEWS_MEMBERS + 1);
        uint64_t theirs[GOSSIP_NEWS_MEMBERS], ours[GOSSIP_NEWS_MEMBERS];
        const uint64_t clock = 1 + base_rng_below(&rng, 1ull << (1 + base_rng_below(&rng, 61)));
        uint8_t bytes[GOSSIP_NEWS_BYTES];
        for (size_t i = 0; i < count; i++) {
            const uint64_t apart = base_rng_below(&rng, 1ull << (1 + base_rng_below(&rng, 20)));
            theirs[i] = base_rng_below(&rng, 2) || apart >= clock ? clock + apart : clock - apart;
            ours[i] = base_rng_below(&rng, 2 * clock + 1);
        }
        const struct gossip_news told = news_of(theirs, count);
        struct gossip_news news = news_of(ours, count);
        const size_t written = gossip_news_write(&told, clock, bytes);
        gossip_news_read(&news, clock, bytes, written);
        for (size_t i = 0; i < count; i++) {
            const int64_t apart = (int64_t)(theirs[i] - clock);
            const bool fits = apart >= INT16_MIN && apart <= INT16_MAX;
            const uint64_t expected = fits && theirs[i] > ours[i] ? theirs[i] : ours[i];
            assert_true(news.report[i].round == expected); // 16 different tags, for these ids
        }
    }
}

// Whatever a member sends: nothing but the rounds changes, and no round falls.
static void any_bytes_are_read(void **state)
{
    const uint64_t rounds[] = {5, 6, 7, 8};

    (void)state;
    for (unsigned k = 0; k < 5000; k++) {
        struct gossip_news news = news_of(rounds, 4);
        uint8_t bytes[GOSSIP_NEWS_BYTES];
        const size_t count = base_rng_below(&rng, sizeof bytes + 1);
        for (size_t i = 0; i < count; i++)
            bytes[i] = (uint8_t)base_rng_u64(&rng);
        for (size_t i = 0; i + 4 <= count; i += 4) { // of a member, mostly
            const uint64_t rank = gossip_news_rank(&news.report[base_rng_below(&rng, 4)].id);
            bytes[i] = (uint8_t)(rank >> 48);
            bytes[i + 1] = (uint8_t)(rank >> 56);
        }
        gossip_news_read(&news, base_rng_below(&rng, 40), bytes, count);
        assert_int_equal(news.count, 4);
        for (size_t i = 0; i < 4; i++)
            assert_true(news.report[i].round >= rounds[i] && news.report[i].round < 40 + INT16_MAX + 1);
    }
}

// -- members that train

static struct life_world w;

static const struct gossip_report *report_of(uint8_t number)
{
    for (size_t i = 0; i < w.news.count; i++)
        if (w.news.reports[i].id.bytes[0] == number)
            return &w.news.reports[i];
    return NULL;
}

static void the_exchange_is_told_of_members_that_train(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    for (size_t i = 1; i < 4; i++)
        life_world_progress(&w, i, 40 + i);
    life_world_pass(&w, LIFE_TEST_SECOND);
    const size_t all = w.news.count;
    assert_true(all >= 3 && w.news.members == all);
    for (uint8_t i = 1; i < 4; i++) {
        const struct gossip_report *report = report_of((uint8_t)w.member[i].record.id.bytes[0]);
        assert_non_null(report);
        assert_int_equal(report->round, 40 + i);
    }
    assert_null(report_of(w.member[0].record.id.bytes[0])); // this node
    life_world_flags(&w, 1, (uint8_t)(w.member[1].record.flags | GOSSIP_RECORD_PAUSED));
    life_world_state(&w, 2, GOSSIP_MEMBER_DEAD);
    life_world_progress(&w, 3, 50);
    life_world_pass(&w, LIFE_TEST_SECOND);
    assert_null(report_of(w.member[1].record.id.bytes[0])); // in no round
    assert_null(report_of(w.member[2].record.id.bytes[0]));
    assert_int_equal(report_of(w.member[3].record.id.bytes[0])->round, 50);
    assert_int_equal(w.news.count, all - 2);
    life_world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clusters_round_is_the_lower_median),
        cmocka_unit_test(a_round_only_grows),
        cmocka_unit_test(members_come_and_go),
        cmocka_unit_test(an_entry_has_four_bytes),
        cmocka_unit_test(what_is_known_travels),
        cmocka_unit_test(any_bytes_are_read),
        cmocka_unit_test(the_exchange_is_told_of_members_that_train),
    };

    return cmocka_run_group_tests(tests, begin, NULL);
}
