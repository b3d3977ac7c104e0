// Safetensors files (https://github.com/huggingface/safetensors, "Format"): u64 header length, JSON header,
// tensors. The reader trusts nothing: header size, duplicate keys, unknown types, shapes against offsets,
// overlaps, gaps and file length are checked before a byte of data is used, then a 128-bit digest over all
// tensors and all metadata, kept in the metadata as "digest". The digest does not depend on the order of
// either and detects any flipped bit, but does not protect against tampering: it is not cryptographic.
// Blocking; one owner a file; little-endian machines.
#ifndef NODE_STORE_SAFETENSORS_H
#define NODE_STORE_SAFETENSORS_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

// p2pml writes the first two; the others are read, so that files from elsewhere can be inspected.
enum node_tensor_type {
    NODE_TENSOR_F32,
    NODE_TENSOR_U8,
    NODE_TENSOR_F64,
    NODE_TENSOR_F16,
    NODE_TENSOR_BF16,
    NODE_TENSOR_I8,
    NODE_TENSOR_I16,
    NODE_TENSOR_I32,
    NODE_TENSOR_I64,
    NODE_TENSOR_U16,
    NODE_TENSOR_U32,
    NODE_TENSOR_U64,
    NODE_TENSOR_BOOL,
};
const char *node_tensor_type_name(enum node_tensor_type type); // as in the file: "F32"
size_t node_tensor_type_bytes(enum node_tensor_type type);     // of one element

#define NODE_TENSOR_DIMS 8
#define NODE_SHAPE_TEXT  200 // of as many dimensions
// "[784, 10]"
void node_tensor_shape(const size_t *shape, size_t n_dims, char text[NODE_SHAPE_TEXT]);
struct node_tensor {
    char name[160];
    enum node_tensor_type type;
    size_t shape[NODE_TENSOR_DIMS], n_dims;
    size_t bytes;
    // Writing: borrowed; reading: points into the file's memory. Aligned to its type in every file that p2pml
    // wrote; files from elsewhere may not be.
    const void *data;
};
// Element `index` of any type; NaN for none.
double node_tensor_value(const struct node_tensor *tensor, size_t index);

struct node_text_pair {
    char key[96];
    char value[256];
    const char *text; // instead of `value`, where it is longer; borrowed. NULL: `value`
};

// Writes atomically (base/file.h); only the header is copied. "digest" is added to the metadata. Tensors are
// written in the order given, without gaps: put the wider types first (BASE_EINVAL if one would not be
// aligned).
enum base_error node_safetensors_write(const char *path, const struct node_tensor *tensors, size_t n_tensors,
                                       const struct node_text_pair *metadata, size_t n_metadata,
                                       struct base_reason *why) BASE_CHECK;

struct node_safetensors; // a whole file in memory
// `limit`: largest file accepted, bytes. BASE_EFORMAT names what is wrong and where (byte or tensor); a file
// without our digest (from elsewhere) is accepted when `need_digest` is 0.
enum base_error node_safetensors_read(const char *path, size_t limit, int need_digest,
                                      struct node_safetensors **file, struct base_reason *why) BASE_CHECK;
// The same on bytes in memory (for the fuzzer); the bytes are borrowed.
enum base_error node_safetensors_parse(const uint8_t *bytes, size_t count, int need_digest,
                                       struct node_safetensors **file, struct base_reason *why) BASE_CHECK;
size_t node_safetensors_count(const struct node_safetensors *file);
const struct node_tensor *node_safetensors_at(const struct node_safetensors *file, size_t index);
const struct node_tensor *node_safetensors_find(const struct node_safetensors *file,
                                                const char *name); // NULL: not there
const char *node_safetensors_metadata(const struct node_safetensors *file,
                                      const char *key); // NULL: not there
// The metadata in order, without "__metadata__" itself: key and value by index. NULL after the last.
const char *node_safetensors_metadata_at(const struct node_safetensors *file, size_t index,
                                         const char **value);
int node_safetensors_has_digest(const struct node_safetensors *file); // and it is correct
void node_safetensors_free(struct node_safetensors *file);

#endif
