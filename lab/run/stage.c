#include "lab/run/stage.h"

#include "node/clock.h"

#include <math.h>
#include <signal.h>

static void tell(struct lab_stage *stage, const struct lab_event *event, const char *what)
{
    double seconds = (double)event->at_ns / (double)NODE_SECOND_NS;
    if (event->kind == LAB_PARTITION)
        lab_display_say(stage->display, "event at %g s: %s\n", seconds, what);
    else
        lab_display_say(stage->display, "event at %g s: %s %s\n", seconds,
                        stage->swarm->nodes[event->node].name, what);
}

static struct lab_set present(const struct lab_swarm *swarm)
{
    struct lab_set set = {0};
    for (size_t i = 0; i < swarm->count; i++) {
        const struct lab_node *node = &swarm->nodes[i];
        if (node->process.running && !node->stopped && node->gone == LAB_HERE)
            lab_set_add(&set, i);
    }
    return set;
}

static void begin(struct lab_stage *stage, size_t index, const char *what)
{
    struct lab_happening *happening = &stage->swarm->happenings[index];
    happening->begun = true;
    tell(stage, &stage->swarm->schedule->items[index], what);
}

static void drop(struct lab_stage *stage, size_t index, const char *instead)
{
    const struct lab_event *event = &stage->swarm->schedule->items[index];
    struct lab_happening *happening = &stage->swarm->happenings[index];
    happening->begun = happening->ended = true;
    happening->time = NAN;
    happening->instead = instead;
    lab_display_say(stage->display, "event at %g s: %s of %s did not happen: %s\n",
                    (double)event->at_ns / (double)NODE_SECOND_NS, lab_event_name(event->kind),
                    stage->swarm->nodes[event->node].name, instead);
}

// Who is in another group than the node.
static struct lab_set cut_from(const struct lab_event *event, size_t node, size_t count)
{
    struct lab_set set = {0};
    for (size_t i = 0; i < count; i++)
        if (lab_event_cuts(event, node, i))
            lab_set_add(&set, i);
    return set;
}

static void write_faults(struct lab_stage *stage, const struct lab_event *event, bool cut)
{
    struct lab_swarm *swarm = stage->swarm;
    for (size_t i = 0; i < swarm->count; i++) {
        struct base_reason why = {""};
        const struct lab_set set = cut_from(event, i, swarm->count), none = {0};
        if (!lab_set_is_empty(&set) && lab_node_cut(swarm, &swarm->nodes[i], cut ? &set : &none, &why))
            lab_display_say(stage->display, "%s\n", why.text);
    }
}

static void start_node(struct lab_stage *stage, size_t index, struct lab_node *node)
{
    struct base_reason why = {""};
    bool again = node->starts;
    if (node->process.running) // it was killed or asked to leave and is about to end
        return;
    if (again && node->gone == LAB_HERE)
        drop(stage, index, "it had ended by itself");
    else if (lab_node_start(node, stage->program, stage->environment, &why)) {
        drop(stage, index, "it could not be started");
        lab_display_say(stage->display, "%s\n", why.text);
    } else
        begin(stage, index, again ? "started again" : "started");
}

static void take_away(struct lab_stage *stage, size_t index, struct lab_node *node, enum lab_gone gone)
{
    node->gone = gone;
    lab_process_signal(&node->process, gone == LAB_KILLED ? SIGKILL : SIGTERM);
    begin(stage, index, gone == LAB_KILLED ? "killed" : "asked to leave");
}

static void begin_event(struct lab_stage *stage, size_t index)
{
    const struct lab_event *event = &stage->swarm->schedule->items[index];
    struct lab_node *node = &stage->swarm->nodes[event->node];
    stage->swarm->happenings[index].present = present(stage->swarm);
    stage->swarm->happenings[index].time = lab_unix_seconds(); // before anybody can know
    if (event->kind == LAB_PARTITION) {
        write_faults(stage, event, true);
        begin(stage, index, "the network falls apart");
    } else if (event->kind == LAB_START)
        start_node(stage, index, node);
    else if (!node->process.running || node->gone != LAB_HERE)
        drop(stage, index, "it had ended before");
    else if (event->kind == LAB_STOP) {
        node->stopped = true;
        lab_process_signal(&node->process, SIGSTOP);
        begin(stage, index, "stopped");
    } else
        take_away(stage, index, node, event->kind == LAB_KILL ? LAB_KILLED : LAB_HAS_LEFT);
}

