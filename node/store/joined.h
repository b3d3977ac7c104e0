// Settings that a node has taken from the cluster that it joined, kept for --resume: <node.dir>/joined, one
// "key=value" a line behind lines of comment ('#'). Main thread.
#ifndef NODE_STORE_JOINED_H
#define NODE_STORE_JOINED_H

#include "base/error.h"

// The file's text, zero at its end, malloc'ed; NULL where there is none. BASE_EIO, BASE_ELIMIT with the
// reason.
enum base_error node_joined_read(const char *directory, char **text, struct base_reason *why) BASE_CHECK;
// Writes `reason` as a comment, `lines`, then of what was kept earlier (NULL: nothing) the keys that `lines`
// does not have: one line a key. Replaces the file as a whole.
enum base_error node_joined_write(const char *directory, const char *reason, const char *lines,
                                  const char *earlier, struct base_reason *why) BASE_CHECK;

#endif
