// Golomb-Rice code of the gaps between ascending indices (Golomb 1966, Rice 1979) in two streams: all
// quotients in unary, then all remainders in plain bits, so that neither waits for the other.
#include "compress/indices.h"

#define PARAMETER_MIN 1u // 0 would be the bitmap
#define PARAMETER_MAX KERNELS_CODING_WIDTH
#define ROUNDING_BITS 14u // the most that rounding both streams up to whole bytes can add

// If gaps are geometric with mean m, parameter p + 1 is shorter than p from m = 2^p / 0.4812 on, where y =
// e^(-2^p / m) solves y^2 + y = 1. The lengths of the neighbouring parameters show whether this guess is the
// best one.
unsigned indices_rice_first(const uint32_t *index, size_t entries)
{
    const uint64_t skipped = entries > 0 ? (uint64_t)index[entries - 1] + 1 - entries : 0;
    unsigned best = PARAMETER_MIN;
    while (best < PARAMETER_MAX && skipped * 1000 > (uint64_t)entries * 2078 << best)
        best++;
    const unsigned first = best > PARAMETER_MIN + 1 ? best : PARAMETER_MIN + 1;
    const unsigned last = PARAMETER_MAX + 1 - KERNELS_CODING_SHIFTS;
    return first - 1 < last ? first - 1 : last;
}

static size_t rice_bytes(size_t entries, uint64_t zeros, unsigned parameter)
{
    return (size_t)((entries + zeros + 7) / 8) + indices_low_bytes(entries, parameter);
}

struct best {
    unsigned parameter;
    size_t bytes;
    uint64_t bits;
};

static void best_of(size_t entries, unsigned first, const uint64_t *sums, struct best *best)
{
    for (unsigned j = 0; j < KERNELS_CODING_SHIFTS && first + j <= PARAMETER_MAX; j++) {
        const size_t bytes = rice_bytes(entries, sums[j], first + j);
        const uint64_t bits = (uint64_t)entries * (first + j + 1) + sums[j];
        if (bytes < best->bytes || (bytes == best->bytes && first + j < best->parameter))
            *best = (struct best){.parameter = first + j, .bytes = bytes, .bits = best->bits};
        best->bits = bits < best->bits ? bits : best->bits;
    }
}

// Could a parameter beyond the one with `bits` still be the best? The length in bits is convex in the
// parameter: from p to p + 1 it grows by the number of entries minus the sum of ceil((gap >> p) / 2), which
// never grows with p. So the answer is yes only while the length has not risen by more than the rounding.
static bool worth_a_look(uint64_t bits, const struct best *best)
{
    return bits <= best->bits + ROUNDING_BITS;
}

static size_t rice_size(const struct indices_list *list, unsigned *parameter)
{
    struct best best = {.bytes = SIZE_MAX, .bits = UINT64_MAX};
    const uint64_t entries = list->entries;
    unsigned low = list->first, high = list->first + KERNELS_CODING_SHIFTS; // [low, high) have been tried
    best_of(list->entries, low, list->sums, &best);
    uint64_t low_bits = entries * (low + 1) + list->sums[0];
    uint64_t high_bits = entries * high + list->sums[KERNELS_CODING_SHIFTS - 1];
    uint64_t sums[KERNELS_CODING_SHIFTS] = {0};
    while (low > PARAMETER_MIN && worth_a_look(low_bits, &best)) {
        low = low > PARAMETER_MIN + KERNELS_CODING_SHIFTS ? low - KERNELS_CODING_SHIFTS : PARAMETER_MIN;
        (void)list->coding->gaps(list->entries, list->index, low, sums);
        best_of(list->entries, low, sums, &best);
        low_bits = entries * (low + 1) + sums[0];
    }
    while (high <= PARAMETER_MAX && worth_a_look(high_bits, &best)) {
        const unsigned first = high > PARAMETER_MAX + 1 - KERNELS_CODING_SHIFTS
                                   ? PARAMETER_MAX + 1 - KERNELS_CODING_SHIFTS
                                   : high;
        (void)list->coding->gaps(list->entries, list->index, first, sums);
        best_of(list->entries, first, sums, &best);
        high = first + KERNELS_CODING_SHIFTS;
        high_bits = entries * high + sums[KERNELS_CODING_SHIFTS - 1];
    }
    *parameter = best.parameter;
    return best.bytes;
}

size_t indices_rice_bound(size_t count, size_t entries)
{
    size_t least = SIZE_MAX;
    for (unsigned parameter = PARAMETER_MIN; parameter <= PARAMETER_MAX; parameter++) {
        const size_t bytes = rice_bytes(entries, (count - entries) >> parameter, parameter);
        least = bytes < least ? bytes : least;
    }
    return least;
}

static void rice_write(const struct indices_list *list, unsigned parameter, uint8_t *out, size_t bytes)
{
    const size_t low_bytes = indices_low_bytes(list->entries, parameter), high_bytes = bytes - low_bytes;
    list->coding->rice_write(list->entries, list->index, parameter, out, high_bytes, out + high_bytes,
                             low_bytes);
}

static struct kernels_streams streams_of(const struct compress_reader *reader)
{
    const size_t low_bytes = indices_low_bytes(reader->entries, reader->parameter);
    const size_t high_bytes = reader->index_bytes - low_bytes;
    return (struct kernels_streams){.high = reader->indices,
                                    .low = reader->indices + high_bytes,
                                    .high_bytes = high_bytes,
                                    .low_bytes = low_bytes,
                                    .width = reader->parameter};
}

static enum base_error rice_check(struct compress_reader *reader)
{
    const unsigned parameter = reader->parameter;
    const size_t entries = reader->entries;
    if (parameter < PARAMETER_MIN || parameter > PARAMETER_MAX || entries == 0 ||
        reader->index_bytes <= indices_low_bytes(entries, parameter))
        return BASE_EFORMAT;
    const struct kernels_coding *coding = reader->host->coding;
    const struct kernels_streams streams = streams_of(reader);
    if (streams.high[streams.high_bytes - 1] == 0 ||
        coding->ones(streams.high, streams.high_bytes) != entries ||
        !indices_padding_zero(streams.low, entries, parameter))
        return BASE_EFORMAT;
    // Indices ascend by construction, so all are below count if the last one is.
    const uint64_t zeros = indices_bits(streams.high, streams.high_bytes) - entries;
    if (zeros > reader->count >> parameter)
        return BASE_EFORMAT;
    const uint64_t last =
        (zeros << parameter) + entries - 1 + coding->sum(entries, parameter, streams.low, streams.low_bytes);
    return last < reader->count ? BASE_OK : BASE_EFORMAT;
}

static void rice_read(struct compress_reader *reader, size_t count, uint32_t *index)
{
    const struct kernels_streams streams = streams_of(reader);
    struct kernels_rice at = {.bit = reader->at[0], .entry = reader->done, .next = (uint32_t)reader->at[1]};
    reader->host->coding->rice_read(&streams, &at, count, index);
    reader->at[0] = at.bit;
    reader->at[1] = at.next;
}

const struct indices_code indices_rice = {
    .size = rice_size, .write = rice_write, .check = rice_check, .read = rice_read};
