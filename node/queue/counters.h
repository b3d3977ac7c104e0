// Numbers that one thread counts and others read.
#ifndef NODE_QUEUE_COUNTERS_H
#define NODE_QUEUE_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct node_counters {
    _Atomic uint64_t bytes_sent,
        bytes_received;           // on peer sockets, all framing included; writers: loop, stream thread
    atomic_bool others;           // other nodes train (event.round.others of the exchange); writer: loop
    _Atomic size_t backlog_bytes; // of peers' messages that wait for the worker; raised by the loop, lowered
                                  // by the thread that frees
};

#endif
