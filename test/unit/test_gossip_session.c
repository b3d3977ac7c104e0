// The secure channel end to end: two sessions over byte queues, and one session against a hand-made peer that
// knows the secret but not the manners.
#include "base/cursor.h"
#include "base/limits.h"
#include "base/rng.h"
#include "gossip/session/noise.h"
#include "gossip/session/session.h"
#include "gossip/wire/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_OF(array) (sizeof(array) / sizeof(array)[0])
#define MESSAGE_LIMIT    (1u << 20)
#define RECORD_PLAIN     (LIMIT_RECORD_BYTES - GOSSIP_NOISE_TAG_BYTES)
#define PROOF_BYTES      96u
#define CLUSTER          "herd"

static struct base_rng rng;
static struct gossip_identity identity[2]; // initiator, responder
static const uint8_t PSK[32] = "a secret of the test's own, 32 b";

static void fill(void *data, size_t bytes)
{
    uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)base_rng_u64(&rng);
}

static int setup(void **state)
{
    (void)state;
    const char *given = getenv("P2PML_SEED");
    const uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 20240607;
    printf("seed %llu (P2PML_SEED sets another)\n", (unsigned long long)seed);
    base_rng_seed(&rng, seed);
    for (size_t i = 0; i < 2; i++) {
        uint8_t secret[32];
        fill(secret, sizeof secret);
        gossip_identity_from_seed(secret, &identity[i]);
    }
    return 0;
}

struct pair {
    struct gossip_session *side[2]; // initiator, responder
    struct base_buffer out[2];      // what each has said
};

static struct gossip_session_options options_of(bool initiator)
{
    struct gossip_session_options options = {.initiator = initiator,
                                             .identity = &identity[initiator ? 0 : 1],
                                             .cluster = CLUSTER,
                                             .message_limit = MESSAGE_LIMIT};
    memcpy(options.psk, PSK, sizeof PSK);
    fill(options.entropy, sizeof options.entropy);
    return options;
}

static struct pair pair_of(const struct gossip_session_options *initiator,
                           const struct gossip_session_options *responder)
{
    struct pair pair = {0};
    assert_int_equal(gossip_session_create(initiator, &pair.side[0]), BASE_OK);
    assert_int_equal(gossip_session_create(responder, &pair.side[1]), BASE_OK);
    assert_int_equal(gossip_session_start(pair.side[0], &pair.out[0]), BASE_OK);
    assert_int_equal(gossip_session_start(pair.side[1], &pair.out[1]), BASE_OK);
    assert_int_equal(base_buffer_length(&pair.out[1]), 0);
    return pair;
}

static struct pair new_pair(void)
{
    const struct gossip_session_options initiator = options_of(true), responder = options_of(false);
    return pair_of(&initiator, &responder);
}

static void pair_free(struct pair *pair)
{
    for (size_t i = 0; i < 2; i++) {
        gossip_session_destroy(pair->side[i]);
        base_buffer_free(&pair->out[i]);
    }
}

// One call of receive with at most `most` bytes of what the other side has said; these are then gone.
static enum base_error hand_over(struct pair *pair, unsigned to, size_t most,
                                 struct gossip_session_event *event)
{
    struct base_buffer *in = &pair->out[1 - to];
    const size_t left = base_buffer_length(in), bytes = left < most ? left : most;
    size_t consumed = 0;
    enum base_error error =
        gossip_session_receive(pair->side[to], base_buffer_head(in), bytes, &consumed, &pair->out[to], event);
    if (error == BASE_OK && event->kind == GOSSIP_SESSION_NOTHING)
        assert_int_equal(consumed, bytes);
    base_buffer_consume(in, consumed);
    return error;
}

// most = 0: a random split.
static size_t split_of(size_t most)
{
    return most > 0 ? most : 1 + (size_t)base_rng_below(&rng, 1u << base_rng_below(&rng, 18));
}

