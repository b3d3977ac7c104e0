#include "lab/record/event_player.h"

#include <math.h>

static void tell(struct lab_player *stage, const struct lab_event *event, const char *what)
{
    char when[LAB_EVENT_WHEN_BYTES];
    bool one = event->kind != LAB_PARTITION;
    lab_display_say(stage->display, "event at %s: %s%s%s\n", lab_event_when(event, when),
                    one ? stage->swarm->nodes[event->node].name : "", one ? " " : "", what);
}

static struct lab_set present(const struct lab_player *stage)
{
    struct lab_set set = {0};
    for (size_t i = 0; i < stage->swarm->count; i++) {
        const struct lab_node *node = &stage->swarm->nodes[i];
        if (stage->acts.runs(stage->acts.owner, i) && !node->stopped && node->gone == LAB_HERE)
            lab_set_add(&set, i);
    }
    return set;
}

static void begin(struct lab_player *stage, size_t index, const char *what)
{
    stage->swarm->happenings[index].begun = true;
    tell(stage, &stage->swarm->schedule->items[index], what);
}

static void drop(struct lab_player *stage, size_t index, const char *instead)
{
    const struct lab_event *event = &stage->swarm->schedule->items[index];
    struct lab_happening *happening = &stage->swarm->happenings[index];
    char when[LAB_EVENT_WHEN_BYTES];
    happening->begun = happening->ended = true;
    happening->time = NAN;
    happening->instead = instead;
    lab_display_say(stage->display, "event at %s: %s of %s did not happen: %s\n", lab_event_when(event, when),
                    lab_event_name(event->kind), stage->swarm->nodes[event->node].name, instead);
}

static void start_node(struct lab_player *stage, size_t index, size_t node)
{
    struct base_reason why = {""};
    const struct lab_node *started = &stage->swarm->nodes[node];
    bool again = started->starts;
    if (stage->acts.runs(stage->acts.owner, node)) // it was killed or asked to leave and is about to end
        return;
    if (again && started->gone == LAB_HERE)
        drop(stage, index, "it had ended by itself");
    else if (stage->acts.start(stage->acts.owner, node, &why)) {
        drop(stage, index, "it could not be started");
        lab_display_say(stage->display, "%s\n", why.text);
    } else
        begin(stage, index, again ? "started again" : "started");
}

static void do_to_node(struct lab_player *stage, size_t index, const struct lab_event *event)
{
    const struct lab_player_acts *acts = &stage->acts;
    struct lab_node *node = &stage->swarm->nodes[event->node];
    if (!acts->runs(acts->owner, event->node) || node->gone != LAB_HERE)
        drop(stage, index, "it had ended before");
    else if (event->kind == LAB_STOP) {
        begin(stage, index, "stopped");
        node->stopped = true;
        acts->stop(acts->owner, event->node);
    } else if (event->kind == LAB_KILL) {
        begin(stage, index, "killed");
        node->gone = LAB_KILLED;
        acts->kill(acts->owner, event->node);
    } else {
        begin(stage, index, "asked to leave");
        node->gone = LAB_HAS_LEFT;
        acts->leave(acts->owner, event->node);
    }
}

static void begin_event(struct lab_player *stage, size_t index)
{
    const struct lab_event *event = &stage->swarm->schedule->items[index];
    struct lab_happening *happening = &stage->swarm->happenings[index];
    happening->present = present(stage);
    happening->time = stage->acts.time(stage->acts.owner); // before anybody can know
    happening->round = stage->swarm->round;
    if (event->kind == LAB_PARTITION) {
        begin(stage, index, "the network falls apart");
        stage->acts.cut(stage->acts.owner, event, true);
    } else if (event->kind == LAB_START)
        start_node(stage, index, event->node);
    else
        do_to_node(stage, index, event);
}

static void end_event(struct lab_player *stage, size_t index)
{
    const struct lab_event *event = &stage->swarm->schedule->items[index];
    struct lab_happening *happening = &stage->swarm->happenings[index];
    struct lab_node *node = &stage->swarm->nodes[event->node];
    happening->ended = true;
    if (!lab_event_lasts(event))
        return;
    happening->end_time = stage->acts.time(stage->acts.owner);
    happening->end_round = stage->swarm->round;
    if (event->kind == LAB_PARTITION) {
        stage->acts.cut(stage->acts.owner, event, false);
        lab_display_say(stage->display, "event: the network is whole again\n");
        return;
    }
    node->stopped = false;
    stage->acts.go_on(stage->acts.owner, event->node);
    lab_display_say(stage->display, "event: %s goes on\n", node->name);
}

