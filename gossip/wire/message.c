// The fields of messages, and their valid values.
#include "gossip/wire/fields.h"
#include <math.h>

#define SIZE_OF(member) sizeof((struct gossip_message *)0)->as.member
#define FIELD(type, member, most)                                                                            \
    {                                                                                                        \
        type, offsetof(struct gossip_message, as.member), SIZE_OF(member), 0, most                           \
    }
#define UINT(member, most) FIELD(GOSSIP_FIELD_UINT, member, most)
#define U32(member)        FIELD(GOSSIP_FIELD_UINT, member, UINT32_MAX)
#define U64(member)        FIELD(GOSSIP_FIELD_UINT, member, UINT64_MAX)
#define FLOAT(member)      FIELD(GOSSIP_FIELD_FLOAT, member, 0)
#define NAME(member)       FIELD(GOSSIP_FIELD_NAME, member, 0)
#define TEXT(member)       FIELD(GOSSIP_FIELD_TEXT, member, 0)
// `member`_bytes bytes at `member`.
#define PAYLOAD(member, most)                                                                                \
    {                                                                                                        \
        GOSSIP_FIELD_PAYLOAD, offsetof(struct gossip_message, as.member##_bytes), SIZE_OF(member##_bytes),   \
            offsetof(struct gossip_message, as.member), most                                                 \
    }

#define REMOVED_LEAST (8u + 64u) // of the list: its number and its signature

_Static_assert(1 <= GOSSIP_PROTOCOL_LEAST && GOSSIP_PROTOCOL_LEAST <= GOSSIP_PROTOCOL &&
                   GOSSIP_PROTOCOL <= UINT16_MAX,
               "a range");
const struct gossip_protocols gossip_own_protocols = {GOSSIP_PROTOCOL_LEAST, GOSSIP_PROTOCOL};

static const struct gossip_field greeting[] = {
    TEXT(greeting.version),   NAME(greeting.name),       TEXT(greeting.model),    U64(greeting.schema),
    U64(greeting.parameters), U64(greeting.instance_id), TEXT(greeting.rules),    TEXT(greeting.told),
    U64(greeting.own[0]),     U64(greeting.own[1]),      UINT(greeting.begun, 1), U32(greeting.shard),
    TEXT(greeting.seen),
};
_Static_assert(GOSSIP_OWN_WORDS == 2, "a field for each word");

static const struct gossip_field hello[] = {
    U64(hello.epoch),
    U64(hello.sequence),
    U64(hello.reference_hash),
    U64(hello.correction_hash),
    U64(hello.resync_offset),
    UINT(hello.answer, UINT8_MAX),
    UINT(hello.standing, GOSSIP_FINISHED),
    U64(hello.scaling),
};

static const struct gossip_field exchange[] = {
    U64(exchange.epoch),
    U64(exchange.sequence),
    U64(exchange.clock),
    UINT(exchange.standing, GOSSIP_FINISHED),
    FLOAT(exchange.step_scale),
    FLOAT(exchange.weight),
    FLOAT(exchange.limit),
    FLOAT(exchange.bound),
    FLOAT(exchange.progress),
    U64(exchange.pace_ns),
    UINT(exchange.form, GOSSIP_DELTA_BLOCK),
    U64(exchange.offset),
    UINT(exchange.keys, 1),
    PAYLOAD(exchange.delta, UINT32_MAX),
    PAYLOAD(exchange.moment, UINT32_MAX),
    PAYLOAD(exchange.news, GOSSIP_MESSAGE_NEWS),
};

static const struct gossip_field busy[] = {U64(busy.epoch), U64(busy.sequence)};
static const struct gossip_field bye[] = {TEXT(bye.reason)};
static const struct gossip_field members[] = {PAYLOAD(members.packet, LIMIT_GOSSIP_BYTES)};
static const struct gossip_field ask[] = {U64(ask.snapshot), UINT(ask.part, GOSSIP_PART_LAST),
                                          U32(ask.block)};
static const struct gossip_field parked[] = {U64(parked.epoch), U64(parked.sequence), U64(parked.round)};

static const struct gossip_field tell[] = {
    U64(tell.snapshot),
    UINT(tell.parts, (1u << (GOSSIP_PART_LAST + 1)) - 1),
    UINT(tell.part, GOSSIP_PART_LAST),
    U32(tell.block),
    U64(tell.round),
    U64(tell.step),
    U64(tell.hash),
    PAYLOAD(tell.values, LIMIT_SNAPSHOT_BLOCK * sizeof(float)),
};

static const struct gossip_field statistics[] = {
    U64(statistics.generation),
    UINT(statistics.rows, GOSSIP_STATISTICS_ROWS),
    UINT(statistics.columns, LIMIT_STATISTICS_COLUMNS),
    UINT(statistics.first, LIMIT_STATISTICS_COLUMNS),
    PAYLOAD(statistics.spreads, GOSSIP_STATISTICS_BLOCK *GOSSIP_SPREAD_BYTES),
};

static const struct gossip_field merge[] = {
    UINT(merge.phase, GOSSIP_MERGE_DECIDED),
    UINT(merge.gives, 1),
    U64(merge.hash),
    PAYLOAD(merge.keys, GOSSIP_MERGE_MOST * sizeof(uint64_t)),
};

static const struct gossip_field relay[] = {
    UINT(relay.verb, GOSSIP_RELAY_LAST_VERB),
    U32(relay.stream),
    U64(relay.amount),
    PAYLOAD(relay.bytes, GOSSIP_RELAY_CHUNK),
};

static const struct gossip_field removed[] = {
    PAYLOAD(removed.list, REMOVED_LEAST + LIMIT_REMOVED * GOSSIP_RELAY_ID_BYTES),
};

#define KIND(name, fields)                                                                                   \
    {                                                                                                        \
        name, fields, sizeof fields / sizeof *fields                                                         \
    }
static const struct gossip_kind kinds[] = {
    [GOSSIP_GREETING] = KIND("greeting", greeting),
    [GOSSIP_HELLO] = KIND("hello", hello),
    [GOSSIP_XCHG] = KIND("xchg", exchange),
    [GOSSIP_XACK] = KIND("xack", exchange),
    [GOSSIP_BUSY] = KIND("busy", busy),
    [GOSSIP_BYE] = KIND("bye", bye),
    [GOSSIP_MEMBERS] = KIND("members", members),
    [GOSSIP_SNAPSHOT_ASK] = KIND("snapshot_ask", ask),
    [GOSSIP_SNAPSHOT_TELL] = KIND("snapshot_tell", tell),
    [GOSSIP_PARKED] = KIND("parked", parked),
    [GOSSIP_STATISTICS] = KIND("statistics", statistics),
    [GOSSIP_MERGE] = KIND("merge", merge),
    [GOSSIP_RELAY] = KIND("relay", relay),
    [GOSSIP_REMOVED] = KIND("removed", removed),
};

const struct gossip_kind *gossip_kind_of(enum gossip_message_kind kind)
{
    const size_t at = (size_t)kind;
    return at < sizeof kinds / sizeof *kinds && kinds[at].name ? &kinds[at] : NULL;
}

const char *gossip_message_kind_name(enum gossip_message_kind kind)
{
    const struct gossip_kind *found = gossip_kind_of(kind);
    return found ? found->name : "unknown";
}

bool gossip_text_valid(const char *text, size_t length, enum gossip_field_type type)
{
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        const bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        const bool name = alphanumeric || c == '.' || c == '_' || c == '-';
        if (type == GOSSIP_FIELD_NAME ? !name : c < ' ' || c > '~')
            return false;
    }
    return type != GOSSIP_FIELD_NAME || length > 0;
}

