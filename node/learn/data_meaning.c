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
    enum base_error code = node_meaning_text(meaning, 1, &text, why);
    if (code != BASE_OK)
        return base_fail_context(why, code, "%s", path);
    const struct base_span spans[] = {{text, strlen(text)}, {"\n", 1}};
    code = base_file_write(path, 0644, spans, 2, why);
    free(text);
    return code;
}

enum base_error node_data_meaning_read(const char *path, struct train_meaning **meaning,
                                       struct base_reason *why)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    enum base_error code = base_file_read(path, 8 * LIMIT_MEANING_BYTES, &text, &bytes, why);
    if (code != BASE_OK)
        return base_fail_context(why, code, "data.scale_from");
    code = node_meaning_parse(path, (const char *)text, bytes, meaning, why);
    free(text);
    return code == BASE_OK ? BASE_OK : base_fail_context(why, code, "data.scale_from");
}
