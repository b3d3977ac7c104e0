// A broken network, for experiments (node.fault_file): the ids from and to which everything is dropped
// silently. Datagrams vanish, links stall, and sockets that would have to be closed are kept open until the
// fault is over, so that the other end does not notice. Loop's thread.
#ifndef NODE_NET_FAULTS_H
#define NODE_NET_FAULTS_H

#include "base/error.h"
#include "gossip/id.h"
#include <stdbool.h>
#include <stddef.h>

#define NODE_FAULTS_BURIED 256u // sockets; beyond, the oldest is closed

struct node_faults;

// `path`: one id a line, '#' comments, borrowed; "": none. A missing file is an empty list. Errors name file
// and line.
enum base_error node_faults_create(const char *path, struct node_faults **faults,
                                   struct base_reason *why) BASE_CHECK;
void node_faults_destroy(struct node_faults *faults); // NULL is fine
// Reads the file again; on error the list stays as it was. Sockets of ids that are no longer cut off are
// closed.
enum base_error node_faults_reload(struct node_faults *faults, struct base_reason *why) BASE_CHECK;
size_t node_faults_count(const struct node_faults *faults);
bool node_faults_has(const struct node_faults *faults, const struct gossip_id *id);
// Keeps the socket of a link to `id` that its owner no longer needs; it is closed when the fault is over.
void node_faults_bury(struct node_faults *faults, const struct gossip_id *id, int socket);

#endif
