#include "lab/record/event_player.h"

#include <math.h>

static void tell(struct lab_player *player, const struct lab_event *event, const char *what)
{
    char when[LAB_EVENT_WHEN_BYTES];
    bool one = event->kind != LAB_PARTITION;
    lab_display_say(player->display, "event at %s: %s%s%s\n", lab_event_when(event, when),
                    one ? player->cluster->nodes[event->node].name : "", one ? " " : "", what);
}

static struct lab_set present(const struct lab_player *player)
{
    struct lab_set set = {0};
    for (size_t i = 0; i < player->cluster->count; i++) {
        const struct lab_node *node = &player->cluster->nodes[i];
        if (player->acts.runs(player->acts.owner, i) && !node->stopped && node->gone == LAB_HERE)
            lab_set_add(&set, i);
    }
    return set;
}

static void begin(struct lab_player *player, size_t index, const char *what)
{
    player->cluster->happenings[index].begun = true;
    tell(player, &player->cluster->schedule->items[index], what);
}

static void drop(struct lab_player *player, size_t index, const char *instead)
{
    const struct lab_event *event = &player->cluster->schedule->items[index];
    struct lab_happening *happening = &player->cluster->happenings[index];
    char when[LAB_EVENT_WHEN_BYTES];
    happening->begun = happening->ended = true;
    happening->time = NAN;
    happening->instead = instead;
    lab_display_say(player->display, "event at %s: %s of %s did not happen: %s\n",
                    lab_event_when(event, when), lab_event_name(event->kind),
                    player->cluster->nodes[event->node].name, instead);
}

static void start_node(struct lab_player *player, size_t index, size_t node)
{
    struct base_reason why = {""};
    const struct lab_node *started = &player->cluster->nodes[node];
    bool again = started->starts;
    if (player->acts.runs(player->acts.owner, node)) // killed or asked to leave: waits until it has ended
        return;
    if (again && started->gone == LAB_HERE)
        drop(player, index, "the node had ended by itself");
    else if (player->acts.start(player->acts.owner, node, &why)) {
        drop(player, index, "the node could not be started");
        lab_display_say(player->display, "%s\n", why.text);
    } else
        begin(player, index, again ? "started again" : "started");
}

static void do_to_node(struct lab_player *player, size_t index, const struct lab_event *event)
{
    const struct lab_player_acts *acts = &player->acts;
    struct lab_node *node = &player->cluster->nodes[event->node];
    if (!acts->runs(acts->owner, event->node) || node->gone != LAB_HERE)
        drop(player, index, "the node had already ended");
    else if (event->kind == LAB_STOP) {
        begin(player, index, "stopped");
        node->stopped = true;
        acts->act(acts->owner, event->node, LAB_ACT_STOP);
    } else if (event->kind == LAB_KILL) {
        begin(player, index, "killed");
        node->gone = LAB_KILLED;
        acts->act(acts->owner, event->node, LAB_ACT_KILL);
    } else {
        begin(player, index, "asked to leave");
        node->gone = LAB_HAS_LEFT;
        acts->act(acts->owner, event->node, LAB_ACT_LEAVE);
    }
}

static void begin_event(struct lab_player *player, size_t index)
{
    const struct lab_event *event = &player->cluster->schedule->items[index];
    struct lab_happening *happening = &player->cluster->happenings[index];
    happening->present = present(player);
    happening->time = player->acts.time(player->acts.owner); // before any node can notice
    happening->round = player->cluster->round;
    if (event->kind == LAB_PARTITION) {
        begin(player, index, "the network is partitioned");
        player->acts.cut(player->acts.owner, event, true);
    } else if (event->kind == LAB_START)
        start_node(player, index, event->node);
    else
        do_to_node(player, index, event);
}

static void end_event(struct lab_player *player, size_t index)
{
    const struct lab_event *event = &player->cluster->schedule->items[index];
    struct lab_happening *happening = &player->cluster->happenings[index];
    struct lab_node *node = &player->cluster->nodes[event->node];
    happening->ended = true;
    if (!lab_event_lasts(event))
        return;
    happening->end_time = player->acts.time(player->acts.owner);
    happening->end_round = player->cluster->round;
    if (event->kind == LAB_PARTITION) {
        player->acts.cut(player->acts.owner, event, false);
        lab_display_say(player->display, "event: the partition has ended\n");
        return;
    }
    node->stopped = false;
    player->acts.act(player->acts.owner, event->node, LAB_ACT_RESUME);
    lab_display_say(player->display, "event: %s resumes\n", node->name);
}

// Rounds of the cluster never go back: a node that returns from an older checkpoint changes nothing.
static struct lab_moment moment_of(struct lab_player *player, uint64_t now_ns)
{
    struct lab_cluster *cluster = player->cluster;
    uint64_t rounds[LAB_NODES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < cluster->count; i++)
        if (!cluster->nodes[i].stopped && cluster->nodes[i].gone == LAB_HERE)
            count += player->acts.trains(player->acts.owner, i, &rounds[count]);
    uint64_t round = lab_cluster_round(rounds, count);
    cluster->round = round > cluster->round ? round : cluster->round;
    return (struct lab_moment){now_ns - player->base_ns, cluster->round};
}

