// Packets over vectors of all kinds: what is decoded is what the sender kept, bit for bit; no packet is over
// its bound; no change of a packet's bytes does more than be refused or give another valid list of entries.
#include "compress/compress.h"
#include "compress_vectors.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct sent {
    struct compress_sparse sparse;
    uint8_t *packet;
    size_t bytes;
};

// A packet in a block of memory of its very length, so that reading past it is found by the address
// sanitizer.
static struct sent sent_make(const float *a, size_t count, size_t k, enum compress_values values)
{
    struct sent sent;
    assert_int_equal(compress_sparse_create(k, &sent.sparse), BASE_OK);
    assert_int_equal(compress_select_topk(a, count, k, &sent.sparse), BASE_OK);
    size_t bound = compress_delta_bound(count, sent.sparse.count, values);
    assert_true(bound <= compress_delta_bound(count, k, values));
    sent.packet = malloc(bound);
    assert_non_null(sent.packet);
    assert_int_equal(compress_delta_encode(&sent.sparse, count, values, sent.packet, bound, &sent.bytes),
                     BASE_OK);
    assert_true(sent.bytes <= bound);
    assert_int_equal(compress_delta_entries(sent.packet, sent.bytes), sent.sparse.count);
    uint8_t *fitting = realloc(sent.packet, sent.bytes);
    assert_non_null(fitting);
    sent.packet = fitting;
    return sent;
}

static void sent_free(struct sent *sent)
{
    compress_sparse_destroy(&sent->sparse);
    free(sent->packet);
}

static void assert_valid(const struct compress_sparse *sparse, size_t count)
{
    assert_true(sparse->count <= sparse->capacity && sparse->count <= count);
    for (size_t i = 0; i < sparse->count; i++) {
        assert_true(isfinite(sparse->value[i]));
        assert_true(sparse->index[i] < count && (i == 0 || sparse->index[i] > sparse->index[i - 1]));
    }
}

static void assert_same(const struct compress_sparse *a, const struct compress_sparse *b)
{
    assert_int_equal(a->count, b->count);
    if (a->count > 0) {
        assert_memory_equal(a->index, b->index, a->count * sizeof *a->index);
        assert_memory_equal(a->value, b->value, a->count * sizeof *a->value);
    }
}

// Error of quantising `was` to `is` in a block with this largest magnitude.
static void assert_close(float was, float is, float largest, enum compress_values values)
{
    double error = fabs((double)was - (double)is);
    if (values == COMPRESS_FP32)
        assert_memory_equal(&was, &is, sizeof was);
    else if (values == COMPRESS_FP16 && fabsf(was) <= 65504.0f)
        assert_true(error <= fmax(0x1p-25, fabs((double)was) * 0x1p-11));
    else if (values == COMPRESS_FP16)
        assert_true(fabsf(is) == 65504.0f && (is > 0) == (was > 0));
    else if (largest >= 127.0f * FLT_MIN)
        assert_true(error <= (double)largest / 127.0 * 0.5001);
    else
        assert_true(is == 0.0f);
}

static void assert_round_trip(const float *a, size_t count, size_t k, enum compress_values values)
{
    struct sent sent = sent_make(a, count, k, values);
    struct compress_sparse received;
    assert_int_equal(compress_sparse_create(sent.sparse.count, &received), BASE_OK);
    assert_int_equal(compress_delta_decode(sent.packet, sent.bytes, count, &received), BASE_OK);
    assert_same(&sent.sparse, &received);
    float largest = 0.0f;
    for (size_t i = 0; i < received.count; i++) {
        if (i % 256 == 0) {
            largest = 0.0f;
            for (size_t j = i; j < received.count && j < i + 256; j++)
                largest = fmaxf(largest, fabsf(a[received.index[j]]));
        }
        assert_close(a[received.index[i]], received.value[i], largest, values);
    }
    if (sent.sparse.count > 0) {
        received.capacity = sent.sparse.count - 1;
        assert_int_equal(compress_delta_decode(sent.packet, sent.bytes, count, &received), BASE_ELIMIT);
    }
    compress_sparse_destroy(&received);
    sent_free(&sent);
}

static void small_vectors(void **state)
{
    struct base_rng *rng = *state;
    float a[131];
    for (unsigned kind = 0; kind < VECTOR_KINDS; kind++) {
        for (size_t count = 0; count <= 130; count++) {
            vector_fill(rng, (enum vector_kind)kind, a, count);
            const size_t ks[] = {0, 1, (count + 31) / 32, count / 2, count};
            for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++)
                for (unsigned values = COMPRESS_FP32; values <= COMPRESS_INT8; values++)
                    assert_round_trip(a, count, ks[i], (enum compress_values)values);
        }
    }
}

