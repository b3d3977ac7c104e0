#include "lab/sim/sim_known.h"

#include "base/array.h"
#include "lab/sim/sim_process.h"
#include <stdio.h>
#include <stdlib.h>

static bool is_here(const struct sim_known *known, size_t identity)
{
    return known->there[identity] &&
           (known->state[identity] == GOSSIP_MEMBER_ALIVE || known->state[identity] == GOSSIP_MEMBER_SUSPECT);
}

void sim_known_at(const struct sim_node *node, size_t identity, struct gossip_member_info *info)
{
    static const struct gossip_record nobody = {.shard = GOSSIP_NO_SHARD};
    const struct sim_known *known = &node->world->known;
    const struct sim_node *other = node->world->node[identity];
    const bool there = known->there[identity];

    *info = (struct gossip_member_info){.record = there ? &known->record[identity] : &nobody,
                                        .state = there ? known->state[identity] : GOSSIP_MEMBER_LEFT,
                                        .since_ns =
                                            (uint64_t)((int64_t)known->since_ns[identity] + node->clock_ns),
                                        .heard_ns = there,
                                        .progress_ns = sim_node_now(node),
                                        .answered = other->running};
    sim_train_claim(other, &info->round, &info->step);
}

static void count_members(struct sim_world *world)
{
    struct sim_known *known = &world->known;

    known->n_view = 0;
    known->census = (struct gossip_life_census){0};
    for (size_t i = 0; i < world->options.nodes; i++) {
        size_t identity = known->order[i];
        struct gossip_member_info info;
        if (!known->there[identity])
            continue;
        sim_known_at(world->node[identity], identity, &info);
        gossip_life_count(&known->census, &info, world->options.steps);
        if (is_here(known, identity) && (info.record->flags & GOSSIP_RECORD_ELIGIBLE))
            known->view[known->n_view++] = known->record[identity];
    }
}

// The count without this process; 0 if it has just started or changed and is not counted yet.
static size_t without(size_t all, size_t own)
{
    return all > own ? all - own : 0;
}

static void census_of(const void *owner, struct gossip_life_census *census)
{
    const struct sim_node *node = owner;
    const struct gossip_life_census *all = &node->world->known.census;
    struct gossip_life_census own = {0};
    struct gossip_member_info info;

    sim_known_at(node, node->self, &info);
    gossip_life_count(&own, &info, node->world->options.steps);
    *census = (struct gossip_life_census){.others = without(all->others, own.others),
                                          .claim = without(all->claim, own.claim),
                                          .training = without(all->training, own.training),
                                          .eligible = without(all->eligible, own.eligible),
                                          .ready = without(all->ready, own.ready),
                                          .busy = without(all->busy, own.busy),
                                          .company = without(all->company, own.company),
                                          .unfinished = without(all->unfinished, own.unfinished),
                                          .finished = without(all->finished, own.finished)};
}

void sim_known_take(struct sim_node *node, const struct sim_change *change)
{
    const struct gossip_membership_action action = {.kind = GOSSIP_MEMBERSHIP_CHANGED,
                                                    .peer = *sim_member_id(node, change->identity),
                                                    .state = change->state,
                                                    .before = change->before,
                                                    .known = change->known,
                                                    .evidence = true};

    sim_member_changed(node, change->identity, &action);
    sim_life_tell(node, (struct gossip_life_event){
                            .kind = GOSSIP_LIFE_MEMBER, .peer = action.peer, .state = action.state});
    if (action.state == GOSSIP_MEMBER_DEAD)
        sim_link_close(node, change->identity, GOSSIP_CLOSE_SILENT);
}

static void tell(void *owner, struct sim_event *event)
{
    struct sim_world *world = owner;
    struct sim_known *known = &world->known;
    size_t changes = known->n_changes;
    struct sim_change *change = sim_copy(known->change, changes * sizeof *change);

    (void)event;
    known->told = false;
    known->n_changes = 0;
    count_members(world);
    for (size_t i = 0; i < world->hosts; i++) {
        struct sim_node *node = world->node[i];
        for (size_t k = 0; k < changes; k++)
            if (change[k].identity != node->self)
                sim_node_inform(node, &change[k]);
        sim_node_inform(node, NULL);
    }
    free(change);
}

static void later(struct sim_world *world)
{
    const struct sim_event event = {.time_ns = world->queue.now_ns, .run = tell, .owner = world};

    if (world->known.told)
        return;
    world->known.told = true;
    sim_queue_push(&world->queue, &event);
}

