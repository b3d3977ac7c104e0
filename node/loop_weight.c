// How much this node counts beside the others where each node has examples of its own. Models are averaged
// node by node, which is the mean over all examples only if the gradient of each node counts by its number of
// examples.
#include "node/learn/weight.h"
#include "node/loop_private.h"

uint32_t node_loop_own_examples(const struct node_loop_options *options)
{
    const struct node_config *c = options->config;
    const bool counts =
        c->data.shards < 2 && !(c->train.weight > 0) && c->average.method != NODE_METHOD_LOCAL;
    return !counts ? 0 : options->rows < UINT32_MAX ? (uint32_t)options->rows : UINT32_MAX;
}

void node_loop_weigh(struct node_loop *loop)
{
    const struct gossip_membership *members = node_cluster_membership(loop->cluster);
    const size_t count = gossip_membership_count(members);
    const uint32_t own = node_loop_own_examples(&loop->options);
    struct node_weighing weighing = {.count = 0};
    if (own == 0)
        return;
    node_weighing_add(&weighing, own);
    for (size_t i = 0; i < count; i++) { // this node is a member, too, but its own number is the true one
        struct gossip_member_info info;
        gossip_membership_info(members, i, &info);
        const bool here = info.state == GOSSIP_MEMBER_ALIVE || info.state == GOSSIP_MEMBER_SUSPECT;
        const bool other =
            info.record && gossip_id_compare(&info.record->id, &loop->options.identity->id) != 0;
        if (here && other && info.record->examples > 0)
            node_weighing_add(&weighing, info.record->examples);
    }
    const double weight = node_weighing_result(&weighing, own);
    if (weight >= loop->weight && weight <= loop->weight)
        return;
    loop->weight = weight;
    struct node_message *message = node_message_new(NODE_MESSAGE_WEIGHT);
    message->as.weight.nodes = weighing.count;
    message->as.weight.examples = weighing.sum;
    message->as.weight.own = own;
    message->as.weight.weight = weight;
    node_mailbox_put(loop->options.learner, message);
}
