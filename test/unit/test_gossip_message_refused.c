// Message headers: everything that the decoder must refuse, and that the encoder refuses with it.
#include "base/limits.h"
#include "gossip/wire/message.h"
#include "test/support/any_message.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_every_truncation_and_extra_byte_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[CAPACITY];
    for (unsigned round = 0; round < 60; round++) {
        const struct gossip_message message =
            any_message((enum gossip_message_kind)(GOSSIP_GREETING + round % KINDS));
        const size_t count = encode(&message, bytes);
        struct gossip_message decoded, before;
        memset(&decoded, 3, sizeof decoded);
        before = decoded;
        for (size_t cut = 0; cut < count; cut++) {
            uint8_t *exact = malloc(cut > 0 ? cut : 1); // so that a sanitizer detects a read past the end
            memcpy(exact, bytes, cut);
            assert_int_equal(gossip_message_decode(exact, cut, &decoded), BASE_EFORMAT);
            free(exact);
        }
        for (unsigned extra = 0; extra < 256; extra++) {
            bytes[count] = (uint8_t)extra;
            assert_int_equal(gossip_message_decode(bytes, count + 1, &decoded), BASE_EFORMAT);
        }
        assert_memory_equal(&decoded, &before, sizeof decoded);
    }
}

// If a changed header still decodes, encoding the result gives the same bytes again.
static void test_a_message_has_only_one_encoding(void **state)
{
    (void)state;
    uint8_t bytes[CAPACITY], again[CAPACITY];
    unsigned accepted = 0;
    for (unsigned round = 0; round < 120; round++) {
        const struct gossip_message message =
            any_message((enum gossip_message_kind)(GOSSIP_GREETING + round % KINDS));
        const size_t count = encode(&message, bytes);
        for (size_t i = 0; i < count && i < 200; i++)
            for (unsigned bit = 0; bit < 8; bit++) {
                struct gossip_message decoded;
                bytes[i] ^= (uint8_t)(1u << bit);
                if (!gossip_message_decode(bytes, count, &decoded)) {
                    assert_int_equal(encode(&decoded, again), count);
                    assert_memory_equal(again, bytes, count);
                    accepted++;
                }
                bytes[i] ^= (uint8_t)(1u << bit);
            }
    }
    assert_true(accepted > 0);
}

