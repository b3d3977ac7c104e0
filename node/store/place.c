#include "node/store/place.h"

#include <stdio.h>

enum base_error node_place_path(const char *directory, const char *name, char path[NODE_PATH_BYTES],
                                struct base_reason *why)
{
    const int used = snprintf(path, NODE_PATH_BYTES, "%s/%s", directory, name);
    if (used < 0 || (size_t)used >= NODE_PATH_BYTES)
        return base_fail(why, BASE_ELIMIT, "node.dir: the path is too long");
    return BASE_OK;
}
