// What a late node takes from the cluster, and what this node tells late nodes.
#include "base/log.h"
#include "node/loop_private.h"
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void node_loop_take_settings(struct node_loop *loop, const struct node_peers_event *event)
{
    BASE_ASSERT(event->settings && loop->options.joins);
    if (loop->taken) {
        free(event->settings);
        return;
    }
    loop->taken = event->settings;
    snprintf(loop->taken_why, sizeof loop->taken_why, "%s at %s trains already: this node takes its settings",
             event->name, event->address);
    loop->status = NODE_LOOP_JOINS;
    event_base_loopbreak(loop->base);
}

void node_loop_move(struct node_loop *loop, const struct gossip_id *peer, uint32_t shard)
{
    struct gossip_member_info info;
    if (loop->taken)
        return;
    const int used = asprintf(&loop->taken, "data.shard=%" PRIu32 "\n", shard);
    BASE_ASSERT(used > 0); // a few bytes
    const bool known = !gossip_membership_find(node_cluster_membership(loop->cluster), peer, &info);
    snprintf(loop->taken_why, sizeof loop->taken_why,
             "%s took shard %" PRIu64 " at the same time: this node takes another one",
             known ? info.record->name : "another node", loop->options.config->data.shard);
    loop->status = NODE_LOOP_JOINS;
    event_base_loopbreak(loop->base);
}

const char *node_loop_taken(const struct node_loop *loop, const char **why)
{
    *why = loop->taken_why;
    return loop->taken;
}

void node_loop_warn_of_duplicate_shard(struct node_loop *loop, const struct gossip_id *peer)
{
    const uint64_t shards = loop->options.config->data.shards, own = loop->options.config->data.shard;
    struct gossip_member_info info;
    BASE_ASSERT(own < shards);
    if (loop->options.told_shard) // gossip/life resolves it
        return;
    if (shards < 2 || gossip_id_compare(&loop->duplicate_shard, peer) == 0 ||
        gossip_membership_find(node_cluster_membership(loop->cluster), peer, &info) ||
        info.state != GOSSIP_MEMBER_ALIVE || info.record->shard != own)
        return;
    loop->duplicate_shard = *peer; // reported once, not after every suspicion
    base_log(BASE_LOG_WARN, "same_shard",
             "%s trains on shard %llu of %llu, as this node does: its examples count twice, and those of a "
             "shard without a node not at all; give every node another data.shard",
             info.record->name, (unsigned long long)own, (unsigned long long)shards);
}

void node_loop_tell_joining(struct node_loop *loop)
{
    const uint64_t shards = loop->options.config->data.shards;
    if (shards > 1)
        loop->options.greeting.shard =
            gossip_control_free_shard(node_cluster_control(loop->cluster), (uint32_t)shards);
    BASE_ASSERT(shards < 2 || loop->options.greeting.shard < shards);
}