static const struct {
    const char *what;
    uint8_t bytes[48];
    size_t count;
} malformed[] = {
    {"array of 2^32 - 1", {0xdd, 0xff, 0xff, 0xff, 0xff}, 5},
    {"array 16 instead of fixarray", {0xdc, 0, 3, 5, 1, 2}, 6},
    {"a map", {0x83, 5, 1, 2}, 4},
    {"kind 0", {0x93, 0, 1, 2}, 4},
    {"kind 11", {0x93, 11, 1, 2}, 4},
    {"one field too few", {0x92, 5, 1}, 3},
    {"one field too many", {0x94, 5, 1, 2, 3}, 5},
    {"count and fields disagree", {0x92, 5, 1, 2}, 4},
    {"kind in uint 8", {0x93, 0xcc, 5, 1, 2}, 5},
    {"uint 8 under 128", {0x93, 5, 0xcc, 0x7f, 2}, 5},
    {"uint 16 under 256", {0x93, 5, 0xcd, 0, 0xff, 2}, 6},
    {"uint 32 under 65536", {0x93, 5, 0xce, 0, 0, 0xff, 0xff, 2}, 8},
    {"uint 64 under 2^32", {0x93, 5, 0xcf, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 2}, 12},
    {"negative fixint", {0x93, 5, 0xff, 2}, 4},
    {"int 8", {0x93, 5, 0xd0, 1, 2}, 5},
    {"nil", {0x93, 5, 0xc0, 2}, 4},
    {"true", {0x93, 5, 0xc3, 2}, 4},
    {"text for a number", {0x93, 5, 0xa1, 'a', 2}, 5},
    {"float for a number", {0x93, 5, 0xca, 0, 0, 0, 0, 2}, 8},
    {"number for a text", {0x92, 6, 1}, 3},
    {"bin for a text", {0x92, 6, 0xc4, 1, 'a'}, 5},
    {"str 8 under 32", {0x92, 6, 0xd9, 1, 'a'}, 5},
    {"str 16", {0x92, 6, 0xda, 0, 1, 'a'}, 6},
    {"str 32 of 2^32 - 1", {0x92, 6, 0xdb, 0xff, 0xff, 0xff, 0xff, 'a'}, 8},
    {"a zero byte in a text", {0x92, 6, 0xa2, 'a', 0}, 5},
    {"a newline in a text", {0x92, 6, 0xa2, 'a', '\n'}, 5},
    {"a byte over 127 in a text", {0x92, 6, 0xa2, 0xc3, 0xa4}, 5},
    {"delete in a text", {0x92, 6, 0xa1, 0x7f}, 4},
    {"answer of 256", {0x99, 2, 1, 1, 1, 1, 1, 0xcd, 1, 0, 0, 1}, 12},
    {"hello of a fourth standing", {0x99, 2, 1, 1, 1, 1, 1, 0, 3, 1}, 10},
    {"exchange of a fourth standing",
     {0xdc, 0, 17, 3,    1,    1,    1, 3, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    0,    0, 0, 0, 0,    0},
     40},
    {"step scale in float 64",
     {0xdc, 0,    17,   3, 1, 1,    1,    0,    0xcb, 0, 0,    0, 0, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0,
      0xca, 0x7f, 0x80, 0, 0, 0xca, 0x7f, 0x80, 0,    0, 0xca, 0, 0, 0, 0, 0, 0, 0,    0,    0, 0, 0},
     44},
    {"step scale as an integer",
     {0xdc, 0,    17,   3,    1, 1, 1,    0, 1, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f, 0x80, 0,
      0,    0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0,    0,    0, 0, 0, 0,    0,    0,    0},
     36},
    {"step scale NaN",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0x7f, 0xc0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0,    0,    0, 0, 0,    0,    0, 0, 0, 0,    0},
     40},
    {"step scale infinite",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0x7f, 0x80, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0,    0,    0, 0, 0,    0,    0, 0, 0, 0,    0},
     40},
    {"step scale negative",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0xbf, 0x80, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0,    0,    0, 0, 0,    0,    0, 0, 0, 0,    0},
     40},
    {"weight 0",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    0, 0, 0, 0, 0,    0},
     40},
    {"weight above 1",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0x80, 0, 1, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    0,    0,    0, 0, 0,    0},
     40},
    {"weight negative",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0xbf, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    0,    0, 0, 0, 0,    0},
     40},
    {"weight NaN",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x7f, 0xc0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    0,    0,    0, 0, 0,    0},
     40},
    {"weight infinite",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x7f, 0x80, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    0,    0,    0, 0, 0,    0},
     40},
    {"weight as an integer",
     {0xdc, 0,    17,   3,    1, 1, 1,    0, 0xca, 0, 0, 0, 0, 1, 0xca, 0x7f, 0x80, 0,
      0,    0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0,    0, 0, 0, 0, 0, 0,    0,    0,    0},
     36},
    {"a block with another weight than 1/2",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x3e, 0x80, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    1,    0,    0, 0, 0,    0},
     40},
    {"limit NaN",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0xc0, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    0,    0, 0, 0, 0,    0},
     40},
    {"limit negative",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0xbf,
      0,    0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    0,    0, 0, 0, 0,    0},
     40},
    {"limit as an integer",
     {0xdc, 0,    17,   3,    1, 1, 1,    0, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0,
      1,    0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0,    0, 0, 0, 0, 0,    0,    0, 0, 0},
     36},
    {"progress NaN",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0,    0,    0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0x7f, 0xc0, 0, 0, 0,    0,    0, 0, 0, 0,    0},
     40},
    {"progress infinite",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0,    0,    0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0x7f, 0x80, 0, 0, 0,    0,    0, 0, 0, 0,    0},
     40},
    {"progress negative",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0,    0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0xbf, 0, 0, 0, 0,    0,    0, 0, 0, 0,    0},
     40},
    {"array 16 where fixarray does", {0xdc, 0, 2, 6, 0xa1, 'a'}, 6},
    {"array 32", {0xdd, 0, 0, 0, 2, 6, 0xa1, 'a'}, 8},
    {"bound NaN",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0xc0, 0, 0, 0xca, 0, 0, 0, 0, 0,    0,    0, 0, 0, 0,    0},
     40},
    {"bound negative",
     {0xdc, 0, 17, 3,    1,    1, 1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0xbf, 0, 0, 0, 0xca, 0, 0, 0, 0, 0,    0,    0, 0, 0, 0,    0},
     40},
    {"parked with a payload", {0x94, 10, 1, 2, 3, 9}, 6},
    {"parked without a round", {0x93, 10, 1, 2}, 4},
    {"the clock of earlier protocols", {0x93, 10, 1, 0}, 4},
    {"an exchange without news",
     {0xdc, 0, 16, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    0,    0, 0, 0, 0},
     39},
    {"news longer than what is left",
     {0xdc, 0, 17,   3,    1,    1, 1, 0,    0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f, 0x80,
      0,    0, 0xca, 0x7f, 0x80, 0, 0, 0xca, 0,    0, 0, 0, 0, 0,    0,    0, 0, 0, 2,    9},
     41},
    {"form 2",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    2,    0, 0, 0, 0,    0},
     40},
    {"a sparse delta with an offset",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    0,    1, 0, 0, 0,    0},
     40},
    {"a block with keys",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    1,    0, 1, 0, 0,    0},
     40},
    {"keys beyond 1",
     {0xdc, 0, 17, 3,    1,    1,    1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f,
      0x80, 0, 0,  0xca, 0x7f, 0x80, 0, 0, 0xca, 0, 0, 0, 0, 0,    0,    0, 2, 0, 0,    0},
     40},
    {"delta longer than what is left",
     {0xdc, 0, 17,   3,    1,    1, 1, 0,    0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f, 0x80,
      0,    0, 0xca, 0x7f, 0x80, 0, 0, 0xca, 0,    0, 0, 0, 0, 0,    0,    0, 2, 0, 0,    9},
     41},
    {"moment longer than what is left",
     {0xdc, 0, 17,   3,    1,    1, 1, 0,    0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f, 0x80,
      0,    0, 0xca, 0x7f, 0x80, 0, 0, 0xca, 0,    0, 0, 0, 0, 0,    0,    0, 1, 1, 0,    9},
     41},
    {"lengths that add up to 2^32",
     {0xdc, 0, 17, 3,    1,    1,    1, 0,    0xca, 0,    0,    0,    0, 0xca, 0x3f,
      0,    0, 0,  0xca, 0x7f, 0x80, 0, 0,    0xca, 0x7f, 0x80, 0,    0, 0xca, 0,
      0,    0, 0,  0,    0,    0,    0, 0xce, 0xff, 0xff, 0xff, 0xff, 1, 0},
     44},
    {"a delta of 2^32 bytes",
     {0xdc, 0,    17, 3, 1,    1, 1, 0, 0xca, 0, 0, 0, 0, 0xca, 0x3f, 0, 0, 0, 0xca, 0x7f, 0x80, 0, 0, 0xca,
      0x7f, 0x80, 0,  0, 0xca, 0, 0, 0, 0,    0, 0, 0, 0, 0xcf, 0,    0, 0, 1, 0,    0,    0,    0, 0, 0},
     48},
    {"an empty packet of members", {0x92, 7, 0}, 3},
    {"members: more than the limit", {0x92, 7, 0xcd, 0x40, 0x01, 1}, 6},
    {"members: one byte too few", {0x92, 7, 2, 1}, 4},
    {"part 6", {0x94, 8, 1, 6, 0}, 5},
    {"block 2^32", {0x94, 8, 1, 0, 0xcf, 0, 0, 0, 1, 0, 0, 0, 0}, 13},
    {"an ask with a payload", {0x94, 8, 1, 0, 0, 9}, 6},
    {"snapshot 0", {0x99, 9, 0, 1, 0, 0, 1, 1, 1, 4, 1, 2, 3, 4}, 14},
    {"a part that does not exist", {0x99, 9, 1, 1, 1, 0, 1, 1, 1, 4, 1, 2, 3, 4}, 14},
    {"a seventh part", {0x99, 9, 1, 65, 0, 0, 1, 1, 1, 4, 1, 2, 3, 4}, 14},
    {"part 6 of a seventh", {0x99, 9, 1, 64, 6, 0, 1, 1, 1, 4, 1, 2, 3, 4}, 14},
    {"merge of phase 0", {0x95, 12, 0, 1, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8}, 14},
    {"merge of phase 6", {0x95, 12, 6, 1, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8}, 14},
    {"merge without keys", {0x95, 12, 1, 1, 0, 0}, 6},
    {"half a key", {0x95, 12, 1, 1, 0, 4, 1, 2, 3, 4}, 10},
    {"block 1 of a blob", {0x99, 9, 1, 8, 3, 1, 1, 1, 1, 4, 1, 2, 3, 4}, 14},
    {"no values", {0x99, 9, 1, 1, 0, 0, 1, 1, 1, 0}, 10},
    {"half a value", {0x99, 9, 1, 1, 0, 0, 1, 1, 1, 6, 1, 2, 3, 4, 5, 6}, 16},
    {"one value too few", {0x99, 9, 1, 1, 0, 0, 1, 1, 1, 8, 1, 2, 3, 4}, 14},
    {"values over the limit", {0x99, 9, 1, 1, 0, 0, 1, 1, 1, 0xce, 0, 4, 0, 4, 1, 2, 3, 4}, 18},
};

