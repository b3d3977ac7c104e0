// Records and suspicions: layout, signatures, and bytes from strangers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "gossip/member/record.h"

static void make_identity(uint8_t number, struct gossip_identity *identity)
{
    uint8_t seed[32] = {number};
    gossip_identity_from_seed(seed, identity);
}

static struct gossip_record example(const struct gossip_identity *identity)
{
    struct gossip_record record;
    memset(&record, 0, sizeof record);
    record.id = identity->id;
    record.version =
        (struct gossip_version){.generation = 7, .instance_id = 0x1122334455667788, .incarnation = 3};
    record.flags = GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING;
    strcpy(record.name, "host-a.1_x");
    record.slot = 5;
    record.shard = 2;
    record.group = 0xfedcba98;
    record.examples = 0xa1b2c3d4;
    record.flags |= GOSSIP_RECORD_STOPPING;
    record.stop_round = 0x0102030405060708;
    record.age_ms = 0x1112131415161718;
    record.first_model = 0x2122232425262728;
    memcpy(record.exchange_public, identity->exchange_public, 32);
    record.n_addresses = 2;
    record.addresses[0] = (struct gossip_address){.family = 4, .ip = {10, 1, 2, 3}, .port = 7400};
    record.addresses[1] = (struct gossip_address){.family = 6, .ip = {0xfd, 1}, .port = 7401};
    record.pages = (struct gossip_address){.family = 4, .ip = {127, 0, 0, 1}, .port = 7480};
    record.ways = GOSSIP_WAY_REACHABLE | GOSSIP_WAY_RELAYS;
    record.access = GOSSIP_ACCESS_OPEN;
    record.n_relays = 1;
    record.relays[0] = 0x4142434445464748;
    record.settings[GOSSIP_SETTING_DECAY] =
        (struct gossip_setting){.round = 900, .by = 0x3132333435363738, .value = 0.02, .before = NAN};
    gossip_record_sign(&record, identity);
    return record;
}

static size_t written(const struct gossip_record *record, uint8_t *bytes, size_t capacity)
{
    struct base_writer writer = base_writer_of(bytes, capacity);
    gossip_record_write(record, &writer);
    assert_false(writer.failed);
    assert_int_equal(base_writer_used(&writer), gossip_record_bytes(record));
    return base_writer_used(&writer);
}

static void a_record_survives_a_round_trip(void **state)
{
    (void)state;
    struct gossip_identity identity;
    make_identity(1, &identity);
    struct gossip_record record = example(&identity), read;
    uint8_t bytes[GOSSIP_RECORD_BYTES_MAX];
    size_t count = written(&record, bytes, sizeof bytes);
    struct base_reader reader = base_reader_of(bytes, count);
    assert_int_equal(gossip_record_read(&reader, &read), BASE_OK);
    assert_int_equal(base_reader_left(&reader), 0);
    assert_memory_equal(&read, &record, sizeof read);
    assert_true(gossip_record_verify(&read, NULL));
}

static void the_largest_record_fits(void **state)
{
    (void)state;
    struct gossip_identity identity;
    make_identity(1, &identity);
    struct gossip_record record = example(&identity);
    memset(record.name, 'x', sizeof record.name - 1);
    record.n_addresses = LIMIT_ADDRESSES;
    for (size_t i = 0; i < LIMIT_ADDRESSES; i++)
        record.addresses[i] = (struct gossip_address){.family = 6, .ip = {1}, .port = 1};
    record.pages = (struct gossip_address){.family = 6, .ip = {1}, .port = 1};
    record.n_relays = GOSSIP_RECORD_RELAYS;
    for (unsigned kind = 0; kind < GOSSIP_SETTINGS; kind++)
        record.settings[kind] = (struct gossip_setting){.round = 1, .value = 2, .before = 3};
    gossip_record_sign(&record, &identity);
    assert_true(gossip_record_bytes(&record) <= GOSSIP_RECORD_BYTES_MAX);
}

