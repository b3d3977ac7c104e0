#include "train/unpack.h"
#include "base/file.h"
#include "base/limits.h"
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#define CHUNK_BYTES ((size_t)1 << 16)
#define GZIP_WINDOW (15 + 16) // 15: the largest window; +16: gzip only
#define RAW_WINDOW  (-15)     // deflate without a header

struct unpacking {
    const char *name;
    z_stream z;
    uint8_t *out;
    size_t have, capacity, limit;
};

// Makes room for more output. At the limit there is room for one byte more, so that longer data are noticed.
static enum base_error grow(struct unpacking *u, struct base_reason *why)
{
    if (u->have < u->capacity)
        return BASE_OK;
    if (u->have > u->limit)
        return base_fail(why, BASE_ELIMIT,
                         "%s: unpacks to more than the %zu bytes that are expected or allowed", u->name,
                         u->limit);
    size_t capacity = 2 * u->capacity < CHUNK_BYTES ? CHUNK_BYTES : 2 * u->capacity;
    capacity = capacity > u->limit + 1 ? u->limit + 1 : capacity;
    uint8_t *grown = realloc(u->out, capacity + 1); // for a zero after the end
    if (!grown)
        return base_fail(why, BASE_ENOMEM, "%s: no memory to unpack %zu bytes", u->name, capacity);
    u->out = grown;
    u->capacity = capacity;
    return BASE_OK;
}

static enum base_error inflate_all(struct unpacking *u, bool members, struct base_reason *why)
{
    for (;;) {
        enum base_error error = grow(u, why);
        if (error)
            return error;
        const size_t room = u->capacity - u->have < UINT_MAX ? u->capacity - u->have : UINT_MAX;
        u->z.next_out = u->out + u->have;
        u->z.avail_out = (uInt)room;
        const int rc = inflate(&u->z, Z_NO_FLUSH);
        u->have += room - u->z.avail_out;
        if (rc == Z_STREAM_END && (u->z.avail_in == 0 || !members))
            return BASE_OK;
        if (rc == Z_STREAM_END)
            inflateReset(&u->z); // a gzip file may hold several members (RFC 1952, section 2.2)
        else if (rc == Z_MEM_ERROR)
            return base_fail(why, BASE_ENOMEM, "%s: no memory to unpack it", u->name);
        else if (rc == Z_BUF_ERROR && u->z.avail_in == 0)
            return base_fail(why, BASE_EFORMAT, "%s: the packed data end early, the file is truncated",
                             u->name);
        else if (rc != Z_OK && rc != Z_BUF_ERROR)
            return base_fail(why, BASE_EFORMAT, "%s: %s", u->name,
                             u->z.msg ? u->z.msg : "the packed data are damaged");
    }
}

static enum base_error unpack(const struct train_bytes *packed, int window, size_t limit, uint8_t **out,
                              size_t *bytes, struct base_reason *why)
{
    struct unpacking u = {.name = packed->name, .limit = limit};
    if (packed->bytes > UINT_MAX)
        return base_fail(why, BASE_ELIMIT, "%s: %zu packed bytes are over the limit of %u", packed->name,
                         packed->bytes, UINT_MAX);
    u.z.next_in = (Bytef *)(uintptr_t)packed->data; // zlib never writes to its input
    u.z.avail_in = (uInt)packed->bytes;
    if (inflateInit2(&u.z, window) != Z_OK)
        return base_fail(why, BASE_ENOMEM, "%s: no memory to unpack it", packed->name);
    enum base_error error = inflate_all(&u, window == GZIP_WINDOW, why);
    inflateEnd(&u.z);
    if (!error && u.have > limit)
        error =
            base_fail(why, BASE_ELIMIT, "%s: unpacks to more than the %zu bytes that are expected or allowed",
                      u.name, limit);
    if (error) {
        free(u.out);
        return error;
    }
    u.out[u.have] = 0;
    *out = u.out;
    *bytes = u.have;
    return BASE_OK;
}

enum base_error train_unpack_gzip(const struct train_bytes *packed, struct train_bytes *file, uint8_t **owned,
                                  struct base_reason *why)
{
    if (packed->bytes < 2 || packed->data[0] != 0x1f || packed->data[1] != 0x8b) {
        *file = *packed;
        *owned = NULL;
        return BASE_OK;
    }
    uint8_t *out = NULL;
    size_t bytes = 0;
    enum base_error error = unpack(packed, GZIP_WINDOW, LIMIT_DATA_FILE_BYTES, &out, &bytes, why);
    if (error)
        return error;
    *file = (struct train_bytes){packed->name, out, bytes};
    *owned = out;
    return BASE_OK;
}

enum base_error train_unpack_file(const char *path, struct train_bytes *file, uint8_t **owned,
                                  struct base_reason *why)
{
    uint8_t *read = NULL, *unpacked = NULL;
    struct train_bytes packed = {.name = path};
    enum base_error error = base_file_read(path, LIMIT_DATA_FILE_BYTES, &read, &packed.bytes, why);
    if (error)
        return error;
    packed.data = read;
    error = train_unpack_gzip(&packed, file, &unpacked, why);
    if (error || unpacked)
        free(read);
    if (!error)
        *owned = unpacked ? unpacked : read;
    return error;
}

bool train_unpack_crc_fits(const uint8_t *data, size_t bytes, uint32_t crc)
{
    return crc32_z(0, data, bytes) == crc;
}

enum base_error train_unpack_deflated(const struct train_bytes *packed, size_t expected, uint32_t crc,
                                      uint8_t **owned, struct base_reason *why)
{
    uint8_t *out = NULL;
    size_t bytes = 0;
    enum base_error error = unpack(packed, RAW_WINDOW, expected, &out, &bytes, why);
    if (error)
        return error;
    if (bytes != expected || !train_unpack_crc_fits(out, bytes, crc)) {
        free(out);
        return base_fail(why, BASE_EFORMAT,
                         "%s: the packed data are damaged (%zu of %zu bytes, or a wrong checksum)",
                         packed->name, bytes, expected);
    }
    *owned = out;
    return BASE_OK;
}
