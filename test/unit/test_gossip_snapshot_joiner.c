// Snapshots: the blocks of a joiner, the donors that they come from, and what a joiner must refuse.
#include "base/hash.h"
#include "gossip/snapshot/snapshot.h"
#include "test/support/snapshot_vectors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void joining_create(struct joining *j)
{
    j->into = vectors_create(0);
    j->from = vectors_create(3);
    j->view = view_of(j->into, 0);
    const struct gossip_joiner_options options = {.self = id_of(9), // the highest id: no circle
                                                  .parameters = D,
                                                  .into = &j->view,
                                                  .patience_ns = PATIENCE_S * SECOND,
                                                  .starve_ns = STARVES_S * SECOND};
    assert_int_equal(gossip_joiner_create(&options, &j->joiner), BASE_OK);
    gossip_joiner_limits(j->joiner, 1000, 10000);
}

static void joining_destroy(struct joining *j)
{
    gossip_joiner_destroy(j->joiner);
    free(j->into);
    free(j->from);
}

static void donor_up(struct joining *j, uint8_t who, bool up)
{
    const struct gossip_id peer = id_of(who);
    (up ? gossip_joiner_donor_up : gossip_joiner_donor_down)(j->joiner, &peer, 0);
}

// The answer of an honest donor to `question`.
static struct gossip_snapshot_tell honest(const struct joining *j, const struct gossip_message *question)
{
    const struct gossip_snapshot_ask *asked = &question->as.ask;
    const float *parts[GOSSIP_PARTS] = {j->from->model, j->from->outer, j->from->second};
    const float *values = parts[asked->part] + (size_t)asked->block * LIMIT_SNAPSHOT_BLOCK;
    const size_t count = asked->block == BLOCKS - 1 ? 77 : LIMIT_SNAPSHOT_BLOCK;
    return (struct gossip_snapshot_tell){.snapshot = 1,
                                         .parts = 7,
                                         .part = asked->part,
                                         .block = asked->block,
                                         .round = 5,
                                         .step = 50,
                                         .hash = base_hash_vector(values, count),
                                         .values = (const uint8_t *)values,
                                         .values_bytes = (uint32_t)(count * sizeof *values)};
}

static void check_complete(const struct joining *j)
{
    uint64_t round, step;
    assert_true(gossip_joiner_complete(j->joiner, &round, &step));
    assert_int_equal(round, 5);
    assert_int_equal(step, 50);
    assert_memory_equal(j->into, j->from, sizeof *j->from);
}

static void a_joiner_asks_ahead_and_completes(void **state)
{
    struct joining j;
    struct gossip_message asks[16];
    struct gossip_id peer;
    uint64_t round, step;
    size_t n = 0, next = 0;
    (void)state;
    joining_create(&j);
    assert_false(gossip_joiner_next(j.joiner, 0, &peer, &asks[0])); // no donor is there
    assert_true(gossip_joiner_deadline(j.joiner) == UINT64_MAX);
    donor_up(&j, 2, true);
    assert_true(gossip_joiner_deadline(j.joiner) == STARVES_S * SECOND);
    while (next < BLOCKS * GOSSIP_PARTS) {
        while (gossip_joiner_next(j.joiner, 0, &peer, &asks[n]))
            n++;
        assert_true(n - next <= 2 + next && n <= BLOCKS * GOSSIP_PARTS); // one more for each that came fast
        const struct gossip_snapshot_tell told = honest(&j, &asks[next++]);
        assert_false(gossip_joiner_complete(j.joiner, &round, &step));
        assert_int_equal(tell(&j, 2, &told, 0), BASE_OK);
        assert_int_equal(tell(&j, 2, &told, 0), BASE_OK); // twice does no harm
    }
    check_complete(&j);
    assert_false(gossip_joiner_next(j.joiner, 100 * SECOND, &peer, &asks[0]));
    struct gossip_joiner_progress progress;
    gossip_joiner_progress(j.joiner, &progress);
    assert_int_equal(progress.blocks, BLOCKS * GOSSIP_PARTS);
    assert_int_equal(progress.done, BLOCKS * GOSSIP_PARTS);
    assert_int_equal(progress.donors_used, 1);
    assert_int_equal(progress.bytes, GOSSIP_PARTS * D * sizeof(float));
    joining_destroy(&j);
}

