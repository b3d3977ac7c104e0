#include "compress/filter.h"

#include <stdlib.h>
#include <string.h>

enum base_error compress_history_sent(struct compress_history *history, const uint32_t *index, size_t count,
                                      bool again)
{
    if (count > history->capacity) {
        uint32_t *larger = malloc(count * sizeof *larger);
        if (larger == NULL)
            return BASE_ENOMEM;
        free(history->index);
        history->index = larger;
        history->capacity = count;
    }
    if (count > 0)
        memcpy(history->index, index, count * sizeof *index);
    history->age = again ? history->age + 1 : 0;
    history->count = count;
    return BASE_OK;
}

void compress_history_forget(struct compress_history *history)
{
    free(history->index);
    *history = (struct compress_history){0};
}