// Both directions until nothing moves. The first error ends it.
static enum base_error run_handshake(struct pair *pair, size_t most)
{
    struct gossip_session_event event;
    while (base_buffer_length(&pair->out[0]) + base_buffer_length(&pair->out[1]) > 0)
        for (unsigned to = 0; to < 2; to++) {
            enum base_error error = hand_over(pair, to, split_of(most), &event);
            if (error != BASE_OK)
                return error;
            assert_int_not_equal(event.kind, GOSSIP_SESSION_MESSAGE);
            if (event.kind == GOSSIP_SESSION_ESTABLISHED)
                assert_memory_equal(&event.peer, &identity[1 - to].id, sizeof event.peer);
        }
    return BASE_OK;
}

static struct pair established_pair(size_t most)
{
    struct pair pair = new_pair();
    assert_int_equal(run_handshake(&pair, most), BASE_OK);
    assert_true(gossip_session_established(pair.side[0]));
    assert_true(gossip_session_established(pair.side[1]));
    return pair;
}

static void seal(struct pair *pair, unsigned from, const uint8_t *message, size_t bytes)
{
    // Three parts of arbitrary lengths, the middle one often empty.
    const size_t first = bytes / 3, second = bytes % 2 == 0 ? 0 : bytes / 5;
    const struct gossip_session_part parts[] = {
        {message, first}, {message + first, second}, {message + first + second, bytes - first - second}};
    assert_int_equal(
        gossip_session_seal(pair->side[from], parts, LENGTH_OF(parts), &pair->out[from], SIZE_MAX), BASE_OK);
}

static void expect_message(struct pair *pair, unsigned to, const uint8_t *message, size_t bytes, size_t most)
{
    struct gossip_session_event event;
    do {
        assert_true(base_buffer_length(&pair->out[1 - to]) > 0);
        assert_int_equal(hand_over(pair, to, split_of(most), &event), BASE_OK);
    } while (event.kind == GOSSIP_SESSION_NOTHING);
    assert_int_equal(event.kind, GOSSIP_SESSION_MESSAGE);
    assert_memory_equal(&event.peer, &identity[1 - to].id, sizeof event.peer);
    assert_int_equal(event.message_bytes, bytes);
    if (bytes > 0)
        assert_memory_equal(event.message, message, bytes);
}

static void test_messages_in_all_splits(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,
                                   1,
                                   5,
                                   1000,
                                   RECORD_PLAIN - 5,
                                   RECORD_PLAIN - 4,
                                   RECORD_PLAIN - 3,
                                   200001,
                                   2 * RECORD_PLAIN - 4,
                                   MESSAGE_LIMIT};
    static const size_t splits[] = {SIZE_MAX, 0, 0, 1, 65536, 7};
    uint8_t *message = malloc(MESSAGE_LIMIT + LENGTH_OF(sizes));
    fill(message, MESSAGE_LIMIT + LENGTH_OF(sizes));
    for (size_t s = 0; s < LENGTH_OF(splits); s++) {
        struct pair pair = established_pair(splits[s]);
        for (unsigned from = 0; from < 2; from++) {
            for (size_t i = 0; i < LENGTH_OF(sizes); i++)
                seal(&pair, from, message + i, sizes[i]);
            for (size_t i = 0; i < LENGTH_OF(sizes); i++)
                expect_message(&pair, 1 - from, message + i, sizes[i], splits[s]);
            assert_int_equal(base_buffer_length(&pair.out[from]), 0);
        }
        pair_free(&pair);
    }
    free(message);
}

