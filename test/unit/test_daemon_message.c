// Messages of a trainer: every field is where README.md says, and invalid messages are refused.
#include "base/cursor.h"
#include "base/limits.h"
#include "daemon/message.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static const uint8_t open_message[] = {1, 0, 0, 0, 1, 0,   0, 0, 2, 0, 0, 0, 1, 'w', 2,   3,   0, 0,
                                       0, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0, 2,   'a', 'b', 0};

static void an_open_is_read_field_by_field(void **state)
{
    struct daemon_request r;
    struct base_reason why = {""};
    (void)state;
    assert_int_equal(daemon_request_read(open_message, sizeof open_message, &r, &why), BASE_OK);
    assert_int_equal(r.kind, DAEMON_OPEN);
    assert_int_equal(r.tensors.count, 2);
    assert_string_equal(r.tensors.list[0].name, "w");
    assert_int_equal(r.tensors.list[0].dims, 2);
    assert_int_equal(r.tensors.list[0].shape[0], 3);
    assert_int_equal(r.tensors.list[0].shape[1], 255);
    assert_string_equal(r.tensors.list[1].name, "ab");
    assert_int_equal(r.tensors.list[1].dims, 0);
    struct daemon_request other;
    assert_int_equal(daemon_request_read(open_message, sizeof open_message, &other, &why), BASE_OK);
    assert_true(daemon_tensors_equal(&r.tensors, &other.tensors));
    other.tensors.shapes[0][1] = 254;
    assert_false(daemon_tensors_equal(&r.tensors, &other.tensors));
    daemon_request_free(&r);
    daemon_request_free(&other);
}

