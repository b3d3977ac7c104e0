#include "node/store/joined.h"
#include "base/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOINED_MAX  65536u
#define PATH_BYTES  4096u
#define JOINED_MODE 0644u

static enum base_error path_of(const char *directory, char path[PATH_BYTES], struct base_reason *why)
{
    const int used = snprintf(path, PATH_BYTES, "%s/joined", directory);
    if (used < 0 || (size_t)used >= PATH_BYTES)
        return base_fail(why, BASE_ELIMIT, "node.dir: the path is too long");
    return BASE_OK;
}

enum base_error node_joined_read(const char *directory, char **text, struct base_reason *why)
{
    char path[PATH_BYTES];
    uint8_t *data = NULL;
    size_t bytes = 0;
    *text = NULL;
    enum base_error code = path_of(directory, path, why);
    if (code != BASE_OK)
        return code;
    code = base_file_read(path, JOINED_MAX, &data, &bytes, why);
    if (code == BASE_ENOTFOUND)
        return BASE_OK;
    if (code != BASE_OK)
        return code;
    *text = strndup((const char *)data, bytes);
    free(data);
    return *text ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory for %s", path);
}

enum base_error node_joined_write(const char *directory, const char *reason, const char *lines,
                                  const char *earlier, struct base_reason *why)
{
    char path[PATH_BYTES], head[400];
    const int used = snprintf(head, sizeof head, "# %s\n", reason);
    enum base_error code = path_of(directory, path, why);
    if (code != BASE_OK)
        return code;
    const struct base_span spans[] = {{head, (size_t)used},
                                      {lines, strlen(lines)},
                                      {earlier ? earlier : "", earlier ? strlen(earlier) : 0}};
    return base_file_write(path, JOINED_MODE, spans, 3, why);
}
