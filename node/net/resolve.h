// Names to addresses without ever blocking the loop. Numeric addresses are answered at once; a name goes to
// one of a few threads that run getaddrinfo (which may wait for DNS without limit) and answer through a
// mailbox. Owner: the loop. A caller should ask at most one question per ticket at a time.
#ifndef NODE_NET_RESOLVE_H
#define NODE_NET_RESOLVE_H

#include "base/error.h"
#include "base/limits.h"
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define NODE_RESOLVE_ADDRESSES 32u

struct node_address {
    struct sockaddr_storage storage;
    socklen_t bytes;
};

struct node_resolution {
    size_t ticket; // the caller's
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    struct node_address addresses[NODE_RESOLVE_ADDRESSES];
    size_t count;
    char problem[96]; // when count is 0
};

struct node_resolver;
enum base_error node_resolver_create(struct node_resolver **resolver) BASE_CHECK;
// Does not wait for a question that is under way: its thread frees what is left when the lookup returns.
void node_resolver_destroy(struct node_resolver *resolver);
// Readable when node_resolver_take has something.
int node_resolver_descriptor(struct node_resolver *resolver);
// BASE_ELIMIT: too many questions; ask again later.
enum base_error node_resolver_ask(struct node_resolver *resolver, size_t ticket, const char *host,
                                  uint16_t port) BASE_CHECK;
struct node_resolution *node_resolver_take(struct node_resolver *resolver); // malloc'ed; NULL: nothing yet

// Resolves on the calling thread, names too. For use before the loop runs.
void node_resolve_now(struct node_resolution *resolution);
bool node_address_bound(int socket, struct node_address *address); // the local one; false: it has none
// "127.0.0.1:4000" or "[::1]:4000"
#define NODE_ADDRESS_TEXT 64u
void node_address_text(const struct node_address *address, char text[NODE_ADDRESS_TEXT]);

#endif
