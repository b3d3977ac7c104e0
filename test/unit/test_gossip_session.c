// The handshake of the secure channel: two sessions over byte queues, and one session against a hand-made
// peer that knows the secret but breaks the rules. What follows the handshake is in test_gossip_records.c.
#include "base/cursor.h"
#include "base/limits.h"
#include "gossip/session/noise.h"
#include "gossip/session/session.h"
#include "gossip/wire/message.h"
#include "test/support/seeded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_OF(array) (sizeof(array) / sizeof(array)[0])
#define MESSAGE_LIMIT    (1u << 20)
#define PROOF_BYTES      96u
#define OFFER_BYTES      (PROOF_BYTES + 1) // and the AEADs that are offered
#define RANGE_BYTES      4u
#define PAYLOAD_BYTES    (OFFER_BYTES + RANGE_BYTES) // of message 1
#define CLUSTER          "herd"

static struct gossip_identity identity[2]; // initiator, responder
static const struct gossip_secrets SECRETS = {.psk = {"a secret of the test's own, 32 b"}, .count = 1};
#define PSK SECRETS.psk[0]

static int setup(void **state)
{
    (void)state;
    seeded_begin(20240607);
    for (size_t i = 0; i < 2; i++) {
        uint8_t secret[32];
        fill(secret, sizeof secret);
        gossip_identity_from_seed(secret, &identity[i]);
    }
    return 0;
}

struct pair {
    struct gossip_session *side[2]; // initiator, responder
    struct base_buffer out[2];      // the bytes that each has sent
};

