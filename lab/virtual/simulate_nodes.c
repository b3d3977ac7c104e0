#include "lab/virtual/simulate_nodes.h"

#include "lab/experiment/network.h"
#include "lab/record/directory.h"
#include "lab/virtual/simulate_private.h"
#include "node/config/life.h"
#include "node/queue/clock.h"
#include "node/setup.h"
#include "topology/file.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

#define SLICE_NS      (50 * SIM_MS) // between two checks of signals and nodes
#define FILES_A_NODE  2u
#define FILES_BESIDES 64u

// Two files of every node are open all the time.
static void allow_files(size_t nodes)
{
    struct rlimit limit;
    rlim_t wanted = FILES_A_NODE * nodes + FILES_BESIDES;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); // a file that cannot be opened is reported later
}

// The seed of the network. Identities and processes have another: sim_options.seed.
static uint64_t world_seed(const struct simulation *s)
{
    return s->bench->view.topology.seed ^ s->bench->view.train.seed << 32; // shifted by experiment.seed
}

static size_t starters(const struct simulation *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->cluster->count; i++)
        count += !lab_set_has(&s->cluster->schedule->late, i);
    return count;
}

static bool send(void *owner, bool stream, size_t from, size_t to, size_t bytes, uint64_t now_ns,
                 uint64_t *arrival_ns)
{
    struct simulation *s = owner;
    *arrival_ns = now_ns + s->links.common.latency_ns;
    if (to >= s->cluster->count) // to a made-up member, which hears nothing
        return stream;
    return lab_network_send(s->network, stream ? LAB_STREAM : LAB_DATAGRAM, from, to, bytes, now_ns,
                            arrival_ns);
}

// The nodes, and the members that attackers make up.
static size_t members(const struct simulation *s)
{
    return s->cluster->count + lab_attackers_ghosts(&s->experiment->hostile);
}

// Reads the graph of a file, and divides the nodes into groups by number. Without groups each node is a
// group, as in the daemon.
static enum base_error make_graph(struct simulation *s, struct base_reason *why)
{
    uint64_t size = s->experiment->experiment.group_size ? s->experiment->experiment.group_size : 1;
    s->group = malloc(members(s) * sizeof *s->group);
    if (!s->group)
        return base_fail(why, BASE_ENOMEM, "no memory for the groups of the nodes");
    for (size_t i = 0; i < members(s); i++)
        s->group[i] = (uint32_t)(i / size);
    return lab_experiment_graph(s->experiment, &s->graph, why);
}

static bool nobody_starts_again(const struct simulation *s)
{
    for (size_t i = 0; i < s->cluster->schedule->count; i++)
        if (s->cluster->schedule->items[i].kind == LAB_START)
            return false;
    return true;
}

// Each node has a shard of its own.
static struct gossip_life_options life_of(const struct simulation *s)
{
    const struct node_config *config = &s->bench->view;
    struct gossip_life_options life = node_config_life(config);

    life.start_members = starters(s);
    life.shards = config->data.takeover ? (uint32_t)s->cluster->count : 0;
    life.start_timeout_ns += !life.start_timeout_ns; // 0 is a default of the world
    life.linger_ns += !life.linger_ns;
    return life;
}

