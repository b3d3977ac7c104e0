#include "lab/sim/sim_known.h"

#include "lab/sim/sim_process.h"
#include <stdio.h>
#include <stdlib.h>

static bool is_here(const struct sim_known *known, size_t identity)
{
    return known->there[identity] &&
           (known->state[identity] == GOSSIP_MEMBER_ALIVE || known->state[identity] == GOSSIP_MEMBER_SUSPECT);
}

static void count(struct sim_world *world)
{
    struct sim_known *known = &world->known;

    known->n_view = known->here = known->busy = known->training = known->finished = 0;
    for (size_t i = 0; i < world->options.nodes; i++) {
        size_t identity = known->order[i];
        uint8_t flags = known->record[identity].flags;
        known->finished += known->there[identity] && (flags & GOSSIP_RECORD_FINISHED);
        if (!is_here(known, identity))
            continue;
        known->here++;
        known->busy += (flags & GOSSIP_RECORD_ELIGIBLE) && !(flags & GOSSIP_RECORD_FINISHED);
        known->training += (flags & GOSSIP_RECORD_TRAINING) != 0;
        if (flags & GOSSIP_RECORD_ELIGIBLE)
            known->view[known->n_view++] = known->record[identity];
    }
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
    count(world);
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

    if (known->n_changes == known->changes_capacity) {
        known->changes_capacity = known->changes_capacity ? 2 * known->changes_capacity : 64;
        known->change = sim_must(realloc(known->change, known->changes_capacity * sizeof *known->change));
    }
    known->change[known->n_changes++] = (struct sim_change){.identity = (uint32_t)identity,
                                                            .known = known->there[identity],
                                                            .before = known->state[identity],
                                                            .state = state};
    known->there[identity] = true;
    known->state[identity] = state;
    later(world);
}

// Who comes later is told of those who are there.
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

    *record = (struct gossip_record){.id = *sim_member_id(node, node->self),
                                     .version = {.boot = node->boot, .life = node->life},
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

void sim_known_flags(struct sim_node *node, uint8_t set)
{
    node->world->known.record[node->self].flags |= set;
    later(node->world);
}

void sim_known_slot(struct sim_node *node, uint32_t slot)
{
    node->world->known.record[node->self].slot = slot;
    later(node->world);
}

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
    free(world->known.there);
    free(world->known.order);
    free(world->known.view);
    free(world->known.change);
}