static void large_vectors(void **state)
{
    struct base_rng *rng = *state;
    static const size_t counts[] = {2047, 4096, 9000, 30011};
    float *a = malloc(30011 * sizeof *a);
    assert_non_null(a);
    for (unsigned kind = 0; kind < VECTOR_KINDS; kind++) {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            size_t count = counts[i];
            vector_fill(rng, (enum vector_kind)kind, a, count);
            const size_t ks[] = {1, count / 100, count / 32, count / 4, count - 1, count};
            for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++)
                for (unsigned values = COMPRESS_FP32; values <= COMPRESS_INT8; values++)
                    assert_round_trip(a, count, ks[j], (enum compress_values)values);
        }
    }
    free(a);
}

// Decodes bytes that are not what was sent, from memory of their very length, and back again where they are
// valid.
static void assert_survives(const uint8_t *bytes, size_t length, size_t count,
                            struct compress_sparse *received)
{
    uint8_t *packet = malloc(length > 0 ? length : 1);
    assert_non_null(packet);
    memcpy(packet, bytes, length);
    memset(received->index, 0xa5, received->capacity * sizeof *received->index);
    received->count = 0;
    enum base_error error = compress_delta_decode(packet, length, count, received);
    if (error == BASE_OK) {
        assert_valid(received, count);
    } else {
        assert_true(error == BASE_EFORMAT || error == BASE_ELIMIT);
        assert_int_equal(received->count, 0);
        for (size_t i = 0; i < received->capacity; i++)
            assert_int_equal(received->index[i], 0xa5a5a5a5u);
    }
    free(packet);
}

static void assert_survives_damage(struct base_rng *rng, const struct sent *sent, size_t count)
{
    struct compress_sparse received;
    uint8_t *bytes = malloc(sent->bytes + 8);
    assert_non_null(bytes);
    assert_int_equal(compress_sparse_create(sent->sparse.count + 1, &received), BASE_OK);
    memcpy(bytes, sent->packet, sent->bytes);
    for (size_t bit = 0; bit < 8 * sent->bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_survives(bytes, sent->bytes, count, &received);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t length = 0; length < sent->bytes; length++) {
        assert_int_equal(compress_delta_decode(bytes, length, count, &received), BASE_EFORMAT);
        assert_survives(bytes, length, count, &received);
    }
    memset(bytes + sent->bytes, 0, 8);
    for (size_t more = 1; more <= 8; more++) { // exact length
        assert_int_equal(compress_delta_decode(bytes, sent->bytes + more, count, &received), BASE_EFORMAT);
        bytes[sent->bytes + more - 1] = (uint8_t)base_rng_u64(rng);
    }
    compress_sparse_destroy(&received);
    free(bytes);
}

static void damaged_packets(void **state)
{
    struct base_rng *rng = *state;
    float a[600];
    for (unsigned kind = 0; kind < VECTOR_KINDS; kind++) {
        for (unsigned values = COMPRESS_FP32; values <= COMPRESS_INT8; values++) {
            for (unsigned trial = 0; trial < 3; trial++) {
                size_t count = 1 + base_rng_below(rng, 600),
                       k = 1 + base_rng_below(rng, trial == 0 ? count : 30);
                vector_fill(rng, (enum vector_kind)kind, a, count);
                struct sent sent = sent_make(a, count, k, (enum compress_values)values);
                assert_survives_damage(rng, &sent, count);
                sent_free(&sent);
            }
        }
    }
}

static void random_bytes(void **state)
{
    struct base_rng *rng = *state;
    uint8_t bytes[64];
    struct compress_sparse received;
    assert_int_equal(compress_sparse_create(40, &received), BASE_OK);
    for (unsigned trial = 0; trial < 200000; trial++) {
        size_t length = base_rng_below(rng, sizeof bytes + 1);
        for (size_t i = 0; i < length; i++)
            bytes[i] = (uint8_t)base_rng_u64(rng);
        if (length >= 6 && trial % 4 > 0) { // a header that gets past the first checks
            const uint8_t kinds[] = {0x00, 0x02, 0x10, 0x11, 0x12};
            const uint8_t head[6] = {kinds[trial % sizeof kinds], (uint8_t)(trial % 7),
                                     (uint8_t)(trial % 41)};
            memcpy(bytes, head, sizeof head);
        }
        assert_survives(bytes, length, 1 + base_rng_below(rng, 300), &received);
    }
    compress_sparse_destroy(&received);
}

int main(void)
{
    struct base_rng rng;
    base_rng_seed(&rng, vectors_seed());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(small_vectors, &rng),
        cmocka_unit_test_prestate(large_vectors, &rng),
        cmocka_unit_test_prestate(damaged_packets, &rng),
        cmocka_unit_test_prestate(random_bytes, &rng),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
