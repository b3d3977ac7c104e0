// The links of a node to members that relay: for it, if others cannot call it; for its neighbours; and
// between the two, if they have no family of addresses in common.
#include "gossip/host/private.h"

#include <string.h>

#define RELAYS_MISSING 64u // links that are looked at

struct missing {
    struct gossip_missing links[RELAYS_MISSING];
    size_t count;
};

static bool is_missing(const struct missing *missing, const struct gossip_id *id)
{
    for (size_t i = 0; i < missing->count; i++)
        if (gossip_id_compare(&missing->links[i].peer, id) == 0)
            return true;
    return false;
}

static void find_missing(const struct gossip_control *control, struct missing *missing)
{
    const size_t all =
        gossip_links_missing(control->options.links, control->now_ns, missing->links, RELAYS_MISSING);
    missing->count = all < RELAYS_MISSING ? all : RELAYS_MISSING;
}

static void choose(const struct gossip_control *control, const struct missing *missing,
                   struct gossip_relays *relays)
{
    const struct gossip_membership *members = control->options.membership;
    struct gossip_member_info info;
    for (size_t i = 1; i < gossip_membership_count(members); i++) {
        gossip_membership_info(members, i, &info);
        if (gossip_membership_is_here(members, &info.record->id))
            gossip_relays_offer(relays, info.record, is_missing(missing, &info.record->id));
    }
}

static void tell_ways(struct gossip_control *control, const struct gossip_relays *relays)
{
    uint64_t named[GOSSIP_RECORD_RELAYS] = {0};
    uint8_t ways = 0;
    if (control->reach == GOSSIP_REACH_REACHABLE)
        ways = control->relays ? GOSSIP_WAYS : GOSSIP_WAY_REACHABLE;
    for (size_t i = 0; i < relays->count; i++)
        named[i] = gossip_id_beginning(&relays->ids[i]);
    gossip_membership_ways(control->options.membership, ways, named, relays->count);
}

// It relays for a neighbour that cannot be called either.
static bool serves(const struct gossip_control *control, const struct gossip_id *relay,
                   const struct gossip_id *neighbour)
{
    struct gossip_member_info info;
    return !gossip_membership_find(control->options.membership, neighbour, &info) &&
           gossip_record_is_private(info.record) && gossip_record_names(info.record, relay);
}

// A reachable node needs it only if the neighbour cannot call it either, such as one of another family.
static bool serves_neighbour(const struct gossip_control *control, const struct missing *missing,
                             const struct gossip_id *relay)
{
    bool found = false;
    for (size_t i = 0; i < gossip_graph_neighbours(control->graph) && !found; i++) {
        const struct gossip_id *neighbour = gossip_graph_neighbour(control->graph, i);
        found = (control->reach == GOSSIP_REACH_PRIVATE || is_missing(missing, neighbour)) &&
                serves(control, relay, neighbour);
    }
    return found;
}

// Over which this node and a neighbour meet that are apart; none if they are not.
static struct gossip_relays between(const struct gossip_control *control, const struct gossip_id *neighbour)
{
    struct gossip_relays relays = {.count = 0};
    struct gossip_member_info info;
    if (control->options.membership && !gossip_membership_find(control->options.membership, neighbour, &info))
        gossip_relays_between(&relays, control->options.membership, info.record);
    return relays;
}

static size_t add(struct gossip_id ids[CONTROL_RELAYS], size_t count, const struct gossip_id *id)
{
    for (size_t i = 0; i < count; i++)
        if (gossip_id_compare(&ids[i], id) == 0)
            return count;
    if (count < CONTROL_RELAYS)
        ids[count++] = *id;
    return count;
}

static size_t add_between(const struct gossip_control *control, struct gossip_id ids[CONTROL_RELAYS],
                          size_t count)
{
    for (size_t i = 0; i < gossip_graph_neighbours(control->graph); i++) {
        const struct gossip_relays relays = between(control, gossip_graph_neighbour(control->graph, i));
        for (size_t k = 0; k < relays.count; k++)
            count = add(ids, count, &relays.ids[k]);
    }
    return count;
}

bool control_calls_over(const struct gossip_control *control, const struct gossip_id *relay,
                        const struct gossip_id *neighbour)
{
    const struct gossip_relays relays = between(control, neighbour);
    return !gossip_control_linked(control, neighbour) &&
           (gossip_relays_have(&relays, relay) ||
            (control->reach == GOSSIP_REACH_PRIVATE && serves(control, relay, neighbour)));
}

size_t control_relays(struct gossip_control *control, struct gossip_id ids[CONTROL_RELAYS])
{
    const struct gossip_membership *members = control->options.membership;
    struct gossip_relays relays;
    struct gossip_member_info info;
    struct missing missing;
    size_t count = 0;
    if (!members)
        return 0;
    find_missing(control, &missing);
    gossip_relays_begin(&relays, &control->options.self);
    if (control->reach == GOSSIP_REACH_PRIVATE)
        choose(control, &missing, &relays);
    tell_ways(control, &relays);
    for (size_t i = 0; i < relays.count; i++)
        count = add(ids, count, &relays.ids[i]);
    count = add_between(control, ids, count);
    if (control->reach != GOSSIP_REACH_PRIVATE && missing.count == 0)
        return count;
    for (size_t i = 1; i < gossip_membership_count(members) && count < CONTROL_RELAYS; i++) {
        gossip_membership_info(members, i, &info);
        if (gossip_membership_is_here(members, &info.record->id) && gossip_record_relays(info.record) &&
            serves_neighbour(control, &missing, &info.record->id))
            count = add(ids, count, &info.record->id);
    }
    return count;
}

void gossip_control_reach(struct gossip_control *control, enum gossip_reach_state state, bool relays)
{
    control->wants_changed |= control->reach != state || control->relays != relays;
    control->reach = state;
    control->relays = relays;
}
