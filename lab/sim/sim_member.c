#include "lab/sim/sim_process.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRESH_NS (10 * SIM_SECOND) // how long the source of a datagram is used as an address

enum { PLAIN_HEADER = 12 }; // sender's identity, receiver's generation, which a sealed datagram proves

bool sim_member_info(const struct sim_node *node, size_t peer, struct gossip_member_info *info)
{
    if (!node->world->options.known)
        return !gossip_membership_find(node->member.membership, sim_member_id(node, peer), info);
    sim_known_at(node, peer, info);
    return node->world->known.there[peer];
}

static unsigned recent_starts(const struct sim_node *node)
{
    const struct sim_disk *disk = &node->disk;
    uint64_t now_ns = node->world->queue.now_ns;
    unsigned recent = 0;

    for (size_t i = 0; i < disk->starts && i < SIM_STARTS; i++)
        recent += now_ns - disk->started_ns[i] < GOSSIP_RECENT_START_NS;
    return recent - 1; // without this process
}

static uint64_t first_model(const struct sim_node *node)
{
    const uint64_t *all = node->world->options.first_models;

    return all && !sim_disk_load(&node->disk) ? all[node->self] : 0;
}

static uint64_t own_entries(const struct sim_node *node)
{
    uint64_t own = 0;

    for (size_t i = 0; i < node->entries; i++)
        own |= (uint64_t)(node->entry[i] == node->host) << i;
    return own;
}

static void make_control(struct sim_node *node)
{
    const bool known = node->world->options.known;
    const struct gossip_control_options options = {.self = *sim_member_id(node, node->self),
                                                   .links = node->links.rules,
                                                   .membership = node->member.membership,
                                                   .members = known ? &sim_known_members : NULL,
                                                   .owner = node,
                                                   .edges = sim_life_edges(node),
                                                   .rng = &node->rng,
                                                   .neighbours_most = SIZE_MAX,
                                                   .own_entries = own_entries(node),
                                                   .look_every_ns = SIM_LOOK_NS,
                                                   .never_trains = !node->world->options.learner,
                                                   .links_end_with_it = true};

    BASE_ASSERT(!gossip_control_create(&options, &node->control));
    gossip_control_viewed(node->control);
}

void sim_member_start(struct sim_node *node)
{
    const struct sim_world *world = node->world;
    struct gossip_membership_options options = {
        .identity = &world->identity[node->self],
        .version = {.generation = node->member.generation},
        .addresses = {sim_net_address(node->host)},
        .n_addresses = 1,
        .shard = (uint32_t)node->self,
        .first_model = first_model(node),
        .group = world->options.group ? world->options.group[node->self] : 0,
        .verifier = &world->proofs.verifier,
        .profile = world->options.profile,
        .seed = base_rng_u64(&node->rng),
        .now_ns = sim_node_now(node),
        .recent_starts = recent_starts(node)};
    struct gossip_datagrams_options sealing = {.identity = &world->identity[node->self],
                                               .secrets = &world->secrets,
                                               .cluster = "sim",
                                               .generation = node->member.generation};
    char name[LIMIT_NODE_NAME_BYTES];
    uint64_t entropy = base_rng_u64(&node->rng);

    snprintf(name, sizeof name, "node-%02zu", node->self);
    options.name = name;
    node->member.instance = options.version.instance_id = base_rng_u64(&node->rng);
    if (world->options.known) {
        make_control(node);
        sim_known_start(node);
        return;
    }
    BASE_ASSERT(!gossip_membership_create(&options, &node->member.membership));
    make_control(node);
    memcpy(sealing.entropy, &entropy, sizeof sealing.entropy);
    if (world->options.sealed)
        BASE_ASSERT(!gossip_datagrams_create(&sealing, &node->member.datagrams));
}

void sim_member_stop(struct sim_node *node)
{
    if (node->world->options.known) {
        sim_known_end(node,
                      sim_life_state(node) == GOSSIP_LIFE_LEFT || sim_life_state(node) == GOSSIP_LIFE_ENDED);
        return;
    }
    gossip_membership_destroy(node->member.membership);
    gossip_datagrams_destroy(node->member.datagrams);
    node->member.membership = NULL;
    node->member.datagrams = NULL;
}

// The source of the latest authentic datagram if it is recent, else the addresses of the record in turn.
static bool address_of(struct sim_node *node, size_t peer, size_t *host)
{
    struct sim_peer *to = &node->peer[peer];
    struct gossip_member_info info;

    if (to->host_ns && sim_node_now(node) - to->host_ns < FRESH_NS) {
        *host = to->host;
        return true;
    }
    if (!sim_member_info(node, peer, &info) || !info.record->n_addresses)
        return false;
    return sim_net_host_of(&node->world->net, &info.record->addresses[to->turn++ % info.record->n_addresses],
                           host);
}

