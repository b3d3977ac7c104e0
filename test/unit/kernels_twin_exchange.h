// kernels/values.h and kernels/apply.h on two backends.
#ifndef TEST_UNIT_KERNELS_TWIN_EXCHANGE_H
#define TEST_UNIT_KERNELS_TWIN_EXCHANGE_H

#include "kernels_twin.h"

// --- values ---

static inline uint8_t *twin_section(const struct kernels *k, enum kernels_format format, size_t count,
                                    const float *value, float **sent)
{
    const size_t bytes = kernels_section_bytes(format, count);
    uint8_t *blank = malloc(bytes);
    assert_non_null(blank);
    memset(blank, 0xee, bytes);
    float *device = twin_send(k, value, count * sizeof *value);
    uint8_t *section = twin_send(k, blank, bytes);
    free(blank);
    k->values->write(format, count, device, section);
    *sent = twin_fetch(k, device, count * sizeof *value);
    return twin_fetch(k, section, bytes);
}

static inline bool twin_valid(const struct kernels *k, enum kernels_format format, size_t count,
                              const uint8_t *section)
{
    const size_t bytes = kernels_section_bytes(format, count);
    uint8_t *device = twin_send(k, section, bytes);
    const bool valid = k->values->valid(format, count, device);
    free(twin_fetch(k, device, bytes));
    return valid;
}

static inline float *twin_read(const struct kernels *k, enum kernels_format format, size_t count,
                               const uint8_t *section)
{
    const size_t bytes = kernels_section_bytes(format, count);
    uint8_t *device = twin_send(k, section, bytes);
    float *blank = calloc(count, sizeof *blank);
    assert_non_null(blank);
    float *value = twin_send(k, blank, count * sizeof *value);
    free(blank);
    k->values->read(format, count, device, value);
    free(twin_fetch(k, device, bytes));
    return twin_fetch(k, value, count * sizeof *value);
}

// Bytes that the writer did not make: scales and codes of all kinds, and the end of the section.
static inline void twin_spoil(uint8_t *section, size_t bytes, enum kernels_format format)
{
    static const uint8_t patterns[] = {0x00, 0x80, 0x08, 0xff, 0x7f, 0x02, 0xaa, 0x01};
    const size_t block = kernels_section_bytes(format, KERNELS_VALUES_BLOCK);
    const size_t blocks = (bytes + block - 1) / block;
    for (size_t n = 0; n < 1 + twin_below(3); n++) {
        const size_t kind = twin_below(4), at = twin_below(blocks) * block + twin_below(8);
        const size_t place = kind == 0 ? bytes - 1 : kind == 1 && at < bytes ? at : twin_below(bytes);
        section[place] =
            twin_below(2) == 0 ? (uint8_t)base_rng_u64(&checks_rng) : patterns[twin_below(sizeof patterns)];
    }
    if (twin_below(3) == 0 && bytes >= 4) { // a scale of zero over codes that then are invalid
        memset(section, 0, 4);
    }
}

static inline void twin_format(const struct twins *t, enum kernels_format format, const float *value,
                               size_t count)
{
    const size_t bytes = kernels_section_bytes(format, count);
    float *sent[2];
    uint8_t *section[2] = {twin_section(t->plain, format, count, value, &sent[0]),
                           twin_section(t->other, format, count, value, &sent[1])};
    twin_same("section", count, section[1], section[0], bytes);
    twin_same("values sent", count, sent[1], sent[0], count * sizeof **sent);
    float *read = twin_read(t->other, format, count, section[0]);
    twin_same("values read", count, read, sent[0], count * sizeof *read);
    assert_true(twin_valid(t->other, format, count, section[0]));
    for (size_t n = 0; n < (count < 3000 ? 8 : 1); n++) {
        memcpy(section[1], section[0], bytes);
        twin_spoil(section[1], bytes, format);
        const bool valid = twin_valid(t->plain, format, count, section[1]);
        if (twin_valid(t->other, format, count, section[1]) != valid) {
            fail_msg("format %u, %zu entries: valid should be %d", (unsigned)format, count, valid);
        }
        float *plain = twin_read(t->plain, format, count, section[1]);
        float *other = twin_read(t->other, format, count, section[1]);
        if (valid) {
            twin_same("spoilt values", count, other, plain, count * sizeof *other);
        }
        free(plain);
        free(other);
    }
    for (size_t n = 0; n < 2; n++) {
        free(sent[n]);
        free(section[n]);
    }
    free(read);
}

