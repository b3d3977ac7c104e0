// The journal of a node's edges beside its checkpoints: what gossip_exchange_journal returned after every
// step, in files <dir>/journal-<number>-<step>. Each checkpoint begins a file, which the checkpoint names by
// a random key; so does each process, and its file names the one that it continues, and how much of it was
// whole. From any checkpoint the files lead, one after the other, to the latest record, also if a later
// checkpoint is damaged, or was never completed.
//
// Records are written, not synced: what was written is still there after kill -9. After a power failure a
// file may be cut off or damaged; it then ends there, and the edges concerned begin again.
//
// A file: "p2pml j1", u64 its key, u64 key of the file that it continues (0: none), u64 bytes of records of
// that file, then records (gossip/exchange/journal.h). Owner: one thread, the worker's.
#ifndef NODE_STORE_JOURNAL_H
#define NODE_STORE_JOURNAL_H

#include "base/error.h"
#include "gossip/exchange/exchange.h"
#include <stdbool.h>
#include <stdint.h>

#define NODE_JOURNAL_PREFIX "journal-"

struct node_journal { // zeroed at first, with fd = -1
    int fd;           // -1: no file is open
    uint64_t number;  // of the file
    uint64_t key;     // of the file, or of the one to continue; 0: none
    uint64_t bytes;   // of its records
    uint64_t limit;   // of bytes; beyond it the journal ends
    bool wants;       // a checkpoint soon: the journal is long, or has ended
};

// Begins a file for a checkpoint of `step` that begins now, or that was resumed. On error no journal is kept
// until the next one, which the log says; journal->key is then 0.
void node_journal_begin(struct node_journal *journal, const char *directory, uint64_t step);
// Before the messages of the step are sent. A failure ends the journal, with a line in the log.
void node_journal_append(struct node_journal *journal, const uint8_t *records, size_t bytes);
void node_journal_close(struct node_journal *journal); // what follows is not in the journal

// Applies the records since the checkpoint with `key` to the exchange, whose edges have been imported from
// it. *journal is left so that node_journal_begin continues after the latest of them. BASE_ENOMEM, BASE_EIO.
// A key without a file is not an error: nothing is known then.
enum base_error node_journal_replay(struct node_journal *journal, const char *directory, uint64_t key,
                                    struct gossip_exchange *exchange, bool recovers,
                                    struct gossip_exchange_replayed *replayed,
                                    struct base_reason *why) BASE_CHECK;
// Removes the files that no checkpoint of `step` or later needs.
void node_journal_retire(const char *directory, uint64_t step);
// `p2pml inspect`: whether the file is a journal, and what is in it, to stdout.
bool node_journal_is(const char *path);
enum base_error node_journal_inspect(const char *path, struct base_reason *why) BASE_CHECK;

#endif
