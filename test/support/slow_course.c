#include "test/support/slow_course.h"

#include "base/array.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -- the learner

static void begin(void *owner, size_t host, struct gossip_learner_vectors *vectors)
{
    struct course *course = owner;
    struct sim_trainer *sim_trainer = &course->sim_trainer[host];

    memcpy(sim_trainer->x, course->start, PARAMETERS * sizeof(float));
    memset(sim_trainer->correction, 0, PARAMETERS * sizeof(float));
    sim_trainer->step = 0;
    sim_trainer->ended = false;
    *vectors =
        (struct gossip_learner_vectors){.model = sim_trainer->x, .correction = sim_trainer->correction};
}

static void ready(void *owner, size_t host, enum sim_origin origin)
{
    struct course *course = owner;

    (void)origin;
    course->sim_trainer[host].step = course->world.node[host]->train.rounds.step;
}

static void adopt(void *owner, size_t host, enum gossip_learner_change change, uint64_t step)
{
    struct course *course = owner;

    (void)change;
    course->sim_trainer[host].step = step;
}

static bool others_train(const struct sim_node *node)
{
    const struct sim_world *world = node->world;

    for (size_t i = 0; i < world->options.nodes; i++) {
        const struct sim_node *other = world->node[i];
        if (other != node && gossip_graph_has(sim_graph(node), &world->identity[i].id) && other->running &&
            !other->paused && other->train.rounds.state == GOSSIP_ROUNDS_TRAINING)
            return true;
    }
    return false;
}

static bool has_live_edge(const struct sim_node *node)
{
    for (size_t i = 0; node->train.exchange && i < gossip_exchange_edges(node->train.exchange); i++) {
        struct gossip_edge_info info;
        gossip_exchange_edge_info(node->train.exchange, i, &info);
        if (info.state == GOSSIP_EDGE_LIVE)
            return true;
    }
    return false;
}

// In sync mode a round without a live edge lasts as long as the ceiling of the deadline while others train.
static void watch_alone(struct course *course, const struct sim_node *node)
{
    struct sim_trainer *sim_trainer = &course->sim_trainer[node->host];
    uint64_t now_ns = sim_world_now(&course->world);
    bool quick = now_ns - sim_trainer->began_ns < CEILING_NS / 4;

    sim_trainer->began_ns = now_ns;
    if (course->world.options.exchange.sync && quick && others_train(node) && !has_live_edge(node))
        sim_trainer->quick++;
    else
        sim_trainer->quick = 0;
    if (sim_trainer->quick > course->alone)
        course->alone = sim_trainer->quick;
}

// Before its next step it takes in what has arrived: it is in no round.
static bool stands(const struct sim_node *node)
{
    return node->train.rounds.doing == GOSSIP_ROUNDS_MEET && !node->train.rounds.meet.meets;
}

static bool is_parted(const struct course *course, size_t a, size_t b)
{
    const uint64_t since_ns = course->parted_ns[a][b];

    return course->apart[a][b] || (since_ns > 0 && sim_world_now(&course->world) < since_ns + MEET_NS);
}

static uint64_t lead_over(const struct sim_node *other, uint64_t round)
{
    return round > other->train.rounds.round + 1 ? round - other->train.rounds.round - 1 : 0;
}

// -- parts that train without each other

static bool in_training(const struct sim_node *node)
{
    return node->running && !node->paused && node->train.rounds.state == GOSSIP_ROUNDS_TRAINING;
}

static bool has_neighbour(const struct sim_node *node, size_t host)
{
    for (size_t i = 0; i < gossip_graph_neighbours(sim_graph(node)); i++)
        if (sim_graph_neighbour(node, i) == host)
            return true;
    return false;
}