static void test_wire_shows_no_plaintext(void **state)
{
    (void)state;
    enum { WINDOW = 6 };
    struct pair pair = new_pair();
    struct base_buffer wire = {0};
    struct gossip_session_event event;
    uint8_t message[3000];
    fill(message, sizeof message);
    for (unsigned step = 0; step < 3; step++) { // the handshake, message by message
        struct base_buffer *said = &pair.out[step % 2];
        assert_int_equal(
            base_buffer_append(&wire, base_buffer_head(said), base_buffer_length(said), SIZE_MAX), BASE_OK);
        assert_int_equal(hand_over(&pair, 1 - step % 2, SIZE_MAX, &event), BASE_OK);
    }
    for (unsigned from = 0; from < 2; from++) {
        seal(&pair, from, message, sizeof message);
        assert_int_equal(base_buffer_append(&wire, base_buffer_head(&pair.out[from]),
                                            base_buffer_length(&pair.out[from]), SIZE_MAX),
                         BASE_OK);
        for (size_t i = 0; i + WINDOW <= sizeof message; i++)
            assert_null(memmem(base_buffer_head(&wire), base_buffer_length(&wire), message + i, WINDOW));
        assert_null(
            memmem(base_buffer_head(&wire), base_buffer_length(&wire), identity[from].id.bytes, WINDOW));
        assert_null(memmem(base_buffer_head(&wire), base_buffer_length(&wire), identity[from].exchange_public,
                           WINDOW));
    }
    assert_null(memmem(base_buffer_head(&wire), base_buffer_length(&wire), CLUSTER, sizeof CLUSTER - 1));
    base_buffer_free(&wire);
    pair_free(&pair);
}

static void expect_silent_refusal(const struct gossip_session_options *initiator)
{
    const struct gossip_session_options responder = options_of(false);
    struct pair pair = pair_of(initiator, &responder);
    struct gossip_session_event event;
    assert_int_equal(hand_over(&pair, 1, SIZE_MAX, &event), BASE_EAUTH);
    assert_int_equal(base_buffer_length(&pair.out[1]), 0);
    assert_int_equal(hand_over(&pair, 1, SIZE_MAX, &event), BASE_ESTATE);
    assert_false(gossip_session_established(pair.side[1]));
    pair_free(&pair);
}

static void test_strangers_hear_nothing(void **state)
{
    (void)state;
    struct gossip_session_options options = options_of(true);
    options.psk[31] ^= 1;
    expect_silent_refusal(&options);
    options = options_of(true);
    options.cluster = CLUSTER "s";
    expect_silent_refusal(&options);
    options.cluster = "";
    expect_silent_refusal(&options);
}

static void test_changed_handshake_is_refused(void **state)
{
    (void)state;
    struct gossip_session_event event;
    size_t bytes = 1;
    for (unsigned step = 0; step < 3; step++)
        for (size_t i = 0; i < bytes; i++) {
            struct pair pair = new_pair();
            for (unsigned before = 0; before < step; before++)
                assert_int_equal(hand_over(&pair, 1 - before % 2, SIZE_MAX, &event), BASE_OK);
            struct base_buffer *said = &pair.out[step % 2];
            bytes = base_buffer_length(said);
            said->data[said->start + i] ^= (uint8_t)(1u << base_rng_below(&rng, 8));
            const enum base_error error = hand_over(&pair, 1 - step % 2, SIZE_MAX, &event);
            assert_int_equal(error, i < 2 ? BASE_EFORMAT : BASE_EAUTH);
            assert_int_equal(base_buffer_length(&pair.out[1 - step % 2]), 0);
            assert_false(gossip_session_established(pair.side[1 - step % 2]));
            assert_int_equal(hand_over(&pair, 1 - step % 2, SIZE_MAX, &event), BASE_ESTATE);
            pair_free(&pair);
        }
}

static size_t record_bytes(const uint8_t *record)
{
    struct base_reader reader = base_reader_of(record, 2);
    return 2u + base_read_u16(&reader);
}

enum damage { DAMAGE_FLIP, DAMAGE_DROP, DAMAGE_INSERT, DAMAGE_REPLAY, DAMAGE_SWAP, DAMAGES };