// Whatever one byte is changed to, the record is refused: for its layout or for its signature.
static void every_changed_byte_is_refused(void **state)
{
    (void)state;
    struct gossip_identity identity;
    make_identity(1, &identity);
    struct gossip_record record = example(&identity), read;
    uint8_t bytes[GOSSIP_RECORD_BYTES_MAX];
    size_t count = written(&record, bytes, sizeof bytes);
    for (size_t i = 0; i < count; i++) {
        bytes[i] ^= 0x41;
        struct base_reader reader = base_reader_of(bytes, count);
        bool fine = !gossip_record_read(&reader, &read) && base_reader_left(&reader) == 0 &&
                    gossip_record_verify(&read, NULL);
        assert_false(fine);
        bytes[i] ^= 0x41;
    }
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    struct gossip_identity identity;
    make_identity(1, &identity);
    struct gossip_record record = example(&identity), read, untouched;
    uint8_t bytes[GOSSIP_RECORD_BYTES_MAX];
    size_t count = written(&record, bytes, sizeof bytes);
    memset(&read, 0x5a, sizeof read);
    untouched = read;
    for (size_t i = 0; i < count; i++) {
        struct base_reader reader = base_reader_of(bytes, i);
        assert_int_equal(gossip_record_read(&reader, &read), BASE_EFORMAT);
    }
    assert_memory_equal(&read, &untouched, sizeof read);
}

static enum base_error read_changed(struct gossip_record record)
{
    uint8_t bytes[512];
    struct base_writer writer = base_writer_of(bytes, sizeof bytes);
    gossip_record_write(&record, &writer);
    struct base_reader reader = base_reader_of(bytes, base_writer_used(&writer));
    struct gossip_record read;
    return gossip_record_read(&reader, &read);
}

static void invalid_fields_are_refused(void **state)
{
    (void)state;
    struct gossip_identity identity;
    make_identity(1, &identity);
    struct gossip_record record = example(&identity);
    record.flags = 0x80;
    assert_int_equal(read_changed(record), BASE_EFORMAT);
    record = example(&identity);
    record.name[0] = 0;
    assert_int_equal(read_changed(record), BASE_EFORMAT);
    record = example(&identity);
    record.name[2] = '\n';
    assert_int_equal(read_changed(record), BASE_EFORMAT);
    record = example(&identity);
    record.n_addresses = 0;
    assert_int_equal(read_changed(record), BASE_EFORMAT);
    record = example(&identity);
    record.addresses[0].port = 0;
    assert_int_equal(read_changed(record), BASE_EFORMAT);
    record = example(&identity);
    record.stop_round = 0; // still STOPPING
    assert_int_equal(read_changed(record), BASE_EFORMAT);
    record = example(&identity);
    record.flags = GOSSIP_RECORD_ELIGIBLE; // still with a stop round
    assert_int_equal(read_changed(record), BASE_EFORMAT);
    record = example(&identity);
    record.addresses[1].family = 5;
    assert_int_equal(read_changed(record), BASE_EFORMAT);
    record = example(&identity);
    record.addresses[0].family = 0;
    assert_int_equal(read_changed(record), BASE_EFORMAT);
    record = example(&identity);
    record.pages.port = 0;
    assert_int_equal(read_changed(record), BASE_EFORMAT);
    record = example(&identity);
    record.access = GOSSIP_ACCESSES;
    assert_int_equal(read_changed(record), BASE_EFORMAT);
    record = example(&identity);
    record.pages = (struct gossip_address){.family = 0}; // no pages
    assert_int_equal(read_changed(record), BASE_OK);
}

