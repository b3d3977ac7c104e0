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
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NODE_CHECKPOINT_LONGEST_NS 3600000000000u // under way for so long, it hangs

struct node_checkpoint_beside { // zeroed at first
    pid_t pid;                  // 0: none is under way
    int answer;                 // read end of a pipe: how it went
    uint64_t begun_ns;
    bool killed; // told as failed; a process that hangs in the kernel (a disk that does not answer) goes on
};

// node_checkpoint_write in a process of its own; returns as soon as that has begun. BASE_ESTATE: another is
// under way, which is killed after NODE_CHECKPOINT_LONGEST_NS; one that does not even die then is waited for,
// so that there are never two. BASE_EIO: no process could be had. The log line "checkpoint" comes from there,
// when the new checkpoint is synced.
enum base_error node_checkpoint_begin(struct node_checkpoint_beside *beside, const char *directory,
                                      size_t keep, const struct node_checkpoint_parts *parts,
                                      struct base_reason *why) BASE_CHECK;

// The result of the latest one. wait_ns 0: does not wait, and BASE_OK means that it was written, that none
// was begun, or, while beside->pid is not 0, that it is still running. Otherwise waits for its end, at most
// wait_ns, then kills it: BASE_EIO (the process has the lowest priority, so a busy machine may hold it up for
// minutes). Returns within two wait_ns; a process that does not even die then stays in beside->pid. A failure
// is reported once.
enum base_error node_checkpoint_end(struct node_checkpoint_beside *beside, uint64_t wait_ns,
                                    struct base_reason *why) BASE_CHECK;

// node_checkpoint_write in place of one that is under way, whose end is waited for at most wait_ns. After
// that it stands still until this one is written, and is killed. If this one can't be written, the other goes
// on, for at most rescue_ns: nothing newer may be left. Then this one is tried once more.
enum base_error node_checkpoint_replace(struct node_checkpoint_beside *beside, const char *directory,
                                        size_t keep, const struct node_checkpoint_parts *parts,
                                        uint64_t wait_ns, uint64_t rescue_ns,
                                        struct base_reason *why) BASE_CHECK;

#endif
