// Safetensors: what is written reads back, and a damaged, truncated or invented file does not.
#include "base/file.h"
#include "base/limits.h"
#include "node/store/safetensors.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
    char directory[64], path[96];
};

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    snprintf(world->directory, sizeof world->directory, "/tmp/p2pml-safetensors-XXXXXX");
    assert_non_null(mkdtemp(world->directory));
    snprintf(world->path, sizeof world->path, "%s/file.safetensors", world->directory);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    unlink(world->path);
    assert_int_equal(rmdir(world->directory), 0); // no temporary file is left
    free(world);
    return 0;
}

static const float weights[6] = {1.5f, -2.0f, 0.0f, 3.25f, -0.0f, 1e-30f};
static const uint8_t opaque[5] = {9, 8, 7, 6, 5};

static struct node_tensor vector_of(const char *name, enum node_tensor_type type, size_t count,
                                    const void *data)
{
    struct node_tensor tensor = {.type = type, .shape = {count}, .n_dims = 1, .data = data};
    snprintf(tensor.name, sizeof tensor.name, "%s", name);
    tensor.bytes = count * node_tensor_type_bytes(type);
    return tensor;
}

static enum base_error write_sample(const char *path, struct base_reason *why)
{
    struct node_tensor tensors[4] = {
        vector_of("model.weight", NODE_TENSOR_F32, 6, weights),
        vector_of("empty", NODE_TENSOR_F32, 0, weights),
        vector_of("one \"\\\n", NODE_TENSOR_F32, 1, weights + 3),
        vector_of("opaque", NODE_TENSOR_U8, 5, opaque),
    };
    tensors[0].n_dims = 2;
    tensors[0].shape[0] = 2;
    tensors[0].shape[1] = 3;
    tensors[2].n_dims = 0; // a scalar
    static const struct node_text_pair metadata[2] = {{.key = "round", .value = "17"},
                                                      {.key = "node", .value = "n\xc3\xb6 \"1\""}};
    return node_safetensors_write(path, tensors, 4, metadata, 2, why);
}

static void load(const char *path, uint8_t **bytes, size_t *count)
{
    struct base_reason why = {.text = ""};
    assert_int_equal(base_file_read(path, 1 << 24, bytes, count, &why), BASE_OK);
}

static void check_sample(const struct node_safetensors *file)
{
    const char *value;
    assert_int_equal(node_safetensors_count(file), 4);
    const struct node_tensor *tensor = node_safetensors_find(file, "model.weight");
    assert_ptr_equal(tensor, node_safetensors_at(file, 0));
    assert_int_equal(tensor->type, NODE_TENSOR_F32);
    assert_int_equal(tensor->n_dims, 2);
    assert_int_equal(tensor->shape[0], 2);
    assert_int_equal(tensor->shape[1], 3);
    assert_int_equal(tensor->bytes, sizeof weights);
    assert_int_equal((uintptr_t)tensor->data % 8, 0);
    assert_memory_equal(tensor->data, weights, sizeof weights);
    assert_int_equal(node_safetensors_find(file, "empty")->bytes, 0);
    assert_int_equal(node_safetensors_find(file, "one \"\\\n")->n_dims, 0);
    assert_memory_equal(node_safetensors_find(file, "opaque")->data, opaque, sizeof opaque);
    assert_null(node_safetensors_find(file, "__metadata__"));
    assert_null(node_safetensors_find(file, "model.weigh"));
    assert_string_equal(node_safetensors_metadata(file, "round"), "17");
    assert_string_equal(node_safetensors_metadata(file, "node"), "n\xc3\xb6 \"1\"");
    assert_null(node_safetensors_metadata(file, "rounds"));
    assert_string_equal(node_safetensors_metadata_at(file, 0, &value), "round");
    assert_string_equal(value, "17");
    assert_null(node_safetensors_metadata_at(file, 3, &value)); // the digest is the third
    assert_true(node_safetensors_has_digest(file));
}

