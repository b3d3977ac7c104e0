// A list that both ends already have: the section is its hash.
#include "compress/bytes.h"
#include "compress/indices.h"

#include "base/hash.h"

#define HASH_BYTES 8u

// A sum of one mixed term per entry: no term waits for another.
uint64_t compress_keys_hash(const uint32_t *index, size_t count)
{
    uint64_t sum = base_hash_mix(count);
    for (size_t i = 0; i < count; i++)
        sum += base_hash_mix((uint64_t)i << 32 | index[i]);
    return base_hash_mix(sum);
}

static size_t keys_size(const struct indices_list *list, unsigned *parameter)
{
    *parameter = 0;
    const struct compress_keys *known = list->known;
    const bool same = known && known->count == list->entries && list->entries > 0 &&
                      memcmp(known->index, list->index, list->entries * sizeof *list->index) == 0;
    return same ? HASH_BYTES : INDICES_IMPOSSIBLE;
}

static void keys_write(const struct indices_list *list, unsigned parameter, uint8_t *out, size_t bytes)
{
    (void)parameter;
    BASE_ASSERT(bytes == HASH_BYTES);
    bytes_put_u32(out, (uint32_t)list->known->hash);
    bytes_put_u32(out + 4, (uint32_t)(list->known->hash >> 32));
}

static enum base_error keys_check(struct compress_reader *reader)
{
    if (reader->parameter != 0 || reader->entries == 0 || reader->index_bytes != HASH_BYTES)
        return BASE_EFORMAT;
    const struct compress_keys *known = &reader->known;
    const bool found = known->count == reader->entries && known->hash == bytes_get_u64(reader->indices) &&
                       known->index[known->count - 1] < reader->count;
    return found ? BASE_OK : BASE_ENOTFOUND;
}

static void keys_read(struct compress_reader *reader, size_t count, uint32_t *index)
{
    memcpy(index, reader->known.index + reader->done, count * sizeof *index);
}

const struct indices_code indices_same_keys = {
    .size = keys_size, .write = keys_write, .check = keys_check, .read = keys_read};
