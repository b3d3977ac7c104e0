#include "gossip/session/removed.h"

#include "base/cursor.h"
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static const char label[] = "p2pml removed";

#define SIGNATURE_BYTES sizeof((struct gossip_removed *)0)->signature
#define SIGNED_BYTES    (sizeof label + LIMIT_NODE_NAME_BYTES + GOSSIP_REMOVED_BYTES)

// What is signed of the `count` bytes of a list; returns its length.
static size_t signed_of(const char *cluster, const uint8_t *list, size_t count, uint8_t out[SIGNED_BYTES])
{
    const size_t name = strlen(cluster) + 1;
    BASE_ASSERT(name <= LIMIT_NODE_NAME_BYTES && count > SIGNATURE_BYTES && count <= GOSSIP_REMOVED_BYTES);
    memcpy(out, label, sizeof label);
    memcpy(out + sizeof label, cluster, name);
    memcpy(out + sizeof label + name, list, count - SIGNATURE_BYTES);
    return sizeof label + name + count - SIGNATURE_BYTES;
}

static int removed_compare(const void *a, const void *b)
{
    return gossip_id_compare(a, b);
}

size_t gossip_removed_write(const struct gossip_removed *list, uint8_t out[GOSSIP_REMOVED_BYTES])
{
    const size_t ids = list->count * sizeof *list->ids;
    BASE_ASSERT(list->count <= LIMIT_REMOVED);
    for (unsigned i = 0; i < 8; i++)
        out[i] = (uint8_t)(list->number >> 8 * i);
    memcpy(out + 8, list->ids, ids);
    memcpy(out + 8 + ids, list->signature, SIGNATURE_BYTES);
    return GOSSIP_REMOVED_LEAST + ids;
}

void gossip_removed_sign(struct gossip_removed *list, const char *cluster, const struct gossip_identity *by)
{
    uint8_t bytes[GOSSIP_REMOVED_BYTES], whole[SIGNED_BYTES];
    size_t kept = 0;
    qsort(list->ids, list->count, sizeof *list->ids, removed_compare);
    for (size_t i = 0; i < list->count; i++)
        if (kept == 0 || gossip_id_compare(&list->ids[kept - 1], &list->ids[i]) != 0)
            list->ids[kept++] = list->ids[i];
    list->count = kept;
    const size_t count = signed_of(cluster, bytes, gossip_removed_write(list, bytes), whole);
    gossip_identity_sign(by, whole, count, list->signature);
}

// In one order only, so that a list has one form.
static bool is_ascending(const struct gossip_removed *list)
{
    for (size_t i = 1; i < list->count; i++)
        if (gossip_id_compare(&list->ids[i - 1], &list->ids[i]) >= 0)
            return false;
    return true;
}

enum base_error gossip_removed_read(const uint8_t *bytes, size_t count, const char *cluster,
                                    const struct gossip_id *by, struct gossip_removed *list)
{
    uint8_t whole[SIGNED_BYTES];
    struct gossip_removed read = {0};
    if (count < GOSSIP_REMOVED_LEAST || count > GOSSIP_REMOVED_BYTES ||
        (count - GOSSIP_REMOVED_LEAST) % sizeof *read.ids != 0)
        return BASE_EFORMAT;
    struct base_reader reader = base_reader_of(bytes, 8);
    read.number = base_read_u64(&reader);
    read.count = (count - GOSSIP_REMOVED_LEAST) / sizeof *read.ids;
    memcpy(read.ids, bytes + 8, read.count * sizeof *read.ids);
    memcpy(read.signature, bytes + count - SIGNATURE_BYTES, SIGNATURE_BYTES);
    if (!is_ascending(&read))
        return BASE_EFORMAT;
    if (!gossip_identity_verify(by, whole, signed_of(cluster, bytes, count, whole), read.signature))
        return BASE_EAUTH;
    *list = read;
    return BASE_OK;
}

void gossip_removed_hex(const struct gossip_removed *list, char hex[GOSSIP_REMOVED_HEX])
{
    uint8_t bytes[GOSSIP_REMOVED_BYTES];
    const size_t count = gossip_removed_write(list, bytes);
    sodium_bin2hex(hex, GOSSIP_REMOVED_HEX, bytes, count);
}

enum base_error gossip_removed_bytes(const char *hex, uint8_t out[GOSSIP_REMOVED_BYTES], size_t *count)
{
    const size_t length = strnlen(hex, GOSSIP_REMOVED_HEX);
    const bool failed = sodium_hex2bin(out, GOSSIP_REMOVED_BYTES, hex, length, NULL, count, NULL) != 0;
    return failed || 2 * *count != length ? BASE_EFORMAT : BASE_OK;
}