// A setting has one form, and a value that nodes can compute with.
static void invalid_settings_are_refused(void **state)
{
    const double other_nan = -(double)NAN;
    const struct {
        double value, before;
        enum base_error error;
    } cases[] = {
        {0.5, NAN, BASE_OK},
        {0.5, 0.25, BASE_OK},
        {NAN, 0.25, BASE_EFORMAT},
        {INFINITY, 0.25, BASE_EFORMAT},
        {0.5, -INFINITY, BASE_EFORMAT},
        {0.5, other_nan, BASE_EFORMAT},
    };
    (void)state;
    struct gossip_identity identity;
    make_identity(1, &identity);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gossip_record record = example(&identity);
        record.settings[0] =
            (struct gossip_setting){.round = 1, .value = cases[i].value, .before = cases[i].before};
        assert_int_equal(read_changed(record), cases[i].error);
    }
    struct gossip_record record = example(&identity), none = record;
    memset(none.settings, 0, sizeof none.settings);
    uint8_t bytes[GOSSIP_RECORD_BYTES_MAX];
    const size_t with = written(&record, bytes, sizeof bytes), without = written(&none, bytes, sizeof bytes);
    assert_int_equal(with - without, 32);
    uint8_t *changed = bytes + without - sizeof none.signature - 1;
    assert_int_equal(*changed, 0);
    *changed = 1u << GOSSIP_SETTINGS;
    struct base_reader reader = base_reader_of(bytes, without);
    assert_int_equal(gossip_record_read(&reader, &none), BASE_EFORMAT);
}

static void a_node_cannot_sign_for_another(void **state)
{
    (void)state;
    struct gossip_identity a, b;
    make_identity(1, &a);
    make_identity(2, &b);
    struct gossip_record record = example(&a);
    gossip_record_sign(&record, &b);
    assert_false(gossip_record_verify(&record, NULL));
    struct gossip_suspicion suspicion = {.subject = a.id, .suspector = b.id, .version = record.version};
    gossip_suspicion_sign(&suspicion, &a);
    assert_false(gossip_suspicion_verify(&suspicion, NULL));
    gossip_suspicion_sign(&suspicion, &b);
    assert_true(gossip_suspicion_verify(&suspicion, NULL));
    suspicion.class = GOSSIP_SUSPECTED_EVIDENCE;
    assert_false(gossip_suspicion_verify(&suspicion, NULL));
}

static void a_suspicion_survives_a_round_trip(void **state)
{
    (void)state;
    struct gossip_identity a, b;
    make_identity(1, &a);
    make_identity(2, &b);
    struct gossip_suspicion suspicion, read;
    memset(&suspicion, 0, sizeof suspicion);
    suspicion.subject = a.id;
    suspicion.suspector = b.id;
    suspicion.version = (struct gossip_version){.generation = 1, .instance_id = 2, .incarnation = 3};
    suspicion.class = GOSSIP_SUSPECTED_EVIDENCE;
    gossip_suspicion_sign(&suspicion, &b);
    uint8_t bytes[256];
    struct base_writer writer = base_writer_of(bytes, sizeof bytes);
    gossip_suspicion_write(&suspicion, &writer);
    assert_int_equal(base_writer_used(&writer), GOSSIP_SUSPICION_BYTES);
    for (size_t i = 0; i < GOSSIP_SUSPICION_BYTES; i++) {
        struct base_reader cut = base_reader_of(bytes, i);
        assert_int_equal(gossip_suspicion_read(&cut, &read), BASE_EFORMAT);
    }
    struct base_reader reader = base_reader_of(bytes, GOSSIP_SUSPICION_BYTES);
    assert_int_equal(gossip_suspicion_read(&reader, &read), BASE_OK);
    assert_memory_equal(&read, &suspicion, sizeof read);
}

static void versions_are_ordered(void **state)
{
    (void)state;
    const struct gossip_version order[] = {{1, 5, 9}, {1, 5, 10}, {1, 6, 0}, {2, 0, 0}};
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++) {
            int compared = gossip_version_compare(&order[i], &order[j]);
            assert_int_equal((compared > 0) - (compared < 0), (i > j) - (i < j));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_survives_a_round_trip), cmocka_unit_test(the_largest_record_fits),
        cmocka_unit_test(every_changed_byte_is_refused),  cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(invalid_fields_are_refused),     cmocka_unit_test(invalid_settings_are_refused),
        cmocka_unit_test(a_node_cannot_sign_for_another), cmocka_unit_test(a_suspicion_survives_a_round_trip),
        cmocka_unit_test(versions_are_ordered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
