#include "test/support/sim_fault.h"

#include "lab/sim/sim_process.h"
#include "test/support/sim_check.h"
#include <stdlib.h>
#include <string.h>

static void later(struct sim_faults *faults, uint64_t at_ns, void (*run)(void *, struct sim_event *),
                  uint64_t a, uint64_t b)
{
    const struct sim_event event = {.time_ns = at_ns, .run = run, .owner = faults, .a = a, .b = b};

    sim_queue_push(&faults->world->queue, &event);
}

static uint64_t now(const struct sim_faults *faults)
{
    return faults->world->queue.now_ns;
}

static void trace(const struct sim_faults *faults, size_t host, const char *text, uint64_t a,
                  uint64_t until_ns)
{
    sim_world_trace(faults->world, host, "fault", text, a, until_ns);
}

static void start(void *owner, struct sim_event *event)
{
    struct sim_faults *faults = owner;
    struct sim_node *node = faults->world->node[event->a];

    if (!node->running && !faults->gone[node->self])
        sim_node_start(node);
}

void sim_fault_start_later(struct sim_faults *faults, size_t host, uint64_t at_ns)
{
    sim_check_excuse(faults->world, host, at_ns);
    later(faults, at_ns, start, host, 0);
}

void sim_fault_kill(struct sim_faults *faults, size_t host, bool silent, uint64_t until_ns)
{
    struct sim_node *node = faults->world->node[host];

    sim_node_kill(node, silent);
    sim_check_excuse(faults->world, host, until_ns);
    if (until_ns == UINT64_MAX) {
        faults->gone[node->self] = true;
        faults->n_gone++;
        faults->last_death_ns = now(faults);
        return;
    }
    later(faults, until_ns, start, host, 0);
}

static void resume(void *owner, struct sim_event *event)
{
    struct sim_node *node = ((struct sim_faults *)owner)->world->node[event->a];

    if (node->running && node->paused)
        sim_node_resume(node, event->b);
}

void sim_fault_pause(struct sim_faults *faults, size_t host, bool clock_stands, uint64_t until_ns)
{
    struct sim_node *node = faults->world->node[host];

    if (!node->running || node->paused)
        return;
    sim_node_pause(node);
    sim_check_harm(faults->world, host, until_ns);
    later(faults, until_ns, resume, host, clock_stands);
}

static void cut_path(struct sim_world *world, size_t from, size_t to, bool cut)
{
    struct sim_path *path = sim_net_path(&world->net, from, to);

    if (cut)
        path->cuts++;
    else
        path->cuts--;
}

static void cut_split(struct sim_faults *faults, const uint8_t *part, bool cut)
{
    struct sim_world *world = faults->world;

    for (size_t a = 0; a < world->hosts; a++)
        for (size_t b = 0; b < world->hosts; b++)
            if (part[a] != part[b])
                cut_path(world, a, b, cut);
}

static void join_parts(void *owner, struct sim_event *event)
{
    trace(owner, 0, "healed", 0, 0);
    cut_split(owner, event->bytes, false);
}

void sim_fault_split(struct sim_faults *faults, const uint8_t *part, uint64_t until_ns)
{
    const struct sim_event event = {.time_ns = until_ns,
                                    .run = join_parts,
                                    .owner = faults,
                                    .bytes = sim_copy(part, faults->world->hosts),
                                    .n_bytes = faults->world->hosts};

    cut_split(faults, part, true);
    for (size_t i = 0; i < faults->world->hosts; i++)
        sim_check_harm(faults->world, i, until_ns);
    sim_queue_push(&faults->world->queue, &event);
}

static void uncut(void *owner, struct sim_event *event)
{
    struct sim_faults *faults = owner;

    sim_net_path(&faults->world->net, (size_t)event->a, (size_t)event->b)->cuts--;
    faults->pairs -= event->c;
}

// Other members can confirm for one pair that is cut; with more pairs, or too few others, perhaps none can.
void sim_fault_cut(struct sim_faults *faults, size_t from, size_t to, bool both, uint64_t until_ns)
{
    struct sim_world *world = faults->world;
    struct sim_event event = {.time_ns = until_ns, .run = uncut, .owner = faults, .a = from, .b = to, .c = 1};

    if (faults->pairs++ || world->options.nodes < 5) {
        sim_check_harm(world, from, until_ns);
        sim_check_harm(world, to, until_ns);
    }
    sim_net_path(&world->net, from, to)->cuts++;
    sim_queue_push(&world->queue, &event);
    if (!both)
        return;
    sim_net_path(&world->net, to, from)->cuts++;
    event.a = to;
    event.b = from;
    event.c = 0;
    sim_queue_push(&world->queue, &event);
}

static uint64_t until(struct sim_faults *faults, uint64_t least_ms, uint64_t most_ms)
{
    uint64_t end_ns = now(faults) + (least_ms + base_rng_below(&faults->rng, most_ms - least_ms)) * SIM_MS;

    return end_ns < faults->heal_ns ? end_ns : faults->heal_ns;
}

