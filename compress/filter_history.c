#include "compress/filter.h"
#include "compress/packet.h"
#include <stdlib.h>

void compress_history_take(struct compress_history *history, uint32_t *index, size_t count, bool again)
{
    const uint64_t age = again ? history->age + 1 : 0;
    compress_history_forget(history);
    *history = (struct compress_history){
        .index = index, .count = count, .age = age, .hash = compress_keys_hash(index, count)};
}

void compress_history_forget(struct compress_history *history)
{
    free(history->index);
    *history = (struct compress_history){0};
}
