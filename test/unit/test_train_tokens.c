// Text and files of ids: what they become, everything that can be wrong with them, and the windows of a feed.
#include "base/limits.h"
#include "kernels/cpu/cpu.h"
#include "train/feed.h"
#include "train/loaders.h"
#include "train/tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum base_error parse(const char *text, size_t bytes, const struct train_text_options *options,
                             struct train_dataset *data, struct base_reason *why)
{
    const struct train_bytes file = {"text", (const uint8_t *)text, bytes};
    return train_text_parse(&file, options, data, why);
}

static struct train_dataset good(const char *text, enum train_text kind, size_t context)
{
    const struct train_text_options options = {.text = kind, .context = context};
    struct train_dataset data = {0};
    struct base_reason why = {""};
    if (parse(text, strlen(text), &options, &data, &why)) {
        fail_msg("%s", why.text);
    }
    return data;
}

static void assert_fails(const char *text, size_t bytes, const struct train_text_options *options,
                         enum base_error code, const char *message)
{
    struct train_dataset data = {.examples = 77};
    struct base_reason why = {""};
    assert_int_equal(parse(text, bytes, options, &data, &why), code);
    assert_string_equal(why.text, message);
    assert_int_equal(data.examples, 77);
}

static void bytes_are_read(void **state)
{
    (void)state;
    struct train_dataset data = good("abcdefghij", TRAIN_TEXT_BYTES, 3);
    uint32_t ids[3], labels[3];
    assert_int_equal(data.examples, 3); // the last label is j
    assert_int_equal(data.features, 3);
    assert_int_equal(data.classes, 256);
    assert_int_equal(train_dataset_labels(&data), 3);
    train_tokens_window(&data, 1, 0, ids, labels);
    assert_true(ids[0] == 'd' && ids[1] == 'e' && ids[2] == 'f');
    assert_true(labels[0] == 'e' && labels[1] == 'f' && labels[2] == 'g');
    train_tokens_window(&data, 1, 2, ids, labels);
    assert_true(ids[0] == 'f' && labels[2] == 'i');
    train_tokens_window(&data, 2, 2, ids, labels); // nothing follows the last window: it stays in place
    assert_true(ids[0] == 'g' && labels[2] == 'j');
    train_dataset_destroy(&data);
}

static void characters_are_read(void **state)
{
    (void)state;
    struct train_dataset data = good("b\xc3\xa9"
                                     "a\xe2\x82\xac\xf0\x9f\x98\x80\n",
                                     TRAIN_TEXT_CHARACTERS, 5);
    static const char *const names[] = {"\n", "a", "b", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    uint32_t ids[5], labels[5];
    assert_int_equal(data.examples, 1);
    assert_int_equal(data.classes, 6);
    assert_int_equal(data.meaning->text, TRAIN_TEXT_CHARACTERS);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(data.meaning->classes.items[i], names[i]); // by code
    }
    train_tokens_window(&data, 0, 4, ids, labels);
    static const uint32_t expected[] = {2, 3, 1, 4, 5, 0};
    assert_memory_equal(ids, expected, sizeof ids);
    assert_memory_equal(labels, expected + 1, sizeof labels);
    train_dataset_destroy(&data);
}

static void a_given_vocabulary_is_used(void **state)
{
    (void)state;
    struct train_dataset first = good("abcdef", TRAIN_TEXT_CHARACTERS, 2), second = {0};
    struct train_text_options options = {.text = TRAIN_TEXT_CHARACTERS, .context = 2, .like = first.meaning};
    struct base_reason why = {""};
    uint32_t ids[8], labels[2];
    size_t count = 0;
    assert_int_equal(parse("fad", 3, &options, &second, &why), BASE_OK);
    assert_int_equal(second.classes, 6);
    train_tokens_window(&second, 0, 0, ids, labels);
    assert_true(ids[0] == 5 && ids[1] == 0 && labels[1] == 3);
    assert_int_equal(train_meaning_digest(first.meaning), train_meaning_digest(second.meaning));
    assert_fails("fax", 3, &options, BASE_EMISMATCH,
                 "text: byte 2: found the character U+0078, which the vocabulary lacks");
    assert_int_equal(train_tokens_encode(first.meaning, "cab", ids, &count, &why), BASE_OK);
    assert_true(count == 3 && ids[0] == 2 && ids[1] == 0 && ids[2] == 1);
    assert_int_equal(train_tokens_encode(first.meaning, "cub", ids, &count, &why), BASE_EMISMATCH);
    options.text = TRAIN_TEXT_BYTES;
    assert_fails("fad", 3, &options, BASE_EMISMATCH,
                 "text: data.scale_from was not written for data.kind text with this data.text");
    train_dataset_destroy(&first);
    train_dataset_destroy(&second);
}

