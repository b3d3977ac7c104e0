// Any bytes as text and as a file of ids: an error with a reason, or windows whose ids are all in the
// vocabulary. The first byte chooses which, and the context.
#include "base/error.h"
#include "train/loaders.h"
#include "train/tokens.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1)
        return 0;
    const struct train_bytes file = {"file", data + 1, bytes - 1};
    const size_t context = 1 + data[0] / 16;
    const struct train_text_options options = {.text = data[0] % 2 ? TRAIN_TEXT_CHARACTERS : TRAIN_TEXT_BYTES,
                                               .context = context};
    struct train_dataset set = {0};
    struct base_reason why = {""};
    const enum base_error error = data[0] % 4 == 2 ? train_tokens_parse(&file, 2, 300, context, &set, &why)
                                                   : train_text_parse(&file, &options, &set, &why);
    if (error) {
        BASE_ASSERT(why.text[0] != 0 && !set.tokens);
        return 0;
    }
    for (size_t i = 0; i < set.examples; i++) {
        uint32_t ids[16], labels[16];
        train_tokens_window(&set, i, context - 1, ids, labels);
        for (size_t t = 0; t < context; t++)
            BASE_ASSERT(ids[t] < set.classes && labels[t] < set.classes);
    }
    train_dataset_destroy(&set);
    return 0;
}