static void change(struct sim_world *world, size_t identity, enum gossip_member_state state)
{
    struct sim_known *known = &world->known;

    known->change = sim_must(base_array_grow(known->change, known->n_changes, sizeof *known->change));
    known->change[known->n_changes++] = (struct sim_change){.identity = (uint32_t)identity,
                                                            .known = known->there[identity],
                                                            .before = known->state[identity],
                                                            .state = state};
    known->there[identity] = true;
    known->state[identity] = state;
    known->since_ns[identity] = world->queue.now_ns;
    later(world);
}

// Informs a late process of the present members.
static void catch_up(struct sim_node *node)
{
    const struct sim_known *known = &node->world->known;

    for (size_t i = 0; i < node->world->options.nodes; i++)
        if (is_here(known, i))
            sim_known_take(node, &(const struct sim_change){.identity = (uint32_t)i});
}

void sim_known_start(struct sim_node *node)
{
    struct gossip_record *record = &node->world->known.record[node->self];
    const uint32_t *group = node->world->options.group;

    *record = (struct gossip_record){
        .id = *sim_member_id(node, node->self),
        .version = {.generation = node->member.generation, .instance_id = node->member.instance},
        .slot = TOPOLOGY_NO_SLOT,
        .shard = (uint32_t)node->self,
        .group = group ? group[node->self] : 0,
        .n_addresses = 1,
        .addresses = {sim_net_address(node->host)}};
    snprintf(record->name, sizeof record->name, "node-%02zu", node->self);
    catch_up(node);
    change(node->world, node->self, GOSSIP_MEMBER_ALIVE);
}

void sim_known_end(struct sim_node *node, bool in_order)
{
    if (is_here(&node->world->known, node->self))
        change(node->world, node->self, in_order ? GOSSIP_MEMBER_LEFT : GOSSIP_MEMBER_DEAD);
}

// -- as gossip/host reads and changes it; owner: the process

static size_t count(const void *owner)
{
    return ((const struct sim_node *)owner)->world->options.nodes;
}

// This process first.
static void at(const void *owner, size_t index, struct gossip_member_info *info)
{
    const struct sim_node *node = owner;

    sim_known_at(node, index == 0 ? node->self : index <= node->self ? index - 1 : index, info);
}

static const struct gossip_record *view(const void *owner, size_t *members)
{
    const struct sim_known *known = &((const struct sim_node *)owner)->world->known;

    *members = known->n_view;
    return known->view;
}

static void flags(void *owner, uint8_t set, uint8_t clear)
{
    const struct sim_node *node = owner;
    uint8_t *now = &node->world->known.record[node->self].flags;

    *now = (uint8_t)((*now | set) & ~clear);
    later(node->world);
}

static void stop_at(void *owner, uint64_t round)
{
    const struct sim_node *node = owner;

    node->world->known.record[node->self].stop_round = round;
    flags(owner, round ? GOSSIP_RECORD_STOPPING : 0, round ? 0 : GOSSIP_RECORD_STOPPING);
}

static void setting(void *owner, enum gossip_setting_kind kind, const struct gossip_setting *value)
{
    const struct sim_node *node = owner;

    node->world->known.record[node->self].settings[kind] = *value;
    later(node->world);
}

static void slot(void *owner, uint32_t claimed)
{
    const struct sim_node *node = owner;

    node->world->known.record[node->self].slot = claimed;
    later(node->world);
}

static void leave(void *owner)
{
    sim_known_end(owner, true);
}

const struct gossip_control_members sim_known_members = {.count = count,
                                                         .at = at,
                                                         .view = view,
                                                         .census = census_of,
                                                         .flags = flags,
                                                         .stop_at = stop_at,
                                                         .setting = setting,
                                                         .slot = slot,
                                                         .leave = leave};

static int by_id(const void *a, const void *b, void *owner)
{
    const struct gossip_identity *identity = owner;

    return gossip_id_compare(&identity[*(const uint32_t *)a].id, &identity[*(const uint32_t *)b].id);
}

void sim_known_create(struct sim_world *world)
{
    struct sim_known *known = &world->known;
    size_t nodes = world->options.nodes;

    known->record = sim_must(calloc(nodes, sizeof *known->record));
    known->state = sim_must(calloc(nodes, sizeof *known->state));
    known->since_ns = sim_must(calloc(nodes, sizeof *known->since_ns));
    known->there = sim_must(calloc(nodes, sizeof *known->there));
    known->order = sim_must(calloc(nodes, sizeof *known->order));
    known->view = sim_must(calloc(nodes, sizeof *known->view));
    for (size_t i = 0; i < nodes; i++)
        known->order[i] = (uint32_t)i;
    qsort_r(known->order, nodes, sizeof *known->order, by_id, world->identity);
}

void sim_known_destroy(struct sim_world *world)
{
    free(world->known.record);
    free(world->known.state);
    free(world->known.since_ns);
    free(world->known.there);
    free(world->known.order);
    free(world->known.view);
    free(world->known.change);
}