static enum base_error make_world(struct simulation *s, struct base_reason *why)
{
    const struct node_config *config = &s->bench->view;
    struct sim_options options = {.seed = config->topology.seed ^ config->train.seed << 32 ^
                                          s->experiment->experiment.seed,
                                  .nodes = members(s),
                                  .ghosts = members(s) - s->cluster->count,
                                  .profile = (enum gossip_member_profile)config->cluster.profile,
                                  .topology = {.kind = (enum topology_kind)config->topology.kind,
                                               .seed = config->topology.seed,
                                               .rings = (unsigned)config->topology.rings,
                                               .base_k = (unsigned)config->topology.base_k,
                                               .graph = s->graph},
                                  .group = s->group,
                                  .known = s->experiment->sim.membership == LAB_MEMBERSHIP_KNOWN,
                                  .local = config->average.method == NODE_METHOD_LOCAL,
                                  .peer_entries = 3, // as with p2pml run
                                  .probe = config->average.robust == NODE_ROBUST_CLIP_PROBE,
                                  .learner = &s->learner,
                                  .watch = &s->watch,
                                  .wire = &s->wire,
                                  .checkpoint_ns = config->checkpoint.every_ns,
                                  .diskless = nobody_starts_again(s),
                                  .life = life_of(s),
                                  .local_steps = config->average.local_steps,
                                  .steps = config->train.steps};
    enum base_error error = node_setup_exchange_options(config, &options.exchange, why);
    if (error)
        return error;
    options.exchange.kernels = s->bench->kernels->host;
    simulate_watch(s, &s->watch);
    s->wire = (struct sim_wire){s, send};
    sim_world_create(&s->world, &options);
    simulate_attackers_arm(s);
    for (size_t i = 0; i < s->cluster->count; i++)
        gossip_id_hex(&s->world.identity[i].id, s->cluster->ids.hex[i]);
    return BASE_OK;
}

static enum base_error create(struct simulation *s, struct base_reason *why)
{
    char *path = lab_path("%s/rounds.jsonl", s->options->directory);
    enum base_error error = lab_step_times_of(s->experiment, &s->step_times, why);
    if (!error)
        error = lab_links_of(s->experiment, &s->links, why);
    if (!error)
        error = lab_network_create(&s->links, world_seed(s), &s->network, why);
    if (!error)
        error = simulate_trainers_create(s, why);
    if (!error)
        error = simulate_points_create(s, why);
    if (!error)
        error = simulate_files_open(s, why);
    if (!error)
        error = lab_recorder_open(path, &s->recorder, why);
    if (!error)
        error = make_graph(s, why);
    if (!error)
        error = make_world(s, why);
    free(path);
    return error;
}

static void destroy(struct simulation *s)
{
    for (size_t i = 0; s->sim_trainers && i < s->cluster->count; i++)
        simulate_trainer_finish(&s->sim_trainers[i]);
    if (s->world.node)
        sim_world_destroy(&s->world);
    simulate_files_close(s);
    simulate_points_destroy(s);
    simulate_trainers_destroy(s);
    lab_network_destroy(s->network);
    topology_graph_destroy(s->graph);
    free(s->group);
    lab_links_free(&s->links);
    lab_step_times_free(&s->step_times);
    free(s);
}

static bool any_honest_runs(const struct simulation *s)
{
    for (size_t i = 0; i < s->cluster->count; i++)
        if (s->world.node[i]->running && !s->sim_trainers[i].attack)
            return true;
    return false;
}

static void show(struct simulation *s, uint64_t start_ns, bool now)
{
    char line[LAB_LINE_BYTES], accuracy[LAB_NUMBER_BYTES];
    double seconds = (double)(node_clock_ns() - start_ns) / (double)NODE_SECOND_NS, rounds = 0;
    uint64_t now_ns = sim_world_now(&s->world);
    size_t running = 0;
    for (size_t i = 0; i < s->cluster->count; i++) {
        running += s->world.node[i]->running;
        rounds += (double)s->sim_trainers[i].round;
    }
    lab_print_accuracy(s->holds ? s->latest.accuracy : NAN, s->latest.regression, accuracy);
    snprintf(line, sizeof line,
             "virtual %8.2f s  nodes %zu  round %.0f  averaged %s (round %llu)  %.0f steps/s",
             s->begin_ns ? (double)(now_ns - s->begin_ns) / (double)SIM_SECOND : 0.0, running,
             rounds / (double)s->cluster->count, accuracy, (unsigned long long)s->latest.round,
             seconds > 0 ? (double)s->steps / seconds : 0.0);
    lab_display_line(s->options->display, line, now);
}

