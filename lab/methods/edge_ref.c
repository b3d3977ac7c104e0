// The exchange of p2pml-node (gossip/exchange), synchronous, with the meetings of the schedule delivered in
// memory. The two nodes of a meeting are one job; other messages are delivered after them.
#include "lab/methods/engine.h"

#include "gossip/exchange/exchange.h"
#include "gossip/session/records.h"
#include "gossip/wire/message.h"
#include "node/setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct posted {
    struct posted *next;
    size_t from, to, count;
    uint64_t at_ns; // arrival time; unknown while it waits for its place on the wire
    uint8_t bytes[];
};
struct post {
    struct posted *first, **last;
};

struct node_state {
    struct gossip_exchange *exchange;
    bool in_round;
    struct post sent; // of the meeting in which this node is the lower one: delivered, but not yet counted on
                      // the wire
    struct post outside; // to nodes other than its partner
};
struct state {
    struct node_state *node; // [n]
};

static struct gossip_id id_of(size_t node)
{
    struct gossip_id id = {{0}};
    for (size_t byte = 0; byte < 8; byte++)
        id.bytes[byte] = (uint8_t)((uint64_t)node >> (56 - 8 * byte));
    return id;
}

static size_t node_of(const struct gossip_id *id)
{
    uint64_t node = 0;
    for (size_t byte = 0; byte < 8; byte++)
        node = node << 8 | id->bytes[byte];
    return (size_t)node;
}

static void put(struct post *post, struct posted *posted)
{
    posted->next = NULL;
    if (!post->first)
        post->last = &post->first;
    *post->last = posted;
    post->last = &posted->next;
}

static struct posted *take(struct post *post)
{
    struct posted *posted = post->first;
    if (posted)
        post->first = posted->next;
    return posted;
}

// A message in one piece, as on the wire but not sealed.
static struct posted *write_posted(size_t from, const struct gossip_exchange_action *action)
{
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS];
    size_t header_bytes = 0, count, n_payloads = gossip_message_payloads(&action->message, payloads);
    if (gossip_message_encode_header(&action->message, header, sizeof header, &header_bytes))
        return NULL;
    count = header_bytes;
    for (size_t i = 0; i < n_payloads; i++)
        count += payloads[i].count;
    struct posted *posted = malloc(sizeof *posted + count);
    if (!posted)
        return NULL;
    *posted = (struct posted){.from = from, .to = node_of(&action->peer), .count = count};
    memcpy(posted->bytes, header, header_bytes);
    count = header_bytes;
    for (size_t i = 0; i < n_payloads; i++) {
        memcpy(posted->bytes + count, payloads[i].bytes, payloads[i].count);
        count += payloads[i].count;
    }
    return posted;
}

// Hands a node an event; its messages go to `post`.
static enum base_error step(struct rounds_world *world, size_t node, struct gossip_exchange_event *event,
                            struct post *post)
{
    struct gossip_exchange_actions actions;
    struct node_state *own = &((struct state *)world->state)->node[node];
    enum base_error error = gossip_exchange_step(own->exchange, event, &actions);
    for (size_t i = 0; i < actions.count; i++) {
        if (actions.list[i].kind == GOSSIP_EXCHANGE_ROUND_DONE) {
            own->in_round = false;
            continue;
        }
        if (actions.list[i].kind == GOSSIP_EXCHANGE_REFUSE)
            return BASE_ELIMIT; // nobody lies here: the training has diverged
        struct posted *posted = write_posted(node, &actions.list[i]);
        if (!posted)
            return BASE_ENOMEM;
        posted->at_ns = event->now_ns;
        put(post, posted);
    }
    return error;
}

static enum base_error read_posted(struct rounds_world *world, const struct posted *posted, uint64_t now_ns,
                                   struct post *post)
{
    struct gossip_message message;
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .now_ns = now_ns, .peer = id_of(posted->from), .message = &message};
    if (gossip_message_decode(posted->bytes, posted->count, &message))
        return BASE_EFORMAT;
    return step(world, posted->to, &event, post);
}

