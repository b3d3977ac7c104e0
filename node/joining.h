// A node that joins late and finds a cluster with other settings: they are kept in its directory, and the
// program starts again with them. Main thread.
#ifndef NODE_JOINING_H
#define NODE_JOINING_H

#include "node/config/config.h"
#include "node/loop.h"

// What was kept, for the keys not set explicitly. `again`: it was taken since this start
// (NODE_ORIGIN_CLUSTER), else before (NODE_ORIGIN_EARLIER). Errors name the key.
enum base_error node_joining_read(struct node_config *config, bool again, struct base_reason *why) BASE_CHECK;
// Keeps what the loop has taken, and reports it. `again`: before what was kept earlier.
enum base_error node_joining_keep(const struct node_config *config, const struct node_loop *loop, bool again,
                                  struct base_reason *why) BASE_CHECK;
// Restarts this program in this process with --joined: nothing made from the old settings is left.
// Returns only on failure, with errno.
void node_joining_restart(int argc, char **argv);

#endif
