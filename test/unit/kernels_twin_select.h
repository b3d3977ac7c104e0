// kernels/select.h on two backends.
#ifndef TEST_UNIT_KERNELS_TWIN_SELECT_H
#define TEST_UNIT_KERNELS_TWIN_SELECT_H

#include "kernels_twin.h"

// A difference on both backends, `skew` elements into its memory, so that some are not aligned.
struct twin_difference {
    struct kernels_difference plain, other;
    void *memory[4];
    enum twin_data data;
};

static inline struct twin_difference twin_difference(const struct twins *t, enum twin_data data, size_t count,
                                                     size_t skew, bool with_r)
{
    struct twin_difference d = {.data = data};
    float *x = malloc((count + skew) * sizeof *x), *r = malloc((count + skew) * sizeof *r);
    assert_non_null(x);
    assert_non_null(r);
    twin_fill(data, x, count + skew);
    twin_fill(data < TWIN_FINITE ? data : TWIN_GAUSSIAN, r, count + skew);
    const struct kernels *tables[2] = {t->plain, t->other};
    for (size_t b = 0; b < 2; b++) {
        d.memory[2 * b] = twin_send(tables[b], x, (count + skew) * sizeof *x);
        d.memory[2 * b + 1] = twin_send(tables[b], r, (count + skew) * sizeof *r);
        *(b == 0 ? &d.plain : &d.other) =
            (struct kernels_difference){.x = (float *)d.memory[2 * b] + skew,
                                        .r = with_r ? (float *)d.memory[2 * b + 1] + skew : NULL,
                                        .count = count};
    }
    free(x);
    free(r);
    return d;
}

static inline void twin_difference_free(const struct twins *t, struct twin_difference *d)
{
    for (size_t m = 0; m < 4; m++) {
        (m < 2 ? t->plain : t->other)->release(d->memory[m]);
    }
}

static inline uint32_t twin_magnitude(const struct kernels_difference *a, size_t i) // of the CPU
{
    return twin_bits(a->r ? a->x[i] - a->r[i] : a->x[i]) & 0x7fffffffu;
}

static inline void twin_seen(const struct twin_difference *d, const struct kernels_seen *found,
                             const struct kernels_seen *expected)
{
    assert_int_equal(found->read, expected->read);
    if (expected->largest >= KERNELS_INFINITE) { // NaN has many patterns
        assert_true(found->largest >= KERNELS_INFINITE);
        return;
    }
    assert_int_equal(found->largest, expected->largest);
    if (isinf(expected->a_energy) || isinf(expected->x_energy) || d->data == TWIN_HUGE) {
        return;
    }
    checks_close("energy of a", d->plain.count, 0, found->a_energy, expected->a_energy,
                 1e-5 * expected->a_energy);
    checks_close("energy of x", d->plain.count, 0, found->x_energy, expected->x_energy,
                 1e-5 * expected->x_energy);
}

// Entries in the memory of both backends.
struct twin_list {
    size_t count;
    uint32_t *index;
    float *value;
};

static inline struct twin_list twin_gather(const struct kernels *k, const struct kernels_difference *a,
                                           size_t first, uint32_t floor, size_t room,
                                           struct kernels_seen *seen)
{
    uint32_t *zeros = calloc(room + 1, sizeof *zeros);
    assert_non_null(zeros);
    uint32_t *index = twin_send(k, zeros, room * sizeof *index);
    float *value = twin_send(k, zeros, room * sizeof *value);
    free(zeros);
    const size_t count = k->select->gather(a, first, floor, room, index, value, seen);
    assert_true(count <= room);
    return (struct twin_list){count, twin_fetch(k, index, room * sizeof *index),
                              twin_fetch(k, value, room * sizeof *value)};
}

static inline void twin_list_free(struct twin_list *list)
{
    free(list->index);
    free(list->value);
}