static void another_donor_continues_where_the_first_stopped(void **state)
{
    struct joining j;
    struct gossip_message question;
    struct gossip_id peer;
    (void)state;
    joining_create(&j);
    donor_up(&j, 2, true);
    for (size_t i = 0; i < 2; i++) {
        assert_true(gossip_joiner_next(j.joiner, 0, &peer, &question));
        const struct gossip_snapshot_tell told = honest(&j, &question);
        assert_int_equal(tell(&j, 2, &told, 0), BASE_OK);
    }
    assert_true(gossip_joiner_next(j.joiner, 0, &peer, &question)); // will not be answered
    donor_up(&j, 2, false);
    assert_false(gossip_joiner_next(j.joiner, 0, &peer, &question));
    donor_up(&j, 3, true);
    size_t asked = 0;
    for (; gossip_joiner_next(j.joiner, 0, &peer, &question); asked++) {
        assert_int_equal(peer.bytes[0], 3);
        const struct gossip_snapshot_tell told = honest(&j, &question);
        assert_int_equal(tell(&j, 3, &told, 0), BASE_OK);
    }
    assert_int_equal(asked, BLOCKS * GOSSIP_PARTS - 2);
    check_complete(&j);
    joining_destroy(&j);
}

static void the_latest_list_of_donors_replaces_the_earlier_one(void **state)
{
    struct joining j;
    struct gossip_message question;
    struct gossip_id peer;
    const struct gossip_id first[2] = {id_of(2), id_of(3)}, then[2] = {id_of(3), id_of(4)};
    (void)state;
    joining_create(&j);
    gossip_joiner_donors(j.joiner, first, 2, 0);
    assert_true(gossip_joiner_next(j.joiner, 0, &peer, &question));
    gossip_joiner_donors(j.joiner, first, 2, 0); // a donor in use stays in use
    struct gossip_id again;
    assert_true(gossip_joiner_next(j.joiner, 0, &again, &question));
    assert_int_equal(peer.bytes[0], again.bytes[0]);
    gossip_joiner_donors(j.joiner, then, peer.bytes[0] == 2 ? 1 : 0, 0); // without the donor in use
    size_t asked = 0;
    for (; gossip_joiner_next(j.joiner, 0, &again, &question); asked++)
        assert_int_equal(again.bytes[0], 3);
    assert_int_equal(asked > 0, peer.bytes[0] == 2);
    gossip_joiner_donors(j.joiner, then + 1, 1, 0);
    assert_true(gossip_joiner_next(j.joiner, 0, &again, &question));
    assert_int_equal(again.bytes[0], 4);
    joining_destroy(&j);
}

static void a_silent_donor_is_replaced_but_its_late_answer_counts(void **state)
{
    struct joining j;
    struct gossip_message late, question;
    struct gossip_id first, second;
    (void)state;
    joining_create(&j);
    donor_up(&j, 2, true);
    donor_up(&j, 3, true);
    assert_true(gossip_joiner_next(j.joiner, 0, &first, &late));
    assert_true(gossip_joiner_deadline(j.joiner) == PATIENCE_S * SECOND);
    while (gossip_joiner_next(j.joiner, PATIENCE_S * SECOND - 1, &second, &question))
        assert_int_equal(gossip_id_compare(&first, &second), 0);
    assert_true(gossip_joiner_next(j.joiner, PATIENCE_S * SECOND, &second, &question));
    assert_int_not_equal(gossip_id_compare(&first, &second), 0);
    assert_int_equal(question.as.ask.block, late.as.ask.block);
    assert_true(gossip_joiner_next(j.joiner, PATIENCE_S * SECOND, &second, &question));
    const struct gossip_snapshot_tell told = honest(&j, &late);
    assert_int_equal(tell(&j, first.bytes[0], &told, PATIENCE_S * SECOND), BASE_OK);
    struct gossip_joiner_progress progress;
    gossip_joiner_progress(j.joiner, &progress);
    assert_int_equal(progress.done, 1);
    assert_true(gossip_joiner_deadline(j.joiner) == 3 * PATIENCE_S * SECOND); // it is twice as patient
    uint64_t now_ns = 3 * PATIENCE_S * SECOND; // both were silent: the first one has waited longest
    assert_true(gossip_joiner_next(j.joiner, now_ns, &second, &question));
    assert_int_equal(gossip_id_compare(&first, &second), 0);
    joining_destroy(&j);
}

