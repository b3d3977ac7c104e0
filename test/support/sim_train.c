// From the view to a plan, from the plan to edges; rounds of local steps and exchanges; how a late joiner
// comes by a model.
#include "test/support/cpu_kernels.h"
#include "test/support/sim_check.h"
#include "test/support/sim_node.h"
#include <stdlib.h>
#include <string.h>

#define START_TIMEOUT_NS (10 * SIM_SECOND)
#define ALONE_NS         (5 * SIM_SECOND) // nobody is found: the first of a new cluster
#define PATIENCE_NS      SIM_SECOND       // with a donor
#define PHASE_NS         (100 * SIM_MS)   // between two looks at what is missing
#define CHECKPOINT_EACH  24               // rounds, on average
#define FLOOR_NS         (100 * SIM_MS)
#define CEILING_NS       SIM_SECOND
#define NEIGHBOURS_MOST  128

static void publish(struct sim_node *node)
{
    const struct sim_options *options = &node->world->options;
    const struct sim_checkpoint *checkpoint = node->resumed ? sim_disk_load(&node->disk) : NULL;
    struct gossip_exchange_options exchange = {.self = *sim_member_id(node, node->self),
                                               .kernels = cpu_kernels(),
                                               .parameters = SIM_PARAMETERS,
                                               .start = node->world->start,
                                               .model = node->x,
                                               .ratio = options->ratio,
                                               .values = options->values,
                                               .sync = options->sync,
                                               .drift_correction = true,
                                               .drift_gain = 2,
                                               .drift_limit = 0.25f,
                                               .deadline_floor_ns = FLOOR_NS,
                                               .deadline_ceiling_ns = CEILING_NS};
    struct base_reason why;

    BASE_ASSERT(gossip_exchange_create(&exchange, &node->exchange, &why) == BASE_OK);
    for (size_t i = 0; checkpoint && i < checkpoint->count; i++)
        if (gossip_exchange_import(node->exchange, &checkpoint->record[i]) != BASE_OK)
            sim_world_break(node->world, node->host, "an edge of a whole checkpoint was refused");
    const float *correction = gossip_exchange_correction(node->exchange);
    for (size_t j = 0; j < SIM_PARAMETERS; j++) {
        node->correction[j] = correction ? correction[j] : 0;
        node->world->given[j] += (double)node->x[j] - (double)node->world->start[j];
    }
    node->links_changed = true;
}

void sim_train_start(struct sim_node *node)
{
    const struct sim_checkpoint *checkpoint = sim_disk_load(&node->disk);

    node->phase = SIM_JOINING;
    node->round = node->rounds_done = 0;
    node->in_round = false;
    node->train_ns = node->phase_ns;
    node->resumed = checkpoint != NULL;
    memcpy(node->x, node->world->start, sizeof node->x);
    if (!node->world->options.learns)
        return;
    BASE_ASSERT(gossip_donor_create(SIM_PARAMETERS, &node->donor) == BASE_OK);
    if (checkpoint) {
        memcpy(node->x, checkpoint->model, sizeof node->x);
        node->round = checkpoint->round;
        node->world->counts.resumed++;
    }
}

static void stop_joiner(struct sim_node *node)
{
    gossip_joiner_destroy(node->joiner);
    free(node->donates);
    node->joiner = NULL;
    node->donates = NULL;
}

void sim_train_stop(struct sim_node *node)
{
    if (node->joiner)
        stop_joiner(node);
    if (node->donor)
        gossip_donor_destroy(node->donor);
    if (node->exchange) {
        gossip_exchange_destroy(node->exchange);
        node->world->may_lose = true;
    }
    topology_plan_destroy(node->plan);
    free(node->view);
    node->donor = NULL;
    node->exchange = NULL;
    node->plan = NULL;
    node->view = NULL;
    node->n_view = 0;
}

// The trainer stands at a boundary: its vectors can be copied.
static void freeze(struct sim_node *node)
{
    const struct gossip_snapshot_vectors vectors = {.part = {node->x}, .round = node->round};
    struct gossip_message answer;
    struct gossip_id id;

    if (!gossip_donor_wants(node->donor))
        return;
    if (gossip_donor_freeze(node->donor, &vectors, sim_node_now(node)) != BASE_OK)
        sim_world_break(node->world, node->host, "a donor's model could not be frozen");
    while (gossip_donor_waiting(node->donor, &id, &answer))
        sim_link_send(node, sim_world_find(node->world, &id), &answer);
}

static void round_done(struct sim_node *node)
{
    node->in_round = false;
    node->rounds_done++;
    sim_check_round_done(node);
    node->train_ns = sim_node_now(node) + node->world->options.round_ns * (node->slow ? 4 : 1);
    freeze(node);
    if (base_rng_below(&node->rng, CHECKPOINT_EACH) == 0)
        sim_disk_save(node);
}

