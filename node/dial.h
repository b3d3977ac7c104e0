// Calls every entry of the peer list, for ever: resolves its name, tries each of its addresses in turn, waits
// (0.2 s doubling to 10 s, with jitter) and begins again. It hands connecting sockets to its owner and hears
// from him what became of them; it refuses to know sessions and ids. Loop's thread only; never blocks.
#ifndef NODE_DIAL_H
#define NODE_DIAL_H

#include "node/resolve.h"
#include "node/schema.h"
#include <stdbool.h>

struct event_base;
struct node_dial;

struct node_dial_options {
    struct event_base *base;
    const struct node_texts *peers; // well formed: node_config_check has seen them
    // The socket is the owner's now. It must answer with exactly one node_dial_failed or node_dial_hold for
    // it.
    void (*calling)(void *owner, size_t entry, int socket, const char *address);
    void (*turned)(void *owner, size_t entry);  // all its addresses were tried, and nobody held it
    bool (*blocked)(void *owner, size_t entry); // not to be called now; NULL: all may be
    void *owner;
};

enum base_error node_dial_create(const struct node_dial_options *options, struct node_dial **dial) BASE_CHECK;
void node_dial_destroy(struct node_dial *dial);
void node_dial_start(struct node_dial *dial);
// The call came to nothing: the next address, or the next turn after a pause (30 s when `refused`: an answer
// that time does not change soon).
void node_dial_failed(struct node_dial *dial, size_t entry, bool refused);
void node_dial_hold(struct node_dial *dial, size_t entry);    // reached; no call until
void node_dial_release(struct node_dial *dial, size_t entry); // the link is gone: call again
void node_dial_release_later(struct node_dial *dial,
                             size_t entry);                // the same, after 30 s: it would end the same way
void node_dial_stop(struct node_dial *dial, size_t entry); // never again

#endif
