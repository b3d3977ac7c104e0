// Reports of the cluster to people and tools: a line of events.jsonl and one of the log each.
#include "base/plural.h"
#include "node/cluster/private.h"
#include "node/queue/clock.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *name_of(const struct node_cluster *cluster, const struct gossip_id *id,
                           char text[LIMIT_NODE_NAME_BYTES])
{
    struct gossip_member_info info;
    if (!gossip_membership_find(cluster->membership, id, &info)) {
        snprintf(text, LIMIT_NODE_NAME_BYTES, "%s", info.record->name);
    } else {
        char hex[GOSSIP_ID_HEX];
        gossip_id_hex(id, hex);
        snprintf(text, LIMIT_NODE_NAME_BYTES, "%.16s", hex);
    }
    return text;
}

static enum node_event_flag flag(bool value)
{
    return value ? NODE_EVENT_TRUE : NODE_EVENT_FALSE;
}

static const char *where(const struct node_cluster *cluster, const struct gossip_id *id,
                         char text[NODE_ADDRESS_TEXT])
{
    struct gossip_member_info info;
    struct node_address address;
    snprintf(text, NODE_ADDRESS_TEXT, "an unknown address");
    if (!gossip_membership_find(cluster->membership, id, &info) && info.record->n_addresses > 0) {
        node_address_of(&info.record->addresses[0], &address);
        node_address_text(&address, text);
    }
    return text;
}

static void tell_alive(struct node_cluster *cluster, const struct gossip_membership_action *action,
                       struct node_event *event)
{
    char address[NODE_ADDRESS_TEXT];
    event->event = action->known ? "alive" : "join";
    event->before = action->known ? gossip_member_state_name(action->before) : NULL;
    if (!action->known)
        node_events_tell(cluster->events, event, BASE_LOG_INFO, "%s at %s has joined", event->name,
                         where(cluster, event->id, address));
    else if (action->before == GOSSIP_MEMBER_SUSPECT)
        node_events_tell(cluster->events, event, BASE_LOG_INFO, "%s has answered: it is not dead",
                         event->name);
    else
        node_events_tell(cluster->events, event, BASE_LOG_INFO, "%s is back", event->name);
}

static void tell_dead(struct node_cluster *cluster, const struct gossip_membership_action *action,
                      struct node_event *event)
{
    struct gossip_membership_totals totals;
    gossip_membership_totals(cluster->membership, &totals);
    event->event = "dead";
    event->evidence = flag(action->evidence);
    if (!action->known)
        node_events_tell(cluster->events, event, BASE_LOG_INFO, "%s died before this node joined",
                         event->name);
    else
        node_events_tell(cluster->events, event, BASE_LOG_WARN, "%s is dead (%s); members left: %zu",
                         event->name, action->evidence ? "its process has ended" : "it does not answer",
                         totals.alive + totals.suspect);
}

void node_cluster_tell_change(struct node_cluster *cluster, const struct gossip_membership_action *action)
{
    char name[LIMIT_NODE_NAME_BYTES];
    struct node_event event = {.id = &action->peer, .name = name_of(cluster, &action->peer, name)};
    BASE_ASSERT(!action->known || action->before != action->state);
    switch (action->state) {
    case GOSSIP_MEMBER_ALIVE:
        tell_alive(cluster, action, &event);
        break;
    case GOSSIP_MEMBER_SUSPECT:
        cluster->counters.suspicions++;
        event.event = "suspect";
        event.evidence = flag(action->evidence);
        node_events_tell(cluster->events, &event, BASE_LOG_INFO, "%s may be dead: %s", name,
                         action->evidence ? "its process seems to have ended" : "it does not answer");
        break;
    case GOSSIP_MEMBER_DEAD:
        cluster->counters.deaths += action->known;
        tell_dead(cluster, action, &event);
        break;
    case GOSSIP_MEMBER_LEFT:
        event.event = "left";
        node_events_tell(cluster->events, &event, BASE_LOG_INFO, "%s has left", name);
        break;
    case GOSSIP_MEMBER_UNPROVEN: // no change is told before it is a member
    case GOSSIP_MEMBER_STATES:
        break;
    }
}

void node_cluster_tell_suspected(struct node_cluster *cluster, const struct gossip_membership_action *action)
{
    char name[LIMIT_NODE_NAME_BYTES];
    struct node_event event = {.event = "accused",
                               .id = &action->peer,
                               .name = name_of(cluster, &action->peer, name),
                               .evidence = flag(action->evidence),
                               .was_dead = flag(action->was_dead)};
    node_events_tell(cluster->events, &event, BASE_LOG_WARN, "%s %s; it is told that this node is alive",
                     name,
                     action->was_dead ? "had declared this node dead" : "suspects this node of being dead");
}

void node_cluster_tell_generation(struct node_cluster *cluster, uint64_t generation)
{
    struct node_event event = {.event = "boot", .generation = generation};
    node_events_tell(cluster->events, &event, BASE_LOG_WARN,
                     "other nodes know of a later start of this node than it does; its number of starts is "
                     "%" PRIu64 " now",
                     generation);
}

void node_cluster_tell_view(struct node_cluster *cluster)
{
    char names[LIMIT_NEIGHBOURS][LIMIT_NODE_NAME_BYTES], list[400];
    const char *pointers[LIMIT_NEIGHBOURS];
    size_t used = 0, count = gossip_graph_neighbours(gossip_control_graph(cluster->control));
    list[0] = 0;
    for (size_t i = 0; i < count; i++) {
        pointers[i] =
            name_of(cluster, gossip_graph_neighbour(gossip_control_graph(cluster->control), i), names[i]);
        if (used + strlen(pointers[i]) + 3 < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", pointers[i]);
    }
    struct node_event event = {.event = "view",
                               .lists = true,
                               .members = gossip_graph_members(gossip_control_graph(cluster->control)),
                               .neighbours = pointers,
                               .n_neighbours = count};
    node_events_tell(cluster->events, &event, BASE_LOG_INFO, "%zu member%s in the graph; neighbours: %s",
                     event.members, base_plural(event.members), count ? list : "none");
}

void node_cluster_tell_takeover(struct node_cluster *cluster, const uint32_t *orphans, size_t count)
{
    struct node_event event = {.event = "takeover", .shards = orphans, .n_shards = count};
    // The learner logs what it does about them.
    node_events_tell(cluster->events, &event, BASE_LOG_DEBUG, "shards without a node: %zu", count);
}

void node_cluster_tell(struct node_cluster *cluster, const char *name, const char *line)
{
    struct node_event event = {.event = name};
    node_events_tell(cluster->events, &event, BASE_LOG_INFO, "%s", line);
}

void node_cluster_warn(struct node_cluster *cluster, const char *name, const char *line)
{
    struct node_event event = {.event = name};
    node_events_tell(cluster->events, &event, BASE_LOG_WARN, "%s", line);
}

void node_cluster_tell_missing(struct node_cluster *cluster, const struct gossip_id *peer)
{
    char text[LIMIT_NODE_NAME_BYTES];
    base_log(BASE_LOG_WARN, "no_link",
             "no link between %s (this node) and its neighbour %s for %llu s: neither can call the other, so "
             "they do not average; allow connections to one of them (firewall, port forwarding), and check "
             "that its node.advertise is an address that the other can reach",
             cluster->options.name, name_of(cluster, peer, text), GOSSIP_LINKS_MISSING_NS / NODE_SECOND_NS);
}
