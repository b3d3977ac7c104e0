// Safetensors files (https://github.com/huggingface/safetensors, "Format"): u64 header length, JSON header, tensors. The reader
// trusts nothing: header size, duplicate keys, unknown types, shapes against offsets, overlaps, gaps and file length are
// checked before a byte of data is used, then a BLAKE-free 128-bit digest over all tensors, kept in the metadata.
#ifndef NODE_SAFETENSORS_H
#define NODE_SAFETENSORS_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum node_tensor_type { NODE_TENSOR_F32, NODE_TENSOR_U8 };

struct node_tensor {
    char name[160];
    enum node_tensor_type type;
    size_t shape[2], n_dims;
    size_t bytes;
    const void *data; // writing: borrowed; reading: points into the file's memory
};
struct node_text_pair {
    char key[64];
    char value[256];
};

// Writes atomically (base/file.h). Metadata gains "digest".
enum base_error node_safetensors_write(const char *path, const struct node_tensor *tensors, size_t n_tensors,
                                       const struct node_text_pair *metadata, size_t n_metadata,
                                       struct base_reason *why) BASE_CHECK;

struct node_safetensors; // a whole file in memory
// `limit`: largest file accepted, bytes. BASE_EFORMAT names what is wrong and where (byte or tensor); a file without our digest
// (from elsewhere) is accepted when `need_digest` is 0.
enum base_error node_safetensors_read(const char *path, size_t limit, int need_digest, struct node_safetensors **file,
                                      struct base_reason *why) BASE_CHECK;
// The same on bytes in memory (for the fuzzer); the bytes are borrowed.
enum base_error node_safetensors_parse(const uint8_t *bytes, size_t count, int need_digest,
                                       struct node_safetensors **file, struct base_reason *why) BASE_CHECK;
size_t node_safetensors_count(const struct node_safetensors *file);
const struct node_tensor *node_safetensors_at(const struct node_safetensors *file, size_t index);
const struct node_tensor *node_safetensors_find(const struct node_safetensors *file, const char *name); // NULL: not there
const char *node_safetensors_metadata(const struct node_safetensors *file, const char *key);            // NULL: not there
void node_safetensors_free(struct node_safetensors *file);

#endif
