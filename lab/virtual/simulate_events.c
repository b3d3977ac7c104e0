// The effects of events on simulated nodes, for lab/record/event_player: lab/processes/acts.c is the same for
// processes.
#include "lab/virtual/simulate_private.h"

#include <math.h>

void simulate_node_start(struct simulation *s, size_t node)
{
    struct lab_node *started = &s->cluster->nodes[node];
    if (started->starts) { // it appends to its files, and counts from 0
        simulate_trainer_finish(&s->sim_trainers[node]);
        lab_tail_again(&started->tail);
        lab_journal_again(&started->journal);
    }
    s->sim_trainers[node].rounds = 0;
    started->starts++;
    started->gone = LAB_HERE;
    started->stopped = false;
    started->end_time = NAN;
    sim_node_start(s->world.node[node]);
}

static double time_now(void *owner)
{
    const struct simulation *s = owner;
    return simulate_unix(sim_world_now(&s->world));
}

static bool runs(void *owner, size_t node)
{
    const struct simulation *s = owner;
    return s->world.node[node]->running;
}

static bool trains(void *owner, size_t node, uint64_t *round)
{
    const struct simulation *s = owner;
    *round = s->sim_trainers[node].round;
    return runs(owner, node) && s->sim_trainers[node].rounds;
}

static enum base_error start(void *owner, size_t node, struct base_reason *why)
{
    (void)why;
    simulate_node_start(owner, node);
    return BASE_OK;
}

static void act(void *owner, size_t node, enum lab_act act)
{
    struct sim_node *sim_node = ((const struct simulation *)owner)->world.node[node];
    if (act == LAB_ACT_KILL)
        sim_node_kill(sim_node, false);
    else if (act == LAB_ACT_LEAVE)
        sim_node_leave(sim_node);
    else if (act == LAB_ACT_STOP)
        sim_node_pause(sim_node);
    else
        sim_node_resume(sim_node, false);
}

static void cut(void *owner, const struct lab_event *event, bool apart)
{
    struct simulation *s = owner;
    for (size_t i = 0; i < s->cluster->count; i++)
        for (size_t k = 0; k < s->cluster->count; k++)
            if (lab_event_cuts(event, i, k)) {
                struct sim_path *path = sim_net_path(&s->world.net, i, k);
                path->cuts = (uint16_t)(apart ? path->cuts + 1 : path->cuts - 1);
            }
}

void simulate_events_open(struct simulation *s)
{
    s->player = (struct lab_player){.cluster = s->cluster,
                                    .display = s->options->display,
                                    .acts = {.owner = s,
                                             .time = time_now,
                                             .runs = runs,
                                             .trains = trains,
                                             .start = start,
                                             .act = act,
                                             .cut = cut}};
}

void simulate_events_perform(struct simulation *s)
{
    if (!s->asked && s->player.open)
        lab_player_perform(&s->player, sim_world_now(&s->world));
}

static void perform(void *owner, struct sim_event *event)
{
    (void)event;
    simulate_events_perform(owner);
}

// Called within one node's step: events act on nodes at the same moment, after the step.
void simulate_events_look(struct simulation *s, const struct sim_trainer *sim_trainer)
{
    uint64_t now_ns = sim_world_now(&s->world);
    const struct sim_event event = {.time_ns = now_ns, .run = perform, .owner = s};
    if (s->player.open && sim_trainer->round < lab_player_next_round(&s->player))
        return;
    if (lab_player_look(&s->player, now_ns))
        sim_queue_push(&s->world.queue, &event);
}