// Finds the parts of a cluster that is divided: in a part, each member can reach the next one, and one of the
// two wants an edge.
static void find_parts(const struct course *course, size_t part[])
{
    const size_t nodes = course->world.options.nodes;

    for (size_t i = 0; i < nodes; i++)
        part[i] = i;
    for (size_t i = 0; i < nodes; i++)
        for (size_t j = 0; j < nodes; j++) {
            const struct sim_node *node = course->world.node[i], *other = course->world.node[j];
            const size_t from = part[i], to = part[j];
            if (from == to || course->apart[i][j] || !in_training(node) || !in_training(other) ||
                !has_neighbour(node, j))
                continue;
            for (size_t k = 0; k < nodes; k++)
                part[k] = part[k] == from ? to : part[k];
        }
}

// Parts that cannot reach each other all train. Once they are one again, the one that is ahead waits for the
// other: the lead that it had by then is not its fault, but must only shrink.
static void watch_parts(struct course *course)
{
    const uint64_t now_ns = sim_world_now(&course->world);
    size_t part[NODES_MAX];

    if (course->healed_ns == 0 || now_ns > course->healed_ns + PARTS_NS) {
        memset(course->had, 0, sizeof course->had);
        return;
    }
    find_parts(course, part);
    for (size_t i = 0; i < course->world.options.nodes; i++)
        for (size_t j = 0; j < course->world.options.nodes; j++) {
            const uint64_t lead = lead_over(course->world.node[j], course->world.node[i]->train.rounds.round);
            if (part[i] != part[j])
                course->parted_ns[i][j] = now_ns;
            if (is_parted(course, i, j) || lead < course->had[i][j])
                course->had[i][j] = lead;
        }
}

// A node that no longer counts is about to take the model and round of the others, whose views show it a
// moment later. A node that skips rounds takes the round of its neighbours, and neighbours that are also
// behind are about to do the same: what counts is whether it goes on before they have.
static void watch_lead(struct course *course, const struct sim_node *node, uint64_t round)
{
    struct sim_trainer *sim_trainer = &course->sim_trainer[node->host];
    const bool skips = round > sim_trainer->began + 1;

    sim_trainer->began = round;
    if (skips)
        return;
    for (size_t i = 0; i < gossip_graph_neighbours(sim_graph(node)); i++) {
        const struct sim_node *other = course->world.node[sim_graph_neighbour(node, i)];
        if (!other->running || other->paused || other->train.rounds.state != GOSSIP_ROUNDS_TRAINING ||
            !gossip_life_counts(other->life.rules) || stands(other) ||
            is_parted(course, node->host, other->host))
            continue;
        const uint64_t lead = lead_over(other, round), had = course->had[node->host][other->host];
        if (lead > had && lead - had > course->lead) {
            course->lead = lead - had;
            course->lead_of = node->host;
            sim_world_trace(&course->world, node->host, "lead", "ahead of", other->host, course->lead);
        }
    }
}

static uint64_t steps(void *owner, size_t host, uint64_t count, double pace)
{
    struct course *course = owner;
    struct sim_node *node = course->world.node[host];

    (void)pace;
    BASE_ASSERT(count == LOCAL_STEPS);
    sim_world_trace(&course->world, host, "steps", NULL, node->train.rounds.round + 1, 0);
    watch_alone(course, node);
    watch_lead(course, node, node->train.rounds.round + 1);
    return course->compute_ns + base_rng_below(&course->rng, course->compute_ns / 4 + 1);
}

static void alone(void *owner, size_t host)
{
    (void)owner, (void)host; // it ends
}

static void finish(void *owner, size_t host, const struct gossip_rounds *rounds)
{
    struct course *course = owner;

    course->sim_trainer[host].ended = !gossip_rounds_stops(rounds);
}

static float rate_at(uint64_t step)
{
    double part = (double)step / (ROUNDS * LOCAL_STEPS);

    return part < 0.6 ? RATE : part < 0.85 ? 0.3f * RATE : 0.1f * RATE;
}