static uint64_t sequence_of(const struct gossip_message *message)
{
    switch (message->kind) {
    case GOSSIP_HELLO:
        return message->as.hello.sequence;
    case GOSSIP_BUSY:
        return message->as.busy.sequence;
    default:
        return message->as.exchange.sequence;
    }
}

static void step(struct sim_node *node, struct gossip_exchange_event *event)
{
    struct gossip_exchange_actions actions;
    bool done = false;

    event->now_ns = sim_node_now(node);
    enum base_error error = gossip_exchange_step(node->exchange, event, &actions);
    for (size_t i = 0; i < actions.count; i++) {
        if (actions.list[i].kind == GOSSIP_EXCHANGE_ROUND_DONE) {
            done = true;
            continue;
        }
        size_t peer = sim_world_find(node->world, &actions.list[i].peer);
        sim_world_trace(node->world, node->host, "exchange",
                        gossip_message_kind_name(actions.list[i].message.kind), peer,
                        sequence_of(&actions.list[i].message));
        sim_link_send(node, peer, &actions.list[i].message);
    }
    sim_check_edges(node);
    if (done)
        round_done(node);
    if (error == BASE_OK)
        return;
    size_t peer = sim_world_find(node->world, &event->peer);
    sim_check_refused(node, peer);
    sim_link_close(node, peer, "broke the exchange");
}

static void edge(struct sim_node *node, enum gossip_exchange_event_kind kind, const struct gossip_id *peer)
{
    struct gossip_exchange_event event = {.kind = kind, .peer = *peer};

    step(node, &event);
}

static void make_plan(struct sim_node *node)
{
    size_t count, neighbours[NEIGHBOURS_MOST], n_neighbours = 0;
    const struct gossip_record *view = gossip_membership_view(node->membership, &count);
    struct topology_member *member = sim_must(calloc(count + 1, sizeof *member));

    topology_plan_destroy(node->plan);
    free(node->view);
    node->plan = NULL;
    node->plan_self = SIZE_MAX;
    node->n_view = count;
    node->view = sim_must(calloc(count + 1, sizeof *node->view));
    for (size_t i = 0; i < count; i++) {
        memcpy(member[i].name, view[i].name, sizeof member[i].name);
        memcpy(member[i].id, view[i].id.bytes, sizeof member[i].id);
        member[i].slot = view[i].slot;
        node->view[i] = sim_world_find(node->world, &view[i].id);
        if (node->view[i] == node->self)
            node->plan_self = i;
    }
    BASE_ASSERT(topology_plan_create(&node->world->options.topology, member, count, &node->plan) == BASE_OK);
    free(member);
    if (node->plan_self != SIZE_MAX)
        n_neighbours = topology_plan_neighbours(node->plan, node->plan_self, neighbours, NEIGHBOURS_MOST);
    BASE_ASSERT(n_neighbours <= NEIGHBOURS_MOST);
    for (size_t i = 0; i < node->world->options.nodes; i++)
        node->peer[i].neighbour = false;
    for (size_t i = 0; i < n_neighbours; i++)
        node->peer[node->view[neighbours[i]]].neighbour = true;
    sim_world_trace(node->world, node->host, "view", NULL, count, n_neighbours);
}

static bool is_donor(const struct sim_node *node, size_t peer)
{
    const uint8_t complete = GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING; // held out, or not begun yet
    struct gossip_member_info info;

    return peer != node->self && sim_member_info(node, peer, &info) && info.state == GOSSIP_MEMBER_ALIVE &&
           (info.record->flags & complete);
}

// Links to some who could give: the lowest identities behind this node's.
static void want_donors(struct sim_node *node)
{
    size_t nodes = node->world->options.nodes;

    for (size_t i = 1, wanted = 0; node->phase == SIM_FETCHING && i < nodes && wanted < 3; i++) {
        size_t peer = (node->self + i) % nodes;
        if (is_donor(node, peer)) {
            node->peer[peer].wanted = true;
            wanted++;
        }
    }
}

static void tell_donors(struct sim_node *node)
{
    for (size_t i = 0; node->joiner && i < node->world->options.nodes; i++) {
        bool donates = node->peer[i].link && is_donor(node, i);
        if (donates && !node->donates[i])
            gossip_joiner_donor_up(node->joiner, sim_member_id(node, i), sim_node_now(node));
        else if (!donates && node->donates[i])
            gossip_joiner_donor_down(node->joiner, sim_member_id(node, i), sim_node_now(node));
        node->donates[i] = donates;
    }
}