static inline void checks_twin_values(void **state)
{
    const struct twins *t = *state;
    for (size_t s = 0; t->sizes[s] > 0; s++) {
        const size_t count = t->sizes[s];
        float *value = malloc(count * sizeof *value);
        assert_non_null(value);
        for (enum twin_data data = 0; data < TWIN_FINITE; data++) {
            twin_fill(data, value, count);
            for (size_t i = 0; i < count; i++) {
                value[i] = isfinite(value[i]) ? value[i] : FLT_MAX;
            }
            for (enum kernels_format format = 0; format < KERNELS_FORMATS; format++) {
                twin_format(t, format, value, count);
            }
        }
        free(value);
    }
}

// Every pattern of 16 bits, the numbers next to it, and the middle between two patterns.
static inline void checks_twin_halves(void **state)
{
    const struct twins *t = *state;
    const size_t count = 1u << 16;
    float *value = malloc(count * sizeof *value);
    assert_non_null(value);
    for (unsigned shift = 0; shift < 2; shift++) {
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t middle = (uint32_t)twin_below(3) - 1, low = shift == 0 ? 0x8000u : 0x1000u;
            const uint32_t sign = (i & 0x8000u) << 16, half = ((i & 0x7fffu) << 13) + 0x33000000u;
            const uint32_t bits = shift == 0 ? i << 16 : sign | half;
            memcpy(&value[i], &(uint32_t){bits + low + middle}, sizeof bits);
            value[i] = isfinite(value[i]) ? value[i] : -FLT_MAX;
        }
        twin_format(t, KERNELS_FP16, value, count);
        twin_format(t, KERNELS_BF16, value, count);
    }
    free(value);
}

// --- apply ---

struct twin_entries {
    size_t count, first;
    uint32_t *index; // NULL: all elements from `first` on
    float *value;
};

// style: 0 none, 1 few, 2 most, 3 a run without indices.
static inline struct twin_entries twin_entries(size_t count, unsigned style)
{
    struct twin_entries e = {.index = malloc(count * sizeof *e.index),
                             .value = malloc(count * sizeof *e.value)};
    assert_true(e.index && e.value);
    twin_fill(TWIN_GAUSSIAN, e.value, count);
    for (size_t i = 0; i < count; i++) {
        if ((style == 1 && twin_below(20) == 0) || (style == 2 && twin_below(5) != 0)) {
            e.index[e.count++] = (uint32_t)i;
        }
    }
    if (style == 3) {
        free(e.index);
        e.index = NULL;
        e.first = twin_below(count);
        e.count = 1 + twin_below(count - e.first);
    }
    return e;
}

enum { TWIN_VECTORS = 5 };

