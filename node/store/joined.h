// Settings that a node has taken from the cluster that it joined, kept for --resume: <node.dir>/joined, one
// "key=value" per line after comment lines ('#'). Main thread.
#ifndef NODE_STORE_JOINED_H
#define NODE_STORE_JOINED_H

#include "base/error.h"

// The text of the file, zero-terminated and malloc'ed; NULL if there is no file. BASE_EIO, BASE_ELIMIT with
// the reason.
enum base_error node_joined_read(const char *directory, char **text, struct base_reason *why) BASE_CHECK;
// Writes `reason` as a comment, then `lines`, then the settings of `earlier` (NULL: none) whose keys `lines`
// does not have: one line per key. Replaces the whole file.
enum base_error node_joined_write(const char *directory, const char *reason, const char *lines,
                                  const char *earlier, struct base_reason *why) BASE_CHECK;

#endif
