// Bitmap: one bit per element, up to the last set bit. Also the code for a list of all elements.
#include "compress/indices.h"

static size_t bitmap_size(const struct indices_list *list, unsigned *parameter)
{
    *parameter = 0;
    return list->entries > 0 ? list->index[list->entries - 1] / 8 + 1 : 0;
}

static void bitmap_write(const struct indices_list *list, unsigned parameter, uint8_t *out, size_t bytes)
{
    (void)parameter;
    list->coding->bitmap_write(list->entries, list->index, out, bytes);
}

static enum base_error bitmap_check(struct compress_reader *reader)
{
    const size_t bytes = reader->index_bytes;
    const bool trimmed = bytes == 0 || reader->indices[bytes - 1] != 0;
    if (reader->parameter != 0 || bytes > (reader->count + 7) / 8 || !trimmed ||
        indices_bits(reader->indices, bytes) > reader->count ||
        reader->host->coding->ones(reader->indices, bytes) != reader->entries)
        return BASE_EFORMAT;
    return BASE_OK;
}

static void bitmap_read(struct compress_reader *reader, size_t count, uint32_t *index)
{
    reader->at[0] =
        reader->host->coding->bitmap_read(reader->indices, reader->index_bytes, reader->at[0], count, index);
}

const struct indices_code indices_bitmap = {
    .size = bitmap_size, .write = bitmap_write, .check = bitmap_check, .read = bitmap_read};

static size_t all_size(const struct indices_list *list, unsigned *parameter)
{
    *parameter = 0;
    return list->entries == list->count ? 0 : INDICES_IMPOSSIBLE;
}

static void all_write(const struct indices_list *list, unsigned parameter, uint8_t *out, size_t bytes)
{
    (void)list;
    (void)parameter;
    (void)out;
    BASE_ASSERT(bytes == 0);
}

static enum base_error all_check(struct compress_reader *reader)
{
    const bool whole = reader->entries == reader->count && reader->index_bytes == 0;
    return whole && reader->parameter == 0 ? BASE_OK : BASE_EFORMAT;
}

static void all_read(struct compress_reader *reader, size_t count, uint32_t *index)
{
    for (size_t i = 0; i < count; i++)
        index[i] = (uint32_t)(reader->done + i);
}

const struct indices_code indices_all = {
    .size = all_size, .write = all_write, .check = all_check, .read = all_read};
