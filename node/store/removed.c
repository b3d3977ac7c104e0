#include "node/store/removed.h"

#include "base/file.h"
#include "node/store/place.h"
#include <stdlib.h>

enum base_error node_removed_read(const char *directory, const char *cluster, const struct gossip_id *by,
                                  struct gossip_removed *list, struct base_reason *why)
{
    char path[NODE_PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t count = 0;
    enum base_error error = node_place_path(directory, "removed", path, why);
    if (!error)
        error = base_file_read_regular(path, GOSSIP_REMOVED_BYTES, &bytes, &count, why);
    if (error)
        return error == BASE_ENOTFOUND ? BASE_OK : error;
    error = gossip_removed_read(bytes, count, cluster, by, list);
    free(bytes);
    if (error == BASE_EFORMAT)
        return base_fail(
            why, error,
            "%s is not a list as this program writes it; without the file the node takes that of "
            "the cluster",
            path);
    return BASE_OK; // BASE_EAUTH: cluster.operator or cluster.name is another one now
}

enum base_error node_removed_write(const char *directory, const struct gossip_removed *list,
                                   struct base_reason *why)
{
    char path[NODE_PATH_BYTES];
    uint8_t bytes[GOSSIP_REMOVED_BYTES];
    const struct base_span span = {bytes, gossip_removed_write(list, bytes)};
    const enum base_error error = node_place_path(directory, "removed", path, why);
    return error ? error : base_file_write(path, NODE_FILE_MODE, &span, 1, why);
}
