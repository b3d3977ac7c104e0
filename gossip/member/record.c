#include "gossip/member/record.h"

#include <string.h>

#define RECORD_BYTES_MAX 512u
#define HAS_FIRST_MODEL  64u // in the byte of the flags: the digest follows the age
_Static_assert(!(GOSSIP_RECORD_FLAGS & HAS_FIRST_MODEL), "it is no flag of the record's own");

static const char record_context[] = "p2pml record", suspicion_context[] = "p2pml accusation";

const char *gossip_access_name(enum gossip_access access)
{
    static const char *const names[] = {
        [GOSSIP_ACCESS_USUAL] = "usual", [GOSSIP_ACCESS_OPEN] = "open", [GOSSIP_ACCESS_HARD] = "hard"};
    _Static_assert(sizeof names / sizeof *names == GOSSIP_ACCESSES, "each has a name");
    return names[access];
}

int gossip_version_compare(const struct gossip_version *a, const struct gossip_version *b)
{
    if (a->generation != b->generation)
        return a->generation < b->generation ? -1 : 1;
    if (a->instance_id != b->instance_id)
        return a->instance_id < b->instance_id ? -1 : 1;
    if (a->incarnation != b->incarnation)
        return a->incarnation < b->incarnation ? -1 : 1;
    return 0;
}

static void write_version(const struct gossip_version *version, struct base_writer *writer)
{
    base_write_u64(writer, version->generation);
    base_write_u64(writer, version->instance_id);
    base_write_u32(writer, version->incarnation);
}

static void read_version(struct base_reader *reader, struct gossip_version *version)
{
    version->generation = base_read_u64(reader);
    version->instance_id = base_read_u64(reader);
    version->incarnation = base_read_u32(reader);
}

static void write_address(const struct gossip_address *address, struct base_writer *writer)
{
    base_write_u8(writer, address->family);
    base_write_bytes(writer, address->ip, address->family == 4 ? 4 : 16);
    base_write_u16(writer, address->port);
}

static bool read_address(struct base_reader *reader, bool may_be_none, struct gossip_address *address)
{
    memset(address, 0, sizeof *address);
    address->family = base_read_u8(reader);
    if (address->family == 0 && may_be_none)
        return true;
    if (address->family != 4 && address->family != 6)
        return false;
    size_t bytes = address->family == 4 ? 4 : 16;
    const uint8_t *ip = base_read_bytes(reader, bytes);
    if (ip)
        memcpy(address->ip, ip, bytes);
    address->port = base_read_u16(reader);
    return address->port != 0;
}

