// A node that comes late takes the cluster's settings; what this one tells such nodes.
#include "base/log.h"
#include "node/config/compatibility.h"
#include "node/loop_private.h"
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

// Examples that two nodes split differently are seen twice, or not at all.
static void warn_of_shards(const struct node_loop *loop, const char *address,
                           const struct gossip_greeting *theirs)
{
    struct base_reason text;
    if (node_greeting_deals_otherwise(loop->options.config, &loop->options.greeting, theirs, &text))
        base_log(BASE_LOG_WARN, "other_shards", "%s at %s: %s", theirs->name, address, text.text);
}

bool node_loop_greeted(struct node_loop *loop, const char *address, const struct gossip_greeting *theirs)
{
    char *taken = NULL;
    if (loop->taken)
        return true;
    if (!loop->options.joins ||
        node_greeting_take(loop->options.config, &loop->options.greeting, theirs, &taken) != BASE_OK ||
        !taken) {
        warn_of_shards(loop, address, theirs);
        return false;
    }
    loop->taken = taken;
    snprintf(loop->taken_from, sizeof loop->taken_from, "%s at %s", theirs->name, address);
    loop->status = NODE_LOOP_JOINS;
    event_base_loopbreak(loop->base);
    return true;
}

const char *node_loop_taken(const struct node_loop *loop, const char **from)
{
    *from = loop->taken_from;
    return loop->taken;
}

// The shard that the fewest living nodes have; of several the lowest.
static uint32_t free_shard(const struct node_loop *loop, uint32_t shards)
{
    const struct gossip_membership *m = node_cluster_membership(loop->cluster);
    uint16_t nodes[LIMIT_PEERS] = {0};
    uint32_t best = 0;
    for (size_t i = 0; i < gossip_membership_count(m); i++) {
        struct gossip_member_info info;
        gossip_membership_info(m, i, &info);
        const bool here = info.state == GOSSIP_MEMBER_ALIVE || info.state == GOSSIP_MEMBER_SUSPECT;
        if (here && info.record->shard < shards)
            nodes[info.record->shard]++;
    }
    for (uint32_t i = 1; i < shards; i++)
        if (nodes[i] < nodes[best])
            best = i;
    return best;
}

void node_loop_warn_of_twin_shard(struct node_loop *loop, const struct gossip_id *peer)
{
    const uint64_t shards = loop->options.config->data.shards, own = loop->options.config->data.shard;
    struct gossip_member_info info;
    if (shards < 2 || gossip_id_compare(&loop->twin_shard, peer) == 0 ||
        gossip_membership_find(node_cluster_membership(loop->cluster), peer, &info) != BASE_OK ||
        info.state != GOSSIP_MEMBER_ALIVE || info.record->shard != own)
        return;
    loop->twin_shard = *peer; // told once, not after every suspicion
    base_log(BASE_LOG_WARN, "same_shard",
             "%s trains on shard %llu of %llu, as this node does: its examples count twice, and those of a "
             "shard without a node not at all; give every node another data.shard",
             info.record->name, (unsigned long long)own, (unsigned long long)shards);
}

void node_loop_tell_joining(struct node_loop *loop)
{
    const uint64_t shards = loop->options.config->data.shards;
    if (shards > 1)
        loop->options.greeting.shard = free_shard(loop, (uint32_t)shards);
}