static void invalid_text_is_refused(void **state)
{
    (void)state;
    const struct train_text_options options = {.text = TRAIN_TEXT_CHARACTERS, .context = 2};
    static const char *const wrong[] = {"ab\x80",         // begins with a continuation byte
                                        "ab\xc0\xaf",     // overlong
                                        "ab\xc1\xbf",     //
                                        "ab\xe0\x80\xaf", //
                                        "ab\xf0\x80\x80\xaf",
                                        "ab\xed\xa0\x80",     // a surrogate
                                        "ab\xf4\x90\x80\x80", // beyond Unicode
                                        "ab\xf5\x80\x80\x80",
                                        "ab\xff",
                                        "ab\xe2\x82", // truncated
                                        "ab\xe2\x28\xa1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char message[128];
        (void)snprintf(
            message, sizeof message,
            "text: byte 2: found 0x%02x, where no UTF-8 character begins; expected text, or data.text "
            "bytes",
            (unsigned)(uint8_t)wrong[i][2]);
        assert_fails(wrong[i], strlen(wrong[i]), &options, BASE_EFORMAT, message);
    }
    assert_fails(
        "ab\0cd", 5, &options, BASE_EFORMAT,
        "text: byte 2: found 0x00, where no UTF-8 character begins; expected text, or data.text bytes");
    assert_fails("aaaaaa", 6, &options, BASE_EINVAL,
                 "text: found 1 different characters, expected 2 or more");
    assert_fails("ab", 2, &options, BASE_EINVAL,
                 "text: found 2 tokens, but a context of 2 needs at least 3: use a longer text or a shorter "
                 "model.context");
    assert_fails("", 0, &(struct train_text_options){.text = TRAIN_TEXT_BYTES, .context = 4}, BASE_EINVAL,
                 "text: found 0 tokens, but a context of 4 needs at least 5: use a longer text or a shorter "
                 "model.context");
    assert_fails("abc", 3, &(struct train_text_options){.text = TRAIN_TEXT_BYTES}, BASE_EINVAL,
                 "a context of 0 tokens; expected 1 to 1048576");
}