static enum base_error begin_round(struct rounds_world *world, size_t node, struct post *post)
{
    struct state *state = world->state;
    struct lab_shard_trainers *shard_trainers = world->options->shard_trainers;
    struct train_trainer *trainer = shard_trainers ? lab_shard_trainer_trainer(shard_trainers, node) : NULL;
    size_t partner = world->graph.partner[node];
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND, .now_ns = world->ready_ns};
    event.round.round = world->round;
    event.round.meets = partner != TOPOLOGY_NOBODY;
    event.round.weight = (float)world->graph.weight[node];
    if (event.round.meets)
        event.round.partner = id_of(partner);
    event.round.step_scale = world->scale[node];
    event.round.model = world->x[node];
    if (trainer && world->config->average.share_second_moment)
        event.round.second_moment = train_trainer_second_moment(trainer);
    if (trainer && world->config->average.drift_correction)
        event.round.correction = train_trainer_correction(trainer);
    if (trainer)
        event.round.held = train_trainer_held(trainer);
    state->node[node].in_round = true;
    return step(world, node, &event, post);
}

// The job of the lower node does the whole meeting.
static enum base_error meet(struct rounds_world *world, size_t node)
{
    struct node_state *own = &((struct state *)world->state)->node[node];
    size_t partner = world->graph.partner[node];
    struct post post = {0};
    if (partner != TOPOLOGY_NOBODY && partner < node)
        return BASE_OK;
    enum base_error error = begin_round(world, node, &post);
    if (!error && partner != TOPOLOGY_NOBODY)
        error = begin_round(world, partner, &post);
    for (struct posted *posted; (posted = take(&post));) {
        bool within = posted->to == node || posted->to == partner;
        if (within && !error)
            error = read_posted(world, posted, world->ready_ns, &post);
        put(within ? &own->sent : &own->outside, posted);
    }
    return error;
}

static uint64_t travel(struct rounds_world *world, const struct posted *posted, uint64_t at_ns)
{
    return rounds_wire_send(world, posted->from, posted->to, gossip_sealed_bytes(posted->count), at_ns);
}

// One message after another, each in answer to the previous one.
static void send_meeting(struct rounds_world *world, struct post *sent)
{
    uint64_t at_ns = world->ready_ns;
    for (struct posted *posted; (posted = take(sent)); free(posted))
        at_ns = travel(world, posted, at_ns);
}

static enum base_error deliver_all(struct rounds_world *world, struct post *post)
{
    enum base_error error = BASE_OK;
    for (struct posted *posted; (posted = take(post)); free(posted))
        if (!error && !world->gone[posted->to])
            error = read_posted(world, posted, travel(world, posted, posted->at_ns), post);
    return error;
}

static bool is_anybody_waiting(const struct rounds_world *world, uint64_t *deadline_ns, size_t *who)
{
    const struct state *state = world->state;
    bool waiting = false;
    *deadline_ns = UINT64_MAX;
    for (size_t i = 0; i < world->n; i++) {
        if (world->gone[i])
            continue;
        waiting = waiting || state->node[i].in_round;
        uint64_t at_ns = gossip_exchange_deadline(state->node[i].exchange);
        if (at_ns < *deadline_ns) {
            *deadline_ns = at_ns;
            *who = i;
        }
    }
    return waiting;
}

// Runs until every round has ended. Deadlines fire only where no message ended a round.
static enum base_error finish_round(struct rounds_world *world, struct post *post)
{
    uint64_t deadline_ns;
    size_t who = 0;
    enum base_error error = deliver_all(world, post);
    while (!error && is_anybody_waiting(world, &deadline_ns, &who)) {
        struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_TIMER, .now_ns = deadline_ns};
        BASE_ASSERT(deadline_ns != UINT64_MAX);
        if (deadline_ns > world->end_ns)
            world->end_ns = deadline_ns;
        error = step(world, who, &event, post);
        if (!error)
            error = deliver_all(world, post);
    }
    return error;
}

static void count(struct rounds_world *world)
{
    const struct state *state = world->state;
    for (size_t i = 0; i < world->n; i++) {
        struct gossip_exchange_totals totals;
        if (world->gone[i])
            continue;
        gossip_exchange_totals(state->node[i].exchange, &totals);
        world->node[i].row.exchanges = totals.exchanges;
        world->node[i].row.delta_bytes = totals.delta_bytes_out;
        world->node[i].row.dense_bytes = totals.dense_bytes_out;
    }
}

static enum base_error mix(struct rounds_world *world, struct base_reason *why)
{
    struct state *state = world->state;
    struct post outside = {0};
    enum base_error error = rounds_each(world, meet);
    for (size_t i = 0; i < world->n; i++) {
        send_meeting(world, &state->node[i].sent);
        for (struct posted *posted; (posted = take(&state->node[i].outside));)
            put(&outside, posted);
    }
    if (!error)
        error = finish_round(world, &outside);
    for (struct posted *posted; (posted = take(&outside));)
        free(posted);
    count(world);
    return error ? base_fail(why, error, "an exchange failed: %s", base_error_name(error)) : BASE_OK;
}