static void tensors_survive_a_round_trip(void **state)
{
    struct world *world = *state;
    struct base_reason why = {.text = ""};
    struct node_safetensors *file;
    assert_int_equal(write_sample(world->path, &why), BASE_OK);
    assert_int_equal(node_safetensors_read(world->path, 1 << 20, 1, &file, &why), BASE_OK);
    check_sample(file);
    node_safetensors_free(file);

    uint8_t *bytes;
    size_t count;
    load(world->path, &bytes, &count);
    assert_int_equal(bytes[8], '{');
    assert_int_equal((bytes[0] | bytes[1] << 8) % 8, 0); // data starts aligned
    assert_int_equal(node_safetensors_parse(bytes, count, 1, &file, &why), BASE_OK);
    check_sample(file);
    node_safetensors_free(file);
    free(bytes);
    assert_int_equal(node_safetensors_read(world->path, count - 1, 1, &file, &why), BASE_ELIMIT);
}

static void a_file_without_tensors_is_valid(void **state)
{
    struct world *world = *state;
    struct base_reason why = {.text = ""};
    struct node_safetensors *file;
    assert_int_equal(node_safetensors_write(world->path, NULL, 0, NULL, 0, &why), BASE_OK);
    assert_int_equal(node_safetensors_read(world->path, 1 << 20, 1, &file, &why), BASE_OK);
    assert_int_equal(node_safetensors_count(file), 0);
    node_safetensors_free(file);
}

static void every_flipped_bit_is_detected(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    uint8_t *bytes;
    size_t count;
    assert_int_equal(write_sample(world->path, &why), BASE_OK);
    load(world->path, &bytes, &count);
    for (size_t bit = 0; bit < 8 * count; bit++) {
        struct node_safetensors *file;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        why.text[0] = 0;
        if (node_safetensors_parse(bytes, count, 1, &file, &why) != BASE_EFORMAT || !why.text[0])
            fail_msg("bit %zu of byte %zu was flipped and not detected: '%s'", bit % 8, bit / 8, why.text);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(bytes);
}

static void every_truncation_is_detected(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    struct node_safetensors *file;
    uint8_t *bytes;
    size_t count;
    assert_int_equal(write_sample(world->path, &why), BASE_OK);
    load(world->path, &bytes, &count);
    for (size_t length = 0; length < count; length++) {
        uint8_t *shorter =
            malloc(length ? length : 1); // separate memory, so that a sanitizer detects reads beyond it
        assert_non_null(shorter);
        memcpy(shorter, bytes, length);
        why.text[0] = 0;
        assert_int_equal(node_safetensors_parse(shorter, length, 0, &file, &why), BASE_EFORMAT);
        assert_true(why.text[0]);
        free(shorter);
    }
    uint8_t *longer = calloc(count + 1, 1);
    assert_non_null(longer);
    memcpy(longer, bytes, count);
    assert_int_equal(node_safetensors_parse(longer, count + 1, 0, &file, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, "follow"));
    free(longer);
    free(bytes);
}

// Reads a file made of a header text and this many bytes of data; returns the result.
static enum base_error parse_text(const char *header, size_t data_bytes, int need_digest,
                                  struct node_safetensors **file, struct base_reason *why)
{
    const size_t length = strlen(header);
    uint8_t *bytes = calloc(1, 8 + length + data_bytes);
    assert_non_null(bytes);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    why->text[0] = 0;
    enum base_error error = node_safetensors_parse(bytes, 8 + length + data_bytes, need_digest, file, why);
    free(bytes); // the tensors point into it, but no test of invented headers follows them
    return error;
}

struct made_up {
    const char *header;
    size_t data_bytes;
    const char *reason; // a part of it
};
static const struct made_up made_up[] = {
    {"", 0, "does not begin"},
    {" {}", 0, "does not begin"},
    {"{", 0, "not a JSON object"},
    {"{}}", 0, "not a JSON object"},
    {"{} x", 0, "not a JSON object"},
    {"{\"\\u0000\":1}", 0, "not a JSON object"},
    {"{\"a\":1}", 0, "not described"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "not described"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offset\":[0,4]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "not described"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4, "duplicate"},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "duplicate"},
    {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "duplicate"},
    {"{\"__metadata__\":[]}", 0, "__metadata__"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "not a text"},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "type 'F31'"},
    {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "type '(none)'"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]}}", 4, "not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "at most 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "fit its shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}", 4,
     "fit its shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     "fit its shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4,
     "not a JSON object"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "cut off"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[9223372036854775803,9223372036854775807]}}",
     4, "cut off"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
     7, "overlap"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
     4, "overlap"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[5,7]}}",
     7, "gap"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}", 4, "gap"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
     4, "overlap"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 5, "1 bytes follow"},
    {"{\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "tensor name"},
};