static inline void twin_lists_same(const char *what, const struct twin_list *found,
                                   const struct twin_list *expected)
{
    assert_int_equal(found->count, expected->count);
    for (size_t i = 0; i < expected->count; i++) {
        assert_int_equal(found->index[i], expected->index[i]);
        if (!isnan(found->value[i]) || !isnan(expected->value[i])) {
            twin_same(what, expected->count, &found->value[i], &expected->value[i], sizeof(float));
        }
    }
}

// The magnitude that about this part of the elements, in 1/1024, reaches.
static inline uint32_t twin_floor(const struct twin_difference *d, size_t part)
{
    uint32_t best = 1;
    size_t least = SIZE_MAX;
    for (size_t n = 0; n < 12; n++) {
        const uint32_t floor = n == 0 ? 1 : twin_magnitude(&d->plain, twin_below(d->plain.count));
        uint64_t above = 0;
        for (size_t i = 0; i < d->plain.count; i++) {
            above += twin_magnitude(&d->plain, i) >= floor;
        }
        const size_t wanted = d->plain.count * part / 1024,
                     far = above > wanted ? above - wanted : wanted - above;
        if (floor > 0 && far < least) {
            least = far;
            best = floor;
        }
    }
    return best;
}

static inline void twin_keep(const struct twins *t, const struct twin_list *list)
{
    if (list->count == 0) {
        return;
    }
    const uint32_t a = twin_bits(fabsf(list->value[twin_below(list->count)]));
    const uint32_t b = twin_bits(fabsf(list->value[twin_below(list->count)]));
    const uint32_t low = a < b ? a : b, high = a < b ? b : a + (uint32_t)twin_below(2);
    const size_t ties = twin_below(list->count + 2);
    struct twin_list kept[2];
    for (size_t n = 0; n < 2; n++) {
        const struct kernels *k = n == 0 ? t->plain : t->other;
        uint32_t *index = twin_send(k, list->index, list->count * sizeof *index);
        float *value = twin_send(k, list->value, list->count * sizeof *value);
        kept[n].count = k->select->keep(list->count, index, value, low, high, ties);
        kept[n].index = twin_fetch(k, index, list->count * sizeof *index);
        kept[n].value = twin_fetch(k, value, list->count * sizeof *value);
    }
    twin_lists_same("keep", &kept[1], &kept[0]);
    twin_list_free(&kept[0]);
    twin_list_free(&kept[1]);
}

static inline void twin_gathers(const struct twins *t, const struct twin_difference *d, size_t part)
{
    const size_t count = d->plain.count, first = twin_below(3) == 0 ? twin_below(count) : 0;
    const uint32_t floor = twin_floor(d, part);
    struct kernels_seen expected, found, again;
    struct twin_list plain = twin_gather(t->plain, &d->plain, first, floor, count, &expected);
    struct twin_list other = twin_gather(t->other, &d->other, first, floor, plain.count, &found);
    twin_lists_same("gather", &other, &plain);
    twin_seen(d, &found, &expected);
    if (plain.count > 0) { // one more than there is room for: nothing, or all that fits
        struct twin_list less = twin_gather(t->other, &d->other, first, floor, plain.count - 1, &again);
        assert_true(less.count == 0 ? again.read < expected.read : less.count == plain.count - 1);
        twin_list_free(&less);
    }
    if (d->data < TWIN_FINITE) {
        twin_keep(t, &plain);
    }
    twin_list_free(&plain);
    twin_list_free(&other);
}

static inline void twin_counts(const struct twins *t, const struct twin_difference *d)
{
    uint32_t floors[8];
    uint64_t expected[8], found[8];
    struct kernels_seen seen[2];
    const size_t n = 1 + twin_below(8);
    for (size_t f = 0; f < n; f++) {
        floors[f] = twin_below(4) == 0 ? (uint32_t)twin_below(2)
                                       : twin_magnitude(&d->plain, twin_below(d->plain.count));
        floors[f] = floors[f] > KERNELS_INFINITE ? KERNELS_INFINITE : floors[f];
    }
    t->plain->select->count(&d->plain, floors, n, expected, &seen[0]);
    t->other->select->count(&d->other, floors, n, found, &seen[1]);
    twin_same("count", d->plain.count, found, expected, n * sizeof *found);
    twin_seen(d, &seen[1], &seen[0]);
}