static enum base_error tell(struct rounds_world *world, enum gossip_exchange_event_kind kind, size_t node,
                            size_t peer, struct post *post)
{
    struct gossip_exchange_event event = {
        .kind = kind, .now_ns = world->end_ns, .peer = id_of(peer), .dead = world->gone[peer]};
    return world->gone[node] ? BASE_OK : step(world, node, &event, post);
}

// Opens the edges that `before` lacks, and forgets those that only it has.
static enum base_error join(struct rounds_world *world, const struct rounds_edges *before)
{
    static const enum gossip_exchange_event_kind up[] = {GOSSIP_EXCHANGE_LINK_UP},
                                                 down[] = {GOSSIP_EXCHANGE_LINK_DOWN, GOSSIP_EXCHANGE_FORGET};
    const struct rounds_edges *edges = &world->graph.edges;
    struct post post = {0};
    enum base_error error = BASE_OK;
    for (size_t pass = before ? 0 : 1; pass < 2; pass++) {
        const struct rounds_edges *has = pass ? edges : before, *lacks = pass ? before : edges;
        for (size_t i = 0; i < world->n; i++)
            for (size_t e = has->first[i]; e < has->first[i + 1] && !error; e++) {
                if (lacks && rounds_edges_join(lacks, i, has->peers[e]))
                    continue;
                for (size_t k = 0; k < (pass ? 1 : 2) && !error; k++)
                    error = tell(world, pass ? up[k] : down[k], i, has->peers[e], &post);
            }
    }
    if (!error)
        error = deliver_all(world, &post);
    for (struct posted *posted; (posted = take(&post));)
        free(posted);
    return error;
}

static enum base_error make_exchange(struct rounds_world *world, size_t node,
                                     struct gossip_exchange_options *options, struct base_reason *why)
{
    struct state *state = world->state;
    struct lab_shard_trainers *shard_trainers = world->options->shard_trainers;
    options->self = id_of(node);
    options->kernels = world->kernels;
    options->parameters = world->d;
    options->start = world->start;
    options->model = world->x[node];
    options->sync = true;
    options->bounded = false;
    if (!shard_trainers) {
        options->drift_correction = false;
        options->share_second_moment = 0;
    } else if (!train_trainer_second_moment(lab_shard_trainer_trainer(shard_trainers, node))) {
        options->share_second_moment = 0;
    }
    return gossip_exchange_create(options, &state->node[node].exchange, why);
}

static enum base_error prepare(struct rounds_world *world, struct base_reason *why)
{
    struct gossip_exchange_options options = {0};
    struct state *state = world->state = calloc(1, sizeof *state);
    if (state)
        state->node = calloc(world->n, sizeof *state->node);
    if (!state || !state->node)
        return base_fail(why, BASE_ENOMEM, "no memory for %zu nodes", world->n);
    enum base_error error = node_setup_exchange_options(world->config, &options, why);
    if (options.robust == GOSSIP_ROBUST_PROBE)
        options.robust = GOSSIP_ROBUST_CLIP; // this engine has no learners that compare models
    for (size_t i = 0; i < world->n && !error; i++)
        error = make_exchange(world, i, &options, why);
    if (error)
        return error;
    error = join(world, NULL);
    return error ? base_fail(why, error, "cannot create the edges: %s", base_error_name(error)) : BASE_OK;
}

static enum base_error rewire(struct rounds_world *world, const struct rounds_edges *before,
                              struct base_reason *why)
{
    enum base_error error = join(world, before);
    return error ? base_fail(why, error, "cannot rebuild the edges: %s", base_error_name(error)) : BASE_OK;
}

static void drop(struct rounds_world *world)
{
    struct state *state = world->state;
    for (size_t i = 0; state && state->node && i < world->n; i++)
        gossip_exchange_destroy(state->node[i].exchange);
    if (state)
        free(state->node);
    free(state);
}

const struct rounds_method rounds_edge_ref = {.name = "edge-ref",
                                              .meets = true,
                                              .has_graph = true,
                                              .prepare = prepare,
                                              .mix = mix,
                                              .rewire = rewire,
                                              .drop = drop};