// Damages a stream of records at byte `at`; replay and swap take the whole record that starts at 0.
static void damage_stream(struct base_buffer *stream, enum damage damage, size_t at)
{
    const size_t bytes = base_buffer_length(stream), first = record_bytes(base_buffer_head(stream));
    uint8_t *copy = malloc(bytes + first + 1), extra = (uint8_t)base_rng_u64(&rng);
    size_t made = bytes;
    memcpy(copy, base_buffer_head(stream), bytes);
    if (damage == DAMAGE_FLIP)
        copy[at] ^= (uint8_t)(1u << base_rng_below(&rng, 8));
    if (damage == DAMAGE_DROP)
        memmove(copy + at, copy + at + 1, --made - at);
    if (damage == DAMAGE_INSERT) {
        memmove(copy + at + 1, copy + at, made++ - at);
        copy[at] = extra;
    }
    if (damage == DAMAGE_REPLAY) {
        memmove(copy + first, copy, bytes);
        made += first;
    }
    if (damage == DAMAGE_SWAP) {
        const size_t second = record_bytes(base_buffer_head(stream) + first);
        memcpy(copy, base_buffer_head(stream) + first, second);
        memcpy(copy + second, base_buffer_head(stream), first);
    }
    base_buffer_free(stream);
    assert_int_equal(base_buffer_append(stream, copy, made, SIZE_MAX), BASE_OK);
    free(copy);
}

// Ten messages, one of several records; then so many more that no changed length can make the receiver wait.
static void check_damage(enum damage damage, const uint8_t *message, size_t bytes)
{
    struct pair pair = established_pair(SIZE_MAX);
    struct gossip_session_event event;
    unsigned whole = 0;
    enum base_error error = BASE_OK;
    for (unsigned i = 0; i < 10; i++)
        seal(&pair, 0, message, i == 5 ? bytes : 20);
    const size_t at = (size_t)base_rng_below(&rng, base_buffer_length(&pair.out[0]));
    seal(&pair, 0, message, bytes);
    damage_stream(&pair.out[0], damage, at);
    while (error == BASE_OK && base_buffer_length(&pair.out[0]) > 0) {
        error = hand_over(&pair, 1, split_of(0), &event);
        if (error == BASE_OK && event.kind == GOSSIP_SESSION_MESSAGE) {
            // What is delivered is what was said, in its order.
            assert_int_equal(event.message_bytes, whole == 5 ? bytes : 20);
            assert_memory_equal(event.message, message, event.message_bytes);
            whole++;
        }
    }
    assert_true(error == BASE_EAUTH || error == BASE_EFORMAT || error == BASE_ELIMIT);
    assert_true(whole <= 10);
    if (damage == DAMAGE_SWAP)
        assert_int_equal(whole, 0);
    if (damage == DAMAGE_REPLAY)
        assert_int_equal(whole, 1);
    assert_int_equal(hand_over(&pair, 1, SIZE_MAX, &event), BASE_ESTATE);
    assert_int_equal(gossip_session_seal(pair.side[1], NULL, 0, &pair.out[1], SIZE_MAX), BASE_ESTATE);
    pair_free(&pair);
}

static void test_damaged_stream_dies(void **state)
{
    (void)state;
    const size_t bytes = 150000;
    uint8_t *message = malloc(bytes);
    fill(message, bytes);
    for (unsigned round = 0; round < 100; round++)
        check_damage((enum damage)(round % DAMAGES), message, bytes);
    free(message);
}

// A peer made of the Noise handshake alone: it can break every rule above that.
struct raw_peer {
    struct gossip_noise_cipher send, receive;
    struct gossip_session *session; // a responder
    struct base_buffer out;
};

static void raw_begin(struct gossip_noise_handshake *handshake, uint32_t protocol)
{
    uint8_t prologue[64], entropy[32];
    struct base_writer writer = base_writer_of(prologue, sizeof prologue);
    base_write_bytes(&writer, "p2pml", 5);
    base_write_u32(&writer, protocol);
    base_write_bytes(&writer, CLUSTER, sizeof CLUSTER - 1);
    fill(entropy, sizeof entropy);
    const struct gossip_noise_options options = {.initiator = true,
                                                 .prologue = prologue,
                                                 .prologue_bytes = base_writer_used(&writer),
                                                 .static_public = identity[0].exchange_public,
                                                 .static_secret = identity[0].exchange_secret,
                                                 .ephemeral_secret = entropy,
                                                 .psk = PSK};
    gossip_noise_begin(handshake, &options);
}

