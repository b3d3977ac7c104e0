// The operator's list of removed members: its bytes, its signature, and whom it keeps out.
#include "gossip/session/removed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct {
    struct gossip_identity by, other;
    struct gossip_removed list;
    uint8_t bytes[GOSSIP_REMOVED_BYTES];
    size_t count;
} w;

static struct gossip_id id(uint8_t first)
{
    return (struct gossip_id){.bytes = {first}};
}

static int begin(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    gossip_identity_from_seed((const uint8_t[32]){1}, &w.by);
    gossip_identity_from_seed((const uint8_t[32]){2}, &w.other);
    w.list = (struct gossip_removed){.number = 1000, .count = 4, .ids = {id(9), id(3), id(9), id(200)}};
    gossip_removed_sign(&w.list, "p2pml", &w.by);
    w.count = gossip_removed_write(&w.list, w.bytes);
    return 0;
}

static enum base_error read_by(const char *cluster, const struct gossip_id *by)
{
    struct gossip_removed read = {.number = 7};
    const enum base_error error = gossip_removed_read(w.bytes, w.count, cluster, by, &read);
    assert_int_equal(read.number, error ? 7 : 1000);
    return error;
}

static void a_signed_list_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct gossip_removed read;
    char hex[GOSSIP_REMOVED_HEX];
    uint8_t bytes[GOSSIP_REMOVED_BYTES];
    size_t count = 0;
    assert_int_equal(w.count, GOSSIP_REMOVED_LEAST + 3 * 32); // one was there twice
    assert_int_equal(gossip_removed_read(w.bytes, w.count, "p2pml", &w.by.id, &read), BASE_OK);
    assert_int_equal(read.count, 3);
    assert_memory_equal(read.ids, w.list.ids, 3 * sizeof *read.ids);
    gossip_removed_hex(&read, hex);
    assert_int_equal(gossip_removed_bytes(hex, bytes, &count), BASE_OK);
    assert_int_equal(count, w.count);
    assert_memory_equal(bytes, w.bytes, count);
}

static void only_the_operator_of_this_cluster_can_sign(void **state)
{
    (void)state;
    assert_int_equal(read_by("p2pml", &w.by.id), BASE_OK);
    assert_int_equal(read_by("p2pml", &w.other.id), BASE_EAUTH);
    assert_int_equal(read_by("p2pmL", &w.by.id), BASE_EAUTH);
    for (size_t i = 0; i < w.count; i++) {
        w.bytes[i] ^= 1;
        assert_int_not_equal(read_by("p2pml", &w.by.id), BASE_OK);
        w.bytes[i] ^= 1;
    }
}

static void other_lengths_and_orders_are_no_list(void **state)
{
    (void)state;
    static const uint8_t zeros[GOSSIP_REMOVED_BYTES + 32];
    struct gossip_removed read;
    for (size_t count = 0; count <= sizeof zeros; count++) {
        const bool fits = count >= GOSSIP_REMOVED_LEAST && count <= GOSSIP_REMOVED_BYTES &&
                          (count - GOSSIP_REMOVED_LEAST) % 32 == 0;
        const bool ascends = count <= GOSSIP_REMOVED_LEAST + 32; // zeros are equal
        assert_int_equal(gossip_removed_read(zeros, count, "p2pml", &w.by.id, &read),
                         fits && ascends ? BASE_EAUTH : BASE_EFORMAT);
    }
}

static void hex_digits_of_another_form_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[GOSSIP_REMOVED_BYTES];
    static char much[GOSSIP_REMOVED_HEX + 2];
    size_t count = 0;
    memset(much, '0', sizeof much - 1);
    assert_int_equal(gossip_removed_bytes("0", bytes, &count), BASE_EFORMAT);
    assert_int_equal(gossip_removed_bytes("0x", bytes, &count), BASE_EFORMAT);
    assert_int_equal(gossip_removed_bytes("00 11", bytes, &count), BASE_EFORMAT);
    assert_int_equal(gossip_removed_bytes(much, bytes, &count), BASE_EFORMAT);
}

static void the_removed_may_not_take_part_with_and_without_an_allow_list(void **state)
{
    (void)state;
    struct gossip_id ids[] = {id(3), id(4)};
    struct gossip_allow_list list = {.ids = ids, .count = 2, .removed = w.list};
    const struct gossip_id three = id(3), four = id(4), five = id(5);
    assert_false(gossip_allow_list_has(&list, &three));
    assert_true(gossip_allow_list_has(&list, &four));
    assert_false(gossip_allow_list_has(&list, &five));
    list.all = true;
    assert_false(gossip_allow_list_has(&list, &three));
    assert_true(gossip_allow_list_has(&list, &five));
    list.removed = (struct gossip_removed){.number = 1001};
    assert_true(gossip_allow_list_has(&list, &three));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_signed_list_is_read_as_it_was_written, begin),
        cmocka_unit_test_setup(only_the_operator_of_this_cluster_can_sign, begin),
        cmocka_unit_test_setup(other_lengths_and_orders_are_no_list, begin),
        cmocka_unit_test_setup(hex_digits_of_another_form_are_refused, begin),
        cmocka_unit_test_setup(the_removed_may_not_take_part_with_and_without_an_allow_list, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