// A block that takes two seconds: whatever was asked for ahead would have to arrive, too, if another donor
// had to be asked.
static void on_a_slow_link_one_block_is_asked_for_at_a_time(void **state)
{
    struct joining j;
    struct gossip_message asks[BLOCKS * GOSSIP_PARTS];
    struct gossip_id peer;
    size_t asked = 0, told = 0;
    (void)state;
    joining_create(&j);
    donor_up(&j, 2, true);
    for (uint64_t now_ns = 0; told < BLOCKS * GOSSIP_PARTS; now_ns += 2 * SECOND) {
        while (gossip_joiner_next(j.joiner, now_ns, &peer, &asks[asked]))
            asked++;
        assert_int_equal(asked - told, told == 0 ? 2 : 1);
        const struct gossip_snapshot_tell block = honest(&j, &asks[told++]);
        assert_int_equal(tell(&j, 2, &block, now_ns + 2 * SECOND), BASE_OK);
    }
    check_complete(&j);
    joining_destroy(&j);
}

static void lie(struct gossip_snapshot_tell *told, size_t how, float values[77])
{
    memcpy(values, told->values, 77 * sizeof *values);
    switch (how) {
    case 0:
        told->hash++;
        break;
    case 1:
        told->values_bytes -= 4;
        break;
    case 2:
        told->block = BLOCKS;
        break;
    case 3:
        told->part = GOSSIP_PARTS;
        break;
    case 4:
        told->parts = 1;
        break;
    case 5:
        told->round = UINT64_MAX;
        break;
    case 6:
        told->step = UINT64_MAX;
        break;
    case 7:
        told->block = 1;
        break;
    case 8:
        values[3] = NAN;
        break;
    case 9:
        values[3] = -INFINITY;
        break;
    case 10:
        values[3] = -1;
        break;
    case 11:
        values[3] = 1e30f; // finite, but implausible beside a vector of zeros
        break;
    case 12:
        told->round = 1001;
        break;
    case 13:
        told->step = 10001;
        break;
    }
    if (how >= 8 && how <= 11) {
        told->values = (const uint8_t *)values;
        told->hash = base_hash_vector(values, 77);
    }
}

// Two nodes that both fetch ask each other, and neither has a model.
static void a_donor_that_itself_asks_is_replaced_if_there_is_another(void **state)
{
    struct joining j;
    struct gossip_message question;
    struct gossip_id first, second;
    (void)state;
    joining_create(&j);
    donor_up(&j, 2, true);
    assert_true(gossip_joiner_next(j.joiner, 0, &first, &question));
    gossip_joiner_donor_asks(j.joiner, &first, 1); // no other donor is there: this one may soon have a model
    assert_true(gossip_joiner_next(j.joiner, 1, &second, &question));
    assert_int_equal(gossip_id_compare(&first, &second), 0);
    donor_up(&j, 3, true);
    gossip_joiner_donor_asks(j.joiner, &first, 2);
    assert_true(gossip_joiner_next(j.joiner, 2, &second, &question));
    assert_int_equal(second.bytes[0], 3);
    assert_int_equal(question.as.ask.block, 0); // what was asked of the other one is asked again
    gossip_joiner_donor_asks(j.joiner, &second, 3);
    assert_true(gossip_joiner_next(j.joiner, 3, &second, &question));
    assert_int_equal(second.bytes[0], 2); // both ask: the one that asked earlier
    gossip_joiner_donor_asks(j.joiner, &second, 4);
    assert_true(gossip_joiner_next(j.joiner, 4, &second, &question));
    assert_int_equal(second.bytes[0], 2); // it is replaced only once
    joining_destroy(&j);
}

static void a_donor_beyond_the_limits_is_asked_again_when_they_are_higher(void **state)
{
    struct joining j;
    struct gossip_message question;
    struct gossip_id peer;
    (void)state;
    joining_create(&j);
    donor_up(&j, 2, true);
    assert_true(gossip_joiner_next(j.joiner, 0, &peer, &question));
    struct gossip_snapshot_tell told = honest(&j, &question);
    told.round = 1200; // reports said that it may be at 1,000
    told.step = 12000;
    assert_int_equal(tell(&j, 2, &told, 0), BASE_EFORMAT);
    donor_up(&j, 2, false);
    donor_up(&j, 2, true);
    gossip_joiner_limits(j.joiner, 1000, 10000);
    assert_false(gossip_joiner_next(j.joiner, 0, &peer, &question));
    gossip_joiner_limits(j.joiner, 4000, 40000);
    assert_true(gossip_joiner_next(j.joiner, 0, &peer, &question));
    assert_int_equal(tell(&j, 2, &told, 0), BASE_OK);
    joining_destroy(&j);
}

