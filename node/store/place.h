// Where the files of a node are in node.dir, and the modes of what it makes there. Models and losses tell
// about the examples, which are private. Files and directories that exist keep their modes. Any thread.
#ifndef NODE_STORE_PLACE_H
#define NODE_STORE_PLACE_H

#include "base/error.h"

#define NODE_FILE_MODE      0600u
#define NODE_DIRECTORY_MODE 0700u
#define NODE_PATH_BYTES     4096u

// "DIRECTORY/NAME". BASE_ELIMIT: it is too long.
enum base_error node_place_path(const char *directory, const char *name, char path[NODE_PATH_BYTES],
                                struct base_reason *why) BASE_CHECK;

#endif
