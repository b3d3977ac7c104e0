// From waiting to leaving: when this node counts in the graph, when it begins to train, when it goes.
#include "base/log.h"
#include "node/clock.h"
#include "node/loop_private.h"
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEET_NS  (300 * NODE_MILLISECOND_NS) // after the first other member: till then more may be learned
#define EDGES_NS (5 * NODE_SECOND_NS)        // how long edges are waited for where others train already
#define TELL_NS  (400 * NODE_MILLISECOND_NS) // how long others are told that this node leaves
#define FLUSH_NS (2 * NODE_SECOND_NS)

void node_loop_enter(struct node_loop *loop, enum phase phase)
{
    loop->phase = phase;
    loop->phase_ns = node_clock_ns();
}

static uint64_t in_phase_ns(const struct node_loop *loop)
{
    return node_clock_ns() - loop->phase_ns;
}

void node_loop_census(const struct node_loop *loop, struct node_census *census)
{
    const struct gossip_membership *m = node_cluster_membership(loop->cluster);
    *census = (struct node_census){0};
    for (size_t i = 1; i < gossip_membership_count(m); i++) {
        struct gossip_member_info info;
        gossip_membership_info(m, i, &info);
        uint8_t flags = info.record->flags;
        census->finished += (flags & GOSSIP_RECORD_FINISHED) != 0;
        if (info.state != GOSSIP_MEMBER_ALIVE && info.state != GOSSIP_MEMBER_SUSPECT)
            continue;
        bool eligible = flags & GOSSIP_RECORD_ELIGIBLE;
        census->others++;
        census->eligible += eligible;
        census->training += (flags & GOSSIP_RECORD_TRAINING) != 0;
        census->busy += eligible && !(flags & GOSSIP_RECORD_FINISHED);
    }
}

void node_loop_set_eligible(struct node_loop *loop)
{
    loop->eligible = true;
    node_cluster_flags(loop->cluster, GOSSIP_RECORD_ELIGIBLE, 0);
}

static bool starts_late(const struct node_loop *loop)
{
    return in_phase_ns(loop) >= loop->options.config->node.start_timeout_ns;
}

// No entry of the peer list leads to anybody else.
static bool is_alone(const struct node_loop *loop)
{
    const struct node_entries *entries = node_peers_entries(node_cluster_peers(loop->cluster));
    for (size_t i = 0; i < node_entries_count(entries); i++)
        if (node_entries_at(entries, i)->state != NODE_ENTRY_SELF)
            return false;
    return loop->options.config->node.start_members <= 1;
}

// The seed model is a complete state as long as nobody has moved on from it; then a donor's is wanted.
static void consider_eligible(struct node_loop *loop, const struct node_census *census)
{
    if (loop->phase != PHASE_WAITING || loop->eligible || loop->stopping)
        return;
    if (!loop->options.resumed && census->training > 0) {
        node_cluster_tell(loop->cluster, "start", "others train already: fetching a model from one of them");
        node_loop_post(loop->learner, NODE_MAIL_START, 1);
        node_loop_enter(loop, PHASE_FETCHING);
        return;
    }
    if (census->others > 0 && loop->met_ns == 0)
        loop->met_ns = node_clock_ns();
    bool met = census->others > 0 && node_clock_ns() - loop->met_ns >= MEET_NS;
    if (loop->options.resumed || met || (census->others == 0 && is_alone(loop)) || starts_late(loop))
        node_loop_set_eligible(loop);
}

static bool edge_is_live(const struct node_loop *loop, const struct gossip_id *peer)
{
    for (size_t i = 0; i < loop->n_edges; i++)
        if (gossip_id_compare(&loop->edges[i].peer, peer) == 0)
            return loop->edges[i].state == GOSSIP_EDGE_LIVE;
    return false;
}

static bool edges_are_live(const struct node_loop *loop)
{
    size_t count = 0;
    const struct gossip_id *neighbours = node_cluster_neighbours(loop->cluster, &count);
    if (loop->options.config->average.method == NODE_METHOD_LOCAL)
        return true; // there are none
    for (size_t i = 0; i < count; i++)
        if (!edge_is_live(loop, &neighbours[i]))
            return false;
    return true;
}