static void a_donor_with_an_invalid_answer_is_not_asked_again(void **state)
{
    (void)state;
    for (size_t how = 0; how <= 13; how++) {
        struct joining j;
        struct gossip_message question;
        struct gossip_id peer;
        float values[77];
        joining_create(&j);
        donor_up(&j, 2, true);
        assert_true(gossip_joiner_next(j.joiner, 0, &peer, &question));
        question.as.ask.block = BLOCKS - 1;
        question.as.ask.part = GOSSIP_PART_SECOND;
        struct gossip_snapshot_tell told = honest(&j, &question);
        lie(&told, how, values);
        assert_int_equal(tell(&j, 2, &told, 0), BASE_EFORMAT);
        assert_false(gossip_joiner_next(j.joiner, 0, &peer, &question));
        donor_up(&j, 2, false);
        donor_up(&j, 2, true); // nor after a new link
        assert_false(gossip_joiner_next(j.joiner, 0, &peer, &question));
        for (size_t i = 0; i < D; i++)
            assert_true(j.into->model[i] == 0 && j.into->second[i] == 0);
        joining_destroy(&j);
    }
}

static bool starves(struct joining *j, uint64_t now_ns, uint64_t silent_ns)
{
    uint64_t silent_is_ns = UINT64_MAX;

    if (!gossip_joiner_starved(j->joiner, now_ns, &silent_is_ns))
        return false;
    assert_true(silent_is_ns == silent_ns);
    return true;
}

static void ask_all(struct joining *j, uint64_t now_ns)
{
    struct gossip_message question;
    struct gossip_id peer;

    while (gossip_joiner_next(j->joiner, now_ns, &peer, &question))
        continue;
}

// Donors that claim to have a model and never deliver one, however many they are: the joiner reports it to
// its owner.
static void a_joiner_that_gets_nothing_starves(void **state)
{
    const uint64_t starves_ns = STARVES_S * SECOND;
    struct joining j;
    uint64_t now_ns = 7 * SECOND, begun_ns = now_ns;
    (void)state;
    joining_create(&j);
    for (uint8_t who = 1; who <= 3; who++)
        donor_up(&j, who, true);
    assert_false(starves(&j, 1000 * SECOND, 0)); // it has not begun
    while (now_ns < begun_ns + starves_ns) {
        ask_all(&j, now_ns);
        assert_false(starves(&j, now_ns, 0));
        assert_true(gossip_joiner_deadline(j.joiner) > now_ns);
        assert_true(gossip_joiner_deadline(j.joiner) <= begun_ns + starves_ns);
        now_ns = gossip_joiner_deadline(j.joiner);
    }
    assert_true(starves(&j, now_ns, starves_ns));
    assert_false(starves(&j, now_ns + starves_ns - 1, 0)); // reported once, and again after the same time
    now_ns += starves_ns;
    assert_true(starves(&j, now_ns, 2 * starves_ns));
    struct gossip_message question = {.as.ask = {.part = GOSSIP_PART_MODEL}};
    const struct gossip_snapshot_tell told = honest(&j, &question);
    assert_int_equal(tell(&j, 1, &told, now_ns), BASE_OK); // a block: it may continue
    assert_false(starves(&j, now_ns + starves_ns - 1, 0));
    assert_true(starves(&j, now_ns + starves_ns, starves_ns));
    joining_destroy(&j);
}

static void a_joiner_does_not_starve_while_there_is_no_donor(void **state)
{
    const uint64_t starves_ns = STARVES_S * SECOND, long_ns = 1000 * SECOND;
    const struct gossip_id peer = id_of(1);
    struct joining j;
    (void)state;
    joining_create(&j);
    ask_all(&j, SECOND);
    assert_false(starves(&j, long_ns, 0));
    gossip_joiner_donor_up(j.joiner, &peer, long_ns);
    ask_all(&j, long_ns);
    assert_false(starves(&j, long_ns + starves_ns - SECOND, 0));
    gossip_joiner_donor_down(j.joiner, &peer, long_ns + starves_ns - SECOND);
    assert_false(starves(&j, 2 * long_ns, 0));
    gossip_joiner_donor_up(j.joiner, &peer, 2 * long_ns); // a link that comes and goes delivers nothing
    ask_all(&j, 2 * long_ns);
    assert_false(starves(&j, 2 * long_ns + SECOND - 1, 0));
    assert_true(starves(&j, 2 * long_ns + SECOND, starves_ns));
    joining_destroy(&j);
}