static void put(uint8_t *at, uint32_t value)
{
    for (size_t i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static void ids_are_read(void **state)
{
    (void)state;
    uint8_t file[1024 + 12] = {0};
    static const uint16_t ids[] = {3, 50000, 2, 1, 0, 7};
    for (size_t i = 0; i < 6; i++) {
        file[1024 + 2 * i] = (uint8_t)ids[i];
        file[1025 + 2 * i] = (uint8_t)(ids[i] >> 8);
    }
    put(file, 20240520);
    put(file + 4, 1);
    put(file + 8, 6);
    const struct train_bytes llmc = {"train.bin", file, sizeof file}, plain = {"train.bin", file + 1024, 12};
    for (size_t i = 0; i < 2; i++) {
        struct train_dataset data = {0};
        struct base_reason why = {""};
        uint32_t x[2], y[2];
        assert_int_equal(train_tokens_parse(i ? &llmc : &plain, 2, 50257, 2, &data, &why), BASE_OK);
        assert_int_equal(data.examples, 2);
        assert_int_equal(data.classes, 50257);
        train_tokens_window(&data, 0, 0, x, y);
        assert_true(x[0] == 3 && x[1] == 50000 && y[0] == 50000 && y[1] == 2);
        train_dataset_destroy(&data);
    }
}

static void assert_ids_fail(const struct train_bytes *file, size_t vocabulary, enum base_error code,
                            const char *message)
{
    struct train_dataset data = {.examples = 77};
    struct base_reason why = {""};
    assert_int_equal(train_tokens_parse(file, 2, vocabulary, 2, &data, &why), code);
    assert_string_equal(why.text, message);
    assert_int_equal(data.examples, 77);
}

static void wrong_ids_are_refused(void **state)
{
    (void)state;
    uint8_t file[1024 + 8] = {0};
    struct train_bytes bytes = {"train.bin", file, 8};
    file[4] = 9;
    assert_ids_fail(&bytes, 9, BASE_EFORMAT,
                    "train.bin: token 2: found id 9, expected below data.vocabulary, 9");
    bytes.bytes = 7;
    assert_ids_fail(&bytes, 10, BASE_EFORMAT,
                    "train.bin: found 7 bytes, expected a multiple of 2, the bytes of a token");
    put(file, 20240520);
    put(file + 4, 7);
    bytes.bytes = sizeof file;
    assert_ids_fail(&bytes, 10, BASE_EFORMAT,
                    "train.bin: found version 7 in llm.c's header, expected 1 (uint16 ids)");
    put(file + 4, 1);
    put(file + 8, 5);
    assert_ids_fail(&bytes, 10, BASE_EFORMAT, "train.bin: llm.c's header says 5 tokens, but 4 follow");
}

// There is no gap between the windows of two parts, so a shifted window must never show tokens of another
// part.
static void parts_show_only_their_own_tokens(void **state)
{
    (void)state;
    enum { TOKENS = 100, CONTEXT = 4 };
    char text[TOKENS + 1] = {0};
    for (size_t i = 0; i < TOKENS; i++) {
        text[i] = (char)(i + 1);
    }
    struct train_dataset all = good(text, TRAIN_TEXT_BYTES, CONTEXT), part = {0};
    uint32_t owner[TOKENS], rows[TOKENS], ids[CONTEXT], labels[CONTEXT];
    assert_int_equal(train_partition_contiguous(all.examples, 3, owner), BASE_OK);
    for (uint32_t shard = 0; shard < 3; shard++) {
        size_t count = 0;
        for (size_t i = 0; i < all.examples; i++) {
            if (owner[i] == shard) {
                rows[count++] = (uint32_t)i;
            }
        }
        assert_int_equal(count, 8);
        assert_int_equal(rows[7] - rows[0], 7);
        assert_int_equal(train_dataset_subset(&all, rows, count, &part), BASE_OK);
        for (size_t i = 0; i < count; i++) {
            for (size_t phase = 0; phase < CONTEXT; phase++) {
                train_tokens_window(&part, i, phase, ids, labels);
                assert_true(ids[0] >= 1 + rows[0] * CONTEXT);
                assert_true(labels[CONTEXT - 1] <= 1 + (rows[7] + 1) * CONTEXT);
                for (size_t t = 0; t < CONTEXT; t++) {
                    assert_int_equal(labels[t], ids[t] + 1);
                }
            }
        }
        train_dataset_destroy(&part);
    }
    const uint32_t apart[] = {0, 2}; // what follows the first is another part's
    assert_int_equal(train_dataset_subset(&all, apart, 2, &part), BASE_OK);
    train_tokens_window(&part, 0, 2, ids, labels);
    assert_true(ids[0] == 1 && labels[CONTEXT - 1] == 1 + CONTEXT);
    train_dataset_destroy(&part);
    train_dataset_destroy(&all);
}

// In an epoch every window occurs once, all with one phase; another epoch has another phase, and a position
// is enough to find the next batch again.
static void a_feed_shows_every_window_once_per_epoch(void **state)
{
    (void)state;
    enum { CONTEXT = 5, WINDOWS = 10, BATCH = 5 };
    char text[CONTEXT * WINDOWS + 2] = {0};
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        text[i] = (char)(i + 1);
    }
    struct train_dataset data = good(text, TRAIN_TEXT_BYTES, CONTEXT);
    struct train_feed feed, again;
    const struct kernels *k = kernels_cpu_table("scalar");
    size_t phases = 0;
    assert_int_equal(train_feed_create(k, &data, &(struct train_augment){0}, BATCH, 9, 0, &feed), BASE_OK);
    for (size_t epoch = 0; epoch < 8; epoch++) {
        bool seen[WINDOWS] = {false};
        size_t phase = 0;
        for (size_t b = 0; b < WINDOWS / BATCH; b++) {
            train_feed_next(&feed);
            const uint32_t *ids = feed.input.x;
            for (size_t i = 0; i < BATCH; i++) {
                const size_t first = ids[i * CONTEXT] - 1;
                assert_false(seen[first / CONTEXT]);
                seen[first / CONTEXT] = true;
                phase = first / CONTEXT + 1 < WINDOWS ? first % CONTEXT : phase;
                assert_int_equal(feed.input.labels[i * CONTEXT], ids[i * CONTEXT] + 1);
                assert_int_equal(feed.input.labels[i * CONTEXT + 4], ids[i * CONTEXT + 4] + 1);
            }
        }
        phases |= (size_t)1 << phase;
    }
    assert_true((phases & (phases - 1)) != 0); // several phases
    train_feed_next(&feed);
    assert_int_equal(train_feed_create(k, &data, &(struct train_augment){0}, BATCH, 9, 0, &again), BASE_OK);
    train_feed_seek(&again, 8, 0);
    train_feed_next(&again);
    assert_memory_equal(feed.input.x, again.input.x, BATCH * CONTEXT * sizeof(uint32_t));
    train_feed_destroy(&feed);
    train_feed_destroy(&again);
    train_dataset_destroy(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_read),
        cmocka_unit_test(characters_are_read),
        cmocka_unit_test(a_given_vocabulary_is_used),
        cmocka_unit_test(invalid_text_is_refused),
        cmocka_unit_test(ids_are_read),
        cmocka_unit_test(wrong_ids_are_refused),
        cmocka_unit_test(parts_show_only_their_own_tokens),
        cmocka_unit_test(a_feed_shows_every_window_once_per_epoch),
    };
    return cmocka_run_group_tests_name("train tokens", tests, NULL, NULL);
}
