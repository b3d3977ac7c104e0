// Checkpoints beside training. A separate process, forked while no thread changes the vectors, has them as
// they are at that moment. It copies them, so that training does not have to (checkpoint_pages.h), then
// checks, hashes, writes and syncs them while training continues. There is one at a time. It holds no socket
// and no lock of the node, ignores the signals of the terminal, and dies with the thread that forked it;
// before that thread ends, it waits for the process or kills it.
//
// Memory: the vectors of the checkpoint exist twice while it is written. One owner: the thread that writes
// checkpoints. For vectors in ordinary memory: those on a device must be fetched first, so a node on a device
// uses node_checkpoint_write.
#ifndef NODE_STORE_CHECKPOINT_BESIDE_H
#define NODE_STORE_CHECKPOINT_BESIDE_H

#include "node/store/checkpoint.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NODE_CHECKPOINT_LONGEST_NS 3600000000000u // a process that takes longer is considered hung

struct node_checkpoint_beside { // zeroed at first
    pid_t pid;                  // 0: none is under way
    int answer;                 // read end of a pipe, for the result
    uint64_t begun_ns;
    bool killed; // and reported as failed; it may still hang in the kernel (a disk that does not answer)
};

// node_checkpoint_write in a process of its own; returns as soon as that has begun. BASE_ESTATE: another one
// is under way. That one is killed after NODE_CHECKPOINT_LONGEST_NS; if it does not die, no other is begun
// before it has ended, so there are never two. BASE_EIO: no process could be created. That process writes the
// log line "checkpoint" when the new checkpoint is synced.
enum base_error node_checkpoint_begin(struct node_checkpoint_beside *beside, const char *directory,
                                      size_t keep, const struct node_checkpoint_parts *parts,
                                      struct base_reason *why) BASE_CHECK;

// The result of the latest one. wait_ns 0: does not wait, and BASE_OK means that it was written, that none
// was begun, or, while beside->pid is not 0, that it is still running. Otherwise waits for its end, at most
// wait_ns, then kills it: BASE_EIO (the process runs at nice 10, so a busy machine may hold it up for
// minutes). Returns within two wait_ns; a process that does not die stays in beside->pid. A failure is
// reported once.
enum base_error node_checkpoint_end(struct node_checkpoint_beside *beside, uint64_t wait_ns,
                                    struct base_reason *why) BASE_CHECK;

// Writes a checkpoint in place of one that is under way. Waits at most wait_ns for the end of that one, then
// stops its process, writes this checkpoint, and kills the process. If this checkpoint can't be written, the
// other one continues for at most rescue_ns, because nothing newer may be left; then this one is tried once
// more.
enum base_error node_checkpoint_replace(struct node_checkpoint_beside *beside, const char *directory,
                                        size_t keep, const struct node_checkpoint_parts *parts,
                                        uint64_t wait_ns, uint64_t rescue_ns,
                                        struct base_reason *why) BASE_CHECK;

#endif
