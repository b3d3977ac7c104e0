// The memory of a process that was forked to write a checkpoint. While both processes have a page, the first
// one to write to it pays for a copy, and a huge page breaks into pages of 4 KiB, for good. So the child
// takes copies of the vectors as soon as it runs, in large pieces, and gives up the pages of the parent: the
// parent then writes to them as if nothing had happened. A page that the parent writes to earlier is copied
// by the kernel.
#ifndef NODE_STORE_CHECKPOINT_PAGES_H
#define NODE_STORE_CHECKPOINT_PAGES_H

#include "node/store/checkpoint.h"
#include <stddef.h>

// In the parent, before and after the fork: memory that no checkpoint needs and that training overwrites is
// not in the child (MADV_DONTFORK, MADV_DOFORK). The advice is for whole pages.
void node_checkpoint_pages_advise(const struct node_checkpoint_parts *parts, int advice);

// In the child: takes copies of the large vectors of a checkpoint, at their addresses, in the order in which
// training writes to them. Vectors in ordinary memory only. Without memory for a copy the rest stays shared.
void node_checkpoint_pages_take(const struct node_checkpoint_parts *parts);

#endif