static enum base_error raw_say(struct raw_peer *peer, const uint8_t *bytes, size_t count,
                               struct gossip_session_event *event)
{
    size_t consumed = 0;
    return gossip_session_receive(peer->session, bytes, count, &consumed, &peer->out, event);
}

static size_t frame(uint8_t *frame, size_t bytes)
{
    struct base_writer writer = base_writer_of(frame, 2);
    base_write_u16(&writer, (uint16_t)bytes);
    return 2 + bytes;
}

// Shakes hands with a session of `message_limit`, offering `proof`; returns what the session says to that.
static enum base_error raw_connect(struct raw_peer *peer, uint32_t protocol, const uint8_t proof[PROOF_BYTES],
                                   size_t message_limit)
{
    struct gossip_session_options options = options_of(false);
    struct gossip_session_event event;
    struct gossip_noise_handshake handshake;
    uint8_t message[256], payload[PROOF_BYTES];
    options.message_limit = message_limit;
    *peer = (struct raw_peer){0};
    assert_int_equal(gossip_session_create(&options, &peer->session), BASE_OK);
    raw_begin(&handshake, protocol);
    assert_int_equal(gossip_noise_write(&handshake, NULL, 0, message + 2), BASE_OK);
    enum base_error error = raw_say(peer, message, frame(message, GOSSIP_NOISE_MESSAGE_0), &event);
    if (error != BASE_OK)
        return error;
    assert_int_equal(base_buffer_length(&peer->out), 2 + GOSSIP_NOISE_MESSAGE_1 + PROOF_BYTES);
    assert_int_equal(gossip_noise_read(&handshake, base_buffer_head(&peer->out) + 2,
                                       GOSSIP_NOISE_MESSAGE_1 + PROOF_BYTES, payload),
                     BASE_OK);
    assert_memory_equal(payload, identity[1].id.bytes, GOSSIP_ID_BYTES);
    base_buffer_consume(&peer->out, base_buffer_length(&peer->out));
    assert_int_equal(gossip_noise_write(&handshake, proof, PROOF_BYTES, message + 2), BASE_OK);
    error = raw_say(peer, message, frame(message, GOSSIP_NOISE_MESSAGE_2 + PROOF_BYTES), &event);
    if (error == BASE_OK)
        assert_int_equal(event.kind, GOSSIP_SESSION_ESTABLISHED);
    gossip_noise_split(&handshake, &peer->send, &peer->receive);
    return error;
}

static void raw_free(struct raw_peer *peer)
{
    gossip_session_destroy(peer->session);
    base_buffer_free(&peer->out);
}

static void proof_of(const struct gossip_identity *who, uint8_t proof[PROOF_BYTES])
{
    memcpy(proof, who->id.bytes, GOSSIP_ID_BYTES);
    memcpy(proof + GOSSIP_ID_BYTES, who->binding, sizeof who->binding);
}

static void test_other_protocol_is_refused(void **state)
{
    (void)state;
    struct raw_peer peer;
    uint8_t proof[PROOF_BYTES];
    proof_of(&identity[0], proof);
    assert_int_equal(raw_connect(&peer, GOSSIP_PROTOCOL, proof, MESSAGE_LIMIT), BASE_OK);
    raw_free(&peer);
    assert_int_equal(raw_connect(&peer, GOSSIP_PROTOCOL + 1, proof, MESSAGE_LIMIT), BASE_EAUTH);
    assert_int_equal(base_buffer_length(&peer.out), 0);
    raw_free(&peer);
}