static inline void twin_histogram(const struct twins *t, const struct twin_difference *d, uint32_t floor,
                                  unsigned shift)
{
    static uint64_t expected[KERNELS_BINS], found[KERNELS_BINS];
    struct kernels_seen seen[2];
    t->plain->select->histogram(&d->plain, floor, shift, expected, &seen[0]);
    t->other->select->histogram(&d->other, floor, shift, found, &seen[1]);
    twin_seen(d, &seen[1], &seen[0]);
    if (seen[0].largest < KERNELS_INFINITE) {
        twin_same("histogram", d->plain.count, found, expected, sizeof found);
    }
}

static inline void twin_picks(const struct twins *t, const struct twin_difference *d)
{
    const size_t count = d->plain.count, samples = count / 16 * 16;
    uint32_t *index = malloc(count * sizeof *index), *found = malloc(count * sizeof *found);
    uint32_t *expected = malloc(count * sizeof *expected);
    assert_true(index && found && expected);
    for (size_t i = 0; i < count; i++) {
        index[i] = (uint32_t)twin_below(count);
    }
    float *values[2];
    for (size_t n = 0; n < 2; n++) {
        const struct kernels *k = n == 0 ? t->plain : t->other;
        uint32_t *sent = twin_send(k, index, count * sizeof *sent);
        float *value = twin_send(k, index, count * sizeof *value);
        k->select->pick(n == 0 ? &d->plain : &d->other, count, sent, value);
        values[n] = twin_fetch(k, value, count * sizeof *value);
        free(twin_fetch(k, sent, count * sizeof *sent));
    }
    for (size_t i = 0; i < count; i++) {
        assert_true(twin_bits(values[0][i]) == twin_bits(values[1][i]) ||
                    (isnan(values[0][i]) && isnan(values[1][i])));
    }
    if (samples > 0) {
        t->plain->select->sample(&d->plain, samples, expected);
        t->other->select->sample(&d->other, samples, found);
        for (size_t i = 0; i < samples; i++) {
            assert_true(found[i] == expected[i] ||
                        (found[i] > KERNELS_INFINITE && expected[i] > KERNELS_INFINITE));
        }
    }
    free(values[0]);
    free(values[1]);
    free(index);
    free(found);
    free(expected);
}

static inline void checks_twin_select(void **state)
{
    const struct twins *t = *state;
    for (size_t s = 0; t->sizes[s] > 0; s++) {
        for (enum twin_data data = 0; data < TWIN_KINDS; data++) {
            struct twin_difference d = twin_difference(
                t, data, t->sizes[s], twin_below(3) == 0 ? 1 + twin_below(3) : 0, twin_below(2) == 0);
            const uint32_t floor = twin_floor(&d, 500);
            twin_gathers(t, &d, 10);
            twin_gathers(t, &d, 1024);
            twin_counts(t, &d);
            twin_histogram(t, &d, twin_below(2) == 0 ? 0 : 1, 19);
            twin_histogram(t, &d, floor, (unsigned)twin_below(24));
            twin_picks(t, &d);
            twin_difference_free(t, &d);
        }
    }
}

// An empty vector.
static inline void checks_twin_select_empty(void **state)
{
    const struct twins *t = *state;
    struct twin_difference d = twin_difference(t, TWIN_GAUSSIAN, 20, 0, true);
    struct kernels_seen seen;
    struct twin_list list = twin_gather(t->other, &d.other, 20, 1, 3, &seen);
    assert_int_equal(list.count, 0);
    assert_int_equal(seen.read, 0);
    twin_list_free(&list);
    assert_int_equal(t->other->select->keep(0, NULL, NULL, 1, 2, 1), 0);
    t->other->select->pick(&d.other, 0, NULL, NULL);
    twin_difference_free(t, &d);
}

#endif
