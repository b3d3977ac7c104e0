#include "node/store/digest.h"

#include "base/hash.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [NODE_TENSOR_F32] = {"F32", 4},   [NODE_TENSOR_U8] = {"U8", 1},     [NODE_TENSOR_F64] = {"F64", 8},
    [NODE_TENSOR_F16] = {"F16", 2},   [NODE_TENSOR_BF16] = {"BF16", 2}, [NODE_TENSOR_I8] = {"I8", 1},
    [NODE_TENSOR_I16] = {"I16", 2},   [NODE_TENSOR_I32] = {"I32", 4},   [NODE_TENSOR_I64] = {"I64", 8},
    [NODE_TENSOR_U16] = {"U16", 2},   [NODE_TENSOR_U32] = {"U32", 4},   [NODE_TENSOR_U64] = {"U64", 8},
    [NODE_TENSOR_BOOL] = {"BOOL", 1},
};
const size_t node_tensor_types = sizeof types / sizeof types[0];

const char *node_tensor_type_name(enum node_tensor_type type)
{
    return types[type].name;
}

void node_tensor_shape(const size_t *shape, size_t n_dims, char text[NODE_SHAPE_TEXT])
{
    size_t used = (size_t)snprintf(text, NODE_SHAPE_TEXT, "[");
    for (size_t i = 0; i < n_dims && used < NODE_SHAPE_TEXT; i++)
        used += (size_t)snprintf(text + used, NODE_SHAPE_TEXT - used, "%s%zu", i ? ", " : "", shape[i]);
    if (used < NODE_SHAPE_TEXT)
        snprintf(text + used, NODE_SHAPE_TEXT - used, "]");
}

size_t node_tensor_type_bytes(enum node_tensor_type type)
{
    return types[type].bytes;
}

bool node_tensor_size(const struct node_tensor *tensor, size_t *bytes)
{
    size_t product = types[tensor->type].bytes;
    for (size_t i = 0; i < tensor->n_dims; i++)
        if (__builtin_mul_overflow(product, tensor->shape[i], &product))
            return false;
    *bytes = product;
    return true;
}

static const uint64_t digest_seeds[2] = {0x70327032746e736full, 0x6d6c3132386d6574ull};

void node_digest_tensor(struct node_digest *digest, const struct node_tensor *tensor)
{
    uint64_t form[2 + NODE_TENSOR_DIMS] = {(uint64_t)tensor->type, tensor->n_dims};
    BASE_ASSERT(tensor->n_dims <= NODE_TENSOR_DIMS);
    for (size_t i = 0; i < tensor->n_dims; i++)
        form[2 + i] = tensor->shape[i];
    uint64_t seed[2], hash[2];
    for (int i = 0; i < 2; i++) {
        seed[i] = base_hash_bytes(digest_seeds[i], tensor->name, strlen(tensor->name));
        seed[i] = base_hash_bytes(seed[i], form, sizeof form);
    }
    base_hash_bytes_two(seed, tensor->data, tensor->bytes, hash);
    digest->half[0] += hash[0];
    digest->half[1] += hash[1];
}

void node_digest_pair(struct node_digest *digest, const char *key, const char *value)
{
    for (int i = 0; i < 2; i++) {
        uint64_t hash = base_hash_bytes(digest_seeds[i] + 1, key, strlen(key));
        digest->half[i] += base_hash_bytes(hash, value, strlen(value));
    }
}

void node_digest_text(const struct node_digest *digest, char text[NODE_DIGEST_TEXT])
{
    snprintf(text, NODE_DIGEST_TEXT, NODE_DIGEST_PREFIX "%016" PRIx64 "%016" PRIx64,
             base_hash_mix(digest->half[0]), base_hash_mix(digest->half[1]));
}