// Knowing the cluster secret does not make one somebody else.
static void test_borrowed_identity_is_refused(void **state)
{
    (void)state;
    struct raw_peer peer;
    uint8_t proof[PROOF_BYTES];
    proof_of(&identity[1], proof); // a true binding, but of another static key
    assert_int_equal(raw_connect(&peer, GOSSIP_PROTOCOL, proof, MESSAGE_LIMIT), BASE_EAUTH);
    assert_false(gossip_session_established(peer.session));
    raw_free(&peer);
    proof_of(&identity[0], proof);
    memcpy(proof, identity[1].id.bytes, GOSSIP_ID_BYTES); // another's id over our binding
    assert_int_equal(raw_connect(&peer, GOSSIP_PROTOCOL, proof, MESSAGE_LIMIT), BASE_EAUTH);
    raw_free(&peer);
}

// Seals `bytes` plaintext bytes as one record and gives it to the session.
static enum base_error raw_record(struct raw_peer *peer, const void *plain, size_t bytes,
                                  struct gossip_session_event *event)
{
    static uint8_t record[2 + LIMIT_RECORD_BYTES];
    const size_t whole = frame(record, bytes + GOSSIP_NOISE_TAG_BYTES);
    gossip_noise_seal(&peer->send, record, 2, plain, bytes, record + 2);
    return raw_say(peer, record, whole, event);
}

static void test_broken_framing_is_refused(void **state)
{
    (void)state;
    enum { LIMIT = 100 };
    static const struct {
        uint32_t announced;
        size_t first, second; // plaintext bytes of two records, the header included
        enum base_error expected[2];
    } cases[] = {
        {8, 12, 0, {BASE_OK, BASE_EFORMAT}},  // an empty record between messages
        {8, 6, 0, {BASE_OK, BASE_EFORMAT}},   // an empty record inside one
        {8, 3, 0, {BASE_EFORMAT, BASE_OK}},   // a header in two records
        {8, 13, 0, {BASE_EFORMAT, BASE_OK}},  // bytes of a second message in the same record
        {8, 6, 7, {BASE_OK, BASE_EFORMAT}},   // the same, in the last record
        {LIMIT, 104, 12, {BASE_OK, BASE_OK}}, // the longest message that is allowed, and another
        {LIMIT, 4, 100, {BASE_OK, BASE_OK}},  // the same in two records
        {LIMIT + 1, 12, 0, {BASE_ELIMIT, BASE_OK}},  {UINT32_MAX, 4, 0, {BASE_ELIMIT, BASE_OK}},
        {LIMIT + 1, 105, 0, {BASE_ELIMIT, BASE_OK}}, // longer than any allowed message: not even opened
    };
    uint8_t proof[PROOF_BYTES], plain[128] = {0};
    proof_of(&identity[0], proof);
    for (size_t i = 0; i < LENGTH_OF(cases); i++) {
        struct raw_peer peer;
        struct gossip_session_event event;
        struct base_writer writer = base_writer_of(plain, sizeof plain);
        assert_int_equal(raw_connect(&peer, GOSSIP_PROTOCOL, proof, LIMIT), BASE_OK);
        base_write_u32(&writer, cases[i].announced);
        assert_int_equal(raw_record(&peer, plain, cases[i].first, &event), cases[i].expected[0]);
        if (cases[i].expected[0] == BASE_OK) {
            assert_int_equal(event.kind, cases[i].first == 4 + cases[i].announced ? GOSSIP_SESSION_MESSAGE
                                                                                  : GOSSIP_SESSION_NOTHING);
            memset(plain, 0, sizeof plain);
            plain[0] = 8;
            assert_int_equal(raw_record(&peer, plain, cases[i].second, &event), cases[i].expected[1]);
            assert_int_equal(event.kind, cases[i].expected[1] == BASE_OK ? GOSSIP_SESSION_MESSAGE
                                                                         : GOSSIP_SESSION_NOTHING);
        }
        raw_free(&peer);
    }
}

static void test_rekey_in_step(void **state)
{
    (void)state;
    struct pair pair = established_pair(SIZE_MAX);
    uint8_t message[3];
    for (unsigned from = 0; from < 2; from++)
        for (unsigned i = 0; i < LIMIT_REKEY_RECORDS + 100; i++) {
            fill(message, sizeof message);
            seal(&pair, from, message, sizeof message);
            expect_message(&pair, 1 - from, message, sizeof message, SIZE_MAX);
        }
    pair_free(&pair);
}

