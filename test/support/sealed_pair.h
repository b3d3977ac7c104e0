// A sealer and an opener with one key, for tests of gossip/session.
#ifndef TEST_SUPPORT_SEALED_PAIR_H
#define TEST_SUPPORT_SEALED_PAIR_H

#include "base/buffer.h"
#include "gossip/session/records_private.h"
#include "test/support/seeded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define LENGTH_OF(array) (sizeof(array) / sizeof(array)[0])
#define MESSAGE_LIMIT    (1u << 20)
#define PROMPT           LIMIT_PROMPT_BYTES

static struct gossip_noise_cipher key;

struct pair {
    struct gossip_sealer *sealer;
    struct gossip_opener *opener;
    struct base_buffer wire;
};

static inline int setup(void **state)
{
    (void)state;
    seeded_begin(20260417);
    fill(key.key, sizeof key.key);
    return 0;
}

static inline struct pair new_pair(size_t message_limit)
{
    struct pair pair = {.sealer = gossip_sealer_create(&key),
                        .opener = gossip_opener_create(&key, message_limit)};
    assert_true(pair.sealer && pair.opener);
    return pair;
}

static inline void pair_free(struct pair *pair)
{
    gossip_sealer_destroy(pair->sealer);
    gossip_opener_destroy(pair->opener);
    base_buffer_free(&pair->wire);
}

static inline void seal_prompt(struct pair *pair, const uint8_t *message, size_t bytes)
{
    const struct gossip_session_part part = {message, bytes};
    uint8_t *room = NULL;
    assert_int_equal(base_buffer_reserve(&pair->wire, GOSSIP_PROMPT_SEALED, SIZE_MAX, &room), BASE_OK);
    const size_t made = gossip_sealer_prompt(pair->sealer, &part, 1, room);
    assert_int_equal(made, bytes + GOSSIP_RECORD_OVERHEAD);
    base_buffer_commit(&pair->wire, made);
}

static inline void begin(struct pair *pair, const uint8_t *message, size_t bytes)
{
    // Parts of various lengths; the second one is often empty.
    const size_t first = bytes / 3, second = bytes % 2 == 0 ? 0 : bytes / 5, third = bytes / 7;
    const size_t rest = first + second + third;
    const struct gossip_session_part parts[] = {{message, first},
                                                {message + first, second},
                                                {message + first + second, third},
                                                {message + rest, bytes - rest}};
    assert_int_equal(gossip_sealer_begin(pair->sealer, parts, LENGTH_OF(parts)), BASE_OK);
    assert_false(gossip_sealer_idle(pair->sealer));
}

// As many records as fit into `room` bytes.
static inline size_t seal_some(struct pair *pair, size_t room)
{
    uint8_t *at = NULL;
    assert_int_equal(base_buffer_reserve(&pair->wire, room, SIZE_MAX, &at), BASE_OK);
    const size_t made = gossip_sealer_next(pair->sealer, at, room);
    assert_true(made <= room);
    base_buffer_commit(&pair->wire, made);
    return made;
}

static inline void seal(struct pair *pair, const uint8_t *message, size_t bytes)
{
    if (bytes <= PROMPT) {
        seal_prompt(pair, message, bytes);
        return;
    }
    begin(pair, message, bytes);
    while (!gossip_sealer_idle(pair->sealer))
        assert_true(seal_some(pair, 20000 + (size_t)base_rng_below(&rng, 200000)) > 0);
}

// One call with what a network might have delivered by now; `given` is how much of the wire the opener has
// seen. most = 0: a random split.
static inline enum base_error take(struct pair *pair, size_t *given, size_t most,
                                   struct gossip_opened *message)
{
    const size_t left = base_buffer_length(&pair->wire);
    const size_t more = most > 0 ? most : 1 + (size_t)base_rng_below(&rng, 1u << base_rng_below(&rng, 18));
    size_t consumed = 0;
    if (*given < left)
        *given += more < left - *given ? more : left - *given;
    enum base_error error =
        gossip_opener_take(pair->opener, base_buffer_head(&pair->wire), *given, &consumed, message);
    assert_true(consumed <= *given);
    base_buffer_consume(&pair->wire, consumed);
    *given -= consumed;
    return error;
}

// Calls `run` with each AEAD; returns how many tests failed.
static inline int with_each_aead(int (*run)(void))
{
    int failed = 0;
    for (unsigned aead = 0; aead < GOSSIP_AEADS; aead++) {
        key.aead = (enum gossip_aead)aead;
        printf("records of %s\n", gossip_aead_name(key.aead));
        if (gossip_aead_offer() & GOSSIP_AEAD_BIT(aead))
            failed += run();
        else
            printf("skipped: this processor does not compute it\n");
    }
    return failed;
}

#endif
