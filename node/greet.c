#include "node/greet.h"
#include "base/hash.h"
#include "gossip/links/links.h"
#include "topology/topology.h"
#include <inttypes.h>
#include <string.h>

static uint64_t join(uint64_t hash, uint64_t value)
{
    return base_hash_bytes(hash, &value, sizeof value);
}

static uint64_t join_real(uint64_t hash, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return join(hash, bits);
}

uint64_t node_greeting_rules(const struct node_config *config, uint64_t graph)
{
    bool moments = config->average.share_second_moment > 0 && config->train.optimizer == NODE_OPTIMIZER_ADAMW;
    uint64_t hash = join(0x72756c6573ull, (uint64_t)config->topology.kind);
    hash = join(hash, config->topology.seed);
    hash = join(hash, config->topology.kind == TOPOLOGY_RANDOM ? config->topology.rings
                      : config->topology.kind == TOPOLOGY_BASE ? config->topology.base_k
                                                               : 0);
    hash = join(hash, graph);
    hash = join(hash, (uint64_t)config->cluster.profile);
    hash = join(hash, (uint64_t)config->average.method);
    hash = join(hash, (uint64_t)config->train.optimizer);
    hash = join(hash, config->average.drift_correction);
    if (config->average.drift_correction) {
        hash = join_real(hash, config->average.drift_gain);
        hash = join_real(hash, config->average.drift_limit);
    }
    hash = join_real(hash, config->average.clip);
    hash = join(hash, config->average.mode == NODE_MODE_BOUNDED);
    return join(hash, moments ? config->average.share_second_moment : 0);
}

enum base_error node_greeting_compare(const struct gossip_greeting *ours,
                                      const struct gossip_greeting *theirs, struct base_reason *why)
{
    switch (gossip_links_compare(ours, theirs)) {
    case GOSSIP_CLOSE_OTHER_PROTOCOL:
        return base_fail(why, BASE_EMISMATCH,
                         "it speaks protocol %" PRIu32 " (version %s), this node protocol %" PRIu32
                         " (version %s); run the same version on both",
                         theirs->protocol, theirs->version, ours->protocol, ours->version);
    case GOSSIP_CLOSE_OTHER_MODEL:
        return base_fail(why, BASE_EMISMATCH,
                         "it trains another model: %s (%" PRIu64 " parameters) there, %s (%" PRIu64
                         " parameters) here; make model.* and the shape of the data the same",
                         theirs->model, theirs->parameters, ours->model, ours->parameters);
    case GOSSIP_CLOSE_OTHER_RULES:
        if (theirs->steps != ours->steps)
            return base_fail(why, BASE_EMISMATCH,
                             "it trains for %" PRIu64 " steps, this node for %" PRIu64
                             "; make train.steps the same: nobody ends or stretches the training of others",
                             theirs->steps, ours->steps);
        return base_fail(
            why, BASE_EMISMATCH,
            "its settings differ in one that all nodes must share: topology.kind, topology.seed, "
            "topology.rings, topology.base_k, topology.file, cluster.profile, average.method, "
            "drift_correction, drift_gain, "
            "drift_limit, clip, mode (bounded or not), share_second_moment or train.optimizer");
    default:
        return BASE_OK;
    }
}
