// Elias-Fano code (Elias 1974, Fano 1971) in blocks of 256 entries, each with its own base and width
// (Ottaviano, Venturini 2014). It is shorter than Rice code, which has one parameter, if the density changes
// along the vector.
#include "compress/bytes.h"
#include "compress/indices.h"

#define BLOCK        256u // entries; as KERNELS_VALUES_BLOCK, so that pieces of both sections begin together
#define HEADER_BYTES 3u   // width, bytes of the high stream (2)

_Static_assert(BLOCK == KERNELS_VALUES_BLOCK, "pieces of a reader are whole blocks");

struct block {
    size_t entries, high_bytes, low_bytes;
    unsigned width;
};

static size_t block_entries(size_t entries, size_t done)
{
    return entries - done < BLOCK ? entries - done : BLOCK;
}

static struct block block_of(size_t entries, uint32_t last, unsigned width)
{
    return (struct block){.entries = entries,
                          .high_bytes = (size_t)(((uint64_t)entries + (last >> width) + 7) / 8),
                          .low_bytes = indices_low_bytes(entries, width),
                          .width = width};
}

static size_t block_bytes(const struct block *block)
{
    return HEADER_BYTES + block->high_bytes + block->low_bytes;
}

// The shortest code of `entries` offsets, the largest of which is `last`. If entries <= last >> width < 2
// entries, one bit more of width costs `entries` bits and saves fewer; one bit less saves `entries` bits and
// costs more. Rounding to bytes does not matter in whole blocks; in shorter ones a neighbouring width may
// save a byte.
static struct block block_best(size_t entries, uint32_t last)
{
    const uint32_t mean = entries == BLOCK ? last / BLOCK : last / (uint32_t)entries;
    const unsigned width = mean > 0 ? 31 - (unsigned)__builtin_clz(mean) : 0;
    struct block best = block_of(entries, last, width);
    if (entries == BLOCK)
        return best;
    for (unsigned near = width > 0 ? width - 1 : 0; near <= width + 1; near++) {
        struct block other = block_of(entries, last, near);
        best = block_bytes(&other) < block_bytes(&best) ? other : best;
    }
    return best;
}

static size_t fano_size(const struct indices_list *list, unsigned *parameter)
{
    *parameter = 0;
    size_t bytes = 0;
    uint32_t base = 0;
    for (size_t done = 0, now; done < list->entries; done += now) {
        now = block_entries(list->entries, done);
        const uint32_t last = list->index[done + now - 1];
        const struct block block = block_best(now, last - base);
        bytes += block_bytes(&block);
        base = last + 1;
    }
    return bytes;
}

static void fano_write(const struct indices_list *list, unsigned parameter, uint8_t *out, size_t bytes)
{
    (void)parameter;
    const uint8_t *end = out + bytes;
    uint32_t base = 0;
    for (size_t done = 0, now; done < list->entries; done += now) {
        now = block_entries(list->entries, done);
        const uint32_t last = list->index[done + now - 1];
        const struct block block = block_best(now, last - base);
        out[0] = (uint8_t)block.width;
        bytes_put_u16(out + 1, (uint16_t)block.high_bytes);
        out += HEADER_BYTES;
        list->coding->fano_write(now, list->index + done, base, block.width, out, block.high_bytes,
                                 out + block.high_bytes, block.low_bytes);
        out += block.high_bytes + block.low_bytes;
        base = last + 1;
    }
    BASE_ASSERT(out == end);
}

// Reads the header of the block at `byte` of the section, which may hold any bytes. False: the block does not
// fit.
static bool block_read(const struct compress_reader *reader, size_t byte, size_t entries,
                       struct kernels_streams *streams)
{
    const size_t left = reader->index_bytes - byte;
    if (left < HEADER_BYTES)
        return false;
    const uint8_t *at = reader->indices + byte;
    const unsigned width = at[0];
    const size_t high_bytes = bytes_get_u16(at + 1);
    if (width > KERNELS_CODING_WIDTH)
        return false;
    *streams = (struct kernels_streams){.high = at + HEADER_BYTES,
                                        .low = at + HEADER_BYTES + high_bytes,
                                        .high_bytes = high_bytes,
                                        .low_bytes = indices_low_bytes(entries, width),
                                        .width = width};
    return HEADER_BYTES + high_bytes + streams->low_bytes <= left;
}

// Checks a block whose offsets start at *base: it has `entries` entries, ascending, below the count. *base
// becomes the base of the next block.
static bool block_valid(const struct compress_reader *reader, const struct kernels_streams *streams,
                        size_t entries, uint64_t *base)
{
    const struct kernels_coding *coding = reader->host->coding;
    if (streams->high_bytes == 0 || streams->high[streams->high_bytes - 1] == 0 ||
        coding->ones(streams->high, streams->high_bytes) != entries ||
        !indices_padding_zero(streams->low, entries, streams->width))
        return false;
    const uint64_t zeros = indices_bits(streams->high, streams->high_bytes) - entries;
    if (*base + (zeros << streams->width) >= reader->count)
        return false;
    uint32_t index[BLOCK];
    uint64_t unused[KERNELS_CODING_SHIFTS];
    coding->fano_read(streams, (uint32_t)*base, entries, index);
    *base = (uint64_t)index[entries - 1] + 1;
    return coding->gaps(entries, index, 0, unused) && index[entries - 1] < reader->count;
}

static enum base_error fano_check(struct compress_reader *reader)
{
    if (reader->parameter != 0 || reader->entries == 0)
        return BASE_EFORMAT;
    size_t byte = 0;
    uint64_t base = 0;
    for (size_t done = 0, now; done < reader->entries; done += now) {
        struct kernels_streams streams;
        now = block_entries(reader->entries, done);
        if (!block_read(reader, byte, now, &streams) || !block_valid(reader, &streams, now, &base))
            return BASE_EFORMAT;
        byte += HEADER_BYTES + streams.high_bytes + streams.low_bytes;
    }
    return byte == reader->index_bytes ? BASE_OK : BASE_EFORMAT;
}

static void fano_read(struct compress_reader *reader, size_t count, uint32_t *index)
{
    for (size_t done = 0, now; done < count; done += now) {
        struct kernels_streams streams;
        now = block_entries(count, done);
        bool fits = block_read(reader, (size_t)reader->at[0], now, &streams);
        BASE_ASSERT(fits);
        reader->host->coding->fano_read(&streams, (uint32_t)reader->at[1], now, index + done);
        reader->at[0] += HEADER_BYTES + streams.high_bytes + streams.low_bytes;
        reader->at[1] = (uint64_t)index[done + now - 1] + 1;
    }
}

const struct indices_code indices_elias_fano = {
    .size = fano_size, .write = fano_write, .check = fano_check, .read = fano_read};
