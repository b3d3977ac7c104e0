// The two halves of a stream. The first byte of the input chooses the AEAD and one of two cases: a peer with
// the keys that sends any records to an opener; or a sealer with small and large messages in the order that
// the input gives, whose output is opened and compared. Keys are fixed, so every input replays.
#include "base/buffer.h"
#include "gossip/session/records_private.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGE_LIMIT 40000u
#define WAITING_MAX   64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gossip_noise_cipher key = {.key = {7}};

static uint8_t seen; // reads every byte of a complete message

static void check(const struct gossip_opened *message)
{
    BASE_ASSERT(message->count > 0 && message->count <= MESSAGE_LIMIT);
    for (size_t i = 0; i < message->count; i++)
        seen ^= message->bytes[i];
}

// -- any records

// In pieces of `piece` bytes; false when the opener has failed.
static bool give(struct gossip_opener *opener, const uint8_t *bytes, size_t count, size_t piece)
{
    size_t at = 0, end = 0;
    while (end < count) {
        struct gossip_opened message;
        size_t consumed = 0;
        end += piece < count - end ? piece : count - end;
        do {
            const enum base_error error =
                gossip_opener_take(opener, bytes + at, end - at, &consumed, &message);
            BASE_ASSERT(error != BASE_ESTATE && error != BASE_ENOMEM && error != BASE_EAUTH);
            BASE_ASSERT(consumed <= end - at && (!error || !message.bytes));
            if (error)
                return false;
            if (message.bytes)
                check(&message);
            free(message.bytes);
            at += consumed;
        } while (message.bytes);
    }
    return true;
}

// Input: for every record u8 kind, u16 length, and that many bytes of plaintext (missing ones are zero).
static void say_records(const uint8_t *data, size_t size, size_t piece)
{
    static uint8_t record[RECORD_PREFIX + LIMIT_RECORD_BYTES], plain[RECORD_PLAIN];
    struct gossip_noise_cipher cipher = key;
    struct gossip_opener *opener = gossip_opener_create(&key, MESSAGE_LIMIT);
    struct base_reader reader = base_reader_of(data, size);
    BASE_ASSERT(opener != NULL);
    while (base_reader_left(&reader) >= 3) {
        const uint8_t kind = base_read_u8(&reader);
        const size_t bytes = base_read_u16(&reader) % (RECORD_PLAIN + 1);
        const size_t given = bytes < base_reader_left(&reader) ? bytes : base_reader_left(&reader);
        memset(plain, 0, bytes);
        if (given > 0)
            memcpy(plain, base_read_bytes(&reader, given), given);
        record_prefix(record, bytes, (enum record_kind)kind);
        gossip_noise_seal(&cipher, record, RECORD_PREFIX, plain, bytes, record + RECORD_PREFIX);
        record_step(&cipher);
        if (!give(opener, record, RECORD_PREFIX + bytes + RECORD_TAG, piece))
            break;
    }
    gossip_opener_destroy(opener);
}

// -- any mixture

struct waiting { // messages that must arrive, in order
    size_t bytes[WAITING_MAX];
    uint8_t first[WAITING_MAX];
    size_t at, count;
};

static void expect(struct waiting *waiting, size_t bytes, uint8_t first)
{
    waiting->bytes[waiting->count] = bytes;
    waiting->first[waiting->count++] = first;
}

static bool came(struct waiting *waiting, const struct gossip_opened *message)
{
    if (waiting->at == waiting->count || waiting->bytes[waiting->at] != message->count ||
        waiting->first[waiting->at] != message->bytes[0])
        return false;
    waiting->at++;
    return true;
}

static void open_all(struct gossip_opener *opener, const struct base_buffer *wire, size_t piece,
                     struct waiting *small, struct waiting *large)
{
    size_t at = 0, end = 0;
    const size_t count = base_buffer_length(wire);
    while (end < count) {
        struct gossip_opened message;
        size_t consumed = 0;
        end += piece < count - end ? piece : count - end;
        do {
            BASE_ASSERT(
                !gossip_opener_take(opener, base_buffer_head(wire) + at, end - at, &consumed, &message));
            at += consumed;
            if (message.bytes)
                BASE_ASSERT(came(message.count <= LIMIT_PROMPT_BYTES ? small : large, &message));
            free(message.bytes);
        } while (message.bytes);
    }
    BASE_ASSERT(at == count);
}

// Input: u8 what to do next, u16 how much of it.
static void mix(const uint8_t *data, size_t size, size_t piece)
{
    static uint8_t message[MESSAGE_LIMIT];
    struct gossip_sealer *sealer = gossip_sealer_create(&key);
    struct gossip_opener *opener = gossip_opener_create(&key, MESSAGE_LIMIT);
    struct waiting small = {0}, large = {0};
    struct base_buffer wire = {0};
    struct base_reader reader = base_reader_of(data, size);
    uint8_t *room = NULL;
    BASE_ASSERT(sealer && opener);
    while (base_reader_left(&reader) >= 3 && small.count < WAITING_MAX && large.count < WAITING_MAX) {
        const uint8_t what = base_read_u8(&reader);
        const size_t bytes = base_read_u16(&reader);
        const struct gossip_session_part parts[] = {{message, bytes / 3},
                                                    {message + bytes / 3, bytes - bytes / 3}};
        BASE_ASSERT(!base_buffer_reserve(&wire, 65536, SIZE_MAX, &room));
        if (what % 3 == 0) {
            base_buffer_commit(&wire, gossip_sealer_next(sealer, room, bytes));
        } else if (bytes > 0 && bytes <= LIMIT_PROMPT_BYTES) {
            const struct gossip_session_part own[] = {{&what, 1}, {message + 1, bytes - 1}};
            expect(&small, bytes, what);
            base_buffer_commit(&wire, gossip_sealer_prompt(sealer, own, 2, room));
        } else if (bytes <= MESSAGE_LIMIT && gossip_sealer_idle(sealer)) {
            message[0] = what;
            if (!gossip_sealer_begin(sealer, parts, 2))
                expect(&large, bytes, what);
        }
    }
    BASE_ASSERT(!base_buffer_reserve(&wire, 65536, SIZE_MAX, &room));
    base_buffer_commit(&wire, gossip_sealer_next(sealer, room, 65536));
    open_all(opener, &wire, piece, &small, &large);
    BASE_ASSERT(small.at == small.count && large.at == large.count);
    gossip_sealer_destroy(sealer);
    gossip_opener_destroy(opener);
    base_buffer_free(&wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const size_t piece = data[0] >> 2 == 0 ? SIZE_MAX : (size_t)(data[0] >> 2) * 37;
    key.aead = data[0] & 2 ? gossip_aead_choose(UINT8_MAX, gossip_aead_offer()) : GOSSIP_AEAD_CHACHAPOLY;
    if (data[0] & 1)
        mix(data + 1, size - 1, piece);
    else
        say_records(data + 1, size - 1, piece);
    return 0;
}
