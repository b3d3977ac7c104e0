// Reads graph, edges, membership and peer list, in the same way for every owner.
#include "gossip/life/life_state.h"

void gossip_life_see_membership(struct gossip_life_self *self, const struct gossip_membership *membership)
{
    struct gossip_membership_totals totals;

    gossip_membership_totals(membership, &totals);
    self->minority = totals.minority;
    self->cut_off = totals.cut_off;
    self->held_until_ns = totals.counts ? 0 : totals.held_until_ns;
}

bool life_is_live(const struct gossip_edge_info *edge)
{
    return (edge->state == GOSSIP_EDGE_LIVE || edge->begins) && !edge->silent;
}

// The models of two nodes that scale their data differently are never averaged.
static void see_edge(struct gossip_life_self *self, const struct gossip_life_edges *edges,
                     const struct gossip_id *peer)
{
    const size_t count = edges->count(edges->owner);
    bool live = false;

    for (size_t i = 0; i < count; i++) {
        struct gossip_edge_info edge;
        edges->at(edges->owner, i, &edge);
        if (gossip_id_compare(&edge.peer, peer) != 0)
            continue;
        live = life_is_live(&edge);
        if (!edge.other_scaling)
            continue;
        self->apart++;
        self->scaling[0] = edge.scaling;
        self->scaling[1] = edge.other_scaling;
    }
    self->edges_live &= live;
    self->edge_live |= live;
    BASE_ASSERT(self->apart <= self->n_neighbours);
}

void gossip_life_see_graph(struct gossip_life_self *self, const struct gossip_graph *graph,
                           const struct gossip_life_edges *edges)
{
    self->in_view = gossip_graph_counts(graph);
    self->n_view = gossip_graph_members(graph);
    self->n_neighbours = gossip_graph_neighbours(graph);
    BASE_ASSERT(self->n_neighbours == 0 || (self->in_view && self->n_neighbours < self->n_view));
    self->edges_live = true;
    self->edge_live = false;
    self->apart = 0;
    for (size_t i = 0; i < self->n_neighbours; i++)
        see_edge(self, edges, gossip_graph_neighbour(graph, i));
}

bool gossip_life_misses(const struct gossip_graph *graph, const struct gossip_entry *entry)
{
    return entry->state != GOSSIP_ENTRY_SELF && !(entry->known && gossip_graph_has(graph, &entry->id));
}

void gossip_life_see_entry(struct gossip_life_self *self, const struct gossip_graph *graph,
                           const struct gossip_entry *entry)
{
    self->listed += entry->state != GOSSIP_ENTRY_SELF;
    self->refused += entry->state == GOSSIP_ENTRY_REFUSED;
    self->missing += gossip_life_misses(graph, entry);
    BASE_ASSERT(self->missing <= self->listed && self->refused <= self->listed);
}

// -- the other members

bool life_is_here(const struct gossip_member_info *info)
{
    return info->state == GOSSIP_MEMBER_ALIVE || info->state == GOSSIP_MEMBER_SUSPECT;
}

bool gossip_life_believes(const struct gossip_member_info *info)
{
    return life_is_here(info) && info->answered;
}

void gossip_life_count(struct gossip_life_census *census, const struct gossip_member_info *info,
                       uint64_t steps)
{
    const uint8_t flags = info->record->flags;
    const bool finished = flags & GOSSIP_RECORD_FINISHED,
               counts = flags & (GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_HELD); // or will soon

    // A node that trains for fewer steps does not end the training of others.
    census->finished += finished && (info->progress_ns == 0 || info->step >= steps);
    if (!life_is_here(info))
        return;
    census->others++;
    census->eligible += counts;
    census->ready += counts && (flags & (GOSSIP_RECORD_READY | GOSSIP_RECORD_TRAINING |
                                         GOSSIP_RECORD_FINISHED | GOSSIP_RECORD_HELD));
    census->busy += counts && !finished;
    census->company += counts && !finished && gossip_life_believes(info);
    census->unfinished += !finished;
    census->claim += (flags & GOSSIP_RECORD_TRAINING) != 0;
    census->training += (flags & GOSSIP_RECORD_TRAINING) && gossip_life_believes(info);
    BASE_ASSERT(census->company <= census->busy && census->busy <= census->unfinished);
}