static void invented_headers_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof made_up / sizeof made_up[0]; i++) {
        struct node_safetensors *file;
        struct base_reason why;
        enum base_error error = parse_text(made_up[i].header, made_up[i].data_bytes, 0, &file, &why);
        if ((error != BASE_EFORMAT && error != BASE_ELIMIT) || !strstr(why.text, made_up[i].reason))
            fail_msg("%s: %s '%s', expected '%s'", made_up[i].header, base_error_name(error), why.text,
                     made_up[i].reason);
    }
}

static void a_reason_contains_no_terminal_sequences(void **state)
{
    (void)state;
    struct node_safetensors *file;
    struct base_reason why;
    assert_int_equal(parse_text("{\"\\u001b[2J\\u007f\":1}", 0, 0, &file, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, "?[2J?"));
}

static void size_bombs_are_refused_before_anything_is_allocated(void **state)
{
    (void)state;
    struct node_safetensors *file;
    struct base_reason why;
    static const uint64_t lengths[] = {LIMIT_CHECKPOINT_HEADER_BYTES + 1ull, 1ull << 32, INT64_MAX,
                                       UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t bytes[10] = {[8] = '{', [9] = '}'};
        memcpy(bytes, &lengths[i], 8);
        assert_int_equal(node_safetensors_parse(bytes, sizeof bytes, 0, &file, &why), BASE_EFORMAT);
        assert_non_null(strstr(why.text, "header length"));
    }
    // A megabyte of opening brackets.
    char *deep = malloc(LIMIT_CHECKPOINT_HEADER_BYTES + 1);
    assert_non_null(deep);
    memset(deep, '[', LIMIT_CHECKPOINT_HEADER_BYTES);
    memcpy(deep, "{\"a\":", 5);
    deep[LIMIT_CHECKPOINT_HEADER_BYTES] = 0;
    assert_int_equal(parse_text(deep, 0, 0, &file, &why), BASE_EFORMAT);
    free(deep);
}

static void files_of_other_programs_are_read(void **state)
{
    (void)state;
    struct node_safetensors *file;
    struct base_reason why;
    // No padding, tensors out of order, an empty one, other types, another program's digest.
    const char *header = "{\"b\":{\"dtype\":\"BF16\",\"shape\":[1,1,2],\"data_offsets\":[8,12]},"
                         "\"e\":{\"dtype\":\"I64\",\"shape\":[0,5],\"data_offsets\":[8,8]},"
                         "\"a\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
                         "\"__metadata__\":{\"digest\":\"sha256:00\"}}";
    assert_int_equal(parse_text(header, 12, 0, &file, &why), BASE_OK);
    assert_int_equal(node_safetensors_count(file), 3);
    assert_string_equal(node_safetensors_at(file, 0)->name, "a");
    assert_string_equal(node_safetensors_at(file, 1)->name, "e");
    assert_string_equal(node_safetensors_at(file, 2)->name, "b");
    assert_int_equal(node_safetensors_at(file, 2)->type, NODE_TENSOR_BF16);
    assert_int_equal(node_safetensors_at(file, 2)->n_dims, 3);
    assert_false(node_safetensors_has_digest(file));
    node_safetensors_free(file);
    assert_int_equal(parse_text(header, 12, 1, &file, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, "digest is missing"));
    assert_int_equal(parse_text("{}", 0, 0, &file, &why), BASE_OK);
    node_safetensors_free(file);
}