static void test_malformed_headers_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH_OF(malformed); i++) {
        struct gossip_message decoded;
        if (gossip_message_decode(malformed[i].bytes, malformed[i].count, &decoded) != BASE_EFORMAT)
            fail_msg("accepted: %s", malformed[i].what);
    }
    static const uint8_t good[] = {0xdc, 0, 17, 3, 1,    1,    1,    0, 0xca, 0,    0,    0,    0, 0xca,
                                   0x3f, 0, 0,  0, 0xca, 0x7f, 0x80, 0, 0,    0xca, 0x7f, 0x80, 0, 0,
                                   0xca, 0, 0,  0, 0,    0,    0,    0, 0,    1,    0,    0,    9};
    struct gossip_message decoded;
    assert_int_equal(gossip_message_decode(good, sizeof good, &decoded),
                     BASE_OK); // each of the cases differs from the valid header in one thing
    assert_int_equal(decoded.as.exchange.delta[0], 9);
    static const uint8_t tell[] = {0x99, 9, 1, 1, 0, 0, 1, 1, 1, 4, 1, 2, 3, 4};
    assert_int_equal(gossip_message_decode(tell, sizeof tell, &decoded), BASE_OK);
    assert_int_equal(decoded.as.tell.values[3], 4);
    assert_int_equal(gossip_message_decode(NULL, 0, &decoded), BASE_EFORMAT);
}

