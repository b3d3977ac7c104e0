// p2pml-node --trainer: the local steps are taken by a program at the other end of a socket, in any language.
// Socket, messages and vectors: README.md. The node is libp2pml's, its threads and rooms as well.
//
//            OPEN, START        turn                    ROUND
//   CLOSED ------------> NODES -------> TRAINERS ----------------> NODES
//                          |                |
//                          |                | the trainer is gone: its steps are undone
//                          +---> IDLE <-----+--> NODES
//
// IDLE: a turn that no trainer takes. Once a second the node makes a round without steps, so that its model
// stays the cluster's until a trainer comes.
#ifndef DAEMON_TRAINER_H
#define DAEMON_TRAINER_H

#include "base/error.h"
#include "node/config/config.h"

struct daemon_trainer_options {
    const struct node_config *config; // borrowed; checked and completed
    bool resume;
    const char *address; // daemon_address_check
};
// Serves on the calling thread until the node has left, because a trainer or SIGTERM or SIGINT said so, or
// has failed; a second signal exits at once with 1. True: it left as it was told to; else *why, where it is
// not in the log.
bool daemon_trainer_serve(const struct daemon_trainer_options *options, struct base_reason *why);

#endif