// Runs an exchange; returns the hash, and the five vectors as the exchange left them.
static inline uint64_t twin_exchange(const struct kernels *k, float *const host[TWIN_VECTORS], size_t count,
                                     const struct twin_entries lists[2], bool corrected,
                                     float *out[TWIN_VECTORS])
{
    float *v[TWIN_VECTORS], *value[2];
    uint32_t *index[2];
    uint64_t hash = 77;
    struct kernels_entries entries[2];
    for (size_t i = 0; i < TWIN_VECTORS; i++) {
        v[i] = twin_send(k, host[i], count * sizeof *v[i]);
    }
    for (size_t l = 0; l < 2; l++) {
        index[l] = lists[l].index ? twin_send(k, lists[l].index, lists[l].count * sizeof *index[l]) : NULL;
        value[l] = twin_send(k, lists[l].value, lists[l].count * sizeof *value[l]);
        entries[l] = (struct kernels_entries){index[l], value[l], lists[l].count, lists[l].first};
    }
    const struct kernels_exchange e = {.x = v[0],
                                       .pending = count % 2 == 0 ? v[1] : NULL,
                                       .r = count % 3 == 0 ? NULL : v[2],
                                       .correction = corrected ? v[3] : NULL,
                                       .correction_sum = corrected ? v[4] : NULL,
                                       .weight = count % 5 == 0 ? 0.5f : 0.7f,
                                       .gain = 0.3f,
                                       .mine = entries[0],
                                       .theirs = entries[1]};
    k->apply->exchange(&e, &hash);
    for (size_t i = 0; i < TWIN_VECTORS; i++) {
        out[i] = twin_fetch(k, v[i], count * sizeof *v[i]);
    }
    for (size_t l = 0; l < 2; l++) {
        if (index[l]) {
            free(twin_fetch(k, index[l], lists[l].count * sizeof *index[l]));
        }
        free(twin_fetch(k, value[l], lists[l].count * sizeof *value[l]));
    }
    return hash;
}

static inline void twin_exchange_one(const struct twins *t, size_t count, unsigned mine, unsigned theirs)
{
    float *host[TWIN_VECTORS], *plain[TWIN_VECTORS], *other[TWIN_VECTORS];
    for (size_t i = 0; i < TWIN_VECTORS; i++) {
        host[i] = malloc(count * sizeof *host[i]);
        assert_non_null(host[i]);
        twin_fill(TWIN_GAUSSIAN, host[i], count);
    }
    struct twin_entries lists[2] = {twin_entries(count, mine), twin_entries(count, theirs)};
    const bool corrected = twin_below(2) == 0;
    const uint64_t expected = twin_exchange(t->plain, host, count, lists, corrected, plain);
    const uint64_t found = twin_exchange(t->other, host, count, lists, corrected, other);
    assert_true(found == expected);
    for (size_t i = 0; i < TWIN_VECTORS; i++) {
        twin_same("exchange", count, other[i], plain[i], count * sizeof *plain[i]);
        free(host[i]);
        free(plain[i]);
        free(other[i]);
    }
    for (size_t l = 0; l < 2; l++) {
        free(lists[l].index);
        free(lists[l].value);
    }
}

static inline void checks_twin_exchange(void **state)
{
    const struct twins *t = *state;
    for (size_t s = 0; t->sizes[s] > 0; s++) {
        for (unsigned styles = 0; styles < 16; styles++) {
            twin_exchange_one(t, t->sizes[s], styles % 4, styles / 4);
        }
    }
}

static inline void checks_twin_hash(void **state)
{
    const struct twins *t = *state;
    for (size_t s = 0; t->sizes[s] > 0; s++) {
        for (enum twin_data data = 0; data < TWIN_KINDS; data++) {
            const size_t count = t->sizes[s], first = (size_t)(base_rng_u64(&checks_rng) >> twin_below(64));
            float *x = malloc(count * sizeof *x);
            assert_non_null(x);
            twin_fill(data, x, count);
            float *plain = twin_send(t->plain, x, count * sizeof *x),
                  *other = twin_send(t->other, x, count * sizeof *x);
            for (int magnitudes = 0; magnitudes < 2; magnitudes++) {
                assert_true(t->plain->apply->hash(plain, count, first, magnitudes) ==
                            t->other->apply->hash(other, count, first, magnitudes));
            }
            assert_int_equal(t->other->apply->finite(other, count),
                             data < TWIN_FINITE && data != TWIN_HUGE ? true
                                                                     : t->plain->apply->finite(plain, count));
            t->plain->release(plain);
            t->other->release(other);
            free(x);
        }
    }
    assert_true(t->other->apply->finite(NULL, 0));
    assert_true(t->other->apply->hash(NULL, 0, 3, false) == 0);
}

#endif