static void boundary(void *owner, size_t host, struct gossip_learner_steps *did)
{
    struct course *course = owner;
    struct sim_trainer *sim_trainer = &course->sim_trainer[host];
    float rate = rate_at(sim_trainer->step);

    for (unsigned i = 0; i < LOCAL_STEPS; i++) {
        float wind = NOISE * (float)base_rng_normal(&course->world.node[host]->rng);
        for (size_t j = 0; j < PARAMETERS; j++)
            sim_trainer->x[j] -= rate * (sim_trainer->x[j] - sim_trainer->target[j] -
                                         (j % 7 == i ? wind : 0) - sim_trainer->correction[j]);
    }
    sim_trainer->step += LOCAL_STEPS;
    *did = (struct gossip_learner_steps){.step = sim_trainer->step,
                                         .step_scale = rate * LOCAL_STEPS,
                                         .step_ns = course->compute_ns / LOCAL_STEPS};
}

static void end(void *owner, size_t host)
{
    (void)owner, (void)host;
}

static void exchanged(void *owner, struct sim_node *node)
{
    struct gossip_exchange_totals totals;
    gossip_exchange_totals(node->train.exchange, &totals);
    ((struct course *)owner)->overdue += totals.waits.overdue > 0; // in undisturbed runs only zero is right
}

// -- a course

static uint64_t choose(struct course *course, uint64_t seed, struct sim_options *options)
{
    static const enum topology_kind kinds[] = {TOPOLOGY_RING, TOPOLOGY_BUTTERFLY, TOPOLOGY_RANDOM};
    struct base_rng rng;

    base_rng_seed_stream(&rng, seed, 0x80000);
    *options = (struct sim_options){.seed = seed,
                                    .profile = GOSSIP_PROFILE_LAN,
                                    .topology = {.seed = 7, .rings = 2},
                                    .life.forget_after_ns = 60 * SIM_SECOND,
                                    .steps = (uint64_t)ROUNDS * LOCAL_STEPS,
                                    .life.linger_ns = 60 * SIM_SECOND,
                                    .checkpoint_ns = SIM_SECOND,
                                    .slow_ns = 150 * SIM_MS};
    options->nodes = 4 + base_rng_below(&rng, NODES_MAX - 3);
    options->life.start_members = options->nodes;
    options->peer_entries = 1 + base_rng_below(&rng, 2);
    options->topology.kind = kinds[base_rng_below(&rng, 3)];
    options->exchange = (struct gossip_exchange_options){.kernels = cpu_kernels(),
                                                         .drift_correction = true,
                                                         .drift_gain = 2,
                                                         .drift_limit = 0.25f,
                                                         .values = KERNELS_INT8,
                                                         .ratio = 1.0f / 16,
                                                         .sync = base_rng_below(&rng, 2),
                                                         .deadline_floor_ns = SIM_SECOND,
                                                         .deadline_ceiling_ns = CEILING_NS};
    course->slow.bits = 128000ull << base_rng_below(&rng, 6); // 128 kbit/s to 4 Mbit/s
    course->slow.latency_ns = (1 + base_rng_below(&rng, 50)) * SIM_MS;
    course->slow.jitter_ns = course->slow.latency_ns / 4;
    uint64_t compute_ns = (20 + base_rng_below(&rng, 80)) * SIM_MS;
    // In async no node waits for an answer: rounds are as long as one takes, so that all nodes can meet.
    uint64_t answer_ns = 2 * course->slow.latency_ns + 4 * DELTA_BITS * SIM_SECOND / course->slow.bits;
    return options->exchange.sync ? compute_ns : compute_ns + answer_ns;
}

// Rounds of 10 ms beside a model that takes 650 ms on the wire, as 200,000 parameters take at 10 Mbit/s:
// while an edge compares states, nodes that do not wait make 60 rounds.
static void choose_short_rounds(struct course *course, struct sim_options *options)
{
    options->nodes = options->life.start_members = NODES_MAX;
    options->topology.kind = TOPOLOGY_RING;
    options->exchange.sync = true;
    options->exchange.ratio = 1.0f / 32;
    options->exchange.deadline_ceiling_ns = 2 * CEILING_NS;
    course->slow.bits = 200000;
    course->slow.latency_ns = course->slow.jitter_ns = SIM_MS / 10;
    course->compute_ns = 10 * SIM_MS;
}