// A peer that goes on under the old key is cut off exactly where the key changes.
static void test_rekey_happens(void **state)
{
    (void)state;
    struct raw_peer peer;
    struct gossip_session_event event;
    uint8_t proof[PROOF_BYTES];
    static const uint8_t empty_message[4];
    proof_of(&identity[0], proof);
    assert_int_equal(raw_connect(&peer, GOSSIP_PROTOCOL, proof, MESSAGE_LIMIT), BASE_OK);
    for (unsigned i = 0; i < LIMIT_REKEY_RECORDS; i++)
        assert_int_equal(raw_record(&peer, empty_message, sizeof empty_message, &event), BASE_OK);
    assert_int_equal(raw_record(&peer, empty_message, sizeof empty_message, &event), BASE_EAUTH);
    raw_free(&peer);
}

static void test_seal_limits(void **state)
{
    (void)state;
    struct pair pair = new_pair();
    struct gossip_session_event event;
    uint8_t message[100];
    const struct gossip_session_part part = {message, sizeof message};
    const struct gossip_session_part huge[] = {{message, UINT32_MAX - 10}, {message, 100}};
    const size_t sealed = 2 + 4 + sizeof message + GOSSIP_NOISE_TAG_BYTES;
    fill(message, sizeof message);
    assert_int_equal(gossip_session_seal(pair.side[0], &part, 1, &pair.out[0], SIZE_MAX), BASE_ESTATE);
    assert_int_equal(run_handshake(&pair, SIZE_MAX), BASE_OK);
    assert_int_equal(gossip_session_seal(pair.side[0], &part, 1, &pair.out[0], sealed - 1), BASE_ELIMIT);
    assert_int_equal(gossip_session_seal(pair.side[0], huge, 2, &pair.out[0], SIZE_MAX), BASE_ELIMIT);
    assert_int_equal(base_buffer_length(&pair.out[0]), 0);
    assert_int_equal(gossip_session_seal(pair.side[0], &part, 1, &pair.out[0], sealed), BASE_OK);
    expect_message(&pair, 1, message, sizeof message, SIZE_MAX);
    assert_int_equal(hand_over(&pair, 1, SIZE_MAX, &event), BASE_OK);
    assert_int_equal(event.kind, GOSSIP_SESSION_NOTHING);
    pair_free(&pair);
}

static void test_calls_out_of_order(void **state)
{
    (void)state;
    struct gossip_session_options options = options_of(true);
    struct gossip_session *session = NULL;
    struct gossip_session_event event;
    struct base_buffer out = {0};
    size_t consumed = 1;
    assert_int_equal(gossip_session_create(&options, &session), BASE_OK);
    assert_int_equal(gossip_session_receive(session, (const uint8_t *)"x", 1, &consumed, &out, &event),
                     BASE_ESTATE);
    assert_int_equal(consumed, 0);
    assert_int_equal(gossip_session_start(session, &out), BASE_OK);
    assert_int_equal(gossip_session_start(session, &out), BASE_ESTATE);
    assert_int_equal(base_buffer_length(&out), 2 + GOSSIP_NOISE_MESSAGE_0);
    gossip_session_destroy(session);
    gossip_session_destroy(NULL);
    base_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_in_all_splits),
        cmocka_unit_test(test_wire_shows_no_plaintext),
        cmocka_unit_test(test_strangers_hear_nothing),
        cmocka_unit_test(test_changed_handshake_is_refused),
        cmocka_unit_test(test_damaged_stream_dies),
        cmocka_unit_test(test_other_protocol_is_refused),
        cmocka_unit_test(test_borrowed_identity_is_refused),
        cmocka_unit_test(test_broken_framing_is_refused),
        cmocka_unit_test(test_rekey_in_step),
        cmocka_unit_test(test_rekey_happens),
        cmocka_unit_test(test_seal_limits),
        cmocka_unit_test(test_calls_out_of_order),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
