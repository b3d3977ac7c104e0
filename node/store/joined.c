#include "node/store/joined.h"
#include "base/file.h"
#include "node/store/place.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOINED_MAX 65536u

enum base_error node_joined_read(const char *directory, char **text, struct base_reason *why)
{
    char path[NODE_PATH_BYTES];
    uint8_t *data = NULL;
    size_t bytes = 0;
    *text = NULL;
    enum base_error error = node_place_path(directory, "joined", path, why);
    if (error)
        return error;
    error = base_file_read_regular(path, JOINED_MAX, &data, &bytes, why);
    if (error == BASE_ENOTFOUND)
        return BASE_OK;
    if (error)
        return error;
    *text = strndup((const char *)data, bytes);
    free(data);
    return *text ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory for %s", path);
}

static size_t line_bytes(const char *line)
{
    const size_t bytes = strcspn(line, "\n");
    return bytes + (line[bytes] == '\n');
}

static bool has_key(const char *lines, const char *line)
{
    const size_t bytes = strcspn(line, "=\n") + 1;
    for (; *lines; lines += line_bytes(lines))
        if (strncmp(lines, line, bytes) == 0)
            return true;
    return false;
}

// Adds the earlier settings whose keys `lines` does not have, each with its comment: one line per key, so
// that the file stays small however often the node takes settings.
static void add_earlier(char *out, const char *lines, const char *earlier)
{
    const char *comment = NULL;
    for (const char *line = earlier; *line; line += line_bytes(line)) {
        if (line[0] == '#') {
            comment = line;
        } else if (!has_key(lines, line) && !has_key(out, line)) {
            if (comment)
                strncat(out, comment, line_bytes(comment));
            comment = NULL;
            strncat(out, line, line_bytes(line));
        }
    }
}

enum base_error node_joined_write(const char *directory, const char *reason, const char *lines,
                                  const char *earlier, struct base_reason *why)
{
    char path[NODE_PATH_BYTES], head[400];
    const int used = snprintf(head, sizeof head, "# %.390s\n", reason);
    enum base_error error = node_place_path(directory, "joined", path, why);
    if (error)
        return error;
    char *kept = calloc(1, earlier ? strlen(earlier) + 1 : 1);
    if (!kept)
        return base_fail(why, BASE_ENOMEM, "no memory for %s", path);
    if (earlier)
        add_earlier(kept, lines, earlier);
    BASE_ASSERT(used > 0 && (!earlier || strlen(kept) <= strlen(earlier)));
    const struct base_span spans[] = {{head, strlen(head)}, {lines, strlen(lines)}, {kept, strlen(kept)}};
    error = base_file_write(path, NODE_FILE_MODE, spans, 3, why);
    free(kept);
    return error;
}