static bool exchange_valid(const struct gossip_exchange_message *e)
{
    if (!isfinite(e->step_scale) || e->step_scale < 0.0f || !isfinite(e->progress) || e->progress < 0.0f)
        return false;
    if (!(e->limit >= 0.0f) || !(e->bound >= 0.0f))
        return false;
    if (e->form == GOSSIP_DELTA_BLOCK)
        return e->weight == 0.5f && e->keys == 0;
    return e->weight > 0.0f && e->weight <= 1.0f && e->offset == 0;
}

static bool tell_valid(const struct gossip_snapshot_tell *t)
{
    if (t->snapshot < 1 || (t->parts & 1u << t->part) == 0)
        return false;
    if (t->part == GOSSIP_PART_BLOB)
        return t->block == 0 && t->values_bytes <= LIMIT_BLOB_BYTES;
    return t->values_bytes > 0 && t->values_bytes % sizeof(float) == 0;
}

static bool statistics_valid(const struct gossip_statistics_message *s)
{
    if (s->rows < 1 || s->first >= s->columns || s->first % GOSSIP_STATISTICS_BLOCK != 0)
        return false;
    const uint32_t left = s->columns - s->first;
    return s->spreads_bytes ==
           GOSSIP_SPREAD_BYTES * (left < GOSSIP_STATISTICS_BLOCK ? left : GOSSIP_STATISTICS_BLOCK);
}