// The encoder refuses what the decoder at the other end would refuse.
static void test_the_encoder_refuses_what_the_decoder_would(void **state)
{
    (void)state;
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t bytes = 0;
    static const char *const names[] = {"", "a b", "node/1", "caf\xc3\xa9", "a\n"};
    for (size_t i = 0; i < LENGTH_OF(names); i++) {
        struct gossip_message message = {.kind = GOSSIP_GREETING};
        snprintf(message.as.greeting.name, sizeof message.as.greeting.name, "%s", names[i]);
        assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
    }
    struct gossip_message unterminated = {.kind = GOSSIP_BYE};
    memset(unterminated.as.bye.reason, 'x', sizeof unterminated.as.bye.reason);
    assert_int_equal(gossip_message_encode_header(&unterminated, header, sizeof header, &bytes), BASE_EINVAL);
    static const float scales[] = {NAN, INFINITY, -1.0f};
    for (size_t i = 0; i < LENGTH_OF(scales); i++) {
        struct gossip_message message = {.kind = GOSSIP_XACK,
                                         .as.exchange = {.step_scale = scales[i], .weight = 0.5f}};
        assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
    }
    static const float weights[] = {0.0f, NAN, INFINITY, -0.5f, 1.001f};
    for (size_t i = 0; i < LENGTH_OF(weights); i++) {
        struct gossip_message message = {.kind = GOSSIP_XCHG, .as.exchange.weight = weights[i]};
        assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
    }
    static const float limits[] = {NAN, -0.5f, -INFINITY};
    for (size_t i = 0; i < LENGTH_OF(limits); i++) {
        struct gossip_message message = {.kind = GOSSIP_XCHG,
                                         .as.exchange = {.weight = 0.5f, .limit = limits[i]}};
        assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
        message.as.exchange = (struct gossip_exchange_message){.weight = 0.5f, .bound = limits[i]};
        assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
        message.as.exchange = (struct gossip_exchange_message){.weight = 0.5f, .progress = limits[i]};
        assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
    }
    struct gossip_message message = {.kind = GOSSIP_XCHG, .as.exchange = {.form = 2, .weight = 0.5f}};
    assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
    message.as.exchange =
        (struct gossip_exchange_message){.form = GOSSIP_DELTA_BLOCK, .weight = 0.5f, .keys = 1};
    assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
    message.as.exchange = (struct gossip_exchange_message){.form = GOSSIP_DELTA_BLOCK, .weight = 0.25f};
    assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
    static const uint32_t packets[] = {0, LIMIT_GOSSIP_BYTES + 1, UINT32_MAX};
    for (size_t i = 0; i < LENGTH_OF(packets); i++) {
        message = (struct gossip_message){.kind = GOSSIP_MEMBERS, .as.members.packet_bytes = packets[i]};
        assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
    }
    message = (struct gossip_message){.kind = GOSSIP_SNAPSHOT_ASK, .as.ask.part = GOSSIP_PART_LAST + 1};
    assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
    static const struct gossip_snapshot_tell tells[] = {
        {.snapshot = 0, .parts = 1, .values_bytes = 4},
        {.snapshot = 1, .parts = 1, .part = 1, .values_bytes = 4},
        {.snapshot = 1, .parts = 8, .part = 3, .block = 1, .values_bytes = 4},
        {.snapshot = 1, .parts = 8, .part = 3, .values_bytes = LIMIT_BLOB_BYTES + 1},
        {.snapshot = 1, .parts = 64, .part = 6, .values_bytes = 4},
        {.snapshot = 1, .parts = 65, .values_bytes = 4},
        {.snapshot = 1, .parts = 1, .part = 64, .values_bytes = 4},
        {.snapshot = 1, .parts = 1, .values_bytes = 0},
        {.snapshot = 1, .parts = 1, .values_bytes = 7},
        {.snapshot = 1, .parts = 1, .values_bytes = 4 * LIMIT_SNAPSHOT_BLOCK + 4},
    };
    for (size_t i = 0; i < LENGTH_OF(tells); i++) {
        message = (struct gossip_message){.kind = GOSSIP_SNAPSHOT_TELL, .as.tell = tells[i]};
        assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
    }
    message = (struct gossip_message){.kind = (enum gossip_message_kind)(KINDS + 1)};
    assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_EINVAL);
    assert_int_equal(bytes, 0);
}

static void test_every_kind_has_a_name(void **state)
{
    (void)state;
    static const char *const names[] = {
        "unknown",      "greeting",      "hello",  "xchg",       "xack",  "busy",  "bye",     "members",
        "snapshot_ask", "snapshot_tell", "parked", "statistics", "merge", "relay", "removed", "unknown"};
    for (unsigned kind = 0; kind < LENGTH_OF(names); kind++)
        assert_string_equal(gossip_message_kind_name((enum gossip_message_kind)kind), names[kind]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_truncation_and_extra_byte_is_refused),
        cmocka_unit_test(test_a_message_has_only_one_encoding),
        cmocka_unit_test(test_malformed_headers_are_refused),
        cmocka_unit_test(test_the_encoder_refuses_what_the_decoder_would),
        cmocka_unit_test(test_every_kind_has_a_name),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