static struct gossip_session_options options_of(bool initiator)
{
    struct gossip_session_options options = {.initiator = initiator,
                                             .identity = &identity[initiator ? 0 : 1],
                                             .secrets = &SECRETS,
                                             .cluster = CLUSTER,
                                             .message_limit = MESSAGE_LIMIT};
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

// One call of receive with at most `most` bytes of what the other side has sent; these are then removed.
static enum base_error hand_over(struct pair *pair, unsigned to, size_t most,
                                 struct gossip_session_event *event)
{
    struct base_buffer *in = &pair->out[1 - to];
    const size_t left = base_buffer_length(in), bytes = left < most ? left : most;
    size_t consumed = 0;
    enum base_error error =
        gossip_session_receive(pair->side[to], base_buffer_head(in), bytes, &consumed, &pair->out[to], event);
    if (!error && event->kind == GOSSIP_SESSION_NOTHING)
        assert_int_equal(consumed, bytes);
    base_buffer_consume(in, consumed);
    return error;
}

// most = 0: a random split.
static size_t split_of(size_t most)
{
    return most > 0 ? most : 1 + (size_t)base_rng_below(&rng, 1u << base_rng_below(&rng, 18));
}

// Both directions until nothing is left. The first error ends it.
static enum base_error run_handshake(struct pair *pair, size_t most)
{
    struct gossip_session_event event;
    while (base_buffer_length(&pair->out[0]) + base_buffer_length(&pair->out[1]) > 0)
        for (unsigned to = 0; to < 2; to++) {
            if (base_buffer_length(&pair->out[1 - to]) == 0)
                continue;
            enum base_error error = hand_over(pair, to, split_of(most), &event);
            if (error)
                return error;
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

struct halves {
    struct gossip_sealer *sealer[2];
    struct gossip_opener *opener[2];
};

static void split(struct pair *pair, struct halves *halves)
{
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(gossip_session_split(pair->side[i], &halves->sealer[i], &halves->opener[i]),
                         BASE_OK);
}

static void halves_free(struct halves *halves)
{
    for (unsigned i = 0; i < 2; i++) {
        gossip_sealer_destroy(halves->sealer[i]);
        gossip_opener_destroy(halves->opener[i]);
    }
}

static size_t seal(struct halves *halves, unsigned from, const uint8_t *message, size_t bytes, uint8_t *out)
{
    const struct gossip_session_part part = {message, bytes};
    return gossip_sealer_prompt(halves->sealer[from], &part, 1, out);
}

static void expect_message(struct halves *halves, unsigned to, const uint8_t *in, size_t in_bytes,
                           const uint8_t *message, size_t bytes)
{
    struct gossip_opened opened;
    size_t consumed = 0;
    assert_int_equal(gossip_opener_take(halves->opener[to], in, in_bytes, &consumed, &opened), BASE_OK);
    assert_int_equal(consumed, in_bytes);
    assert_int_equal(opened.count, bytes);
    assert_memory_equal(opened.bytes, message, bytes);
    free(opened.bytes);
}

// In whatever pieces the handshake arrived, the two halves fit each other.
static void test_halves_fit_after_all_splits(void **state)
{
    (void)state;
    static const size_t splits[] = {SIZE_MAX, 0, 0, 0, 1, 2, 7, 50};
    uint8_t message[300], wire[300 + GOSSIP_RECORD_OVERHEAD];
    fill(message, sizeof message);
    for (size_t s = 0; s < LENGTH_OF(splits); s++) {
        struct pair pair = established_pair(splits[s]);
        struct halves halves;
        split(&pair, &halves);
        for (unsigned i = 0; i < 20; i++) {
            const size_t bytes = seal(&halves, i % 2, message, sizeof message, wire);
            assert_int_equal(bytes, sizeof wire);
            expect_message(&halves, 1 - i % 2, wire, bytes, message, sizeof message);
        }
        halves_free(&halves);
        pair_free(&pair);
    }
}

// A session gives its keys away once.
static void test_a_session_is_split_once(void **state)
{
    (void)state;
    struct pair pair = new_pair();
    struct halves halves, more = {0};
    struct gossip_session_event event;
    size_t consumed = 0;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(gossip_session_split(pair.side[i], &more.sealer[i], &more.opener[i]), BASE_ESTATE);
    assert_int_equal(run_handshake(&pair, SIZE_MAX), BASE_OK);
    split(&pair, &halves);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(gossip_session_split(pair.side[i], &more.sealer[i], &more.opener[i]), BASE_ESTATE);
        assert_false(gossip_session_established(pair.side[i]));
        assert_int_equal(
            gossip_session_receive(pair.side[i], (const uint8_t *)"x", 1, &consumed, &pair.out[i], &event),
            BASE_ESTATE);
    }
    halves_free(&halves);
    pair_free(&pair);
}

// Bytes behind the last message of the handshake are left to the opener.
static void test_records_may_follow_the_handshake_at_once(void **state)
{
    (void)state;
    struct pair pair = new_pair();
    struct halves halves;
    struct gossip_session_event event;
    uint8_t message[100], sealed[100 + GOSSIP_RECORD_OVERHEAD];
    size_t consumed = 0;
    fill(message, sizeof message);
    assert_int_equal(hand_over(&pair, 1, SIZE_MAX, &event), BASE_OK);
    assert_int_equal(hand_over(&pair, 0, SIZE_MAX, &event), BASE_OK);
    assert_int_equal(event.kind, GOSSIP_SESSION_ESTABLISHED);
    assert_int_equal(gossip_session_split(pair.side[0], &halves.sealer[0], &halves.opener[0]), BASE_OK);
    const size_t handshake = base_buffer_length(&pair.out[0]);
    const size_t bytes = seal(&halves, 0, message, sizeof message, sealed);
    assert_int_equal(base_buffer_append(&pair.out[0], sealed, bytes, SIZE_MAX), BASE_OK);
    assert_int_equal(gossip_session_receive(pair.side[1], base_buffer_head(&pair.out[0]), handshake + bytes,
                                            &consumed, &pair.out[1], &event),
                     BASE_OK);
    assert_int_equal(event.kind, GOSSIP_SESSION_ESTABLISHED);
    assert_int_equal(consumed, handshake);
    assert_int_equal(gossip_session_split(pair.side[1], &halves.sealer[1], &halves.opener[1]), BASE_OK);
    expect_message(&halves, 1, base_buffer_head(&pair.out[0]) + consumed, bytes, message, sizeof message);
    halves_free(&halves);
    pair_free(&pair);
}

static void expect_hidden(const struct base_buffer *wire, const uint8_t *secret, size_t bytes)
{
    enum { WINDOW = 6 };
    for (size_t i = 0; i + WINDOW <= bytes; i++)
        assert_null(memmem(base_buffer_head(wire), base_buffer_length(wire), secret + i, WINDOW));
}

static void test_the_wire_shows_no_plaintext(void **state)
{
    (void)state;
    struct pair pair = new_pair();
    struct halves halves;
    struct base_buffer wire = {0};
    struct gossip_session_event event;
    uint8_t message[3000], sealed[3000 + GOSSIP_RECORD_OVERHEAD];
    fill(message, sizeof message);
    for (unsigned step = 0; step < 3; step++) { // the handshake, message by message
        struct base_buffer *said = &pair.out[step % 2];
        assert_int_equal(
            base_buffer_append(&wire, base_buffer_head(said), base_buffer_length(said), SIZE_MAX), BASE_OK);
        assert_int_equal(hand_over(&pair, 1 - step % 2, SIZE_MAX, &event), BASE_OK);
    }
    split(&pair, &halves);
    for (unsigned from = 0; from < 2; from++) {
        const size_t bytes = seal(&halves, from, message, sizeof message, sealed);
        assert_int_equal(base_buffer_append(&wire, sealed, bytes, SIZE_MAX), BASE_OK);
    }
    expect_hidden(&wire, message, sizeof message);
    for (unsigned i = 0; i < 2; i++) {
        expect_hidden(&wire, identity[i].id.bytes, sizeof identity[i].id.bytes);
        expect_hidden(&wire, identity[i].exchange_public, sizeof identity[i].exchange_public);
    }
    assert_null(memmem(base_buffer_head(&wire), base_buffer_length(&wire), CLUSTER, sizeof CLUSTER - 1));
    base_buffer_free(&wire);
    halves_free(&halves);
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

static void test_a_stranger_gets_no_answer(void **state)
{
    (void)state;
    struct gossip_session_options options = options_of(true);
    struct gossip_secrets other = SECRETS;
    other.psk[0][31] ^= 1;
    options.secrets = &other;
    expect_silent_refusal(&options);
    options = options_of(true);
    options.cluster = CLUSTER "s";
    expect_silent_refusal(&options);
    options.cluster = "";
    expect_silent_refusal(&options);
}

static void secret_of(struct gossip_secrets *secrets, size_t at, uint8_t number)
{
    memset(secrets->psk[at], number, sizeof secrets->psk[at]);
    secrets->count = at + 1 > secrets->count ? at + 1 : secrets->count;
}

static bool holds(const struct gossip_session *session, uint8_t number)
{
    uint8_t psk[32];
    memset(psk, number, sizeof psk);
    return memmem(session, malloc_usable_size((void *)(uintptr_t)session), psk, sizeof psk) != NULL;
}

// The initiator uses its first secret; the responder accepts it wherever it stands in its own list, and has
// wiped the others once it has read message 0.
static void test_a_responder_accepts_each_of_its_secrets(void **state)
{
    (void)state;
    for (size_t count = 1; count <= LIMIT_SECRETS; count++)
        for (size_t used = 0; used <= count; used++) { // count: none of them
            struct gossip_session_options initiator = options_of(true), responder = options_of(false);
            struct gossip_secrets begins = {0}, accepts = {0};
            struct gossip_session_event event;
            for (size_t i = 0; i < count; i++)
                secret_of(&accepts, i, (uint8_t)(100 + i));
            secret_of(&begins, 0, (uint8_t)(100 + used));
            secret_of(&begins, 1, 100); // accepted by the initiator, but not used
            begins.count = used == 0 ? 1 : 2;
            initiator.secrets = &begins;
            responder.secrets = &accepts;
            struct pair pair = pair_of(&initiator, &responder);
            for (size_t i = 0; i < count; i++)
                assert_true(holds(pair.side[1], (uint8_t)(100 + i)));
            assert_int_equal(hand_over(&pair, 1, 20, &event), BASE_OK); // not all of message 0
            for (size_t i = 0; i < count; i++)
                assert_true(holds(pair.side[1], (uint8_t)(100 + i)));
            assert_int_equal(hand_over(&pair, 1, SIZE_MAX, &event), used < count ? BASE_OK : BASE_EAUTH);
            for (size_t i = 0; i < count; i++)
                assert_int_equal(holds(pair.side[1], (uint8_t)(100 + i)), i == used);
            if (used < count) {
                assert_int_equal(run_handshake(&pair, SIZE_MAX), BASE_OK);
                assert_true(gossip_session_established(pair.side[0]) &&
                            gossip_session_established(pair.side[1]));
            } else {
                assert_int_equal(base_buffer_length(&pair.out[1]), 0);
            }
            pair_free(&pair);
        }
}

// Two calls over one stream. `larger`: the side with the larger ephemeral key.
static struct pair crossed_pair(unsigned larger, const struct gossip_secrets secrets[2])
{
    struct pair pair = {0};
    for (;;) {
        for (unsigned i = 0; i < 2; i++) {
            struct gossip_session_options options = options_of(true);
            options.identity = &identity[i];
            options.secrets = secrets ? &secrets[i] : &SECRETS;
            assert_int_equal(gossip_session_create(&options, &pair.side[i]), BASE_OK);
            assert_int_equal(gossip_session_start(pair.side[i], &pair.out[i]), BASE_OK);
        }
        const int order = memcmp(base_buffer_head(&pair.out[0]) + 2, base_buffer_head(&pair.out[1]) + 2, 32);
        if ((order > 0) == (larger == 0))
            return pair;
        pair_free(&pair);
        pair = (struct pair){0};
    }
}

enum {
    MESSAGE_0 = 2 + GOSSIP_NOISE_MESSAGE_0 + RANGE_BYTES,
    MESSAGE_1 = 2 + GOSSIP_NOISE_MESSAGE_1 + PAYLOAD_BYTES
};

static void expect_halves_fit(struct pair *pair)
{
    struct halves halves;
    uint8_t message[300], wire[300 + GOSSIP_RECORD_OVERHEAD];
    fill(message, sizeof message);
    split(pair, &halves);
    for (unsigned i = 0; i < 4; i++)
        expect_message(&halves, 1 - i % 2, wire, seal(&halves, i % 2, message, sizeof message, wire), message,
                       sizeof message);
    halves_free(&halves);
}

// Whoever hears the other first, and in whatever pieces.
static void test_calls_that_cross_become_one_session(void **state)
{
    (void)state;
    static const size_t splits[] = {SIZE_MAX, 0, 0, 1, 2, 7, 50, 53};
    for (unsigned larger = 0; larger < 2; larger++)
        for (unsigned first = 0; first < 2; first++)
            for (size_t s = 0; s < LENGTH_OF(splits); s++) {
                struct pair pair = crossed_pair(larger, NULL);
                struct gossip_session_event event;
                size_t left = MESSAGE_0;
                while (left >
                       0) { // the first of the two hears all of message 0 before the other hears anything
                    const size_t most = splits[s] == SIZE_MAX || splits[s] == 0 ? left : splits[s];
                    assert_int_equal(hand_over(&pair, first, most < left ? most : left, &event), BASE_OK);
                    assert_int_equal(event.kind, GOSSIP_SESSION_NOTHING);
                    left -= most < left ? most : left;
                }
                assert_int_equal(base_buffer_length(&pair.out[first]),
                                 first == larger ? MESSAGE_0 : MESSAGE_0 + MESSAGE_1);
                assert_int_equal(run_handshake(&pair, splits[s]), BASE_OK);
                assert_true(gossip_session_established(pair.side[0]));
                assert_true(gossip_session_established(pair.side[1]));
                expect_halves_fit(&pair);
                pair_free(&pair);
            }
}

// The end that answers has used its first key in message 0 already.
static void test_a_crossed_call_is_answered_with_another_key(void **state)
{
    (void)state;
    struct pair pair = crossed_pair(0, NULL);
    struct gossip_session_event event;
    uint8_t key[32];
    memcpy(key, base_buffer_head(&pair.out[1]) + 2, sizeof key);
    assert_int_equal(hand_over(&pair, 1, SIZE_MAX, &event), BASE_OK);
    assert_int_equal(base_buffer_length(&pair.out[1]), MESSAGE_0 + MESSAGE_1);
    assert_memory_not_equal(base_buffer_head(&pair.out[1]) + MESSAGE_0 + 2, key, sizeof key);
    pair_free(&pair);
}

// While the secret of a cluster changes, the two may begin with different ones. Only the one that stays the
// initiator has chosen.
static void test_crossed_calls_accept_each_of_their_secrets(void **state)
{
    (void)state;
    for (size_t used = 0; used <= 3; used++) {
        struct gossip_secrets secrets[2] = {0};
        struct gossip_session_event event;
        for (size_t i = 0; i < 3; i++)
            secret_of(&secrets[1], i, (uint8_t)(100 + i));
        secret_of(&secrets[0], 0, (uint8_t)(100 + used)); // 3: none of the other's
        secret_of(&secrets[0], 1, 100);
        struct pair pair = crossed_pair(0, secrets);
        assert_int_equal(hand_over(&pair, 0, SIZE_MAX, &event), BASE_OK); // is not read
        assert_int_equal(hand_over(&pair, 1, SIZE_MAX, &event), used < 3 ? BASE_OK : BASE_EAUTH);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(holds(pair.side[1], (uint8_t)(100 + i)), i == used);
        assert_int_equal(base_buffer_length(&pair.out[1]), used < 3 ? MESSAGE_1 : 0);
        if (used < 3) {
            assert_int_equal(run_handshake(&pair, SIZE_MAX), BASE_OK);
            assert_true(gossip_session_established(pair.side[0]) && gossip_session_established(pair.side[1]));
            assert_false(holds(pair.side[0], (uint8_t)(100 + (used == 0))));
        }
        pair_free(&pair);
    }
}

static enum base_error say_again(struct pair *pair, unsigned to, const uint8_t message_0[MESSAGE_0])
{
    struct gossip_session_event event;
    size_t consumed = 0;
    return gossip_session_receive(pair->side[to], message_0, MESSAGE_0, &consumed, &pair->out[to], &event);
}

static void test_an_own_call_that_comes_back_is_refused(void **state)
{
    (void)state;
    struct pair pair = crossed_pair(0, NULL);
    uint8_t own[MESSAGE_0];
    memcpy(own, base_buffer_head(&pair.out[0]), sizeof own);
    assert_int_equal(say_again(&pair, 0, own), BASE_EAUTH);
    assert_int_equal(base_buffer_length(&pair.out[0]), MESSAGE_0);
    assert_int_equal(say_again(&pair, 0, own), BASE_ESTATE);
    pair_free(&pair);
}

// A call crosses once, and not after the answer.
static void test_a_second_crossing_is_refused(void **state)
{
    (void)state;
    for (unsigned to = 0; to < 2; to++) {
        struct pair pair = crossed_pair(0, NULL);
        struct gossip_session_event event;
        uint8_t message_0[2][MESSAGE_0];
        for (unsigned i = 0; i < 2; i++)
            memcpy(message_0[i], base_buffer_head(&pair.out[i]), MESSAGE_0);
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(hand_over(&pair, i, MESSAGE_0, &event), BASE_OK);
        assert_int_equal(say_again(&pair, to, message_0[1 - to]), BASE_EFORMAT);
        assert_int_equal(say_again(&pair, to, message_0[1 - to]), BASE_ESTATE);
        pair_free(&pair);
    }
    struct pair pair = new_pair(), other = new_pair();
    struct gossip_session_event event;
    struct halves halves;
    struct gossip_opened opened;
    size_t consumed = 0;
    for (unsigned step = 0; step < 3; step++)
        assert_int_equal(hand_over(&pair, 1 - step % 2, SIZE_MAX, &event), BASE_OK);
    other.out[0].data[other.out[0].start + 2] = 0xff; // where a record has its kind
    assert_int_equal(say_again(&pair, 0, base_buffer_head(&other.out[0])), BASE_ESTATE);
    split(&pair, &halves);
    assert_int_equal(
        gossip_opener_take(halves.opener[0], base_buffer_head(&other.out[0]), MESSAGE_0, &consumed, &opened),
        BASE_EFORMAT);
    halves_free(&halves);
    pair_free(&pair);
    pair_free(&other);
}

static void test_a_changed_handshake_is_refused(void **state)
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

// A peer made of the Noise handshake alone: it can break every rule above it.
struct raw_peer {
    struct gossip_noise_cipher send, receive;
    struct gossip_session *session; // a responder
    struct base_buffer out;
};

static void raw_begin(struct gossip_noise_handshake *handshake, uint32_t format)
{
    uint8_t prologue[64], entropy[32];
    struct base_writer writer = base_writer_of(prologue, sizeof prologue);
    base_write_bytes(&writer, "p2pml", 5);
    base_write_u32(&writer, format);
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

static void range_bytes(struct gossip_protocols protocols, uint8_t out[RANGE_BYTES])
{
    struct base_writer writer = base_writer_of(out, RANGE_BYTES);
    base_write_u16(&writer, protocols.least);
    base_write_u16(&writer, protocols.most);
}

// Shakes hands with a session, as one that speaks `protocols`, and offers `proof`; returns its answer.
static enum base_error raw_connect(struct raw_peer *peer, uint32_t format, struct gossip_protocols protocols,
                                   const uint8_t proof[PROOF_BYTES])
{
    struct gossip_session_options options = options_of(false);
    struct gossip_session_event event;
    struct gossip_noise_handshake handshake;
    uint8_t message[256], payload[PAYLOAD_BYTES];
    *peer = (struct raw_peer){0};
    assert_int_equal(gossip_session_create(&options, &peer->session), BASE_OK);
    raw_begin(&handshake, format);
    range_bytes(protocols, payload);
    assert_int_equal(gossip_noise_write(&handshake, payload, RANGE_BYTES, message + 2), BASE_OK);
    enum base_error error =
        raw_say(peer, message, frame(message, GOSSIP_NOISE_MESSAGE_0 + RANGE_BYTES), &event);
    if (error)
        return error;
    assert_int_equal(base_buffer_length(&peer->out), 2 + GOSSIP_NOISE_MESSAGE_1 + PAYLOAD_BYTES);
    assert_int_equal(gossip_noise_read(&handshake, base_buffer_head(&peer->out) + 2,
                                       GOSSIP_NOISE_MESSAGE_1 + PAYLOAD_BYTES, payload),
                     BASE_OK);
    assert_memory_equal(payload, identity[1].id.bytes, GOSSIP_ID_BYTES);
    range_bytes(gossip_own_protocols, message);
    assert_memory_equal(payload + OFFER_BYTES, message, RANGE_BYTES);
    base_buffer_consume(&peer->out, base_buffer_length(&peer->out));
    const enum gossip_aead aead = gossip_aead_choose(payload[PROOF_BYTES], gossip_aead_offer());
    memcpy(payload, proof, PROOF_BYTES);
    payload[PROOF_BYTES] = gossip_aead_offer();
    assert_int_equal(gossip_noise_write(&handshake, payload, OFFER_BYTES, message + 2), BASE_OK);
    error = raw_say(peer, message, frame(message, GOSSIP_NOISE_MESSAGE_2 + OFFER_BYTES), &event);
    if (!error)
        assert_int_equal(event.kind, GOSSIP_SESSION_ESTABLISHED);
    gossip_noise_split(&handshake, aead, &peer->send, &peer->receive);
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

// The number in the prologue is that of the handshake, not GOSSIP_PROTOCOL: it stays 1.
static void test_another_format_of_the_handshake_gets_no_answer(void **state)
{
    (void)state;
    struct raw_peer peer;
    uint8_t proof[PROOF_BYTES];
    proof_of(&identity[0], proof);
    for (uint32_t format = 0; format < 40; format++) {
        assert_int_equal(raw_connect(&peer, format, gossip_own_protocols, proof),
                         format == 1 ? BASE_OK : BASE_EAUTH);
        assert_int_equal(base_buffer_length(&peer.out), 0);
        raw_free(&peer);
    }
}

// Even from a peer that knows the secret: it gets no answer.
static void test_an_impossible_range_of_protocols_is_refused(void **state)
{
    (void)state;
    static const struct gossip_protocols wrong[] = {{0, 0}, {0, 18}, {19, 18}, {1, 0}, {UINT16_MAX, 1}};
    struct raw_peer peer;
    uint8_t proof[PROOF_BYTES];
    proof_of(&identity[0], proof);
    for (size_t i = 0; i < LENGTH_OF(wrong); i++) {
        assert_int_equal(raw_connect(&peer, 1, wrong[i], proof), BASE_EFORMAT);
        assert_int_equal(base_buffer_length(&peer.out), 0);
        assert_false(gossip_session_established(peer.session));
        raw_free(&peer);
    }
}

// The same at the initiator: the responder is made by hand.
static void test_an_impossible_range_in_the_answer_is_refused(void **state)
{
    (void)state;
    const struct gossip_session_options options = options_of(true);
    struct gossip_noise_handshake handshake;
    struct gossip_session *session = NULL;
    struct gossip_session_event event;
    struct base_buffer out = {0};
    uint8_t prologue[] = "p2pml\1\0\0\0" CLUSTER, entropy[32], message[256], payload[PAYLOAD_BYTES];
    size_t consumed = 0;
    fill(entropy, sizeof entropy);
    const struct gossip_noise_options noise = {.prologue = prologue,
                                               .prologue_bytes = sizeof prologue - 1,
                                               .static_public = identity[1].exchange_public,
                                               .static_secret = identity[1].exchange_secret,
                                               .ephemeral_secret = entropy,
                                               .psk = PSK};
    gossip_noise_begin(&handshake, &noise);
    assert_int_equal(gossip_session_create(&options, &session), BASE_OK);
    assert_int_equal(gossip_session_start(session, &out), BASE_OK);
    assert_int_equal(gossip_noise_read(&handshake, base_buffer_head(&out) + 2,
                                       GOSSIP_NOISE_MESSAGE_0 + RANGE_BYTES, payload),
                     BASE_OK);
    base_buffer_consume(&out, base_buffer_length(&out));
    proof_of(&identity[1], payload);
    payload[PROOF_BYTES] = gossip_aead_offer();
    range_bytes((struct gossip_protocols){5, 4}, payload + OFFER_BYTES);
    assert_int_equal(gossip_noise_write(&handshake, payload, PAYLOAD_BYTES, message + 2), BASE_OK);
    const size_t bytes = frame(message, GOSSIP_NOISE_MESSAGE_1 + PAYLOAD_BYTES);
    assert_int_equal(gossip_session_receive(session, message, bytes, &consumed, &out, &event), BASE_EFORMAT);
    assert_int_equal(base_buffer_length(&out), 0); // neither its id nor its proof
    gossip_session_destroy(session);
    base_buffer_free(&out);
}

// All pairs of small ranges, against the definition: both ends complete the handshake, know each other's id
// and range, and the highest number that both speak.
static void test_both_ends_agree_on_a_protocol(void **state)
{
    (void)state;
    enum { MOST = 4 };
    unsigned none = 0;
    for (uint16_t i = 0; i < MOST * MOST * MOST * MOST; i++) {
        const struct gossip_protocols range[2] = {
            {(uint16_t)(1 + i % MOST), (uint16_t)(1 + i / MOST % MOST)},
            {(uint16_t)(1 + i / (MOST * MOST) % MOST), (uint16_t)(1 + i / (MOST * MOST * MOST))}};
        if (range[0].least > range[0].most || range[1].least > range[1].most)
            continue;
        uint16_t agreed = 0;
        for (uint16_t number = 1; number <= MOST; number++)
            if (number >= range[0].least && number <= range[0].most && number >= range[1].least &&
                number <= range[1].most)
                agreed = number;
        none += agreed == 0;
        struct gossip_session_options options[2] = {options_of(true), options_of(false)};
        struct gossip_session_event event;
        options[0].protocols = range[0];
        options[1].protocols = range[1];
        struct pair pair = pair_of(&options[0], &options[1]);
        for (unsigned step = 0; step < 3; step++) {
            const unsigned to = 1 - step % 2;
            assert_int_equal(hand_over(&pair, to, SIZE_MAX, &event), BASE_OK);
            assert_int_equal(event.kind, step == 0 ? GOSSIP_SESSION_NOTHING : GOSSIP_SESSION_ESTABLISHED);
            if (step == 0)
                continue;
            assert_memory_equal(&event.peer, &identity[1 - to].id, sizeof event.peer);
            assert_int_equal(event.protocol, agreed);
            assert_int_equal(event.protocols.least, range[1 - to].least);
            assert_int_equal(event.protocols.most, range[1 - to].most);
        }
        pair_free(&pair);
    }
    assert_in_range(none, 1, 99);
}

// Knowing the secret of the cluster does not give a peer another identity.
static void test_the_identity_of_another_is_refused(void **state)
{
    (void)state;
    struct raw_peer peer;
    uint8_t proof[PROOF_BYTES];
    proof_of(&identity[1], proof); // a valid binding, but of another static key
    assert_int_equal(raw_connect(&peer, 1, gossip_own_protocols, proof), BASE_EAUTH);
    assert_false(gossip_session_established(peer.session));
    raw_free(&peer);
    proof_of(&identity[0], proof);
    memcpy(proof, identity[1].id.bytes, GOSSIP_ID_BYTES); // another node's id with the own binding
    assert_int_equal(raw_connect(&peer, 1, gossip_own_protocols, proof), BASE_EAUTH);
    raw_free(&peer);
}

static void test_calls_out_of_order_are_refused(void **state)
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
    assert_int_equal(base_buffer_length(&out), 2 + GOSSIP_NOISE_MESSAGE_0 + RANGE_BYTES);
    gossip_session_destroy(session);
    gossip_session_destroy(NULL);
    base_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves_fit_after_all_splits),
        cmocka_unit_test(test_a_session_is_split_once),
        cmocka_unit_test(test_records_may_follow_the_handshake_at_once),
        cmocka_unit_test(test_the_wire_shows_no_plaintext),
        cmocka_unit_test(test_a_stranger_gets_no_answer),
        cmocka_unit_test(test_a_responder_accepts_each_of_its_secrets),
        cmocka_unit_test(test_calls_that_cross_become_one_session),
        cmocka_unit_test(test_a_crossed_call_is_answered_with_another_key),
        cmocka_unit_test(test_crossed_calls_accept_each_of_their_secrets),
        cmocka_unit_test(test_an_own_call_that_comes_back_is_refused),
        cmocka_unit_test(test_a_second_crossing_is_refused),
        cmocka_unit_test(test_a_changed_handshake_is_refused),
        cmocka_unit_test(test_another_format_of_the_handshake_gets_no_answer),
        cmocka_unit_test(test_an_impossible_range_of_protocols_is_refused),
        cmocka_unit_test(test_an_impossible_range_in_the_answer_is_refused),
        cmocka_unit_test(test_both_ends_agree_on_a_protocol),
        cmocka_unit_test(test_the_identity_of_another_is_refused),
        cmocka_unit_test(test_calls_out_of_order_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
