// Sends the statistics of this node's examples to the node that starts first, and takes those of others
// (gossip/statistics).
#include "base/log.h"
#include "base/plural.h"
#include "node/loop_private.h"
#include <stdlib.h>
#include <string.h>

enum base_error node_loop_make_statistics(struct node_loop *loop)
{
    const struct node_loop_options *o = &loop->options;
    if (!o->spreads || o->resumed)
        return BASE_OK;
    struct gossip_spread *spreads = malloc(o->columns * sizeof *spreads);
    if (!spreads)
        return BASE_ENOMEM;
    for (size_t i = 0; i < o->columns; i++)
        spreads[i] = (struct gossip_spread){o->spreads[i].least, o->spreads[i].most, o->spreads[i].mean,
                                            o->spreads[i].deviation};
    const struct gossip_statistics_options options = {.self = o->identity->id,
                                                      .generation = o->starts.number,
                                                      .rows = o->rows,
                                                      .columns = o->columns,
                                                      .spreads = spreads};
    const enum base_error error = gossip_statistics_create(&options, &loop->statistics);
    free(spreads);
    return error;
}

bool node_loop_gathered(const void *owner, const struct gossip_id *peer)
{
    const struct node_loop *loop = owner;
    return !loop->statistics || gossip_statistics_has(loop->statistics, peer);
}

void node_loop_gather(struct node_loop *loop, const struct gossip_id *first)
{
    struct node_peers *peers = node_cluster_peers(loop->cluster);
    if (!loop->statistics)
        return;
    if (!node_peers_has(peers, first)) // one is wanted from now on, and the life asks again
        return;
    for (size_t i = 0; i < gossip_statistics_blocks(loop->statistics); i++) {
        const struct gossip_message message = gossip_statistics_tell(loop->statistics, i);
        uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
        size_t bytes = 0;
        BASE_ASSERT(!gossip_message_encode_header(&message, header, sizeof header, &bytes));
        uint8_t *whole = malloc(bytes + message.as.statistics.spreads_bytes);
        if (!whole)
            return;
        memcpy(whole, header, bytes);
        memcpy(whole + bytes, message.as.statistics.spreads, message.as.statistics.spreads_bytes);
        (void)node_peers_send(peers, first, whole, bytes + message.as.statistics.spreads_bytes);
    }
}

bool node_loop_statistics_heard(struct node_loop *loop, const struct gossip_id *peer,
                                const struct gossip_statistics_message *message)
{
    if (!loop->statistics) // the scaling is known
        return false;
    const enum base_error error = gossip_statistics_take(loop->statistics, peer, message);
    if (error == BASE_EFORMAT)
        node_peers_close(node_cluster_peers(loop->cluster), peer,
                         "statistics that no set of examples can have");
    else if (error)
        base_log(BASE_LOG_WARN, "statistics", "the statistics of one node are left out: %s",
                 base_error_name(error));
    return !error;
}

static void post_joined(struct node_loop *loop, struct gossip_spread *joined, struct train_spread *spreads)
{
    const size_t columns = loop->options.columns;
    const size_t nodes = gossip_statistics_join(loop->statistics, joined);
    struct node_message *message = node_message_new(NODE_MESSAGE_STATISTICS);
    for (size_t i = 0; i < columns; i++)
        spreads[i] =
            (struct train_spread){joined[i].least, joined[i].most, joined[i].mean, joined[i].deviation};
    message->bytes = (uint8_t *)spreads;
    message->n_bytes = columns * sizeof *spreads;
    base_log(BASE_LOG_INFO, "statistics", "data.scale is computed from the examples of %zu node%s", nodes,
             base_plural(nodes));
    node_mailbox_put(loop->options.learner, message);
    node_loop_drop_statistics(loop);
}

bool node_loop_join_statistics(struct node_loop *loop)
{
    if (!loop->statistics)
        return true;
    const size_t columns = loop->options.columns;
    struct gossip_spread *joined = malloc(columns * sizeof *joined);
    struct train_spread *spreads = malloc(columns * sizeof *spreads);
    const bool enough = joined && spreads;
    if (enough) {
        post_joined(loop, joined, spreads);
    } else {
        free(spreads);
        node_loop_fail(loop, "out_of_memory", "no memory for the statistics of %zu columns: this node ends",
                       columns);
    }
    free(joined);
    return enough;
}

void node_loop_drop_statistics(struct node_loop *loop)
{
    gossip_statistics_destroy(loop->statistics);
    loop->statistics = NULL;
}
