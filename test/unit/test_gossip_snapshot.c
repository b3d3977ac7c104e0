// Snapshots: the frozen copy of a donor, and what a donor must refuse.
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

static struct gossip_donor *donor_create(void)
{
    struct gossip_donor *donor;
    assert_int_equal(gossip_donor_create(D, &donor), BASE_OK);
    return donor;
}

static void freeze(struct gossip_donor *donor, float factor, uint64_t round, uint64_t now_ns)
{
    struct vectors *v = vectors_create(factor);
    const struct gossip_snapshot_vectors view = view_of(v, round);
    assert_int_equal(gossip_donor_freeze(donor, &view, now_ns), BASE_OK);
    free(v);
}

static void questions_wait_for_a_copy_and_are_answered_from_it(void **state)
{
    struct gossip_donor *donor = donor_create();
    struct gossip_message answer;
    struct gossip_id peer;
    (void)state;
    assert_false(gossip_donor_wants(donor));
    assert_false(ask(donor, 2, (struct gossip_snapshot_ask){.block = 2}, 0, &answer));
    assert_false(ask(donor, 3, (struct gossip_snapshot_ask){.part = GOSSIP_PART_SECOND}, 0, &answer));
    assert_false(
        ask(donor, 2, (struct gossip_snapshot_ask){.block = 2}, 1, &answer)); // asked twice, counted once
    assert_true(gossip_donor_wants(donor));
    assert_false(gossip_donor_waiting(donor, &peer, &answer));
    freeze(donor, 2, 7, 2);
    assert_true(gossip_donor_waiting(donor, &peer, &answer));
    assert_int_equal(peer.bytes[0], 2);
    const struct gossip_snapshot_tell *tell = &answer.as.tell;
    assert_int_equal(answer.kind, GOSSIP_SNAPSHOT_TELL);
    assert_int_equal(tell->values_bytes, 77 * sizeof(float));
    assert_int_equal(tell->parts, 7);
    assert_int_equal(tell->round, 7);
    assert_int_equal(tell->step, 70);
    float values[77];
    memcpy(values, tell->values, sizeof values);
    assert_true(values[76] == 2 * (float)((D - 1) % 1000));
    assert_true(tell->hash == base_hash_vector(values, 77));
    assert_true(gossip_donor_waiting(donor, &peer, &answer));
    assert_int_equal(peer.bytes[0], 3);
    assert_int_equal(tell->part, GOSSIP_PART_SECOND);
    assert_false(gossip_donor_waiting(donor, &peer, &answer));
    assert_false(gossip_donor_wants(donor));
    gossip_donor_destroy(donor);
}

static void one_copy_serves_many_and_joiners_that_begin_get_a_fresh_one(void **state)
{
    struct gossip_donor *donor = donor_create();
    struct gossip_message answer;
    (void)state;
    freeze(donor, 1, 1, 0);
    for (uint8_t who = 2; who < 100; who++)
        assert_true(ask(donor, who, (struct gossip_snapshot_ask){0}, SECOND, &answer));
    const uint64_t number = answer.as.tell.snapshot;
    assert_false(ask(donor, 2, (struct gossip_snapshot_ask){0}, 5 * SECOND, &answer));
    assert_true(gossip_donor_wants(donor));
    assert_true(ask(donor, 3, (struct gossip_snapshot_ask){.snapshot = number}, 5 * SECOND, &answer));
    freeze(donor, 3, 2, 6 * SECOND);
    assert_true(ask(donor, 3, (struct gossip_snapshot_ask){.snapshot = number}, 6 * SECOND, &answer));
    assert_true(answer.as.tell.snapshot != number); // a new copy has taken its place, and its number shows it
    gossip_donor_destroy(donor);
}

static void a_copy_that_no_joiner_reads_is_released(void **state)
{
    struct gossip_donor *donor = donor_create();
    struct gossip_message answer;
    (void)state;
    assert_true(gossip_donor_deadline(donor) == UINT64_MAX);
    freeze(donor, 1, 1, 0);
    assert_true(ask(donor, 2, (struct gossip_snapshot_ask){0}, SECOND, &answer));
    const uint64_t due_ns = gossip_donor_deadline(donor);
    assert_true(due_ns > SECOND && due_ns < 60 * SECOND);
    gossip_donor_tick(donor, due_ns - 1);
    assert_true(
        ask(donor, 2, (struct gossip_snapshot_ask){.snapshot = 1}, due_ns - 1, &answer)); // keeps the copy
    gossip_donor_tick(donor, due_ns);
    assert_true(gossip_donor_deadline(donor) > due_ns);
    gossip_donor_tick(donor, gossip_donor_deadline(donor));
    assert_true(gossip_donor_deadline(donor) == UINT64_MAX);
    assert_false(ask(donor, 2, (struct gossip_snapshot_ask){.snapshot = 1}, 60 * SECOND, &answer));
    gossip_donor_tick(donor, gossip_donor_deadline(donor)); // a joiner that asks no more is not waited for
    assert_false(gossip_donor_wants(donor));
    gossip_donor_destroy(donor);
}

