// A node that came late and found a cluster with other settings: they are kept in its directory, and the
// program begins anew with them. Main thread.
#ifndef NODE_JOINING_H
#define NODE_JOINING_H

#include "node/config/config.h"
#include "node/loop.h"

// What was kept, for the keys that nobody has set; their origin is "the cluster". Errors name the key.
enum base_error node_joining_read(struct node_config *config, struct base_reason *why) BASE_CHECK;
// Keeps what the loop has taken, and tells people. `again`: beside what was kept before.
enum base_error node_joining_keep(const struct node_config *config, const struct node_loop *loop, bool again,
                                  struct base_reason *why) BASE_CHECK;
// This program anew, in this process, with --joined: nothing that was made of the settings before is left.
// Returns only on failure, with errno.
void node_joining_restart(int argc, char **argv);

#endif
