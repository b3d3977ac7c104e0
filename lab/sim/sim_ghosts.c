// Members that an attacker makes up: identities with keys and signed records, and hosts that are silent. What
// they say is written by membership itself, in a process of theirs that lasts for one packet.
#include "lab/sim/sim_process.h"
#include <stdio.h>

enum { PACKET = LIMIT_DATAGRAM_BYTES };

// A packet of the node with the record of the ghost. Returns its length.
static size_t introduce(struct sim_node *node, size_t ghost, uint64_t generation, uint8_t bytes[PACKET])
{
    const struct sim_world *world = node->world;
    const struct gossip_membership_event step = {.kind = GOSSIP_MEMBERSHIP_TIMER,
                                                 .now_ns = sim_node_now(node)};
    char name[LIMIT_NODE_NAME_BYTES];
    struct gossip_membership_options options = {.identity = &world->identity[ghost],
                                                .version = {.generation = generation, .instance_id = ghost},
                                                .name = name,
                                                .addresses = {sim_net_address(ghost)},
                                                .n_addresses = 1,
                                                .shard = GOSSIP_NO_SHARD,
                                                .group =
                                                    world->options.group ? world->options.group[ghost] : 0,
                                                .verifier = &world->proofs.verifier,
                                                .profile = world->options.profile,
                                                .now_ns = sim_node_now(node)};
    struct gossip_membership *ghostly;
    struct gossip_member_info own;

    snprintf(name, sizeof name, "ghost-%02zu", ghost);
    enum base_error error = gossip_membership_create(&options, &ghostly);
    BASE_ASSERT(!error);
    gossip_membership_flags(ghostly, GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING, 0);
    gossip_membership_info(node->member.membership, 0, &own); // the header is that of the node
    gossip_membership_progress(ghostly, own.round, own.step);
    error = gossip_membership_step(ghostly, &step);
    BASE_ASSERT(!error);
    const size_t count = gossip_membership_about(ghostly, sim_member_id(node, ghost), bytes, PACKET);
    gossip_membership_destroy(ghostly);
    return count;
}

void sim_ghosts_announce(struct sim_node *node, size_t first, size_t count, uint64_t generation)
{
    uint8_t bytes[PACKET];

    BASE_ASSERT(first + count <= node->world->options.nodes && node->member.membership);
    for (size_t i = first; i < first + count; i++) {
        const size_t used = introduce(node, i, generation, bytes);
        const struct gossip_message message = {
            .kind = GOSSIP_MEMBERS, .as.members = {.packet = bytes, .packet_bytes = (uint32_t)used}};
        BASE_ASSERT(used > 0);
        for (size_t peer = 0; peer < node->world->options.nodes; peer++)
            if (peer != node->self)
                (void)sim_link_send(node, peer, &message); // false: no link
    }
}