static void invalid_tensors_are_not_written(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    static const struct node_text_pair twice[2] = {{.key = "a", .value = "1"}, {.key = "a", .value = "2"}},
                                       ours[1] = {{.key = "digest", .value = "1"}},
                                       latin1[1] = {{.key = "node", .value = "\xe9"}};
    struct node_tensor tensors[2] = {vector_of("a", NODE_TENSOR_U8, 5, opaque),
                                     vector_of("b", NODE_TENSOR_F32, 6, weights)};
    assert_int_equal(node_safetensors_write(world->path, tensors, 2, NULL, 0, &why),
                     BASE_EINVAL); // b not aligned
    assert_non_null(strstr(why.text, "aligned"));
    tensors[0] = tensors[1];
    assert_int_equal(node_safetensors_write(world->path, tensors, 2, NULL, 0, &why), BASE_EINVAL); // b twice
    tensors[0].shape[0] = 5;
    assert_int_equal(node_safetensors_write(world->path, tensors, 1, NULL, 0, &why), BASE_EINVAL);
    snprintf(tensors[1].name, sizeof tensors[1].name, "__metadata__");
    assert_int_equal(node_safetensors_write(world->path, tensors + 1, 1, NULL, 0, &why), BASE_EINVAL);
    tensors[1].name[0] = 0;
    assert_int_equal(node_safetensors_write(world->path, tensors + 1, 1, NULL, 0, &why), BASE_EINVAL);
    assert_int_equal(node_safetensors_write(world->path, NULL, 0, twice, 2, &why), BASE_EINVAL);
    assert_int_equal(node_safetensors_write(world->path, NULL, 0, ours, 1, &why), BASE_EINVAL);
    assert_int_equal(node_safetensors_write(world->path, NULL, 0, latin1, 1, &why), BASE_EINVAL);
    assert_int_equal(access(world->path, F_OK), -1);
}

static void a_header_that_is_too_long_is_not_written(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    char *text = malloc(LIMIT_CHECKPOINT_HEADER_BYTES + 1);
    assert_non_null(text);
    memset(text, 'x', LIMIT_CHECKPOINT_HEADER_BYTES);
    text[LIMIT_CHECKPOINT_HEADER_BYTES] = 0;
    struct node_text_pair pair = {.key = "long", .text = text};
    assert_int_equal(node_safetensors_write(world->path, NULL, 0, &pair, 1, &why), BASE_ELIMIT);
    assert_int_equal(access(world->path, F_OK), -1);
    struct node_safetensors *file;
    pair.text = text + LIMIT_CHECKPOINT_HEADER_BYTES / 2;
    assert_int_equal(node_safetensors_write(world->path, NULL, 0, &pair, 1, &why), BASE_OK);
    assert_int_equal(node_safetensors_read(world->path, 1 << 24, 1, &file, &why), BASE_OK);
    assert_string_equal(node_safetensors_metadata(file, "long"), pair.text);
    node_safetensors_free(file);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensors_survive_a_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_without_tensors_is_valid, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_flipped_bit_is_detected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_truncation_is_detected, set_up, tear_down),
        cmocka_unit_test(invented_headers_are_refused),
        cmocka_unit_test(a_reason_contains_no_terminal_sequences),
        cmocka_unit_test(size_bombs_are_refused_before_anything_is_allocated),
        cmocka_unit_test(files_of_other_programs_are_read),
        cmocka_unit_test_setup_teardown(invalid_tensors_are_not_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_header_that_is_too_long_is_not_written, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
