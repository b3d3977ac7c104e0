#include "gossip/session/records_private.h"
#include <sodium.h>
#include <stdlib.h>

struct gossip_opener {
    struct gossip_noise_cipher cipher;
    struct gossip_aead_key *ready; // the cipher's key, prepared
    size_t message_limit;
    bool dead;
    // The larger message that is being assembled; NULL if there is none.
    uint8_t *message;
    size_t total, filled;
};

struct frame { // one record as received
    enum record_kind kind;
    const uint8_t *bytes;
    size_t plain; // bytes of its plaintext
};

struct gossip_opener *gossip_opener_create(const struct gossip_noise_cipher *cipher, size_t message_limit)
{
    struct gossip_opener *opener = calloc(1, sizeof *opener);
    if (!opener)
        return NULL;
    opener->cipher = *cipher;
    opener->message_limit = message_limit;
    opener->ready = gossip_aead_key_create(cipher->aead, cipher->key);
    if (opener->ready)
        return opener;
    gossip_opener_destroy(opener);
    return NULL;
}

static void drop_message(struct gossip_opener *opener)
{
    BASE_ASSERT(!opener->message || opener->filled <= opener->total);
    if (opener->message)
        sodium_memzero(opener->message, opener->filled);
    free(opener->message);
    opener->message = NULL;
}

void gossip_opener_destroy(struct gossip_opener *opener)
{
    if (!opener)
        return;
    drop_message(opener);
    gossip_aead_key_destroy(opener->ready);
    sodium_memzero(opener, sizeof *opener);
    free(opener);
}

static size_t prompt_limit(const struct gossip_opener *opener)
{
    return opener->message_limit < LIMIT_PROMPT_BYTES ? opener->message_limit : LIMIT_PROMPT_BYTES;
}

// Checks a prefix before any byte after it is kept.
static enum base_error read_prefix(const struct gossip_opener *opener, const uint8_t *in, struct frame *frame)
{
    struct base_reader reader = base_reader_of(in, RECORD_PREFIX);
    const size_t length = base_read_u16(&reader);
    const uint8_t kind = base_read_u8(&reader);
    if (length <= RECORD_TAG) // an empty record is invalid
        return BASE_EFORMAT;
    *frame = (struct frame){.kind = (enum record_kind)kind, .bytes = in, .plain = length - RECORD_TAG};
    switch (kind) {
    case RECORD_WHOLE:
        return frame->plain <= prompt_limit(opener) ? BASE_OK : BASE_ELIMIT;
    case RECORD_BEGIN:
        return !opener->message && frame->plain == BEGIN_BYTES ? BASE_OK : BASE_EFORMAT;
    case RECORD_MORE:
        return opener->message && frame->plain <= opener->total - opener->filled ? BASE_OK : BASE_EFORMAT;
    default:
        return BASE_EFORMAT;
    }
}

static enum base_error open_frame(struct gossip_opener *opener, const struct frame *frame, uint8_t *plain)
{
    struct gossip_noise_cipher *cipher = &opener->cipher;
    BASE_ASSERT(cipher->nonce < UINT64_MAX);
    const struct gossip_aead_message message = {
        cipher->nonce, frame->bytes, RECORD_PREFIX, frame->bytes + RECORD_PREFIX, frame->plain + RECORD_TAG,
        plain};
    enum base_error error = gossip_aead_open(opener->ready, &message);
    if (error)
        return error;
    cipher->nonce++;
    if (record_step(cipher))
        gossip_aead_key_replace(opener->ready, cipher->key);
    return BASE_OK;
}

static enum base_error open_whole(struct gossip_opener *opener, const struct frame *frame,
                                  struct gossip_opened *message)
{
    uint8_t *bytes = malloc(frame->plain);
    enum base_error error = bytes ? open_frame(opener, frame, bytes) : BASE_ENOMEM;
    if (error) {
        free(bytes);
        return error;
    }
    *message = (struct gossip_opened){.bytes = bytes, .count = frame->plain};
    return BASE_OK;
}

static enum base_error open_begin(struct gossip_opener *opener, const struct frame *frame)
{
    BASE_ASSERT(!opener->message);
    uint8_t length[BEGIN_BYTES];
    enum base_error error = open_frame(opener, frame, length);
    if (error)
        return error;
    struct base_reader reader = base_reader_of(length, sizeof length);
    opener->total = base_read_u32(&reader);
    opener->filled = 0;
    if (opener->total > opener->message_limit)
        return BASE_ELIMIT;
    if (opener->total <= LIMIT_PROMPT_BYTES) // every message has only one form
        return BASE_EFORMAT;
    opener->message = malloc(opener->total);
    return opener->message ? BASE_OK : BASE_ENOMEM;
}

static enum base_error open_more(struct gossip_opener *opener, const struct frame *frame,
                                 struct gossip_opened *message)
{
    BASE_ASSERT(opener->message && opener->filled < opener->total);
    enum base_error error = open_frame(opener, frame, opener->message + opener->filled);
    if (error)
        return error;
    opener->filled += frame->plain;
    if (opener->filled < opener->total)
        return BASE_OK;
    *message = (struct gossip_opened){.bytes = opener->message, .count = opener->total};
    opener->message = NULL;
    return BASE_OK;
}

static enum base_error open_record(struct gossip_opener *opener, const struct frame *frame,
                                   struct gossip_opened *message)
{
    switch (frame->kind) {
    case RECORD_WHOLE:
        return open_whole(opener, frame, message);
    case RECORD_BEGIN:
        return open_begin(opener, frame);
    default:
        return open_more(opener, frame, message);
    }
}

static enum base_error bury(struct gossip_opener *opener, enum base_error error)
{
    BASE_ASSERT(!opener->dead);
    drop_message(opener);
    gossip_aead_key_destroy(opener->ready);
    opener->ready = NULL;
    sodium_memzero(&opener->cipher, sizeof opener->cipher);
    opener->dead = true;
    return error;
}

enum base_error gossip_opener_take(struct gossip_opener *opener, const uint8_t *in, size_t in_bytes,
                                   size_t *consumed, struct gossip_opened *message)
{
    size_t at = 0;
    *consumed = 0;
    *message = (struct gossip_opened){0};
    if (opener->dead)
        return BASE_ESTATE;
    while (!message->bytes && in_bytes - at >= RECORD_PREFIX) {
        struct frame frame;
        enum base_error error = read_prefix(opener, in + at, &frame);
        if (error)
            return bury(opener, error);
        const size_t whole = frame.plain + GOSSIP_RECORD_OVERHEAD;
        if (in_bytes - at < whole)
            break;
        error = open_record(opener, &frame, message);
        if (error)
            return bury(opener, error);
        at += whole;
    }
    *consumed = at;
    return BASE_OK;
}