static bool seal(struct sim_node *node, size_t peer, uint64_t generation, const uint8_t *bytes, size_t count,
                 uint8_t *sealed, size_t *sealed_bytes)
{
    struct gossip_member_info info;
    uint32_t self = (uint32_t)node->self;

    if (node->member.datagrams)
        return !gossip_datagram_seal(node->member.datagrams, sim_member_id(node, peer), generation, bytes,
                                     count, sealed, sealed_bytes);
    if (!sim_member_info(node, peer, &info))
        return false;
    if (!generation)
        generation = info.record->version.generation;
    memcpy(sealed, &self, sizeof self);
    memcpy(sealed + sizeof self, &generation, sizeof generation);
    memcpy(sealed + PLAIN_HEADER, bytes, count);
    *sealed_bytes = count + PLAIN_HEADER;
    return true;
}

static bool unseal(struct sim_node *node, const uint8_t *sealed, size_t sealed_bytes, uint8_t *bytes,
                   size_t *count, size_t *peer)
{
    struct gossip_member_info info;
    struct gossip_id id;
    uint32_t from;
    uint64_t generation;

    if (node->member.datagrams) {
        if (gossip_datagram_open(node->member.datagrams, sealed, sealed_bytes, bytes, count, &id))
            return false;
        *peer = sim_world_find(node->world, &id);
        return *peer != SIZE_MAX;
    }
    memcpy(&from, sealed, sizeof from);
    memcpy(&generation, sealed + sizeof from, sizeof generation);
    if (generation != node->member.generation || from == node->self || !sim_member_info(node, from, &info))
        return false;
    *peer = from;
    *count = sealed_bytes - PLAIN_HEADER;
    memcpy(bytes, sealed + PLAIN_HEADER, *count);
    return true;
}

void sim_member_send(struct sim_node *node, size_t peer, uint64_t generation, const uint8_t *bytes,
                     size_t count)
{
    uint8_t sealed[LIMIT_DATAGRAM_BYTES];
    size_t sealed_bytes, host;

    SIM_TELL(node, datagram, node, count);
    if (peer == node->self || !address_of(node, peer, &host) ||
        !seal(node, peer, generation, bytes, count, sealed, &sealed_bytes))
        return;
    node->traffic.datagrams_sent++;
    node->traffic.datagram_bytes_sent += count + LIMIT_DATAGRAM_OVERHEAD;
    node->peer[peer].sent_host = (uint32_t)host + 1;
    sim_world_trace(node->world, node->host, "datagram", NULL, host, count);
    sim_net_datagram(&node->world->net, node->host, host, sealed, sealed_bytes,
                     count + LIMIT_DATAGRAM_OVERHEAD);
}

void sim_member_datagram(struct sim_node *node, size_t from, const uint8_t *bytes, size_t count)
{
    uint8_t plain[LIMIT_DATAGRAM_BYTES];
    size_t plain_bytes, peer;

    if (!unseal(node, bytes, count, plain, &plain_bytes, &peer)) {
        node->world->counts.rejected++;
        return;
    }
    node->traffic.datagram_bytes_received += plain_bytes + LIMIT_DATAGRAM_OVERHEAD;
    node->peer[peer].host = (uint32_t)from;
    node->peer[peer].host_ns = sim_node_now(node);
    sim_world_trace(node->world, node->host, "heard", NULL, peer, plain_bytes);
    if (!sim_member_packet(node, peer, GOSSIP_BY_DATAGRAM, plain, plain_bytes))
        SIM_TELL(node, refused, node, peer);
}

// Its process is told after all changes of one moment.
void sim_member_changed(struct sim_node *node, size_t peer, const struct gossip_membership_action *action)
{
    sim_world_trace(node->world, node->host, "changed", gossip_member_state_name(action->state), peer,
                    action->evidence);
    SIM_TELL(node, changed, node, peer, action);
}

static void record(struct sim_node *node, size_t peer)
{
    struct gossip_member_info info;

    SIM_TELL(node, record, node, peer);
    if (!sim_member_info(node, peer, &info) || !node->member.datagrams || peer == node->self)
        return;
    enum base_error error =
        gossip_datagrams_peer(node->member.datagrams, sim_member_id(node, peer), info.record->exchange_public,
                              info.record->version.generation);
    if (error)
        sim_world_break(node->world, node->host, "the keys of a member were refused");
}