static void missing_parts_are_not_asked_for(void **state)
{
    struct joining j;
    struct gossip_message question;
    struct gossip_id peer;
    uint64_t round, step;
    size_t asked = 0;
    (void)state;
    joining_create(&j);
    gossip_joiner_destroy(j.joiner);
    j.view.part[GOSSIP_PART_OUTER] = j.view.part[GOSSIP_PART_SECOND] = NULL;
    const struct gossip_joiner_options options = {.parameters = D, .into = &j.view, .patience_ns = SECOND};
    assert_int_equal(gossip_joiner_create(&options, &j.joiner), BASE_OK);
    donor_up(&j, 2, true);
    for (; gossip_joiner_next(j.joiner, 0, &peer, &question); asked++) {
        const struct gossip_snapshot_tell told = honest(&j, &question);
        assert_int_equal(tell(&j, 2, &told, 0), BASE_OK);
    }
    assert_int_equal(asked, BLOCKS);
    assert_true(gossip_joiner_complete(j.joiner, &round, &step));
    joining_destroy(&j);
}

static struct gossip_snapshot_tell told_blob(const char *text)
{
    return (struct gossip_snapshot_tell){.snapshot = 1,
                                         .parts = 15,
                                         .part = GOSSIP_PART_BLOB,
                                         .round = 5,
                                         .step = 50,
                                         .hash = base_hash_bytes(0, text, strlen(text)),
                                         .values = (const uint8_t *)text,
                                         .values_bytes = (uint32_t)strlen(text)};
}

// A blob that does not match its hash is invalid; an empty blob is a blob.
static void a_joiner_that_wants_a_blob_is_complete_only_with_it(void **state)
{
    static const char *const texts[] = {"a schedule", ""};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct joining j;
        struct gossip_blob blob = {.bytes = 7, .data = "earlier"};
        struct gossip_message question;
        struct gossip_id peer;
        uint64_t round, step;
        joining_create(&j);
        gossip_joiner_destroy(j.joiner);
        j.view.blob = &blob;
        const struct gossip_joiner_options options = {
            .parameters = D, .into = &j.view, .patience_ns = SECOND};
        assert_int_equal(gossip_joiner_create(&options, &j.joiner), BASE_OK);
        donor_up(&j, 2, true);
        donor_up(&j, 3, true);
        for (size_t k = 0; k < BLOCKS * GOSSIP_PARTS; k++) {
            assert_true(gossip_joiner_next(j.joiner, 0, &peer, &question));
            struct gossip_snapshot_tell told = honest(&j, &question);
            told.parts = 15;
            assert_int_equal(tell(&j, peer.bytes[0], &told, 0), BASE_OK);
        }
        assert_false(gossip_joiner_complete(j.joiner, &round, &step));
        assert_true(gossip_joiner_next(j.joiner, 0, &peer, &question));
        assert_int_equal(question.as.ask.part, GOSSIP_PART_BLOB);
        assert_int_equal(question.as.ask.block, 0);
        struct gossip_snapshot_tell told = told_blob(texts[i]);
        told.hash++;
        assert_int_equal(tell(&j, peer.bytes[0], &told, 0), BASE_EFORMAT);
        assert_true(gossip_joiner_next(j.joiner, 0, &peer, &question)); // from the other donor
        assert_memory_equal(blob.data, "earlier", 7);
        told.hash--;
        assert_int_equal(tell(&j, peer.bytes[0], &told, 0), BASE_OK);
        check_complete(&j);
        assert_int_equal(blob.bytes, strlen(texts[i]));
        assert_memory_equal(blob.data, texts[i], blob.bytes);
        joining_destroy(&j);
    }
}