static void ask_to_stop(struct simulation *s, const char *reason)
{
    s->asked = true;
    lab_player_close(&s->player, "the run was stopped first");
    lab_display_say(s->options->display, "%s: the nodes leave\n", reason);
    for (size_t i = 0; i < s->cluster->count; i++)
        if (s->world.node[i]->running)
            sim_node_leave(s->world.node[i]);
}

// False: the run ends now.
static bool decide(struct simulation *s, unsigned *stops)
{
    uint64_t limit_ns = s->experiment->experiment.time_limit_ns, now_ns = sim_world_now(&s->world);
    *stops += lab_signals_wait(s->options->signals, 0);
    if (s->error || *stops > 1)
        return false;
    if (*stops && !s->asked) {
        s->cluster->interrupted = true;
        ask_to_stop(s, "interrupted");
    } else if (limit_ns && now_ns >= limit_ns && !s->asked) {
        s->cluster->overtime = true;
        ask_to_stop(s, "experiment.time_limit has passed");
    }
    return true;
}

static void follow(struct simulation *s)
{
    uint64_t start_ns = node_clock_ns();
    unsigned stops = 0;
    simulate_events_open(s);
    for (size_t i = 0; i < s->cluster->count; i++)
        if (!lab_set_has(&s->cluster->schedule->late, i))
            simulate_node_start(s, i);
    while (any_honest_runs(s) || (!s->asked && lab_player_goes_on(&s->player))) {
        uint64_t now_ns = sim_world_now(&s->world), until_ns = now_ns + SLICE_NS;
        uint64_t next_ns = lab_player_next(&s->player, now_ns);
        if (!sim_world_run(&s->world, next_ns < until_ns ? next_ns : until_ns))
            break;
        simulate_events_perform(s);
        show(s, start_ns, false);
        if (!decide(s, &stops))
            break;
    }
    lab_player_close(&s->player, "the run ended first");
    show(s, start_ns, true);
    lab_display_keep(s->options->display);
    s->cluster->seconds = (double)(node_clock_ns() - start_ns) / (double)NODE_SECOND_NS;
}

static void read_files(struct simulation *s)
{
    for (size_t i = 0; i < s->cluster->count; i++) {
        lab_tail_read(&s->cluster->nodes[i].tail);
        lab_journal_read(&s->cluster->nodes[i].journal);
    }
}

static enum base_error conclude(struct simulation *s, struct lab_simulated *simulated,
                                struct base_reason *why)
{
    if (s->world.broken)
        return base_fail(why, BASE_ESTATE, "the simulation failed at node %zu: %s", s->world.broken_host,
                         s->world.broken);
    for (size_t i = 0; i < s->cluster->count; i++)
        if (s->cluster->nodes[i].starts && !s->world.node[i]->running)
            lab_node_pretend_end(&s->cluster->nodes[i], s->world.node[i]->status);
    simulate_point_end(s, &simulated->average);
    read_files(s);
    simulated->steps = s->steps;
    simulated->virtual_seconds =
        s->round_ns > s->begin_ns ? (double)(s->round_ns - s->begin_ns) / (double)SIM_SECOND : 0;
    if (s->error)
        *why = s->why;
    return s->error;
}

enum base_error lab_simulate_nodes(const struct lab_simulate_options *options, struct lab_cluster *cluster,
                                   struct lab_simulated *simulated, struct base_reason *why)
{
    struct base_reason ignored;
    struct simulation *s = calloc(1, sizeof *s);
    *simulated = (struct lab_simulated){.average = {.score = lab_score_unknown(), .consensus = NAN}};
    if (!s)
        return base_fail(why, BASE_ENOMEM, "no memory for a simulation");
    s->options = options;
    s->experiment = options->experiment;
    s->bench = options->bench;
    s->cluster = cluster;
    s->pool = options->pool;
    allow_files(cluster->count);
    enum base_error error = create(s, why);
    if (!error) {
        follow(s);
        error = conclude(s, simulated, why);
    }
    enum base_error closed = lab_recorder_close(&s->recorder, error ? &ignored : why);
    destroy(s);
    return error ? error : closed;
}
