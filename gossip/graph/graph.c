// A node's place in a plan.
#include "gossip/graph/graph_private.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 64 };
#define TURNS_MAX 8u // rounds for each neighbour: the bound, where the schedule never repeats

struct gossip_graph {
    atomic_size_t uses;
    struct gossip_plan *plan;
    size_t self;   // place in the view, or TOPOLOGY_NOBODY
    uint64_t turn; // the most rounds from one meeting with a neighbour to the next
    size_t count;
    size_t neighbour[]; // places, ascending
};

static const struct gossip_id *id_at(const struct gossip_graph *graph, size_t place)
{
    return (const struct gossip_id *)(const void *)graph->plan->member[place].id;
}
_Static_assert(sizeof(struct gossip_id) == sizeof((struct topology_member *)0)->id &&
                   _Alignof(struct gossip_id) == 1,
               "an id is its bytes");

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static size_t index_of(const struct gossip_graph *graph, size_t place)
{
    size_t index = 0;

    while (index < graph->count && graph->neighbour[index] != place)
        index++;
    return index;
}

// Of the rounds 1 to `span`. A neighbour met only before or after them counts with what is left of them.
static uint64_t longest_gap(const struct gossip_graph *graph, uint64_t span, uint64_t *met)
{
    uint64_t longest = 0;

    for (uint64_t round = 1; round <= span; round++) {
        const size_t place = topology_plan_partner(graph->plan->topology, graph->self, round);
        const size_t index = place == TOPOLOGY_NOBODY ? graph->count : index_of(graph, place);
        if (index == graph->count)
            continue;
        longest = larger(longest, round - met[index]);
        met[index] = round;
    }
    for (size_t i = 0; i < graph->count; i++)
        longest = larger(longest, span - met[i]);
    return longest;
}

// A simulation sets no limit to the number of neighbours. Out of memory: the bound.
static uint64_t turn_of(const struct gossip_graph *graph)
{
    const uint64_t period = topology_plan_period(graph->plan->topology);
    const uint64_t most = larger(TURNS_MAX * graph->count, graph->plan->count);
    uint64_t *met = period > 0 && graph->count > 0 ? calloc(graph->count, sizeof *met) : NULL;

    if (!met)
        return graph->count > 0 ? most : 0;
    const uint64_t gap = longest_gap(graph, 2 * smaller(period, most), met);
    free(met);
    return smaller(gap, most);
}

enum base_error gossip_graph_create(struct gossip_plan *plan, const struct gossip_id *self, size_t limit,
                                    struct gossip_graph **graph)
{
    size_t few[FEW], count = 0, place = plan_find(plan, self);

    if (place != TOPOLOGY_NOBODY)
        count = topology_plan_neighbours(plan->topology, place, few, FEW);
    if (count > limit)
        return BASE_ELIMIT;
    BASE_ASSERT(place == TOPOLOGY_NOBODY || place < plan->count);
    struct gossip_graph *fresh = malloc(sizeof *fresh + count * sizeof *fresh->neighbour);
    if (!fresh)
        return BASE_ENOMEM;
    atomic_init(&fresh->uses, 1);
    fresh->plan = gossip_plan_keep(plan);
    fresh->self = place;
    fresh->count = count;
    if (count > FEW)
        topology_plan_neighbours(plan->topology, place, fresh->neighbour, count);
    else
        memcpy(fresh->neighbour, few, count * sizeof *few);
    fresh->turn = place == TOPOLOGY_NOBODY ? 0 : turn_of(fresh);
    *graph = fresh;
    return BASE_OK;
}

struct gossip_graph *gossip_graph_keep(struct gossip_graph *graph)
{
    if (graph)
        atomic_fetch_add(&graph->uses, 1);
    return graph;
}

void gossip_graph_drop(struct gossip_graph *graph)
{
    if (!graph || atomic_fetch_sub(&graph->uses, 1) > 1)
        return;
    gossip_plan_drop(graph->plan);
    free(graph);
}

size_t gossip_graph_members(const struct gossip_graph *graph)
{
    return graph ? graph->plan->count : 0;
}

bool gossip_graph_has(const struct gossip_graph *graph, const struct gossip_id *id)
{
    return graph && plan_find(graph->plan, id) != TOPOLOGY_NOBODY;
}

bool gossip_graph_counts(const struct gossip_graph *graph)
{
    return graph && graph->self != TOPOLOGY_NOBODY;
}

size_t gossip_graph_neighbours(const struct gossip_graph *graph)
{
    return graph ? graph->count : 0;
}

const struct gossip_id *gossip_graph_neighbour(const struct gossip_graph *graph, size_t index)
{
    BASE_ASSERT(index < gossip_graph_neighbours(graph));
    return id_at(graph, graph->neighbour[index]);
}

bool gossip_graph_meets(const struct gossip_graph *graph, const struct gossip_id *id)
{
    size_t low = 0, high = gossip_graph_neighbours(graph);

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = gossip_id_compare(id_at(graph, graph->neighbour[middle]), id);
        if (order == 0)
            return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

uint64_t gossip_graph_turn(const struct gossip_graph *graph)
{
    return graph ? graph->turn : 0;
}

bool gossip_graph_partner(const struct gossip_graph *graph, uint64_t round, struct gossip_id *partner,
                          float *weight)
{
    if (!gossip_graph_counts(graph))
        return false;
    size_t place = topology_plan_partner(graph->plan->topology, graph->self, round);
    if (place == TOPOLOGY_NOBODY)
        return false;
    *partner = *id_at(graph, place);
    *weight = (float)topology_plan_weight(graph->plan->topology, graph->self, round);
    return true;
}

// Before training begins the slots depend only on the members: claims made while the view grows would depend
// on the order in which the processes started. A node that is not in the graph keeps its claim, so that it
// and the others have their old places when it comes back.
uint32_t gossip_graph_slot(const struct gossip_graph *graph, uint32_t claimed, bool trains)
{
    const bool claims = trains && gossip_graph_counts(graph);

    return claims ? topology_plan_slot(graph->plan->topology, graph->self) : claimed;
}

size_t gossip_graph_links(const struct gossip_graph *graph, const struct gossip_id *more, size_t n_more,
                          struct gossip_id *ids)
{
    size_t count = gossip_graph_neighbours(graph);

    for (size_t i = 0; i < count; i++)
        ids[i] = *gossip_graph_neighbour(graph, i);
    for (size_t i = 0; i < n_more; i++)
        ids[count + i] = more[i];
    return count + n_more;
}