static void end_event(struct lab_stage *stage, size_t index)
{
    const struct lab_event *event = &stage->swarm->schedule->items[index];
    struct lab_happening *happening = &stage->swarm->happenings[index];
    struct lab_node *node = &stage->swarm->nodes[event->node];
    happening->ended = true;
    if (!event->for_ns)
        return;
    happening->end_time = lab_unix_seconds();
    if (event->kind == LAB_PARTITION) {
        write_faults(stage, event, false);
        lab_display_say(stage->display, "event: the network is whole again\n");
        return;
    }
    node->stopped = false;
    lab_process_signal(&node->process, SIGCONT);
    lab_display_say(stage->display, "event: %s goes on\n", node->name);
}

static uint64_t due_ns(const struct lab_event *event, bool end)
{
    return event->at_ns + (end ? event->for_ns : 0);
}

// Ends before what begins at the same time.
static void perform(struct lab_stage *stage, uint64_t since_ns, bool end)
{
    const struct lab_schedule *schedule = stage->swarm->schedule;
    for (size_t i = 0; i < schedule->count; i++) {
        const struct lab_happening *happening = &stage->swarm->happenings[i];
        if (since_ns < due_ns(&schedule->items[i], end))
            continue;
        if (end && happening->begun && !happening->ended)
            end_event(stage, i);
        else if (!end && !happening->begun)
            begin_event(stage, i);
    }
}

// All nodes that were started have made a round, or have ended.
static bool all_train(const struct lab_swarm *swarm)
{
    bool any = false;
    for (size_t i = 0; i < swarm->count; i++) {
        const struct lab_node *node = &swarm->nodes[i];
        any = any || node->tail.lines;
        if (node->process.running && !node->tail.lines)
            return false;
    }
    return any;
}

// A node listens once it has made a round: before that the signal would end it.
static void tell_faults(struct lab_swarm *swarm)
{
    for (size_t i = 0; i < swarm->count; i++) {
        struct lab_node *node = &swarm->nodes[i];
        if (!node->untold || !node->process.running || node->tail.lines <= node->lines_before)
            continue;
        lab_process_signal(&node->process, SIGHUP);
        node->untold = false;
    }
}

void lab_stage_perform(struct lab_stage *stage, uint64_t now_ns)
{
    if (!stage->base_ns && all_train(stage->swarm)) {
        stage->base_ns = now_ns;
        stage->swarm->train_time = lab_unix_seconds();
    }
    if (stage->base_ns) {
        perform(stage, now_ns - stage->base_ns, true);
        perform(stage, now_ns - stage->base_ns, false);
    }
    tell_faults(stage->swarm);
}

uint64_t lab_stage_wait(const struct lab_stage *stage, uint64_t now_ns, uint64_t most_ns)
{
    const struct lab_schedule *schedule = stage->swarm->schedule;
    uint64_t wait_ns = most_ns;
    for (size_t i = 0; i < schedule->count && stage->base_ns; i++) {
        const struct lab_happening *happening = &stage->swarm->happenings[i];
        uint64_t at_ns = stage->base_ns + due_ns(&schedule->items[i], happening->begun);
        if (!happening->ended && at_ns > now_ns && at_ns - now_ns < wait_ns)
            wait_ns = at_ns - now_ns;
    }
    return wait_ns + NODE_MILLISECOND_NS - 1; // waits are in whole milliseconds
}

bool lab_stage_goes_on(const struct lab_stage *stage)
{
    const struct lab_swarm *swarm = stage->swarm;
    for (size_t i = 0; i < swarm->count; i++)
        if (swarm->nodes[i].process.running || (swarm->nodes[i].starts && swarm->nodes[i].gone == LAB_HERE))
            return false;
    for (size_t i = 0; i < swarm->schedule->count && stage->base_ns; i++)
        if (swarm->schedule->items[i].kind == LAB_START && !swarm->happenings[i].begun)
            return true;
    return false;
}

void lab_stage_close(struct lab_stage *stage, const char *reason)
{
    struct lab_swarm *swarm = stage->swarm;
    for (size_t i = 0; i < swarm->count; i++) {
        if (swarm->nodes[i].stopped)
            lab_process_signal(&swarm->nodes[i].process, SIGCONT);
        swarm->nodes[i].stopped = false;
    }
    for (size_t i = 0; i < swarm->schedule->count; i++) {
        struct lab_happening *happening = &swarm->happenings[i];
        if (!happening->begun)
            happening->instead = reason;
        happening->begun = happening->ended = true;
    }
}