static bool by_chance(struct sim_faults *faults, unsigned percent)
{
    return base_rng_below(&faults->rng, 100) < percent;
}

static size_t some_node(struct sim_faults *faults)
{
    return base_rng_below(&faults->rng, faults->world->options.nodes);
}

// The state of the disk when the process comes back.
static void spoil_disk(struct sim_faults *faults, size_t host)
{
    struct sim_disk *disk = &faults->world->node[host]->disk;
    uint64_t what = base_rng_below(&faults->rng, 10);

    if (what == 0) {
        trace(faults, host, "disk lost", 0, 0);
        sim_disk_free(disk);
    } else if (what <= 2 && faults->has_backup[host]) {
        trace(faults, host, "disk old", faults->backup[host].generation, 0);
        sim_disk_copy(&faults->backup[host], disk);
    } else if (what <= 4) {
        trace(faults, host, "checkpoint torn", 0, 0);
        disk->latest.torn = true;
    }
}

static void fault_kill(struct sim_faults *faults)
{
    size_t host = some_node(faults);
    struct sim_world *world = faults->world;
    bool early = now(faults) + 20 * SIM_SECOND < faults->heal_ns;
    bool for_good = early && 4 * (faults->n_gone + 1) <= world->options.nodes && by_chance(faults, 25);
    bool silent = by_chance(faults, 30);

    if (!world->node[host]->running || (for_good && host < 2)) // the peer lists name these two
        return;
    uint64_t back_ns = for_good ? UINT64_MAX : until(faults, 20, by_chance(faults, 50) ? 1500 : 20000);
    trace(faults, host, silent ? "power" : "kill -9", for_good, back_ns);
    sim_fault_kill(faults, host, silent, back_ns);
    spoil_disk(faults, host);
}

static void fault_pause(struct sim_faults *faults)
{
    size_t host = some_node(faults);
    uint64_t most_ms = faults->gentle ? 3000 : by_chance(faults, 50) ? 6000 : 30000;

    sim_fault_pause(faults, host, by_chance(faults, 25), until(faults, 200, most_ms));
}

static void fault_clock(struct sim_faults *faults)
{
    struct sim_node *node = faults->world->node[some_node(faults)];
    uint64_t jump_ns = (100 + base_rng_below(&faults->rng, 20000)) * SIM_MS;

    if (!node->running || node->paused)
        return;
    sim_world_trace(node->world, node->host, "clock", NULL, jump_ns, 0);
    node->clock_ns += (int64_t)jump_ns;
    node->jumped_ns = now(faults);
    sim_node_wake(node);
}

static void fault_split(struct sim_faults *faults)
{
    uint8_t part[64] = {0};
    uint64_t parts = 2 + base_rng_below(&faults->rng, 2);
    uint64_t end_ns = until(faults, 300, faults->gentle ? 2500 : 25000);

    for (size_t i = 0; i < faults->world->hosts; i++)
        part[i] = (uint8_t)base_rng_below(&faults->rng, parts);
    trace(faults, 0, "partition", parts, end_ns);
    sim_fault_split(faults, part, end_ns);
}

static void fault_pair(struct sim_faults *faults)
{
    size_t a = some_node(faults), b = some_node(faults);
    bool both = by_chance(faults, 50);
    uint64_t end_ns = until(faults, 500, 25000);

    if (a == b || (faults->gentle && faults->pairs))
        return;
    trace(faults, a, both ? "pair cut" : "pair cut one way", b, end_ns);
    sim_fault_cut(faults, a, b, both, end_ns);
}

// Everything that a node sends, or everything that it should receive, is lost.
static void fault_one_way(struct sim_faults *faults)
{
    size_t host = some_node(faults), nodes = faults->world->hosts;
    bool deaf = by_chance(faults, 50);
    uint64_t end_ns = until(faults, 300, faults->gentle ? 2500 : 20000);

    trace(faults, host, deaf ? "deaf" : "mute", 0, end_ns);
    sim_check_harm(faults->world, host, end_ns);
    for (size_t other = 0; other < nodes; other++) {
        size_t from = deaf ? other : host, to = deaf ? host : other;
        sim_net_path(&faults->world->net, from, to)->cuts++;
        later(faults, end_ns, uncut, from, to);
    }
}

static void fault_clog(struct sim_faults *faults)
{
    size_t a = some_node(faults);
    bool all = by_chance(faults, 40);
    uint64_t end_ns = until(faults, 100, faults->gentle ? 2500 : 8000);

    trace(faults, a, all ? "clog" : "path clogged", 0, end_ns);
    if (all || faults->pairs || faults->world->options.nodes < 5)
        sim_check_harm(faults->world, a, end_ns);
    for (size_t b = 0; b < faults->world->hosts; b++)
        if (all || b == (a + 1) % faults->world->options.nodes)
            sim_net_path(&faults->world->net, a, b)->clogged_until_ns = end_ns;
}