// The nodes that are not stopped have ended, so the round at which a stop ends does not come any more.
static bool only_stopped_ones_run(const struct lab_player *player)
{
    for (size_t i = 0; i < player->cluster->count; i++)
        if (!player->cluster->nodes[i].stopped && player->acts.runs(player->acts.owner, i))
            return false;
    return true;
}

static bool is_due(const struct lab_player *player, size_t index, const struct lab_moment *moment, bool end)
{
    const struct lab_happening *happening = &player->cluster->happenings[index];
    const struct lab_event *event = &player->cluster->schedule->items[index];
    return !happening->ended && happening->begun == end &&
           (lab_event_due(event, moment, end) ||
            (end && event->by_round && lab_event_lasts(event) && only_stopped_ones_run(player)));
}

// Begins the events that are due or, with `end`, ends them. At one moment, ends come before beginnings.
static void perform(struct lab_player *player, const struct lab_moment *moment, bool end)
{
    for (size_t i = 0; i < player->cluster->schedule->count; i++)
        if (is_due(player, i, moment, end)) {
            if (end)
                end_event(player, i);
            else
                begin_event(player, i);
        }
}

// All nodes that were started have made a round, or have ended.
static bool all_train(const struct lab_player *player)
{
    uint64_t round;
    bool any = false;
    for (size_t i = 0; i < player->cluster->count; i++) {
        bool trains = player->acts.trains(player->acts.owner, i, &round);
        any = any || trains;
        if (!trains && player->acts.runs(player->acts.owner, i))
            return false;
    }
    return any;
}

static void open_stage(struct lab_player *player, uint64_t now_ns)
{
    if (player->open || !all_train(player))
        return;
    player->open = true;
    player->base_ns = now_ns;
    player->cluster->train_time = player->acts.time(player->acts.owner);
}

bool lab_player_look(struct lab_player *player, uint64_t now_ns)
{
    open_stage(player, now_ns);
    if (!player->open)
        return false;
    const struct lab_moment moment = moment_of(player, now_ns);
    for (size_t i = 0; i < player->cluster->schedule->count; i++)
        if (is_due(player, i, &moment, true) || is_due(player, i, &moment, false))
            return true;
    return false;
}

void lab_player_perform(struct lab_player *player, uint64_t now_ns)
{
    open_stage(player, now_ns);
    if (!player->open)
        return;
    const struct lab_moment moment = moment_of(player, now_ns);
    perform(player, &moment, true);
    perform(player, &moment, false);
}

uint64_t lab_player_next(const struct lab_player *player, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (size_t i = 0; i < player->cluster->schedule->count && player->open; i++) {
        const struct lab_event *event = &player->cluster->schedule->items[i];
        const struct lab_happening *happening = &player->cluster->happenings[i];
        uint64_t at_ns = player->base_ns + event->at_ns + (happening->begun ? event->for_ns : 0);
        if (!event->by_round && !happening->ended && at_ns > now_ns && at_ns < next_ns)
            next_ns = at_ns;
    }
    return next_ns;
}

uint64_t lab_player_next_round(const struct lab_player *player)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < player->cluster->schedule->count; i++) {
        const struct lab_event *event = &player->cluster->schedule->items[i];
        const struct lab_happening *happening = &player->cluster->happenings[i];
        uint64_t round = event->at_round + (happening->begun ? event->for_rounds : 0);
        if (event->by_round && !happening->ended && round < next)
            next = round;
    }
    return next;
}

bool lab_player_goes_on(const struct lab_player *player)
{
    const struct lab_cluster *cluster = player->cluster;
    for (size_t i = 0; i < cluster->count; i++)
        if (player->acts.runs(player->acts.owner, i) ||
            (cluster->nodes[i].starts && cluster->nodes[i].gone == LAB_HERE))
            return false;
    for (size_t i = 0; i < cluster->schedule->count && player->open; i++)
        if (cluster->schedule->items[i].kind == LAB_START && !cluster->schedule->items[i].by_round &&
            !cluster->happenings[i].begun)
            return true;
    return false;
}

void lab_player_close(struct lab_player *player, const char *reason)
{
    struct lab_cluster *cluster = player->cluster;
    for (size_t i = 0; i < cluster->count; i++) {
        if (cluster->nodes[i].stopped)
            player->acts.act(player->acts.owner, i, LAB_ACT_RESUME);
        cluster->nodes[i].stopped = false;
    }
    for (size_t i = 0; i < cluster->schedule->count; i++) {
        struct lab_happening *happening = &cluster->happenings[i];
        if (!happening->begun)
            happening->instead = reason;
        happening->begun = happening->ended = true;
    }
}