static void claim_slot(struct sim_node *node)
{
    struct gossip_member_info info;

    if (node->world->options.topology.kind != TOPOLOGY_BUTTERFLY || node->plan_self == SIZE_MAX ||
        !node->plan)
        return;
    uint32_t slot = topology_plan_slot(node->plan, node->plan_self);
    if (sim_member_info(node, node->self, &info) && info.record->slot != slot)
        gossip_membership_slot(node->membership, slot);
}

void sim_train_follow(struct sim_node *node)
{
    make_plan(node);
    claim_slot(node);
    for (size_t i = 0; i < node->world->options.nodes; i++) {
        struct sim_peer *at = &node->peer[i];
        bool missing = at->neighbour && !at->link;
        at->wanted = at->neighbour;
        if (missing && !at->calling)
            node->tick_ns = sim_node_now(node);
        bool up = at->neighbour && at->link && node->exchange;
        if (up == at->edge_up || !node->exchange)
            continue;
        at->edge_up = up;
        edge(node, up ? GOSSIP_EXCHANGE_LINK_UP : GOSSIP_EXCHANGE_LINK_DOWN, sim_member_id(node, i));
    }
    want_donors(node);
    tell_donors(node);
    node->graph_changed = true;
}

static void tell(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = *sim_member_id(node, peer), .message = message};

    if (!node->exchange)
        return;
    sim_world_trace(node->world, node->host, "got", gossip_message_kind_name(message->kind), peer,
                    sequence_of(message));
    step(node, &event);
}

static void ask(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    struct gossip_message answer;
    bool answered = false;

    if (!node->exchange || gossip_donor_ask(node->donor, sim_member_id(node, peer), &message->as.ask,
                                            sim_node_now(node), &answer, &answered) != BASE_OK)
        return;
    if (answered)
        sim_link_send(node, peer, &answer);
    if (!node->in_round)
        freeze(node);
}

static void fetch(struct sim_node *node)
{
    struct gossip_message message;
    struct gossip_id id;
    uint64_t round, local_step;

    while (node->joiner && gossip_joiner_next(node->joiner, sim_node_now(node), &id, &message))
        sim_link_send(node, sim_world_find(node->world, &id), &message);
    if (!node->joiner || !gossip_joiner_complete(node->joiner, &round, &local_step))
        return;
    stop_joiner(node);
    node->round = round;
    node->phase = SIM_READY;
    node->world->counts.fetches++;
    sim_world_trace(node->world, node->host, "fetched", NULL, round, 0);
}

void sim_train_message(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    if (message->kind == GOSSIP_SNAPSHOT_ASK) {
        ask(node, peer, message);
    } else if (message->kind == GOSSIP_SNAPSHOT_TELL) {
        if (node->joiner && gossip_joiner_tell(node->joiner, sim_member_id(node, peer), &message->as.tell,
                                               sim_node_now(node)) != BASE_OK)
            sim_check_refused(node, peer);
        fetch(node);
    } else {
        tell(node, peer, message);
    }
}

static void begin_fetch(struct sim_node *node)
{
    struct gossip_joiner_options options = {.parameters = SIM_PARAMETERS,
                                            .into = &node->into,
                                            .patience_ns = PATIENCE_NS,
                                            .seed = base_rng_u64(&node->rng)};

    node->into = (struct gossip_snapshot_vectors){.part = {node->x}};
    node->donates = sim_must(calloc(node->world->options.nodes, sizeof *node->donates));
    BASE_ASSERT(gossip_joiner_create(&options, &node->joiner) == BASE_OK);
    node->phase = SIM_FETCHING;
    node->links_changed = true;
}

// Others: how many are here; training: somebody has begun.
static size_t look_around(const struct sim_node *node, bool *training)
{
    size_t count = gossip_membership_count(node->membership), here = 0;

    *training = false;
    for (size_t i = 1; i < count; i++) {
        struct gossip_member_info info;
        gossip_membership_info(node->membership, i, &info);
        if (info.state == GOSSIP_MEMBER_DEAD || info.state == GOSSIP_MEMBER_LEFT)
            continue;
        here++;
        *training |= (info.record->flags & GOSSIP_RECORD_TRAINING) != 0;
    }
    return here;
}

static bool may_begin(const struct sim_node *node)
{
    bool training;

    look_around(node, &training);
    if (training || sim_node_now(node) - node->started_ns > START_TIMEOUT_NS)
        return true; // it goes on already, or nobody comes
    if (node->n_view < node->world->options.start_members || node->plan_self == SIZE_MAX)
        return false;
    for (size_t i = 0; i < node->world->options.nodes; i++)
        if (node->peer[i].neighbour && !node->peer[i].link)
            return false;
    return true;
}

