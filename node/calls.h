// Calls to members by the addresses of their records: again and again to those whose link is wanted, one turn
// for a packet that waits. It hands connecting sockets to its owner and hears from him what became of them;
// it refuses to know sessions. Loop's thread; never blocks.
#ifndef NODE_CALLS_H
#define NODE_CALLS_H

#include "base/error.h"
#include "base/limits.h"
#include "gossip/id.h"
#include "node/resolve.h"
#include <stdbool.h>

#define NODE_CALLS_MOST 256u // members under call at a time

struct event_base;
struct node_calls;

struct node_calls_options {
    struct event_base *base;
    // Fresh each turn; 0: none is known, or it must not be called.
    size_t (*addresses)(void *owner, const struct gossip_id *id, struct node_address out[LIMIT_ADDRESSES]);
    // The socket is the owner's now, who answers with one node_calls_failed or node_calls_reached.
    void (*calling)(void *owner, const struct gossip_id *id, int socket, const char *address);
    // All addresses were tried in vain; `closed`: at every one of them nobody listens.
    void (*turned)(void *owner, const struct gossip_id *id, bool closed);
    void *owner;
};

enum base_error node_calls_create(const struct node_calls_options *options,
                                  struct node_calls **calls) BASE_CHECK;
void node_calls_destroy(struct node_calls *calls); // NULL is fine
// Calls, unless a call is under way. `keep`: until node_calls_stop, with pauses; else one turn. False: too
// many are under call.
bool node_calls_begin(struct node_calls *calls, const struct gossip_id *id, bool keep);
// What became of the socket. `closed`: nobody listens there. `later`: an answer that time does not change
// soon.
void node_calls_failed(struct node_calls *calls, const struct gossip_id *id, bool closed, bool later);
void node_calls_reached(struct node_calls *calls, const struct gossip_id *id); // there is a link now
void node_calls_ended(struct node_calls *calls, const struct gossip_id *id);   // there is none any more
void node_calls_stop(struct node_calls *calls, const struct gossip_id *id);
bool node_calls_keeps(const struct node_calls *calls, const struct gossip_id *id);
// Stops all that are kept and not in ids[count].
void node_calls_keep_only(struct node_calls *calls, const struct gossip_id *ids, size_t count);

#endif