void sim_member_act(struct sim_node *node, const struct gossip_membership_action *action)
{
    size_t peer = sim_world_find(node->world, &action->peer);
    bool about = action->kind != GOSSIP_MEMBERSHIP_VIEW && action->kind != GOSSIP_MEMBERSHIP_GENERATION &&
                 action->kind != GOSSIP_MEMBERSHIP_CONFLICT && action->kind != GOSSIP_MEMBERSHIP_CUT_OFF;

    SIM_TELL(node, actions, node, node->member.taken++);
    if (about && peer == SIZE_MAX) {
        sim_world_break(node->world, node->host, "an action about a member that never existed");
        return;
    }
    switch (action->kind) {
    case GOSSIP_MEMBERSHIP_SEND:
        if (action->way == GOSSIP_BY_DATAGRAM)
            sim_member_send(node, peer, action->generation, action->bytes, action->n_bytes);
        else
            sim_link_packet(node, peer, action->bytes, action->n_bytes);
        break;
    case GOSSIP_MEMBERSHIP_CHANGED:
        sim_member_changed(node, peer, action);
        break;
    case GOSSIP_MEMBERSHIP_RECORD:
        record(node, peer);
        break;
    case GOSSIP_MEMBERSHIP_VIEW:
        SIM_TELL(node, view, node);
        break;
    case GOSSIP_MEMBERSHIP_SUSPECTED:
        node->world->counts.suspected++;
        sim_world_trace(node->world, node->host, "accused", action->was_dead ? "dead" : "suspect", peer, 0);
        break;
    case GOSSIP_MEMBERSHIP_GENERATION:
        node->world->counts.raised_generations++;
        sim_world_trace(node->world, node->host, "boot", NULL, action->generation, node->member.generation);
        SIM_TELL(node, generation, node, action->generation);
        node->member.generation = node->disk.generation = action->generation;
        if (node->member.datagrams)
            gossip_datagrams_generation(node->member.datagrams, action->generation);
        break;
    case GOSSIP_MEMBERSHIP_CONFLICT: // for its life
        break;
    case GOSSIP_MEMBERSHIP_CUT_OFF:
        sim_world_trace(node->world, node->host, "cut off", NULL, 0, 0);
        break;
    case GOSSIP_MEMBERSHIP_REMOVED:
        sim_world_trace(node->world, node->host, "removed", NULL, peer, 0);
        if (node->member.datagrams)
            gossip_datagrams_forget(node->member.datagrams, &action->peer);
        break;
    }
}

static enum base_error step(struct sim_node *node, const struct gossip_membership_event *event)
{
    enum base_error error = gossip_membership_step(node->member.membership, event);

    node->world->counts.steps++;
    sim_node_act(node, GOSSIP_CONTROL_MEMBERS_TOO);
    return error;
}

static void tell(struct sim_node *node, enum gossip_membership_event_kind kind, size_t peer)
{
    const struct gossip_membership_event event = {
        .kind = kind, .now_ns = sim_node_now(node), .peer = *sim_member_id(node, peer)};

    if (step(node, &event))
        sim_world_break(node->world, node->host, "an event without bytes was refused");
}

void sim_member_tick(struct sim_node *node, uint64_t now_ns)
{
    const struct gossip_membership *membership = node->member.membership;

    if (!membership || now_ns < gossip_membership_deadline(membership))
        return;
    tell(node, GOSSIP_MEMBERSHIP_TIMER, node->self);
    SIM_TELL(node, deadline, node, gossip_membership_deadline(membership),
             "a timer of membership does not pass");
}

void sim_member_claims(struct sim_node *node, uint8_t flags, uint64_t round, uint64_t step)
{
    if (node->world->options.known) {
        sim_known_members.flags(node, flags, 0);
        return;
    }
    gossip_membership_flags(node->member.membership, flags, 0);
    gossip_membership_progress(node->member.membership, round, step);
}

void sim_member_unreachable(struct sim_node *node, size_t peer)
{
    if (node->world->options.known)
        return;
    sim_world_trace(node->world, node->host, "tell", NULL, GOSSIP_MEMBERSHIP_UNREACHABLE, peer);
    tell(node, GOSSIP_MEMBERSHIP_UNREACHABLE, peer);
}

bool sim_member_packet(struct sim_node *node, size_t peer, enum gossip_member_way way, const uint8_t *bytes,
                       size_t count)
{
    const struct gossip_membership_event event = {.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                  .now_ns = sim_node_now(node),
                                                  .peer = *sim_member_id(node, peer),
                                                  .way = way,
                                                  .bytes = bytes,
                                                  .n_bytes = count};

    return !step(node, &event);
}
