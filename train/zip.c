// The part of zip that numpy.savez writes: members stored or deflated, found through the directory at the end
// (APPNOTE 4.3). Every offset is checked against the length of the file.
#include "base/cursor.h"
#include "train/npy_private.h"
#include "train/unpack.h"
#include <string.h>

#define END_BYTES      22u
#define COMMENT_MAX    65535u
#define END_MAGIC      0x06054b50u
#define MEMBER_MAGIC   0x02014b50u
#define LOCAL_MAGIC    0x04034b50u
#define LOCAL_BYTES    30u
#define IS_ZIP64       0xffffffffu
#define METHOD_STORED  0u
#define METHOD_DEFLATE 8u

struct member {
    uint16_t flags, method, name_bytes, extra_bytes, comment_bytes;
    uint32_t crc, packed, bytes, offset;
    const uint8_t *name;
};

static enum base_error fail_zip(const struct train_bytes *zip, const char *found, struct base_reason *why)
{
    return base_fail(why, BASE_EFORMAT, "%s: %s, expected a .npz as numpy.savez writes it", zip->name, found);
}

static const uint8_t *find_end(const struct train_bytes *zip)
{
    const size_t most = END_BYTES + COMMENT_MAX;
    for (size_t back = END_BYTES; back <= zip->bytes && back <= most; back++) {
        struct base_reader reader = base_reader_of(zip->data + zip->bytes - back, 4);
        if (base_read_u32(&reader) == END_MAGIC)
            return zip->data + zip->bytes - back;
    }
    return NULL;
}

static bool read_member(struct base_reader *r, struct member *m)
{
    if (base_read_u32(r) != MEMBER_MAGIC)
        return false;
    (void)base_read_u32(r); // versions
    m->flags = base_read_u16(r);
    m->method = base_read_u16(r);
    (void)base_read_u32(r); // time and date
    m->crc = base_read_u32(r);
    m->packed = base_read_u32(r);
    m->bytes = base_read_u32(r);
    m->name_bytes = base_read_u16(r);
    m->extra_bytes = base_read_u16(r);
    m->comment_bytes = base_read_u16(r);
    (void)base_read_u64(r); // disk and attributes
    m->offset = base_read_u32(r);
    m->name = base_read_bytes(r, m->name_bytes);
    (void)base_read_bytes(r, m->extra_bytes);
    (void)base_read_bytes(r, m->comment_bytes);
    return !r->failed;
}

static enum base_error find_member(const struct train_bytes *zip, const char *name, struct member *found,
                                   struct base_reason *why)
{
    const uint8_t *end = find_end(zip);
    if (!end)
        return fail_zip(zip, "no directory of a zip file at its end", why);
    struct base_reader tail = base_reader_of(end, END_BYTES);
    (void)base_read_bytes(&tail, 10);
    const size_t members = base_read_u16(&tail), bytes = base_read_u32(&tail), start = base_read_u32(&tail);
    if (start > (size_t)(end - zip->data) || bytes > (size_t)(end - zip->data) - start)
        return fail_zip(zip, "its directory is outside of the file", why);
    struct base_reader directory = base_reader_of(zip->data + start, bytes);
    for (size_t i = 0; i < members; i++) {
        struct member m;
        if (!read_member(&directory, &m))
            return fail_zip(zip, "its directory is damaged", why);
        if (m.name_bytes == strlen(name) && memcmp(m.name, name, m.name_bytes) == 0) {
            *found = m;
            return BASE_OK;
        }
    }
    return base_fail(why, BASE_ENOTFOUND,
                     "%s: found %zu arrays and none named %.*s, expected numpy.savez(file, x=..., y=...)",
                     zip->name, members, (int)(strlen(name) - 4), name);
}

// The bytes of a member.
static enum base_error find_bytes(const struct train_bytes *zip, const struct member *m,
                                  struct train_bytes *packed, struct base_reason *why)
{
    if (m->offset > zip->bytes || zip->bytes - m->offset < LOCAL_BYTES)
        return fail_zip(zip, "a member is outside of the file", why);
    struct base_reader local = base_reader_of(zip->data + m->offset, zip->bytes - m->offset);
    const bool magic = base_read_u32(&local) == LOCAL_MAGIC;
    (void)base_read_bytes(&local, 22);
    const size_t skip = (size_t)base_read_u16(&local) + base_read_u16(&local);
    (void)base_read_bytes(&local, skip);
    packed->name = zip->name;
    packed->bytes = m->packed;
    packed->data = base_read_bytes(&local, m->packed);
    return magic && packed->data ? BASE_OK : fail_zip(zip, "a member is outside of the file", why);
}

enum base_error train_zip_member(const struct train_bytes *zip, const char *name, struct train_bytes *file,
                                 uint8_t **owned, struct base_reason *why)
{
    struct member m = {0};
    struct train_bytes packed = {0};
    uint8_t *unpacked = NULL;
    enum base_error error = find_member(zip, name, &m, why);
    if (!error && (m.packed == IS_ZIP64 || m.bytes == IS_ZIP64 || m.flags & 1))
        error = fail_zip(zip, m.flags & 1 ? "an encrypted array" : "an array of 4 GiB or more", why);
    if (!error)
        error = find_bytes(zip, &m, &packed, why);
    if (error)
        return error;
    if (m.method == METHOD_STORED) {
        if (m.packed != m.bytes || !train_unpack_crc_fits(packed.data, packed.bytes, m.crc))
            return fail_zip(zip, "a damaged array (wrong checksum)", why);
    } else if (m.method == METHOD_DEFLATE) {
        error = train_unpack_deflated(&packed, m.bytes, m.crc, &unpacked, why);
    } else {
        return fail_zip(zip, "an array packed with a method other than deflate", why);
    }
    if (error)
        return error;
    *file = (struct train_bytes){zip->name, unpacked ? unpacked : packed.data, m.bytes};
    *owned = unpacked;
    return BASE_OK;
}
