// The checkpoints in one directory: checkpoint-<step>.safetensors, newest step first. Private to
// node/store/checkpoint*.c.
#ifndef NODE_STORE_CHECKPOINT_FILES_H
#define NODE_STORE_CHECKPOINT_FILES_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

#define NODE_CHECKPOINT_FORMAT  "p2pml checkpoint" // metadata "format"
#define NODE_CHECKPOINT_VERSION "2"                // metadata "version"
#define NODE_CHECKPOINT_PATH    4096               // bytes of a path, terminating zero included

struct node_checkpoint_files {
    uint64_t *steps; // malloc'ed, descending
    size_t count;
};
// BASE_ENOTFOUND: no such directory. An empty one is not an error.
enum base_error node_checkpoint_files_list(const char *directory, struct node_checkpoint_files *files,
                                           struct base_reason *why) BASE_CHECK;
void node_checkpoint_files_free(struct node_checkpoint_files *files); // leaves {0}
enum base_error node_checkpoint_file_path(const char *directory, uint64_t step,
                                          char path[NODE_CHECKPOINT_PATH],
                                          struct base_reason *why) BASE_CHECK;

#define NODE_CHECKPOINT_PREFIX "checkpoint-" // of the names of all files of checkpoints

// After checkpoint `step` was written: sets later ones aside and removes the oldest beyond `keep`. A failure
// is only logged, because the new checkpoint is safe.
void node_checkpoint_files_retire(const char *directory, size_t keep, uint64_t step);

#endif