static bool merge_valid(const struct gossip_merge_message *m)
{
    return m->phase > GOSSIP_MERGE_NONE && m->keys_bytes > 0 && m->keys_bytes % sizeof(uint64_t) == 0;
}

static bool relay_valid(const struct gossip_relay_message *r)
{
    switch ((enum gossip_relay_verb)r->verb) {
    case GOSSIP_RELAY_OPEN:
    case GOSSIP_RELAY_CALLED:
        return r->bytes_bytes == GOSSIP_RELAY_ID_BYTES;
    case GOSSIP_RELAY_DATA:
        return r->bytes_bytes > 0 && r->amount == 0;
    case GOSSIP_RELAY_CREDIT:
    case GOSSIP_RELAY_CLOSE:
        return r->bytes_bytes == 0;
    }
    return false;
}

static bool removed_valid(const struct gossip_removed_message *r)
{
    return r->list_bytes >= REMOVED_LEAST && (r->list_bytes - REMOVED_LEAST) % GOSSIP_RELAY_ID_BYTES == 0;
}

bool gossip_message_valid(const struct gossip_message *message)
{
    switch (message->kind) {
    case GOSSIP_XCHG:
    case GOSSIP_XACK:
        return exchange_valid(&message->as.exchange);
    case GOSSIP_MEMBERS:
        return message->as.members.packet_bytes > 0;
    case GOSSIP_SNAPSHOT_TELL:
        return tell_valid(&message->as.tell);
    case GOSSIP_STATISTICS:
        return statistics_valid(&message->as.statistics);
    case GOSSIP_MERGE:
        return merge_valid(&message->as.merge);
    case GOSSIP_RELAY:
        return relay_valid(&message->as.relay);
    case GOSSIP_REMOVED:
        return removed_valid(&message->as.removed);
    case GOSSIP_GREETING:
    case GOSSIP_HELLO:
    case GOSSIP_BUSY:
    case GOSSIP_BYE:
    case GOSSIP_SNAPSHOT_ASK:
    case GOSSIP_PARKED:
        break;
    }
    return true;
}

size_t gossip_message_payloads(const struct gossip_message *message,
                               struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS])
{
    const struct gossip_kind *kind = gossip_kind_of(message->kind);
    const char *at = (const char *)message;
    size_t n = 0;
    for (unsigned i = 0; kind && i < kind->count; i++) {
        const struct gossip_field *field = &kind->fields[i];
        if (field->type != GOSSIP_FIELD_PAYLOAD)
            continue;
        const uint32_t count = *(const uint32_t *)(const void *)(at + field->offset);
        if (count > 0)
            payloads[n++] =
                (struct gossip_payload){*(const uint8_t *const *)(const void *)(at + field->payload), count};
    }
    return n;
}
