// p2pml-node --trainer: a program at the other end of a socket, in any language, takes the local steps.
// README.md describes socket, messages and vectors. The node is that of libp2pml.
//
//            OPEN, START        turn                    ROUND
//   CLOSED ------------> NODES -------> TRAINERS ----------------> NODES
//                          |                |
//                          |                | the trainer is gone: its steps are undone
//                          +---> IDLE <-----+--> NODES
//
// IDLE: a turn that no trainer has taken. Once a second the node makes a round without steps, so that its
// model follows the cluster's until a trainer takes a turn.
#ifndef DAEMON_TRAINER_H
#define DAEMON_TRAINER_H

#include "base/error.h"
#include "node/config/config.h"

struct daemon_trainer_options {
    const struct node_config *config; // borrowed; checked and completed
    bool resume;
    const char *address; // daemon_address_check
};
// Serves on the calling thread until the node has left, on request of a trainer or by SIGTERM or SIGINT, or
// has failed. A second SIGINT (base/stop.h) exits at once with status 1. True: the node left on request.
// False: *why has the reason; "": it is in the log.
bool daemon_trainer_serve(const struct daemon_trainer_options *options, struct base_reason *why);

#endif