// Rounds of the cluster never go back: whoever comes back from an older checkpoint changes nothing.
static struct lab_moment moment_of(struct lab_player *stage, uint64_t now_ns)
{
    struct lab_swarm *swarm = stage->swarm;
    uint64_t rounds[LAB_NODES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < swarm->count; i++)
        if (!swarm->nodes[i].stopped && swarm->nodes[i].gone == LAB_HERE)
            count += stage->acts.trains(stage->acts.owner, i, &rounds[count]);
    uint64_t round = lab_cluster_round(rounds, count);
    swarm->round = round > swarm->round ? round : swarm->round;
    return (struct lab_moment){now_ns - stage->base_ns, swarm->round};
}

static bool is_due(const struct lab_player *stage, size_t index, const struct lab_moment *moment, bool end)
{
    const struct lab_happening *happening = &stage->swarm->happenings[index];
    return !happening->ended && happening->begun == end &&
           lab_event_due(&stage->swarm->schedule->items[index], moment, end);
}

// Ends before what begins at the same moment.
static void perform(struct lab_player *stage, const struct lab_moment *moment, bool end)
{
    for (size_t i = 0; i < stage->swarm->schedule->count; i++)
        if (is_due(stage, i, moment, end)) {
            if (end)
                end_event(stage, i);
            else
                begin_event(stage, i);
        }
}

// All nodes that were started have made a round, or have ended.
static bool all_train(const struct lab_player *stage)
{
    uint64_t round;
    bool any = false;
    for (size_t i = 0; i < stage->swarm->count; i++) {
        bool trains = stage->acts.trains(stage->acts.owner, i, &round);
        any = any || trains;
        if (!trains && stage->acts.runs(stage->acts.owner, i))
            return false;
    }
    return any;
}

static void open_stage(struct lab_player *stage, uint64_t now_ns)
{
    if (stage->open || !all_train(stage))
        return;
    stage->open = true;
    stage->base_ns = now_ns;
    stage->swarm->train_time = stage->acts.time(stage->acts.owner);
}

bool lab_player_look(struct lab_player *stage, uint64_t now_ns)
{
    open_stage(stage, now_ns);
    if (!stage->open)
        return false;
    const struct lab_moment moment = moment_of(stage, now_ns);
    for (size_t i = 0; i < stage->swarm->schedule->count; i++)
        if (is_due(stage, i, &moment, true) || is_due(stage, i, &moment, false))
            return true;
    return false;
}

void lab_player_perform(struct lab_player *stage, uint64_t now_ns)
{
    open_stage(stage, now_ns);
    if (!stage->open)
        return;
    const struct lab_moment moment = moment_of(stage, now_ns);
    perform(stage, &moment, true);
    perform(stage, &moment, false);
}

uint64_t lab_player_next(const struct lab_player *stage, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (size_t i = 0; i < stage->swarm->schedule->count && stage->open; i++) {
        const struct lab_event *event = &stage->swarm->schedule->items[i];
        const struct lab_happening *happening = &stage->swarm->happenings[i];
        uint64_t at_ns = stage->base_ns + event->at_ns + (happening->begun ? event->for_ns : 0);
        if (!event->by_round && !happening->ended && at_ns > now_ns && at_ns < next_ns)
            next_ns = at_ns;
    }
    return next_ns;
}

uint64_t lab_player_next_round(const struct lab_player *stage)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < stage->swarm->schedule->count; i++) {
        const struct lab_event *event = &stage->swarm->schedule->items[i];
        const struct lab_happening *happening = &stage->swarm->happenings[i];
        uint64_t round = event->at_round + (happening->begun ? event->for_rounds : 0);
        if (event->by_round && !happening->ended && round < next)
            next = round;
    }
    return next;
}

bool lab_player_goes_on(const struct lab_player *stage)
{
    const struct lab_swarm *swarm = stage->swarm;
    for (size_t i = 0; i < swarm->count; i++)
        if (stage->acts.runs(stage->acts.owner, i) ||
            (swarm->nodes[i].starts && swarm->nodes[i].gone == LAB_HERE))
            return false;
    for (size_t i = 0; i < swarm->schedule->count && stage->open; i++)
        if (swarm->schedule->items[i].kind == LAB_START && !swarm->schedule->items[i].by_round &&
            !swarm->happenings[i].begun)
            return true;
    return false;
}

void lab_player_close(struct lab_player *stage, const char *reason)
{
    struct lab_swarm *swarm = stage->swarm;
    for (size_t i = 0; i < swarm->count; i++) {
        if (swarm->nodes[i].stopped)
            stage->acts.go_on(stage->acts.owner, i);
        swarm->nodes[i].stopped = false;
    }
    for (size_t i = 0; i < swarm->schedule->count; i++) {
        struct lab_happening *happening = &swarm->happenings[i];
        if (!happening->begun)
            happening->instead = reason;
        happening->begun = happening->ended = true;
    }
}
