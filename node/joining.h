// For a node that joins late and finds a cluster with other settings: keeps those settings in its directory
// and starts the program again with them. Main thread.
#ifndef NODE_JOINING_H
#define NODE_JOINING_H

#include "node/config/config.h"
#include "node/loop.h"

// Reads the kept settings, for keys that are not set explicitly. `again`: they were taken since this start
// (NODE_ORIGIN_CLUSTER), else in an earlier run (NODE_ORIGIN_EARLIER). Errors name the key.
enum base_error node_joining_read(struct node_config *config, bool again, struct base_reason *why) BASE_CHECK;
// Keeps the settings that the loop has taken, and logs them. `again`: keeps the earlier ones, too, after
// them.
enum base_error node_joining_keep(const struct node_config *config, const struct node_loop *loop, bool again,
                                  struct base_reason *why) BASE_CHECK;
// Restarts this program in this process with --joined: nothing made from the old settings is left.
// Returns only on failure, with errno.
void node_joining_restart(int argc, char **argv);

#endif