static void set_quality(struct sim_net *net, uint8_t quality)
{
    net->alike.quality = quality;
    for (size_t from = 0; from < net->hosts; from++)
        for (size_t to = 0; net->path[from] && to < net->hosts; to++)
            net->path[from][to].quality = quality;
}

static void loss_ends(void *owner, struct sim_event *event)
{
    struct sim_faults *faults = owner;

    set_quality(&faults->world->net, 0);
    trace(faults, 0, "loss ends", event->a, 0);
}

static void fault_loss(struct sim_faults *faults)
{
    uint64_t end_ns = until(faults, 1000, 15000);

    trace(faults, 0, "loss", 0, end_ns);
    set_quality(&faults->world->net, 1);
    later(faults, end_ns, loss_ends, 0, 0);
}

static void storm_kill(void *owner, struct sim_event *event)
{
    struct sim_faults *faults = owner;
    size_t host = (size_t)event->a;

    if (faults->world->node[host]->running)
        sim_fault_kill(faults, host, false, until(faults, 30, 600));
}

static void fault_storm(struct sim_faults *faults)
{
    size_t nodes = faults->world->options.nodes, times = 1 + base_rng_below(&faults->rng, 3);

    trace(faults, 0, "storm", times, 0);
    for (size_t i = 0; i < nodes; i++)
        for (size_t k = 0; k < times && by_chance(faults, 60); k++)
            later(faults, until(faults, 1, 3000), storm_kill, i, 0);
}

static void left(void *owner, struct sim_event *event)
{
    struct sim_faults *faults = owner;
    struct sim_node *node = faults->world->node[event->a];
    uint64_t back_ns = until(faults, 100, 15000);

    if (node->member.instance != event->b)
        return;
    sim_fault_kill(faults, (size_t)event->a, false, back_ns);
}

static void fault_leave(struct sim_faults *faults)
{
    size_t host = some_node(faults);
    struct sim_node *node = faults->world->node[host];

    if (!node->running || node->paused || host < faults->world->options.twins)
        return;
    sim_check_excuse(faults->world, host, now(faults) + SIM_SECOND);
    sim_node_leave(node);
    later(faults, now(faults) + 500 * SIM_MS, left, host, node->member.instance);
}

static void fault_backup(struct sim_faults *faults)
{
    size_t host = some_node(faults);

    sim_disk_copy(&faults->world->node[host]->disk, &faults->backup[host]);
    faults->has_backup[host] = true;
}

static void fault_twin(struct sim_faults *faults)
{
    struct sim_world *world = faults->world;

    if (!world->options.twins)
        return;
    struct sim_node *node = world->node[0], *twin = world->node[world->options.nodes];
    if (!node->running || twin->running || now(faults) + 15 * SIM_SECOND > faults->heal_ns)
        return;
    trace(faults, 0, "twin", 0, 0);
    sim_disk_copy(&node->disk, &twin->disk);
    sim_node_start(twin);
}

static void strike(void *owner, struct sim_event *event)
{
    static void (*const gentle[])(struct sim_faults *) = {fault_pause, fault_clock,   fault_split, fault_pair,
                                                          fault_clog,  fault_one_way, fault_loss};
    static void (*const rough[])(struct sim_faults *) = {fault_kill,  fault_kill,    fault_kill,  fault_kill,
                                                         fault_pause, fault_pause,   fault_clock, fault_split,
                                                         fault_pair,  fault_one_way, fault_clog,  fault_storm,
                                                         fault_leave, fault_backup,  fault_loss,  fault_twin};
    struct sim_faults *faults = owner;
    uint64_t next_ns = now(faults) + base_rng_below(&faults->rng, 2 * faults->pause_ns);

    (void)event;
    if (faults->gentle)
        gentle[base_rng_below(&faults->rng, sizeof gentle / sizeof *gentle)](faults);
    else
        rough[base_rng_below(&faults->rng, sizeof rough / sizeof *rough)](faults);
    if (next_ns + SIM_SECOND < faults->heal_ns)
        later(faults, next_ns, strike, 0, 0);
}

void sim_faults_create(struct sim_faults *faults, struct sim_world *world, uint64_t heal_ns, bool gentle)
{
    *faults = (struct sim_faults){.world = world, .heal_ns = heal_ns, .gentle = gentle};
    BASE_ASSERT(world->hosts <= sizeof faults->gone / sizeof *faults->gone);
    base_rng_seed_stream(&faults->rng, world->options.seed, 0x50000);
    faults->pause_ns = (500ull << base_rng_below(&faults->rng, 5)) * SIM_MS; // 0.5 to 8 s
}

void sim_faults_destroy(struct sim_faults *faults)
{
    for (size_t i = 0; i < 64; i++)
        sim_disk_free(&faults->backup[i]);
}

void sim_faults_begin(struct sim_faults *faults, uint64_t from_ns)
{
    later(faults, from_ns, strike, 0, 0);
}