static bool name_character(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

static bool read_name(struct base_reader *reader, char name[LIMIT_NODE_NAME_BYTES])
{
    size_t length = base_read_u8(reader);
    if (length == 0 || length >= LIMIT_NODE_NAME_BYTES)
        return false;
    const uint8_t *text = base_read_bytes(reader, length);
    if (!text)
        return false;
    memset(name, 0, LIMIT_NODE_NAME_BYTES);
    for (size_t i = 0; i < length; i++) {
        name[i] = (char)text[i];
        if (!name_character(name[i]))
            return false;
    }
    return true;
}

// A bit for each setting that was changed, then those.
static void write_settings(const struct gossip_setting *settings, struct base_writer *writer)
{
    uint8_t changed = 0;
    for (size_t i = 0; i < GOSSIP_SETTINGS; i++)
        changed |= (uint8_t)((settings[i].round > 0) << i);
    base_write_u8(writer, changed);
    for (size_t i = 0; i < GOSSIP_SETTINGS; i++) {
        if (settings[i].round == 0)
            continue;
        base_write_u64(writer, settings[i].round);
        base_write_u64(writer, settings[i].by);
        base_write_f64(writer, settings[i].value);
        base_write_f64(writer, settings[i].before);
    }
}

// One form of every setting: the only value that is no number is the NAN of `before`.
static bool is_setting(const struct gossip_setting *setting)
{
    const double none = (double)NAN;
    return setting->round > 0 && isfinite(setting->value) &&
           (isfinite(setting->before) || memcmp(&setting->before, &none, sizeof none) == 0);
}

static bool read_settings(struct base_reader *reader, struct gossip_setting *settings)
{
    const uint8_t changed = base_read_u8(reader);
    if (changed >> GOSSIP_SETTINGS)
        return false;
    for (size_t i = 0; i < GOSSIP_SETTINGS; i++) {
        if (!(changed >> i & 1))
            continue;
        settings[i].round = base_read_u64(reader);
        settings[i].by = base_read_u64(reader);
        settings[i].value = base_read_f64(reader);
        settings[i].before = base_read_f64(reader);
        if (!is_setting(&settings[i]))
            return false;
    }
    return true;
}

static void write_ways(const struct gossip_record *record, struct base_writer *writer)
{
    base_write_u8(writer, record->ways);
    base_write_u8(writer, record->access);
    base_write_u8(writer, record->n_relays);
    for (size_t i = 0; i < record->n_relays; i++)
        base_write_u64(writer, record->relays[i]);
}

static bool read_ways(struct base_reader *reader, struct gossip_record *record)
{
    record->ways = base_read_u8(reader);
    record->access = base_read_u8(reader);
    record->n_relays = base_read_u8(reader);
    if ((record->ways & ~GOSSIP_WAYS) || record->access >= GOSSIP_ACCESSES ||
        record->n_relays > GOSSIP_RECORD_RELAYS)
        return false;
    for (size_t i = 0; i < record->n_relays; i++)
        record->relays[i] = base_read_u64(reader);
    return true;
}

// Everything but the signature.
static void write_signed_part(const struct gossip_record *record, struct base_writer *writer)
{
    size_t length = strlen(record->name);
    base_write_bytes(writer, record->id.bytes, GOSSIP_ID_BYTES);
    write_version(&record->version, writer);
    base_write_u8(writer, (uint8_t)(record->flags | (record->first_model ? HAS_FIRST_MODEL : 0u)));
    base_write_u8(writer, (uint8_t)length);
    base_write_bytes(writer, record->name, length);
    base_write_u32(writer, record->slot);
    base_write_u32(writer, record->shard);
    base_write_u32(writer, record->group);
    base_write_u32(writer, record->examples);
    base_write_u64(writer, record->stop_round);
    base_write_u64(writer, record->age_ms);
    if (record->first_model)
        base_write_u64(writer, record->first_model);
    base_write_bytes(writer, record->exchange_public, sizeof record->exchange_public);
    base_write_u8(writer, record->n_addresses);
    for (size_t i = 0; i < record->n_addresses; i++)
        write_address(&record->addresses[i], writer);
    if (record->pages.family == 0)
        base_write_u8(writer, 0);
    else
        write_address(&record->pages, writer);
    write_ways(record, writer);
    write_settings(record->settings, writer);
}

static size_t signed_record(const struct gossip_record *record, uint8_t bytes[RECORD_BYTES_MAX])
{
    struct base_writer writer = base_writer_of(bytes, RECORD_BYTES_MAX);
    base_write_bytes(&writer, record_context, sizeof record_context);
    write_signed_part(record, &writer);
    BASE_ASSERT(!writer.failed);
    return base_writer_used(&writer);
}

void gossip_record_sign(struct gossip_record *record, const struct gossip_identity *identity)
{
    uint8_t bytes[RECORD_BYTES_MAX];
    size_t count = signed_record(record, bytes);
    gossip_identity_sign(identity, bytes, count, record->signature);
}

static bool verify(const struct gossip_verifier *verifier, const struct gossip_id *id, const uint8_t *bytes,
                   size_t count, const uint8_t signature[64])
{
    return verifier ? verifier->verify(verifier->owner, id, bytes, count, signature)
                    : gossip_identity_verify(id, bytes, count, signature);
}

bool gossip_record_verify(const struct gossip_record *record, const struct gossip_verifier *verifier)
{
    uint8_t bytes[RECORD_BYTES_MAX];
    size_t count = signed_record(record, bytes);
    return verify(verifier, &record->id, bytes, count, record->signature);
}

void gossip_record_write(const struct gossip_record *record, struct base_writer *writer)
{
    write_signed_part(record, writer);
    base_write_bytes(writer, record->signature, sizeof record->signature);
}

size_t gossip_record_bytes(const struct gossip_record *record)
{
    uint8_t bytes[RECORD_BYTES_MAX];
    struct base_writer writer = base_writer_of(bytes, sizeof bytes);
    gossip_record_write(record, &writer);
    return base_writer_used(&writer);
}

static void take(struct base_reader *reader, void *to, size_t bytes)
{
    const uint8_t *from = base_read_bytes(reader, bytes);
    if (from)
        memcpy(to, from, bytes);
}

enum base_error gossip_record_read(struct base_reader *reader, struct gossip_record *record)
{
    struct gossip_record read;
    memset(&read, 0, sizeof read); // compared as a whole, including padding
    take(reader, read.id.bytes, GOSSIP_ID_BYTES);
    read_version(reader, &read.version);
    const uint8_t flags = base_read_u8(reader);
    if (!read_name(reader, read.name) || (flags & ~(GOSSIP_RECORD_FLAGS | HAS_FIRST_MODEL)))
        return BASE_EFORMAT;
    read.flags = flags & GOSSIP_RECORD_FLAGS;
    read.slot = base_read_u32(reader);
    read.shard = base_read_u32(reader);
    read.group = base_read_u32(reader);
    read.examples = base_read_u32(reader);
    read.stop_round = base_read_u64(reader);
    read.age_ms = base_read_u64(reader);
    if (flags & HAS_FIRST_MODEL)
        read.first_model = base_read_u64(reader);
    if ((flags & HAS_FIRST_MODEL) && read.first_model == 0)
        return BASE_EFORMAT;
    if ((read.stop_round != 0) != ((read.flags & GOSSIP_RECORD_STOPPING) != 0))
        return BASE_EFORMAT;
    take(reader, read.exchange_public, sizeof read.exchange_public);
    read.n_addresses = base_read_u8(reader);
    if (read.n_addresses == 0 || read.n_addresses > LIMIT_ADDRESSES)
        return BASE_EFORMAT;
    for (size_t i = 0; i < read.n_addresses; i++)
        if (!read_address(reader, false, &read.addresses[i]))
            return BASE_EFORMAT;
    if (!read_address(reader, true, &read.pages) || !read_ways(reader, &read) ||
        !read_settings(reader, read.settings))
        return BASE_EFORMAT;
    take(reader, read.signature, sizeof read.signature);
    if (reader->failed)
        return BASE_EFORMAT;
    *record = read;
    return BASE_OK;
}

static void write_suspected(const struct gossip_suspicion *suspicion, struct base_writer *writer)
{
    base_write_bytes(writer, suspicion->subject.bytes, GOSSIP_ID_BYTES);
    base_write_bytes(writer, suspicion->suspector.bytes, GOSSIP_ID_BYTES);
    write_version(&suspicion->version, writer);
    base_write_u8(writer, suspicion->class);
}

static size_t signed_suspicion(const struct gossip_suspicion *suspicion, uint8_t bytes[RECORD_BYTES_MAX])
{
    struct base_writer writer = base_writer_of(bytes, RECORD_BYTES_MAX);
    base_write_bytes(&writer, suspicion_context, sizeof suspicion_context);
    write_suspected(suspicion, &writer);
    BASE_ASSERT(!writer.failed);
    return base_writer_used(&writer);
}

void gossip_suspicion_sign(struct gossip_suspicion *suspicion, const struct gossip_identity *identity)
{
    uint8_t bytes[RECORD_BYTES_MAX];
    size_t count = signed_suspicion(suspicion, bytes);
    gossip_identity_sign(identity, bytes, count, suspicion->signature);
}

bool gossip_suspicion_verify(const struct gossip_suspicion *suspicion, const struct gossip_verifier *verifier)
{
    uint8_t bytes[RECORD_BYTES_MAX];
    size_t count = signed_suspicion(suspicion, bytes);
    return verify(verifier, &suspicion->suspector, bytes, count, suspicion->signature);
}

void gossip_suspicion_write(const struct gossip_suspicion *suspicion, struct base_writer *writer)
{
    write_suspected(suspicion, writer);
    base_write_bytes(writer, suspicion->signature, sizeof suspicion->signature);
}

enum base_error gossip_suspicion_read(struct base_reader *reader, struct gossip_suspicion *suspicion)
{
    struct gossip_suspicion read;
    memset(&read, 0, sizeof read);
    take(reader, read.subject.bytes, GOSSIP_ID_BYTES);
    take(reader, read.suspector.bytes, GOSSIP_ID_BYTES);
    read_version(reader, &read.version);
    read.class = base_read_u8(reader);
    take(reader, read.signature, sizeof read.signature);
    if (reader->failed || read.class > GOSSIP_SUSPECTED_EVIDENCE)
        return BASE_EFORMAT;
    *suspicion = read;
    return BASE_OK;
}