void slow_course_create(struct course *course, uint64_t seed, const struct scenario *scenario,
                        bool short_rounds)
{
    struct sim_options options;

    *course = (struct course){.scenario = scenario, .short_rounds = short_rounds};
    sim_slow_create(&course->slow, NODES_MAX, seed);
    course->compute_ns = choose(course, seed, &options);
    if (short_rounds)
        choose_short_rounds(course, &options);
    course->start = sim_must(calloc(PARAMETERS, sizeof(float)));
    course->best = sim_must(calloc(PARAMETERS, sizeof(float)));
    base_rng_seed_stream(&course->rng, seed, 0x90000);
    for (size_t i = 0; i < options.nodes; i++) {
        struct sim_trainer *sim_trainer = &course->sim_trainer[i];
        sim_trainer->x = sim_must(calloc(3 * PARAMETERS, sizeof(float)));
        sim_trainer->correction = sim_trainer->x + PARAMETERS;
        sim_trainer->target = sim_trainer->x + 2 * PARAMETERS;
        for (size_t j = 0; j < PARAMETERS; j++) {
            sim_trainer->target[j] = 0.5f + (float)base_rng_normal(&course->rng);
            course->best[j] += sim_trainer->target[j] / (float)options.nodes;
        }
    }
    course->learner = (struct sim_learner){.learner = {.owner = course,
                                                       .parameters = PARAMETERS,
                                                       .begin = begin,
                                                       .steps = steps,
                                                       .boundary = boundary,
                                                       .adopt = adopt,
                                                       .end = end},
                                           .start = course->start,
                                           .ready = ready,
                                           .finish = finish,
                                           .alone = alone};
    options.local_steps = LOCAL_STEPS;
    options.learner = &course->learner;
    course->watch = (struct sim_watch){.owner = course, .exchanged = exchanged};
    options.watch = &course->watch;
    options.wire = &course->slow.wire;
    sim_world_create(&course->world, &options);
    struct base_rng rng;
    base_rng_seed_stream(&rng, seed, 0xa0000);
    scenario->plan(course, &rng);
}

void slow_course_destroy(struct course *course)
{
    for (size_t i = 0; i < course->world.options.nodes; i++)
        free(course->sim_trainer[i].x);
    free(course->start);
    free(course->best);
    sim_world_destroy(&course->world);
    sim_slow_destroy(&course->slow);
}

static uint64_t cluster_round(const struct course *course)
{
    uint64_t round[NODES_MAX];
    size_t count = 0;

    for (size_t i = 0; i < course->world.options.nodes; i++)
        if (course->world.node[i]->running &&
            course->world.node[i]->train.rounds.state >= GOSSIP_ROUNDS_TRAINING)
            round[count++] = course->world.node[i]->train.rounds.round;
    qsort(round, count, sizeof *round, base_order_u64);
    return count ? round[(count - 1) / 2] : 0;
}

static bool others_run(const struct course *course, size_t host)
{
    for (size_t i = 0; i < course->world.options.nodes; i++)
        if (i != host && course->world.node[i]->running)
            return true;
    return false;
}

// The host is down, and all others have taken their last step and left.
static bool comes_too_late(const struct course *course, size_t host)
{
    for (size_t i = 0; i < course->world.options.nodes; i++)
        if (!course->gone[i] && course->sim_trainer[i].ended == (i == host))
            return false;
    return !course->world.node[host]->running && !others_run(course, host);
}

static bool is_held_out(const struct sim_node *node)
{
    return node->running && gossip_life_pauses(node->life.rules) & GOSSIP_LIFE_HELD_OUT;
}

static bool any_has_finished(const struct course *course)
{
    for (size_t i = 0; i < course->world.options.nodes; i++)
        if (course->world.node[i]->running &&
            course->world.node[i]->train.rounds.state == GOSSIP_ROUNDS_FINISHED)
            return true;
    return false;
}