// `from` answers what it is asked, at most `most` blocks. Returns how many.
static size_t give(struct joining *j, uint8_t from, size_t most)
{
    struct gossip_message question;
    struct gossip_id peer;
    size_t given = 0;
    while (given < most && gossip_joiner_next(j->joiner, 0, &peer, &question)) {
        assert_int_equal(peer.bytes[0], from);
        const struct gossip_snapshot_tell told = honest(j, &question);
        assert_int_equal(tell(j, from, &told, 0), BASE_OK);
        given++;
    }
    return given;
}

static void a_donor_whose_model_is_refused_is_not_asked_again(void **state)
{
    struct joining j;
    struct gossip_message question;
    struct gossip_joiner_progress progress;
    struct gossip_id donor, peer;
    (void)state;
    joining_create(&j);
    donor_up(&j, 2, true);
    assert_int_equal(give(&j, 2, SIZE_MAX), BLOCKS * GOSSIP_PARTS);
    check_complete(&j);
    assert_true(gossip_joiner_refuse(j.joiner, 0, &donor));
    assert_int_equal(donor.bytes[0], 2);
    assert_false(gossip_joiner_next(j.joiner, 0, &peer, &question));
    donor_up(&j, 3, true);
    assert_int_equal(give(&j, 3, SIZE_MAX), BLOCKS * GOSSIP_PARTS);
    check_complete(&j);
    gossip_joiner_progress(j.joiner, &progress);
    assert_int_equal(progress.donors_used, 1);
    assert_int_equal(progress.donor.bytes[0], 3);
    joining_destroy(&j);
}

// Nobody knows which of them gave the bad blocks. So both are asked again, each for all of them.
static void after_a_refusal_the_blocks_of_two_donors_are_not_mixed(void **state)
{
    struct joining j;
    struct gossip_message question;
    struct gossip_id donor, peer;
    uint64_t round, step;
    (void)state;
    joining_create(&j);
    donor_up(&j, 2, true);
    give(&j, 2, 1);
    donor_up(&j, 2, false);
    donor_up(&j, 3, true);
    give(&j, 3, SIZE_MAX);
    check_complete(&j);
    assert_false(gossip_joiner_refuse(j.joiner, 0, &donor));
    assert_false(gossip_joiner_complete(j.joiner, &round, &step));
    give(&j, 3, 1);
    assert_true(gossip_joiner_next(j.joiner, 0, &peer, &question));
    donor_up(&j, 3, false);
    donor_up(&j, 2, true);
    donor_up(&j, 3, true);
    const struct gossip_snapshot_tell late = honest(&j, &question);
    const bool third = gossip_joiner_next(j.joiner, 0, &peer, &question) && peer.bytes[0] == 3;
    const uint8_t asked = third ? 3 : 2, other = third ? 2 : 3;
    const struct gossip_snapshot_tell told = honest(&j, &question);
    assert_int_equal(tell(&j, other, &late, 0), BASE_OK);
    assert_int_equal(tell(&j, asked, &told, 0), BASE_OK);
    assert_int_equal(give(&j, asked, SIZE_MAX), BLOCKS * GOSSIP_PARTS - 1);
    check_complete(&j);
    assert_true(gossip_joiner_refuse(j.joiner, 0, &donor));
    assert_int_equal(donor.bytes[0], asked);
    joining_destroy(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_donor_whose_model_is_refused_is_not_asked_again),
        cmocka_unit_test(after_a_refusal_the_blocks_of_two_donors_are_not_mixed),
        cmocka_unit_test(a_joiner_asks_ahead_and_completes),
        cmocka_unit_test(another_donor_continues_where_the_first_stopped),
        cmocka_unit_test(the_latest_list_of_donors_replaces_the_earlier_one),
        cmocka_unit_test(a_silent_donor_is_replaced_but_its_late_answer_counts),
        cmocka_unit_test(on_a_slow_link_one_block_is_asked_for_at_a_time),
        cmocka_unit_test(a_donor_that_itself_asks_is_replaced_if_there_is_another),
        cmocka_unit_test(a_donor_beyond_the_limits_is_asked_again_when_they_are_higher),
        cmocka_unit_test(a_donor_with_an_invalid_answer_is_not_asked_again),
        cmocka_unit_test(a_joiner_that_gets_nothing_starves),
        cmocka_unit_test(a_joiner_does_not_starve_while_there_is_no_donor),
        cmocka_unit_test(missing_parts_are_not_asked_for),
        cmocka_unit_test(a_joiner_that_wants_a_blob_is_complete_only_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