static void next_phase(struct sim_node *node)
{
    uint64_t age_ns = sim_node_now(node) - node->started_ns;
    bool learns = node->world->options.learns, training;
    size_t here = look_around(node, &training);

    if (node->phase == SIM_JOINING && (here || node->resumed || age_ns > ALONE_NS)) {
        if (learns && training && !node->resumed)
            begin_fetch(node);
        else
            node->phase = SIM_READY;
    }
    if (node->phase == SIM_FETCHING) {
        node->links_changed = true; // who can give may have changed
        fetch(node);
    }
    if (node->phase != SIM_READY)
        return;
    if (!node->exchange) {
        gossip_membership_flags(node->membership, GOSSIP_RECORD_ELIGIBLE, 0);
        if (learns)
            publish(node);
        else
            node->phase = SIM_TRAINING;
    }
    if (learns && may_begin(node)) {
        gossip_membership_flags(node->membership, GOSSIP_RECORD_TRAINING, 0);
        node->phase = SIM_TRAINING;
        node->train_ns = sim_node_now(node);
    }
}

// Whose edges are no longer needed is known at a boundary only.
static void forget_edges(struct sim_node *node)
{
    uint64_t now_ns = sim_node_now(node), forget_ns = node->world->options.forget_ns;

    for (size_t i = gossip_exchange_edges(node->exchange); i-- > 0;) {
        struct gossip_edge_info info;
        struct gossip_member_info member;
        gossip_exchange_edge_info(node->exchange, i, &info);
        size_t peer = sim_world_find(node->world, &info.peer);
        const struct sim_peer *at = &node->peer[peer];
        bool in_view = false, known = sim_member_info(node, peer, &member);
        for (size_t k = 0; k < node->n_view; k++)
            in_view |= node->view[k] == peer;
        bool stranger = in_view && !at->neighbour && node->graph_changed && node->plan_self != SIZE_MAX;
        bool dead = known && at->dead_ns && now_ns - at->dead_ns > forget_ns;
        bool absent = !known && now_ns - node->started_ns > forget_ns;
        if (!stranger && !dead && !absent)
            continue;
        sim_world_trace(node->world, node->host, "forget", dead ? "dead" : "stranger", peer, 0);
        node->world->may_lose = true;
        edge(node, GOSSIP_EXCHANGE_FORGET, &info.peer);
    }
    node->graph_changed = false;
}

static void begin_round(struct sim_node *node)
{
    struct sim_world *world = node->world;
    const struct sim_options *options = &world->options;
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND};

    forget_edges(node);
    memcpy(node->before, node->x, sizeof node->x);
    for (unsigned i = 0; world->training && i < options->local_steps; i++)
        sim_model_step(&world->model, node->self, &node->rng, world->rate, node->correction, node->x);
    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        world->given[j] += (double)node->x[j] - (double)node->before[j];
    node->round++;
    size_t partner = node->plan && node->plan_self != SIZE_MAX
                         ? topology_plan_partner(node->plan, node->plan_self, node->round)
                         : TOPOLOGY_NOBODY;
    event.round.round = node->round;
    event.round.meets = partner != TOPOLOGY_NOBODY;
    if (event.round.meets)
        event.round.partner = *sim_member_id(node, node->view[partner]);
    event.round.step_scale = world->rate * (float)options->local_steps;
    event.round.model = node->x;
    event.round.correction = node->correction;
    node->in_round = true;
    node->train_ns = sim_node_now(node);
    step(node, &event);
}

void sim_train_tick(struct sim_node *node, uint64_t now_ns)
{
    if (node->phase != SIM_TRAINING && now_ns >= node->phase_ns) {
        node->phase_ns = now_ns + PHASE_NS;
        if (!node->leaving)
            next_phase(node);
    }
    if (!node->exchange)
        return;
    if (now_ns >= gossip_exchange_deadline(node->exchange)) {
        struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_TIMER};
        step(node, &event);
        sim_check_deadline(node, gossip_exchange_deadline(node->exchange),
                           "a timer of the exchange does not pass");
    }
    if (node->phase != SIM_TRAINING || node->in_round || now_ns < node->train_ns)
        return;
    if (node->world->resting)
        node->train_ns = now_ns + PHASE_NS;
    else
        begin_round(node);
}

uint64_t sim_train_deadline(const struct sim_node *node)
{
    uint64_t deadline_ns = node->phase == SIM_TRAINING ? UINT64_MAX : node->phase_ns;

    if (node->exchange && gossip_exchange_deadline(node->exchange) < deadline_ns)
        deadline_ns = gossip_exchange_deadline(node->exchange);
    if (node->exchange && node->phase == SIM_TRAINING && !node->in_round && node->train_ns < deadline_ns)
        deadline_ns = node->train_ns;
    return deadline_ns;
}
