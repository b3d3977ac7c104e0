// How often this node has started, kept in a file of its directory: "<number> <unix times of the latest
// starts>". The number is part of every record that this node signs and of every datagram that it seals, so
// it must grow with each start and is written before anything is sent. Main thread, and the loop's.
#ifndef NODE_STORE_STARTS_H
#define NODE_STORE_STARTS_H

#include "base/error.h"
#include <stdint.h>

struct node_starts {
    uint64_t number; // of this start, from 1
    unsigned recent; // earlier ones within GOSSIP_RECENT_START_NS that did not end on purpose
};

// Counts a start and stores it (mode 0600, atomically). A file that is missing or damaged begins at 1:
// members that remember a higher number say so, and node_starts_raise follows. BASE_EIO with the reason.
enum base_error node_starts_take(const char *path, uint64_t now_unix_s, struct node_starts *starts,
                                 struct base_reason *why) BASE_CHECK;
// The process ends on purpose: its start is not a sign of an unstable node and no longer counts.
enum base_error node_starts_end(const char *path, struct base_reason *why) BASE_CHECK;
// Stores a higher number; a lower one changes nothing.
enum base_error node_starts_raise(const char *path, uint64_t number, struct base_reason *why) BASE_CHECK;

#endif
