// Keeps node.dir: cleaners of /tmp and people remove directories that are in use. A node whose directory is
// gone would train on and write its checkpoints into a new one, without identity, boot and lock: the next
// process would be another node, and a second process could write into the same place.
//
// The node restores what was removed, instead of ending: a node that trains alone has its model nowhere else.
// It holds copies of the small files, the lock's included, and asks for a checkpoint at once. Only if another
// process has taken the place in the meantime does it end.
#ifndef NODE_STORE_KEEPER_H
#define NODE_STORE_KEEPER_H

#include "base/error.h"

#include <stdbool.h>

struct node_keeper;

// `lock`: the descriptor of <directory>/lock, which this process has locked; borrowed. BASE_ENOMEM, BASE_EIO.
enum base_error node_keeper_create(const char *directory, int lock, struct node_keeper **keeper,
                                   struct base_reason *why) BASE_CHECK;
void node_keeper_destroy(struct node_keeper *keeper); // wipes the copies; NULL is fine

// Looks whether identity, boot, joined and lock are there, takes copies of what has changed, and restores
// what is missing; logs what it did. *restored: something was. The descriptor `lock` then is that of the new
// file. Any thread; touches the disk. BASE_EIO: it cannot be restored now (logged once); the next call tries
// again. BASE_ESTATE, for ever: the directory is another process's now, and nothing may be written there.
enum base_error node_keeper_look(struct node_keeper *keeper, bool *restored,
                                 struct base_reason *why) BASE_CHECK;

#endif
