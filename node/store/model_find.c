#include "node/store/model_file.h"

#include "node/store/checkpoint.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_in(const char *directory, const char *name, char found[NODE_MODEL_PATH])
{
    int used = snprintf(found, NODE_MODEL_PATH, "%s/%s", directory, name);
    return used > 0 && used < NODE_MODEL_PATH && access(found, F_OK) == 0;
}

// A node has checkpoints even while it trains, or after it was killed.
enum base_error node_model_find(const char *path, char found[NODE_MODEL_PATH], struct base_reason *why)
{
    struct stat status;
    if (stat(path, &status) || !S_ISDIR(status.st_mode)) {
        if (strlen(path) >= NODE_MODEL_PATH)
            return base_fail(why, BASE_EINVAL, "the path '%.200s...' is too long", path);
        memcpy(found, path, strlen(path) + 1); // reading it reports what is wrong with it
        return BASE_OK;
    }
    if (is_in(path, NODE_MODEL_AVERAGED, found) ||
        !node_checkpoint_newest(path, found, NODE_MODEL_PATH, NULL) || is_in(path, NODE_MODEL_LAST, found))
        return BASE_OK;
    return base_fail(why, BASE_ENOTFOUND,
                     "the directory '%s' holds no model: expected " NODE_MODEL_AVERAGED
                     " of a run, or checkpoint-*.safetensors or " NODE_MODEL_LAST " of a node",
                     path);
}
