#include "compress/filter.h"
#include "compress/packet.h"

#include <stdlib.h>
#include <string.h>

void compress_history_take(struct compress_history *history, uint32_t *index, size_t count, bool again)
{
    const uint64_t age = again ? history->age + 1 : 0;
    compress_history_forget(history);
    *history = (struct compress_history){
        .index = index, .count = count, .age = age, .hash = compress_keys_hash(index, count)};
}

enum base_error compress_history_sent(struct compress_history *history, const uint32_t *index, size_t count,
                                      bool again)
{
    uint32_t *copy = malloc((count > 0 ? count : 1) * sizeof *copy);
    if (copy == NULL)
        return BASE_ENOMEM;
    if (count > 0)
        memcpy(copy, index, count * sizeof *copy);
    compress_history_take(history, copy, count, again);
    return BASE_OK;
}

void compress_history_forget(struct compress_history *history)
{
    free(history->index);
    *history = (struct compress_history){0};
}
