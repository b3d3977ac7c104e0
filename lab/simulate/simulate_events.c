// The key `events` under virtual time: what lab/run/stage.c is for real processes.
#include "lab/simulate/simulate_private.h"

#include <math.h>

static double now_unix(const struct simulation *s)
{
    return simulate_unix(sim_world_now(&s->world));
}

static void tell(struct simulation *s, const struct lab_event *event, const char *what)
{
    lab_display_say(s->options->display, "event at %g s: %s%s%s\n", (double)event->at_ns / 1e9,
                    event->kind == LAB_PARTITION ? "" : s->swarm->nodes[event->node].name,
                    event->kind == LAB_PARTITION ? "" : " ", what);
}

static struct lab_set present(const struct simulation *s)
{
    struct lab_set set = {0};
    for (size_t i = 0; i < s->swarm->count; i++) {
        const struct lab_node *node = &s->swarm->nodes[i];
        if (s->world.node[i]->running && !node->stopped && node->gone == LAB_HERE)
            lab_set_add(&set, i);
    }
    return set;
}

static void begin(struct simulation *s, size_t index, const char *what)
{
    s->swarm->happenings[index].begun = true;
    tell(s, &s->swarm->schedule->items[index], what);
}

static void drop(struct simulation *s, size_t index, const char *instead)
{
    struct lab_happening *happening = &s->swarm->happenings[index];
    happening->begun = happening->ended = true;
    happening->time = NAN;
    happening->instead = instead;
    tell(s, &s->swarm->schedule->items[index], instead);
}

static void cut(struct simulation *s, const struct lab_event *event, bool apart)
{
    for (size_t i = 0; i < s->swarm->count; i++)
        for (size_t k = 0; k < s->swarm->count; k++)
            if (lab_event_cuts(event, i, k)) {
                struct sim_path *path = sim_net_path(&s->world.net, i, k);
                path->cuts = (uint16_t)(apart ? path->cuts + 1 : path->cuts - 1);
            }
}

void simulate_node_start(struct simulation *s, size_t node)
{
    struct lab_node *started = &s->swarm->nodes[node];
    if (started->starts) { // it appends to its files, and counts from 0
        simulate_pupil_settle(&s->pupils[node]);
        lab_tail_again(&started->tail);
        lab_journal_again(&started->journal);
    }
    started->starts++;
    started->gone = LAB_HERE;
    started->stopped = false;
    started->end_time = NAN;
    sim_node_start(s->world.node[node]);
}

static void start_node(struct simulation *s, size_t index, size_t node)
{
    const struct lab_node *started = &s->swarm->nodes[node];
    bool again = started->starts;
    if (s->world.node[node]->running) // it was asked to leave and is about to end
        return;
    if (again && started->gone == LAB_HERE) {
        drop(s, index, "did not start: it had ended by itself");
        return;
    }
    begin(s, index, again ? "started again" : "started");
    simulate_node_start(s, node);
}

static void begin_event(struct simulation *s, size_t index)
{
    const struct lab_event *event = &s->swarm->schedule->items[index];
    struct lab_node *node = &s->swarm->nodes[event->node];
    s->swarm->happenings[index].present = present(s);
    s->swarm->happenings[index].time = now_unix(s);
    if (event->kind == LAB_PARTITION) {
        begin(s, index, "the network falls apart");
        cut(s, event, true);
    } else if (event->kind == LAB_START)
        start_node(s, index, event->node);
    else if (!s->world.node[event->node]->running || node->gone != LAB_HERE)
        drop(s, index, "had ended before");
    else if (event->kind == LAB_STOP) {
        begin(s, index, "stopped");
        node->stopped = true;
        sim_node_pause(s->world.node[event->node]);
    } else if (event->kind == LAB_KILL) {
        begin(s, index, "killed");
        node->gone = LAB_KILLED;
        sim_node_kill(s->world.node[event->node], false);
    } else {
        begin(s, index, "asked to leave");
        node->gone = LAB_HAS_LEFT;
        sim_node_leave(s->world.node[event->node]);
    }
}

static void end_event(struct simulation *s, size_t index)
{
    const struct lab_event *event = &s->swarm->schedule->items[index];
    struct lab_happening *happening = &s->swarm->happenings[index];
    happening->ended = true;
    if (!event->for_ns)
        return;
    happening->end_time = now_unix(s);
    if (event->kind == LAB_PARTITION) {
        cut(s, event, false);
        lab_display_say(s->options->display, "event: the network is whole again\n");
        return;
    }
    s->swarm->nodes[event->node].stopped = false;
    sim_node_resume(s->world.node[event->node], false);
    lab_display_say(s->options->display, "event: %s goes on\n", s->swarm->nodes[event->node].name);
}

static uint64_t due_ns(const struct simulation *s, size_t index, bool end)
{
    const struct lab_event *event = &s->swarm->schedule->items[index];
    return s->base_ns + event->at_ns + (end ? event->for_ns : 0);
}

// Ends before what begins at the same time.
static void perform(struct simulation *s, bool end)
{
    for (size_t i = 0; i < s->swarm->schedule->count; i++) {
        const struct lab_happening *happening = &s->swarm->happenings[i];
        if (sim_world_now(&s->world) < due_ns(s, i, end))
            continue;
        if (end && happening->begun && !happening->ended)
            end_event(s, i);
        else if (!end && !happening->begun)
            begin_event(s, i);
    }
}

// Every node that was started has made a round.
static bool all_train(const struct simulation *s)
{
    for (size_t i = 0; i < s->swarm->count; i++)
        if (s->swarm->nodes[i].starts && s->pupils[i].round == 0)
            return false;
    return true;
}

void simulate_events_look(struct simulation *s)
{
    if (s->base_ns || !all_train(s))
        return;
    s->base_ns = sim_world_now(&s->world);
    s->swarm->train_time = now_unix(s);
}

void simulate_events_perform(struct simulation *s)
{
    if (!s->base_ns)
        return;
    perform(s, true);
    perform(s, false);
}

uint64_t simulate_events_next(const struct simulation *s)
{
    uint64_t next_ns = SIMULATE_NEVER, now_ns = sim_world_now(&s->world);
    for (size_t i = 0; i < s->swarm->schedule->count && s->base_ns; i++) {
        const struct lab_happening *happening = &s->swarm->happenings[i];
        uint64_t at_ns = due_ns(s, i, happening->begun);
        if (!happening->ended && at_ns > now_ns && at_ns < next_ns)
            next_ns = at_ns;
    }
    return next_ns;
}

bool simulate_events_to_come(const struct simulation *s)
{
    for (size_t i = 0; i < s->swarm->count; i++)
        if (s->swarm->nodes[i].starts && s->swarm->nodes[i].gone == LAB_HERE)
            return false; // it ended by itself
    for (size_t i = 0; i < s->swarm->schedule->count && s->base_ns; i++)
        if (s->swarm->schedule->items[i].kind == LAB_START && !s->swarm->happenings[i].begun)
            return true;
    return false;
}

void simulate_events_close(struct simulation *s, const char *reason)
{
    for (size_t i = 0; i < s->swarm->count; i++) {
        if (s->swarm->nodes[i].stopped)
            sim_node_resume(s->world.node[i], false);
        s->swarm->nodes[i].stopped = false;
    }
    for (size_t i = 0; i < s->swarm->schedule->count; i++) {
        struct lab_happening *happening = &s->swarm->happenings[i];
        if (!happening->begun)
            happening->instead = reason;
        happening->begun = happening->ended = true;
    }
}