// The donor itself fetches a model: its copy is of the old one.
static void a_joiner_waits_while_the_donor_itself_takes_a_model(void **state)
{
    struct gossip_donor *donor = donor_create();
    struct gossip_message answer;
    struct gossip_id peer;
    (void)state;
    freeze(donor, 1, 1, 0);
    assert_false(ask(donor, 2, (struct gossip_snapshot_ask){.block = 1}, 5 * SECOND, &answer)); // it begins
    gossip_donor_thaw(donor);
    assert_true(gossip_donor_wants(donor));
    assert_false(ask(donor, 3, (struct gossip_snapshot_ask){.snapshot = 1}, 6 * SECOND, &answer));
    assert_false(gossip_donor_waiting(donor, &peer, &answer));
    freeze(donor, 2, 9, 7 * SECOND);
    for (uint8_t who = 2; who <= 3; who++) {
        assert_true(gossip_donor_waiting(donor, &peer, &answer));
        assert_int_equal(peer.bytes[0], who);
        assert_int_equal(answer.as.tell.round, 9);
    }
    assert_false(gossip_donor_wants(donor));
    gossip_donor_destroy(donor);
}

static void the_number_of_waiting_questions_is_bounded(void **state)
{
    struct gossip_donor *donor = donor_create();
    struct gossip_message answer;
    struct gossip_id peer;
    size_t of_first = 0, all = 0;
    (void)state;
    for (uint8_t who = 1; who < 200; who++)
        for (uint8_t part = 0; part < GOSSIP_PARTS; part++)
            for (uint32_t block = 0; block < BLOCKS; block++)
                assert_false(
                    ask(donor, who, (struct gossip_snapshot_ask){.part = part, .block = block}, 0, &answer));
    freeze(donor, 1, 1, 1);
    for (; gossip_donor_waiting(donor, &peer, &answer); all++)
        of_first += peer.bytes[0] == 1;
    assert_true(of_first >= 1 && of_first <= 4);
    assert_true(all <= 64);
    gossip_donor_destroy(donor);
}

static void a_donor_refuses_a_question_for_what_it_does_not_have(void **state)
{
    struct gossip_donor *donor = donor_create();
    struct vectors *v = vectors_create(1);
    struct gossip_snapshot_vectors view = view_of(v, 1);
    const struct gossip_id peer = id_of(2);
    struct gossip_message answer;
    bool answered;
    (void)state;
    const struct gossip_snapshot_ask bad[] = {{.block = BLOCKS},
                                              {.block = UINT32_MAX},
                                              {.part = GOSSIP_PART_BLOB, .block = 1},
                                              {.part = GOSSIP_PART_BLOB + 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(gossip_donor_ask(donor, &peer, &bad[i], 0, &answer, &answered), BASE_EFORMAT);
    const struct gossip_snapshot_ask outer = {.part = GOSSIP_PART_OUTER};
    assert_false(ask(donor, 2, outer, 0, &answer)); // not known yet
    view.part[GOSSIP_PART_OUTER] = NULL;
    assert_int_equal(gossip_donor_freeze(donor, &view, 0), BASE_OK);
    struct gossip_id first;
    assert_false(gossip_donor_waiting(donor, &first, &answer));
    assert_int_equal(gossip_donor_ask(donor, &peer, &outer, 0, &answer, &answered), BASE_EFORMAT);
    v->second[D - 1] = NAN;
    const struct gossip_snapshot_ask later = {.block = 1};
    assert_false(ask(donor, 3, later, 9 * SECOND, &answer));
    assert_int_equal(gossip_donor_freeze(donor, &view, 9 * SECOND), BASE_ESTATE);
    assert_false(gossip_donor_wants(donor));
    assert_false(ask(donor, 2, (struct gossip_snapshot_ask){0}, 0, &answer));
    free(v);
    gossip_donor_destroy(donor);
}

static void a_donor_gives_the_blob_of_its_copy(void **state)
{
    struct gossip_donor *donor = donor_create();
    struct vectors *v = vectors_create(1);
    struct gossip_blob blob = {.bytes = 3, .data = "abc"};
    struct gossip_snapshot_vectors view = view_of(v, 1);
    const struct gossip_snapshot_ask question = {.part = GOSSIP_PART_BLOB};
    struct gossip_message answer;
    (void)state;
    view.blob = &blob;
    assert_int_equal(gossip_donor_freeze(donor, &view, 0), BASE_OK);
    blob.data[0] = 'x'; // the donor has its own copy
    assert_true(ask(donor, 2, question, 0, &answer));
    assert_int_equal(answer.as.tell.parts, 15);
    assert_int_equal(answer.as.tell.values_bytes, 3);
    assert_memory_equal(answer.as.tell.values, "abc", 3);
    assert_true(answer.as.tell.hash == base_hash_bytes(0, "abc", 3));
    view.blob = NULL;
    assert_int_equal(gossip_donor_freeze(donor, &view, 0), BASE_OK);
    const struct gossip_id peer = id_of(2);
    bool answered;
    assert_int_equal(gossip_donor_ask(donor, &peer, &question, 0, &answer, &answered), BASE_EFORMAT);
    free(v);
    gossip_donor_destroy(donor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions_wait_for_a_copy_and_are_answered_from_it),
        cmocka_unit_test(one_copy_serves_many_and_joiners_that_begin_get_a_fresh_one),
        cmocka_unit_test(a_copy_that_no_joiner_reads_is_released),
        cmocka_unit_test(a_joiner_waits_while_the_donor_itself_takes_a_model),
        cmocka_unit_test(the_number_of_waiting_questions_is_bounded),
        cmocka_unit_test(a_donor_refuses_a_question_for_what_it_does_not_have),
        cmocka_unit_test(a_donor_gives_the_blob_of_its_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
