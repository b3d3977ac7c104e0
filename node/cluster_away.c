// What follows for members that are dead or have left: their edges are forgotten after a while, and their
// shards have no living node.
#include "node/clock.h"
#include "node/cluster_private.h"
#include <stdlib.h>
#include <string.h>

#define SHARDS_EVERY_NS NODE_SECOND_NS

void node_cluster_came(struct node_cluster *cluster, const struct gossip_id *id)
{
    for (size_t i = 0; i < cluster->n_away; i++)
        if (gossip_id_compare(&cluster->away[i].id, id) == 0)
            cluster->away[i] = cluster->away[--cluster->n_away];
}

void node_cluster_went(struct node_cluster *cluster, const struct gossip_id *id, uint64_t now_ns)
{
    node_cluster_came(cluster, id);
    if (cluster->n_away == cluster->away_capacity) {
        size_t capacity = cluster->away_capacity ? 2 * cluster->away_capacity : 16;
        struct node_away *away = realloc(cluster->away, capacity * sizeof *away);
        if (!away) { // forgotten at once instead of later
            cluster->options.handler->forget(cluster->options.owner, id);
            return;
        }
        cluster->away = away;
        cluster->away_capacity = capacity;
    }
    cluster->away[cluster->n_away++] = (struct node_away){.id = *id, .since_ns = now_ns};
}

void node_cluster_forget_away(struct node_cluster *cluster, uint64_t now_ns)
{
    for (size_t i = cluster->n_away; i-- > 0;) {
        if (now_ns - cluster->away[i].since_ns < cluster->options.config->average.forget_after_ns)
            continue;
        struct gossip_id id = cluster->away[i].id;
        cluster->away[i] = cluster->away[--cluster->n_away];
        cluster->options.handler->forget(cluster->options.owner, &id);
    }
}

// Its examples are seen by nobody. Who has finished has seen his.
static bool is_orphaned(const struct gossip_member_info *info, uint64_t now_ns, uint64_t after_ns)
{
    bool gone = info->state == GOSSIP_MEMBER_DEAD || info->state == GOSSIP_MEMBER_LEFT;
    return gone && !(info->record->flags & GOSSIP_RECORD_FINISHED) && now_ns - info->since_ns >= after_ns;
}

static void find_orphans(const struct node_cluster *cluster, uint64_t now_ns, uint8_t orphan[LIMIT_PEERS])
{
    const struct node_config *config = cluster->options.config;
    bool lives[LIMIT_PEERS] = {false};
    memset(orphan, 0, LIMIT_PEERS);
    for (size_t i = 0; i < gossip_membership_count(cluster->membership); i++) {
        struct gossip_member_info info;
        gossip_membership_info(cluster->membership, i, &info);
        if (info.record->shard >= config->data.shards)
            continue;
        if (i > 0 && is_orphaned(&info, now_ns, config->data.takeover_after_ns))
            orphan[info.record->shard] = 1;
        else
            lives[info.record->shard] = true;
    }
    for (size_t i = 0; i < config->data.shards;
         i++) // shards that nobody ever had belong to who may still come
        orphan[i] = orphan[i] && !lives[i];
}

void node_cluster_look_at_shards(struct node_cluster *cluster, uint64_t now_ns)
{
    const struct node_config *config = cluster->options.config;
    uint8_t orphan[LIMIT_PEERS];
    uint32_t orphans[LIMIT_PEERS], living[LIMIT_PEERS];
    size_t n_orphans = 0, n_living = 0;
    if (!config->data.takeover || config->data.shards < 2 || now_ns - cluster->shards_ns < SHARDS_EVERY_NS)
        return;
    cluster->shards_ns = now_ns;
    find_orphans(cluster, now_ns, orphan);
    if (memcmp(orphan, cluster->orphan, sizeof orphan) == 0)
        return;
    memcpy(cluster->orphan, orphan, sizeof orphan);
    for (uint32_t i = 0; i < config->data.shards; i++)
        *(orphan[i] ? &orphans[n_orphans++] : &living[n_living++]) = i;
    node_cluster_tell_takeover(cluster, orphans, n_orphans);
    cluster->options.handler->shards(cluster->options.owner, living, n_living);
}
