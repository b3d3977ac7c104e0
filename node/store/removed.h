// The file `removed` in node.dir: the operator's latest list of removed members, as it was signed
// (gossip/session/removed.h). Loop's thread.
#ifndef NODE_STORE_REMOVED_H
#define NODE_STORE_REMOVED_H

#include "gossip/session/removed.h"

// Without a file, or if another operator has signed it, there is no list. BASE_EFORMAT, BASE_EIO.
enum base_error node_removed_read(const char *directory, const char *cluster, const struct gossip_id *by,
                                  struct gossip_removed *list, struct base_reason *why) BASE_CHECK;
enum base_error node_removed_write(const char *directory, const struct gossip_removed *list,
                                   struct base_reason *why) BASE_CHECK;

#endif
