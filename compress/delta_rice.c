// Golomb-Rice code of the gaps between ascending indices (Golomb 1966, Rice 1979), least significant bit
// first: a gap g with parameter p is g >> p zero bits, a one, then the low p bits of g.
#include "compress/delta_rice.h"
#include "compress/bytes.h"
#include <stdbool.h>

// Bits of the section under `parameter`.
static uint64_t rice_bits(const uint32_t *index, size_t entries, unsigned parameter)
{
    if (entries == 0)
        return 0;
    uint64_t quotients = index[0] >> parameter;
    for (size_t i = 1; i < entries; i++)
        quotients += (index[i] - index[i - 1] - 1) >> parameter;
    return quotients + (uint64_t)entries * (parameter + 1);
}

// The length as a function of the parameter is convex: from p to p + 1 it grows by the number of entries less
// the sum of ceil((gap >> p) / 2), and that sum never grows with p. So the first minimum downhill of a guess
// is the minimum.
unsigned compress_delta_rice_parameter(const uint32_t *index, size_t entries, size_t *bytes)
{
    unsigned best = 0;
    if (entries > 0)
        while (best < COMPRESS_DELTA_RICE_MAX && index[entries - 1] / entries >> best > 1)
            best++;
    uint64_t least = rice_bits(index, entries, best);
    bool down = false;
    while (best > 0) {
        uint64_t bits = rice_bits(index, entries, best - 1);
        if (bits > least)
            break;
        least = bits;
        best--;
        down = true;
    }
    while (!down && best < COMPRESS_DELTA_RICE_MAX) {
        uint64_t bits = rice_bits(index, entries, best + 1);
        if (bits >= least)
            break;
        least = bits;
        best++;
    }
    *bytes = (size_t)((least + 7) / 8);
    return best;
}

size_t compress_delta_rice_bound(size_t count, size_t entries)
{
    uint64_t least = UINT64_MAX;
    for (unsigned parameter = 0; parameter <= COMPRESS_DELTA_RICE_MAX; parameter++) {
        uint64_t bits = (uint64_t)entries * (parameter + 1) + ((uint64_t)(count - entries) >> parameter);
        least = bits < least ? bits : least;
    }
    return (size_t)((least + 7) / 8);
}

struct bit_writer {
    uint8_t *at;
    uint64_t held; // bits not stored yet, the oldest lowest
    unsigned count;
};

// At most 32 bits at a time.
static inline void bits_put(struct bit_writer *writer, uint32_t bits, unsigned count)
{
    writer->held |= (uint64_t)bits << writer->count;
    writer->count += count;
    if (writer->count >= 32) {
        bytes_put_u32(writer->at, (uint32_t)writer->held);
        writer->at += 4;
        writer->held >>= 32;
        writer->count -= 32;
    }
}

void compress_delta_rice_write(const uint32_t *index, size_t entries, unsigned parameter, uint8_t *out,
                               size_t bytes)
{
    struct bit_writer writer = {.at = out};
    uint32_t mask = (1u << parameter) - 1;
    uint32_t next = 0; // the index that a gap of 0 means
    for (size_t i = 0; i < entries; i++) {
        uint32_t gap = index[i] - next;
        uint32_t quotient = gap >> parameter;
        for (; quotient >= 32; quotient -= 32)
            bits_put(&writer, 0, 32);
        bits_put(&writer, 1u << quotient, quotient + 1);
        bits_put(&writer, gap & mask, parameter);
        next = index[i] + 1;
    }
    for (; writer.count > 0; writer.count -= writer.count < 8 ? writer.count : 8) {
        *writer.at++ = (uint8_t)writer.held;
        writer.held >>= 8;
    }
    BASE_ASSERT((size_t)(writer.at - out) == bytes);
}

struct bit_reader {
    const uint8_t *at, *end;
    uint64_t held; // the next `count` bits, the oldest lowest; zero above them
    unsigned count;
};

// Fills up to 32 bits or more, or to all that are left.
static inline void bits_fill(struct bit_reader *reader)
{
    if (reader->count >= 32)
        return;
    if (reader->end - reader->at >= 4) {
        reader->held |= (uint64_t)bytes_get_u32(reader->at) << reader->count;
        reader->at += 4;
        reader->count += 32;
        return;
    }
    for (; reader->count < 32 && reader->at < reader->end; reader->count += 8)
        reader->held |= (uint64_t)*reader->at++ << reader->count;
}

static inline void bits_drop(struct bit_reader *reader, unsigned count)
{
    reader->held >>= count;
    reader->count -= count;
}

// Zeros before a one, and that one. False when the bits end, or after more than `most` zeros.
static inline bool unary_read(struct bit_reader *reader, uint32_t most, uint32_t *zeros)
{
    uint32_t run = 0;
    bits_fill(reader);
    while (reader->held == 0) {
        run += reader->count; // no overflow: run <= most < 2^31 before
        reader->count = 0;
        if (reader->at == reader->end || run > most)
            return false;
        bits_fill(reader);
    }
    unsigned last = (unsigned)__builtin_ctzll(reader->held);
    bits_drop(reader, last + 1);
    *zeros = run + last;
    return *zeros <= most;
}

enum base_error compress_delta_rice_read(const uint8_t *in, size_t bytes, unsigned parameter, size_t count,
                                         size_t entries, uint32_t *index)
{
    struct bit_reader reader = {.at = in, .end = in + bytes};
    uint32_t mask = (1u << parameter) - 1;
    uint64_t next = 0; // the index that a gap of 0 means
    for (size_t i = 0; i < entries; i++) {
        uint32_t quotient;
        if (!unary_read(&reader, (uint32_t)(count >> parameter), &quotient))
            return BASE_EFORMAT;
        bits_fill(&reader);
        if (reader.count < parameter)
            return BASE_EFORMAT;
        uint64_t at = next + ((uint64_t)quotient << parameter) + ((uint32_t)reader.held & mask);
        if (at >= count)
            return BASE_EFORMAT;
        bits_drop(&reader, parameter);
        if (index != NULL)
            index[i] = (uint32_t)at;
        next = at + 1;
    }
    // What is left may only be the rest of the last byte, zero.
    size_t left = reader.count + 8 * (size_t)(reader.end - reader.at);
    return left < 8 && reader.held == 0 ? BASE_OK : BASE_EFORMAT;
}
