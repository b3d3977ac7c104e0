// Any bytes: refused with a reason, or every tensor lies inside them and no two overlap.
#include "node/store/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    for (int need_digest = 0; need_digest < 2; need_digest++) {
        struct node_safetensors *file;
        struct base_reason why = {.text = ""};
        if (node_safetensors_parse(bytes, count, need_digest, &file, &why)) {
            BASE_ASSERT(why.text[0]);
            continue;
        }
        const uint8_t *end = NULL;
        for (size_t i = 0; i < node_safetensors_count(file); i++) {
            const struct node_tensor *tensor = node_safetensors_at(file, i);
            const uint8_t *data = tensor->data;
            BASE_ASSERT(data >= bytes && tensor->bytes <= (size_t)(bytes + count - data));
            BASE_ASSERT(!end || data == end);
            BASE_ASSERT(node_safetensors_find(file, tensor->name) == tensor);
            end = data + tensor->bytes;
        }
        BASE_ASSERT(!end || end == bytes + count);
        const char *value;
        for (size_t i = 0; node_safetensors_metadata_at(file, i, &value); i++)
            BASE_ASSERT(value);
        BASE_ASSERT(!need_digest || node_safetensors_has_digest(file));
        node_safetensors_free(file);
    }
    return 0;
}
