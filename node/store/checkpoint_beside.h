// Checkpoints beside training. A process of its own, forked while everything stands still, has all vectors as
// they are at that moment (the kernel copies a page when training changes it) and measures, digests, writes
// and syncs them, while training goes on. One at a time. It holds no socket and no lock of the node, leaves
// signals of the terminal to it, and dies with the thread that forked it: before that thread ends it waits
// for it, or kills it.
//
// Memory: pages that training changes meanwhile exist twice; at most all vectors of the node.
// One owner: the thread that writes checkpoints. For vectors in ordinary memory: a device's must be fetched
// first, so that such a node writes in place (node_checkpoint_write).
#ifndef NODE_STORE_CHECKPOINT_BESIDE_H
#define NODE_STORE_CHECKPOINT_BESIDE_H

#include "node/store/checkpoint.h"
#include <stdint.h>
#include <sys/types.h>

struct node_checkpoint_beside { // zeroed at first
    pid_t pid;                  // 0: none is under way
    int answer;                 // read end of a pipe: how it went
};

// node_checkpoint_write in a process of its own; returns as soon as that has begun. BASE_ESTATE: another is
// under way. BASE_EIO: no process could be had. The log line "checkpoint" comes from there, when the new
// checkpoint is synced.
enum base_error node_checkpoint_begin(struct node_checkpoint_beside *beside, const char *directory,
                                      size_t keep, const struct node_checkpoint_parts *parts,
                                      struct base_reason *why) BASE_CHECK;

// Its result. wait_ns 0: a look; BASE_OK: none is under way (it was written, or none was begun), or it is
// still running; beside->pid tells. Else its end is waited for, at most so long; then it is killed (the
// process runs behind all others, and a busy machine may hold it up for minutes): BASE_EIO. Returns within
// two wait_ns. How it failed is told once.
enum base_error node_checkpoint_end(struct node_checkpoint_beside *beside, uint64_t wait_ns,
                                    struct base_reason *why) BASE_CHECK;

#endif
