// Types of tensors, and the 128-bit digest of a safetensors file: sums of one hash per entry, under two
// seeds, so that the order of the entries does not matter. Shared by the writer and the reader; pure
// functions.
#ifndef NODE_STORE_DIGEST_H
#define NODE_STORE_DIGEST_H

#include "node/store/safetensors.h"
#include <stdbool.h>

extern const size_t node_tensor_types; // how many

// *bytes = size of the type x product of the shape; false if that overflows.
bool node_tensor_size(const struct node_tensor *tensor, size_t *bytes);

#define NODE_DIGEST_PREFIX "p2pml-128:"
#define NODE_DIGEST_TEXT   (sizeof NODE_DIGEST_PREFIX + 32)

struct node_digest { // zeroed: of nothing
    uint64_t half[2];
};
void node_digest_tensor(struct node_digest *digest, const struct node_tensor *tensor);
void node_digest_pair(struct node_digest *digest, const char *key, const char *value);
void node_digest_text(const struct node_digest *digest, char text[NODE_DIGEST_TEXT]);

#endif
