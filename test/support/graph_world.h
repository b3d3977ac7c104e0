// Views and graphs of numbered members, for tests of gossip/graph.
#ifndef TEST_SUPPORT_GRAPH_WORLD_H
#define TEST_SUPPORT_GRAPH_WORLD_H

#include "gossip/graph/graph.h"
#include <stdio.h>
#include <stdlib.h>

static inline struct topology_options graph_options(enum topology_kind kind)
{
    return (struct topology_options){.kind = kind, .seed = 3, .rings = TOPOLOGY_RINGS_MAX};
}

// Ids ascend with the number.
static inline struct gossip_id graph_id(size_t number)
{
    return (struct gossip_id){{(uint8_t)(number >> 8), (uint8_t)number, 1}};
}

static inline size_t graph_number(const struct gossip_id *id)
{
    return (size_t)id->bytes[0] << 8 | id->bytes[1];
}

// Groups of five.
static inline struct gossip_record graph_record(size_t number)
{
    struct gossip_record record = {
        .id = graph_id(number), .slot = GOSSIP_NO_SLOT, .group = (uint32_t)(number / 5)};

    snprintf(record.name, sizeof record.name, "node-%zu", number);
    return record;
}

// Members 0 to n - 1.
static inline void graph_view(struct gossip_record *view, size_t n)
{
    for (size_t i = 0; i < n; i++)
        view[i] = graph_record(i);
}

static inline struct gossip_plan *graph_plan(const struct topology_options *options,
                                             const struct gossip_record *view, size_t n)
{
    struct gossip_plan *plan;

    BASE_ASSERT(!gossip_plan_create(options, view, n, &plan));
    return plan;
}

// The graph is the only user of its plan.
static inline struct gossip_graph *graph_of(const struct topology_options *options,
                                            const struct gossip_record *view, size_t n, size_t self)
{
    const struct gossip_id id = graph_id(self);
    struct gossip_plan *plan = graph_plan(options, view, n);
    struct gossip_graph *graph;

    BASE_ASSERT(!gossip_graph_create(plan, &id, SIZE_MAX, &graph));
    gossip_plan_drop(plan);
    return graph;
}

#endif
