// What messages are made of, and what their fields may say.
#include "gossip/wire/fields.h"
#include <math.h>

// Elements of the header array, kind included.
enum {
    FIELDS_GREETING = 14,
    FIELDS_HELLO = 8,
    FIELDS_EXCHANGE = 13,
    FIELDS_BUSY = 3,
    FIELDS_BYE = 2,
    FIELDS_MEMBERS = 2,
    FIELDS_SNAPSHOT_ASK = 4,
    FIELDS_SNAPSHOT_TELL = 9,
    FIELDS_CLOCK = 2,
};

unsigned gossip_message_fields(enum gossip_message_kind kind)
{
    switch (kind) {
    case GOSSIP_GREETING:
        return FIELDS_GREETING;
    case GOSSIP_HELLO:
        return FIELDS_HELLO;
    case GOSSIP_XCHG:
    case GOSSIP_XACK:
        return FIELDS_EXCHANGE;
    case GOSSIP_BUSY:
        return FIELDS_BUSY;
    case GOSSIP_BYE:
        return FIELDS_BYE;
    case GOSSIP_MEMBERS:
        return FIELDS_MEMBERS;
    case GOSSIP_SNAPSHOT_ASK:
        return FIELDS_SNAPSHOT_ASK;
    case GOSSIP_SNAPSHOT_TELL:
        return FIELDS_SNAPSHOT_TELL;
    case GOSSIP_CLOCK:
        return FIELDS_CLOCK;
    }
    return 0;
}

const char *gossip_message_kind_name(enum gossip_message_kind kind)
{
    switch (kind) {
    case GOSSIP_GREETING:
        return "greeting";
    case GOSSIP_HELLO:
        return "hello";
    case GOSSIP_XCHG:
        return "xchg";
    case GOSSIP_XACK:
        return "xack";
    case GOSSIP_BUSY:
        return "busy";
    case GOSSIP_BYE:
        return "bye";
    case GOSSIP_MEMBERS:
        return "members";
    case GOSSIP_SNAPSHOT_ASK:
        return "snapshot_ask";
    case GOSSIP_SNAPSHOT_TELL:
        return "snapshot_tell";
    case GOSSIP_CLOCK:
        return "clock";
    }
    return "unknown";
}

bool gossip_text_valid(const char *text, size_t length, enum gossip_charset charset)
{
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        const bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        const bool name = alphanumeric || c == '.' || c == '_' || c == '-';
        if (charset == GOSSIP_CHARSET_NAME ? !name : c < ' ' || c > '~')
            return false;
    }
    return charset != GOSSIP_CHARSET_NAME || length > 0;
}

bool gossip_exchange_message_valid(const struct gossip_exchange_message *exchange)
{
    if (!isfinite(exchange->step_scale) || exchange->step_scale < 0.0f ||
        exchange->standing > GOSSIP_FINISHED)
        return false;
    if (exchange->form == GOSSIP_DELTA_BLOCK)
        return exchange->weight == 0.5f && exchange->keys == 0;
    return exchange->form == GOSSIP_DELTA_SPARSE && exchange->weight > 0.0f && exchange->weight <= 1.0f &&
           exchange->offset == 0 && exchange->keys <= 1;
}

bool gossip_members_valid(const struct gossip_members_message *members)
{
    return members->packet_bytes >= 1 && members->packet_bytes <= LIMIT_GOSSIP_BYTES;
}

bool gossip_tell_valid(const struct gossip_snapshot_tell *tell)
{
    return tell->snapshot >= 1 && tell->parts < 1u << GOSSIP_PARTS && tell->part < GOSSIP_PARTS &&
           (tell->parts & 1u << tell->part) != 0 && tell->values_bytes >= sizeof(float) &&
           tell->values_bytes <= LIMIT_SNAPSHOT_BLOCK * sizeof(float) &&
           tell->values_bytes % sizeof(float) == 0;
}

static size_t add_payload(struct gossip_payload *payloads, size_t n, const uint8_t *bytes, size_t count)
{
    if (count > 0)
        payloads[n++] = (struct gossip_payload){bytes, count};
    return n;
}

size_t gossip_message_payloads(const struct gossip_message *message,
                               struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS])
{
    size_t n = 0;
    switch (message->kind) {
    case GOSSIP_XCHG:
    case GOSSIP_XACK:
        n = add_payload(payloads, n, message->as.exchange.delta, message->as.exchange.delta_bytes);
        return add_payload(payloads, n, message->as.exchange.moment, message->as.exchange.moment_bytes);
    case GOSSIP_MEMBERS:
        return add_payload(payloads, n, message->as.members.packet, message->as.members.packet_bytes);
    case GOSSIP_SNAPSHOT_TELL:
        return add_payload(payloads, n, message->as.tell.values, message->as.tell.values_bytes);
    case GOSSIP_GREETING:
    case GOSSIP_HELLO:
    case GOSSIP_BUSY:
    case GOSSIP_BYE:
    case GOSSIP_SNAPSHOT_ASK:
    case GOSSIP_CLOCK:
        break;
    }
    return 0;
}