// Entries of the peer list that lead to nobody in the graph; their addresses into text, as many as fit.
static size_t missing(const struct node_loop *loop, char *text, size_t capacity)
{
    const struct node_entries *entries = node_peers_entries(node_cluster_peers(loop->cluster));
    size_t count = 0, used = 0;
    text[0] = 0;
    for (size_t i = 0; i < node_entries_count(entries); i++) {
        const struct node_entry *e = node_entries_at(entries, i);
        if (e->state == NODE_ENTRY_SELF || (e->known && node_cluster_in_view(loop->cluster, &e->id)))
            continue;
        count++;
        if (used + strlen(e->text) + 3 < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", e->text);
    }
    return count;
}

static size_t view_count(const struct node_loop *loop)
{
    size_t count = 0;
    (void)gossip_membership_view(node_cluster_membership(loop->cluster), &count);
    return count;
}

static bool all_are_there(const struct node_loop *loop, char *text, size_t capacity)
{
    uint64_t wanted = loop->options.config->node.start_members;
    if (wanted == 0) {
        size_t count = missing(loop, text, capacity);
        return count == 0;
    }
    snprintf(text, capacity, "%zu of node.start_members %llu are there", view_count(loop),
             (unsigned long long)wanted);
    return view_count(loop) >= wanted || wanted <= 1;
}

static void say_without(const struct node_loop *loop, const char *text)
{
    char none[8];
    if (loop->options.config->node.start_members > 0)
        base_log(BASE_LOG_WARN, "start_without", "training begins though only %s", text);
    else
        base_log(BASE_LOG_WARN, "start_without", "training begins without %zu of the listed peers: %s",
                 missing(loop, none, sizeof none), text);
}

static bool is_left_alone(const struct node_loop *loop, const struct node_census *census)
{
    return node_config_stops_alone(loop->options.config) && census->finished > 0 && census->busy == 0;
}

static void consider_start(struct node_loop *loop, const struct node_census *census)
{
    char text[600], line[96];
    if (loop->phase != PHASE_WAITING || !loop->eligible || loop->stopping)
        return;
    bool late = starts_late(loop), all = all_are_there(loop, text, sizeof text);
    bool in_view = census->others == 0 || node_cluster_in_view(loop->cluster, &loop->options.identity->id);
    bool joins = census->training > 0; // a restarted node: nobody new is waited for
    bool ready = in_view && (edges_are_live(loop) || (joins && in_phase_ns(loop) >= EDGES_NS));
    if (!late && !(ready && (all || joins)))
        return;
    if (!all)
        say_without(loop, text);
    bool over = is_left_alone(loop, census) && census->eligible > 0; // and this node was away
    if (over)
        snprintf(line, sizeof line, "all others have finished: fetching the model from one of them");
    else
        snprintf(line, sizeof line, "training begins with %zu peers", census->others);
    node_cluster_tell(loop->cluster, "start", line);
    node_loop_post(loop->learner, NODE_MAIL_START, over);
    node_loop_enter(loop, over ? PHASE_FETCHING : PHASE_TRAINING);
}

// What one node would learn alone from here on, nobody averages: it would pull the model to its own data.
static void consider_alone(struct node_loop *loop, const struct node_census *census)
{
    bool learns = loop->phase == PHASE_TRAINING || loop->phase == PHASE_FETCHING;
    if (!learns || loop->alone_posted || !is_left_alone(loop, census))
        return;
    node_loop_post(loop->learner, NODE_MAIL_ALONE, 0);
    loop->alone_posted = true;
}

static void consider_leave(struct node_loop *loop, const struct node_census *census)
{
    if (loop->phase != PHASE_LINGERING || loop->leave_posted)
        return;
    bool late = in_phase_ns(loop) >= loop->options.config->node.linger_ns;
    if (census->busy > 0 && !late)
        return;
    if (census->busy > 0)
        base_log(BASE_LOG_WARN, "linger_over", "%zu peers still train; node.linger has passed", census->busy);
    node_loop_post(loop->learner, NODE_MAIL_LEAVE, 0);
    loop->leave_posted = true;
}

static void consider_end(struct node_loop *loop, const struct node_census *census)
{
    if (loop->conflict) { // not the one whose place it is: no record says that it left
        node_peers_leave(node_cluster_peers(loop->cluster));
        loop->status = NODE_LOOP_ABANDONED;
        event_base_loopbreak(loop->base);
        return;
    }
    if (loop->phase != PHASE_LEAVING)
        return;
    bool told = census->others == 0 || in_phase_ns(loop) >= TELL_NS;
    bool gone = node_peers_gone(node_cluster_peers(loop->cluster));
    if ((told && gone) || in_phase_ns(loop) >= FLUSH_NS)
        event_base_loopbreak(loop->base);
}

void node_loop_consider(struct node_loop *loop)
{
    struct node_census census;
    if (loop->considering) // what a decision changes is looked at with the next tick at the latest
        return;
    loop->considering = true;
    node_loop_census(loop, &census);
    consider_eligible(loop, &census);
    consider_start(loop, &census);
    node_loop_consider_partition(loop);
    node_loop_consider_donors(loop);
    consider_alone(loop, &census);
    consider_leave(loop, &census);
    consider_end(loop, &census);
    loop->considering = false;
}