static bool is_apart(const struct course *course, size_t host)
{
    for (size_t i = 0; i < course->world.options.nodes; i++)
        if (course->apart[host][i])
            return true;
    return false;
}

static void watch_missed(struct course *course)
{
    const bool ends = any_has_finished(course);

    for (size_t i = 0; i < course->world.options.nodes; i++) {
        course->missed[i] |= (is_apart(course, i) && !others_run(course, i)) || comes_too_late(course, i);
        course->faded[i] |= ends && is_held_out(course->world.node[i]);
    }
}

static void act(struct course *course)
{
    uint64_t round = cluster_round(course), now_ns = sim_world_now(&course->world);

    for (size_t i = 0; i < course->moments; i++) {
        const struct moment moment = course->moment[i];
        bool due = moment.after_ns ? now_ns >= moment.after_ns : round >= moment.round && round;
        if (!moment.act || !due)
            continue;
        course->moment[i].act = NULL;
        moment.act(course, moment.host, moment.ns);
    }
}

static bool is_over(const struct course *course)
{
    for (size_t i = 0; i < course->moments; i++)
        if (course->moment[i].act && course->moment[i].after_ns)
            return false;
    for (size_t i = 0; i < course->world.options.nodes; i++)
        if (course->world.node[i]->running)
            return false;
    return true;
}

// Distance of the worst model from the best one; for a node trained alone it is about 1.
static double worst_of(const struct course *course)
{
    double worst = 0;

    for (size_t i = 0; i < course->world.options.nodes; i++) {
        double sum = 0;
        for (size_t j = 0; j < PARAMETERS; j++)
            sum += pow((double)course->sim_trainer[i].x[j] - (double)course->best[j], 2);
        if (!course->gone[i] && !course->missed[i] && !(sqrt(sum / PARAMETERS) <= worst))
            worst = sqrt(sum / PARAMETERS);
    }
    return worst;
}

// L of gossip/pace/README.md: what exchanges can bring together again, and what the news are late.
static uint64_t lead_max(const struct course *course)
{
    const uint64_t reach = (uint64_t)(2 / course->world.options.exchange.ratio);

    return (reach > LEAD_LEAST ? reach : LEAD_LEAST) + 2 * course->world.options.nodes + EDGES_MAX;
}

static void judge(struct course *course, const struct course *plain)
{
    for (size_t i = 0; i < course->world.options.nodes && !course->why; i++)
        if (!course->gone[i] && !course->missed[i] && course->sim_trainer[i].step != ROUNDS * LOCAL_STEPS)
            course->why = "a node ended before the last step";
    course->worst = worst_of(course);
    if (!course->why && course->alone > ALONE_MAX)
        course->why = "several sync rounds in a row without a live edge while others train";
    if (!course->why && course->world.options.exchange.sync && course->lead > lead_max(course))
        course->why = "far ahead of a living neighbour";
    if (!course->why && !plain && course->overdue > 0)
        course->why = "a deadline passed though nothing was disturbed";
    double lost_max = LOST_MAX;
    for (size_t i = 0; i < course->world.options.nodes; i++)
        lost_max += course->gone[i] || course->missed[i] || course->faded[i] ? GONE_LOST : 0;
    if (!course->why && plain && !course->short_rounds && !(course->worst <= plain->worst + lost_max))
        course->why = "the worst model is far from that of the undisturbed run";
}

void slow_course_run(struct course *course, const struct course *plain)
{
    struct sim_world *world = &course->world;
    uint64_t end_ns = 3600 * SIM_SECOND;

    for (size_t i = 0; i < world->options.nodes; i++)
        sim_node_start(world->node[i]);
    while (!course->why && (!is_over(course))) {
        if (!sim_world_run(world, sim_world_now(world) + TURN_MS * SIM_MS))
            course->why = world->broken;
        act(course);
        watch_missed(course);
        watch_parts(course);
        if (sim_world_now(world) > end_ns)
            course->why = "not over within an hour";
    }
    course->over_s = (double)sim_world_now(world) * 1e-9;
    judge(course, plain);
}
