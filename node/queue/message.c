#include "node/queue/message.h"

#include <stdlib.h>

struct node_message *node_message_new(enum node_message_kind kind)
{
    struct node_message *message = calloc(1, sizeof *message);
    BASE_ASSERT(message);
    message->kind = kind;
    return message;
}

size_t node_message_size(const struct node_message *message)
{
    return sizeof *message + message->n_bytes;
}

void node_message_free(void *message)
{
    struct node_message *m = message;
    if (!m)
        return;
    if (m->charged)
        atomic_fetch_sub(m->charged, node_message_size(m));
    if (m->kind == NODE_MESSAGE_VIEW)
        gossip_graph_drop(m->as.graph);
    free(m->bytes);
    free(m);
}
