// What data mean, as a file that nodes with files of their own share.
#include "base/file.h"
#include "base/limits.h"
#include "node/learn/data.h"
#include "node/store/meaning_text.h"
#include <stdlib.h>
#include <string.h>

enum base_error node_data_meaning_write(const char *path, const struct train_meaning *meaning,
                                        struct base_reason *why)
{
    char *text = NULL;
    enum base_error error = node_meaning_text(meaning, 1, &text, why);
    if (error)
        return base_fail_context(why, error, "%s", path);
    const struct base_span spans[] = {{text, strlen(text)}, {"\n", 1}};
    error = base_file_write(path, 0644, spans, 2, why);
    free(text);
    return error;
}

enum base_error node_data_meaning_read(const char *path, struct train_meaning **meaning,
                                       struct base_reason *why)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    enum base_error error = base_file_read(path, 8 * LIMIT_MEANING_BYTES, &text, &bytes, why);
    if (error)
        return base_fail_context(why, error, "data.scale_from");
    error = node_meaning_parse(path, (const char *)text, bytes, meaning, why);
    free(text);
    return error ? base_fail_context(why, error, "data.scale_from") : BASE_OK;
}