static void every_truncated_or_extended_message_is_refused(void **state)
{
    uint8_t message[64];
    struct daemon_request r;
    struct base_reason why = {""};
    (void)state;
    for (size_t count = 0; count < sizeof open_message; count++)
        assert_int_equal(daemon_request_read(open_message, count, &r, &why), BASE_EFORMAT);
    memcpy(message, open_message, sizeof open_message);
    message[sizeof open_message] = 0;
    assert_int_equal(daemon_request_read(message, sizeof open_message + 1, &r, &why), BASE_EFORMAT);
    static const struct {
        uint8_t bytes[16];
        size_t count;
        const char *words;
    } bad[] = {
        {{0}, 4, "its kind is not known"},
        {{9}, 4, "its kind is not known"},
        {{8, 0, 0, 0, 1}, 5, "256 losses"},
        {{2, 0, 0, 0, 0}, 5, "does not fit its kind"},
        {{3}, 4, "does not fit its kind"},
        {{1, 0, 0, 0, 3, 0, 0, 0, 1}, 12, "protocol 3"},
        {{1, 0, 0, 0, 0, 0, 0, 0, 1}, 12, "protocol 0"},
        {{1, 0, 0, 0, 1, 0, 0, 0, 0}, 12, "no tensor"},
        {{1, 0, 0, 0, 1, 0, 0, 0, 1, 16}, 12, "too many"},
        {{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0}, 14, "empty"},
        {{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}, 15, "zero"},
        {{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 'w', 9}, 15, "more than 8"},
        {{6, 0, 0, 0, 2}, 8, "BLOB"},
        {{6, 0, 0, 0, 0, 0, 0, 0, 7}, 9, "BLOB"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(daemon_request_read(bad[i].bytes, bad[i].count, &r, &why), BASE_EFORMAT);
        if (!strstr(why.text, bad[i].words))
            fail_msg("expected '%s' in '%s'", bad[i].words, why.text);
    }
}

static void the_other_requests_are_read(void **state)
{
    uint8_t message[40];
    struct daemon_request r;
    struct base_reason why = {""};
    (void)state;
    struct base_writer out = base_writer_of(message, sizeof message);
    base_write_u32(&out, DAEMON_ROUND);
    base_write_u64(&out, 30);
    base_write_u64(&out, 0x3fe0000000000000); // 0.5
    base_write_u64(&out, 0x7ff8000000000000); // NaN
    assert_int_equal(daemon_request_read(message, base_writer_used(&out), &r, &why), BASE_OK);
    assert_int_equal(r.steps, 30);
    assert_true(r.step_scale == 0.5 && isnan(r.loss));
    static const uint8_t set[] = {6, 0, 0, 0, 1, 0, 0, 0, 'x'}, ask[] = {6, 0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(daemon_request_read(set, sizeof set, &r, &why), BASE_OK);
    assert_true(r.sets && r.blob_bytes == 1 && r.blob[0] == 'x');
    assert_int_equal(daemon_request_read(ask, sizeof ask, &r, &why), BASE_OK);
    assert_false(r.sets);
    static const uint8_t judged[] = {8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f};
    assert_int_equal(daemon_request_read(judged, sizeof judged, &r, &why), BASE_OK);
    assert_true(r.n_losses == 1 && r.losses[0] == 0.5);
    static uint8_t many[4 + 257 * 8] = {8};
    assert_int_equal(daemon_request_read(many, sizeof many - 8, &r, &why), BASE_OK);
    assert_int_equal(r.n_losses, 256);
    assert_int_equal(daemon_request_read(many, sizeof many, &r, &why), BASE_EFORMAT);
    assert_int_equal(daemon_request_read(many, 4, &r, &why), BASE_OK);
    assert_int_equal(r.n_losses, 0);
    static const uint32_t plain[] = {DAEMON_START, DAEMON_STATUS, DAEMON_SAVE, DAEMON_LEAVE};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        memcpy(message, &plain[i], 4);
        assert_int_equal(daemon_request_read(message, 4, &r, &why), BASE_OK);
        assert_int_equal(r.kind, plain[i]);
    }
}

static void answers_are_written_field_by_field(void **state)
{
    static uint8_t message[DAEMON_MESSAGE_MAX], text[DAEMON_MESSAGE_MAX];
    (void)state;
    const struct daemon_opened opened = {.started = true, .vectors = 5, .parameters = 513, .stride = 4096};
    static const uint8_t opened_bytes[] = {1, 0, 0, 0, 0, 0, 0, 0, 1, 0,  0, 0, 5, 0, 0, 0,
                                           1, 2, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0};
    assert_int_equal(daemon_answer_opened(&opened, message), sizeof opened_bytes);
    assert_memory_equal(message, opened_bytes, sizeof opened_bytes);
    const struct p2pml_round round = {
        .steps = 30, .steps_done = 258, .pace = 0.5, .another = 1, .rolled_back = 1};
    static const uint8_t round_bytes[] = {3, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0, 0,    0,    0, 0, 2, 1,
                                          0, 0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0xe0, 0x3f, 3, 0, 0, 0};
    assert_int_equal(daemon_answer_round(DAEMON_ROUND, &round, message), sizeof round_bytes);
    assert_memory_equal(message, round_bytes, sizeof round_bytes);
    static const uint8_t question[] = {8, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0};
    assert_int_equal(daemon_question(513, message), sizeof question);
    assert_memory_equal(message, question, sizeof question);
    static const uint8_t failed[] = {2, 0, 0, 0, 0xf7, 0xff, 0xff, 0xff, 'n', 'o'}; // -9
    assert_int_equal(daemon_answer(DAEMON_START, P2PML_EORDER, "no", 2, message), sizeof failed);
    assert_memory_equal(message, failed, sizeof failed);
    assert_int_equal(daemon_answer(DAEMON_SAVE, P2PML_OK, NULL, 0, message), 8);
    assert_int_equal(daemon_answer(DAEMON_STATUS, P2PML_OK, text, sizeof text, message), DAEMON_MESSAGE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_is_read_field_by_field),
        cmocka_unit_test(every_truncated_or_extended_message_is_refused),
        cmocka_unit_test(the_other_requests_are_read),
        cmocka_unit_test(answers_are_written_field_by_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
