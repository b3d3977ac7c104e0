// The modes of what a node makes in node.dir. Models and losses tell about the examples, which are private.
// Files and directories that exist keep their modes.
#ifndef NODE_STORE_MODES_H
#define NODE_STORE_MODES_H

#define NODE_FILE_MODE      0600u
#define NODE_DIRECTORY_MODE 0700u

#endif
