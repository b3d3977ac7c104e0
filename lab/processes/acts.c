#include "lab/processes/acts.h"

#include <signal.h>

static struct lab_node *node_of(void *owner, size_t node)
{
    const struct lab_acts *acts = owner;
    return &acts->cluster->nodes[node];
}

static double time_now(void *owner)
{
    (void)owner;
    return lab_unix_seconds();
}

static bool runs(void *owner, size_t node)
{
    return node_of(owner, node)->process.running;
}

static bool trains(void *owner, size_t node, uint64_t *round)
{
    const struct lab_node *n = node_of(owner, node);
    *round = n->tail.row.round;
    return n->process.running && n->tail.lines > n->lines_before;
}

static enum base_error start(void *owner, size_t node, struct base_reason *why)
{
    const struct lab_acts *acts = owner;
    return lab_node_start(&acts->cluster->nodes[node], acts->program, acts->environment, why);
}

static void act(void *owner, size_t node, enum lab_act act)
{
    static const int signals[] = {[LAB_ACT_KILL] = SIGKILL,
                                  [LAB_ACT_LEAVE] = SIGTERM,
                                  [LAB_ACT_STOP] = SIGSTOP,
                                  [LAB_ACT_RESUME] = SIGCONT};
    lab_process_signal(&node_of(owner, node)->process, signals[act]);
}

// The nodes that the partition cuts off from `node`.
static struct lab_set cut_from(const struct lab_event *event, size_t node, size_t count)
{
    struct lab_set set = {0};
    for (size_t i = 0; i < count; i++)
        if (lab_event_cuts(event, node, i))
            lab_set_add(&set, i);
    return set;
}

static void cut(void *owner, const struct lab_event *event, bool apart)
{
    const struct lab_acts *acts = owner;
    struct lab_cluster *cluster = acts->cluster;
    for (size_t i = 0; i < cluster->count; i++) {
        struct base_reason why = {""};
        const struct lab_set set = cut_from(event, i, cluster->count), none = {0};
        if (!lab_set_is_empty(&set) && lab_node_cut(cluster, &cluster->nodes[i], apart ? &set : &none, &why))
            lab_display_say(acts->display, "%s\n", why.text);
    }
}

struct lab_player_acts lab_acts_of(struct lab_acts *acts)
{
    return (struct lab_player_acts){.owner = acts,
                                    .time = time_now,
                                    .runs = runs,
                                    .trains = trains,
                                    .start = start,
                                    .act = act,
                                    .cut = cut};
}

// A node handles SIGHUP only after its first round; before that the signal would end it.
void lab_acts_tell_faults(struct lab_acts *acts)
{
    for (size_t i = 0; i < acts->cluster->count; i++) {
        struct lab_node *node = &acts->cluster->nodes[i];
        if (!node->untold || !node->process.running || node->tail.lines <= node->lines_before)
            continue;
        lab_process_signal(&node->process, SIGHUP);
        node->untold = false;
    }
}
