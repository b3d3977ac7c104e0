#include "gossip/exchange/state.h"

#include <stdlib.h>
#include <string.h>

#define LATE_TIMES 4u // the usual time of an answer: then the question is asked again

struct gossip_edge *gossip_edge_find(const struct gossip_exchange *exchange, const struct gossip_id *peer)
{
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (gossip_id_compare(&exchange->edges[i]->peer, peer) == 0)
            return exchange->edges[i];
    return NULL;
}

void gossip_edge_free(const struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    if (!edge)
        return;
    gossip_vector_free(exchange->options.kernels, &edge->reference);
    gossip_vector_free(exchange->options.kernels, &edge->correction);
    free(edge->stored);
    gossip_packet_free(&edge->request);
    gossip_packet_free(&edge->answer);
    gossip_packet_free(&edge->deferred);
    compress_history_forget(&edge->sent);
    compress_history_forget(&edge->received);
    free(edge);
}

// The seed model in ordinary memory: the owner's, or made at `room`.
static const float *seed_model(const struct gossip_exchange_options *options, float *room)
{
    if (options->start)
        return options->start;
    options->make_start(options->start_owner, room);
    return room;
}

// A generated model needs temporary memory if `start` is in a device's memory or in bf16.
bool gossip_edge_start(const struct gossip_exchange *exchange, struct gossip_vector *start)
{
    const struct gossip_exchange_options *options = &exchange->options;
    const bool in_place = start->fp32 && options->kernels->shares_host;

    if (in_place && !options->start) {
        options->make_start(options->start_owner, start->fp32);
        return true;
    }
    float *room = options->start ? NULL : malloc(options->parameters * sizeof *room);
    if (!room && !options->start)
        return false;
    gossip_vector_round(options->kernels, start, seed_model(options, room), options->parameters);
    free(room);
    return true;
}

// In the order of their ids, so that sums over edges have the same bits in whatever order the edges came.
static void insert(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    size_t at = exchange->n_edges++;

    for (; at > 0 && gossip_id_compare(&exchange->edges[at - 1]->peer, &edge->peer) > 0; at--)
        exchange->edges[at] = exchange->edges[at - 1];
    BASE_ASSERT(at == 0 || gossip_id_compare(&exchange->edges[at - 1]->peer, &edge->peer) < 0);
    exchange->edges[at] = edge;
}

static bool make(const struct gossip_exchange *exchange, struct gossip_vector *vector)
{
    const struct gossip_exchange_options *options = &exchange->options;

    BASE_ASSERT(!gossip_vector_is(vector));
    return gossip_vector_make(options->kernels, options->parameters, options->reference_bf16, vector);
}

bool gossip_edge_reads(struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (gossip_vector_is(&edge->reference) || gossip_vector_is(&exchange->seed))
        return true;
    BASE_ASSERT(edge->sequence == 0 && edge->resync_offset == exchange->options.parameters);
    if (make(exchange, &exchange->seed) && gossip_edge_start(exchange, &exchange->seed))
        return true;
    gossip_vector_free(exchange->options.kernels, &exchange->seed);
    return false;
}

enum base_error gossip_edge_own(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    const bool covers = edge->resync_offset == exchange->options.parameters;

    BASE_ASSERT(gossip_vector_is(&edge->reference) || edge->sequence == 0);
    if (covers && exchange->options.drift_correction && !gossip_vector_is(&edge->correction) &&
        !make(exchange, &edge->correction))
        return BASE_ENOMEM;
    if (gossip_vector_is(&edge->reference))
        return BASE_OK;
    if (!covers) // zero: a RESYNC begins
        return make(exchange, &edge->reference) ? BASE_OK : BASE_ENOMEM;
    if (!gossip_edge_reads(exchange, edge))
        return BASE_ENOMEM;
    edge->reference = exchange->seed;
    exchange->seed = (struct gossip_vector){0};
    return BASE_OK;
}

void gossip_edge_rests(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    struct gossip_packet *const packets[] = {&edge->request, &edge->answer, &edge->deferred};

    for (size_t i = 0; i < sizeof packets / sizeof packets[0]; i++) {
        if (packets[i]->held)
            continue;
        if (exchange->chosen_of == packets[i])
            exchange->chosen_of = NULL;
        gossip_pending_inherit(&exchange->pending, packets[i]);
        gossip_packet_free(packets[i]);
    }
    if (!gossip_vector_is(&edge->reference))
        gossip_vector_free(exchange->options.kernels, &exchange->seed);
}

enum base_error gossip_edge_add(struct gossip_exchange *exchange, const struct gossip_id *peer,
                                struct gossip_edge **edge)
{
    BASE_ASSERT(!gossip_edge_find(exchange, peer));
    size_t count = exchange->options.parameters;
    struct gossip_edge *fresh = calloc(1, sizeof *fresh);

    if (!fresh)
        goto out;
    fresh->peer = *peer;
    fresh->resync_offset = count; // both ends may begin at the same seed model: the first HELLO shows it
    fresh->progress = exchange->progress;
    fresh->reference_hash = exchange->start_hash;
    struct gossip_edge **edges = realloc(exchange->edges, (exchange->n_edges + 1) * sizeof *edges);
    if (!edges)
        goto out;
    exchange->edges = edges;
    fresh->pace.peer = *peer;
    if (!gossip_pace_add(&exchange->pace, &fresh->pace))
        goto out;
    insert(exchange, fresh);
    gossip_trust_recall(exchange, fresh);
    *edge = fresh;
    return BASE_OK;
out:
    gossip_edge_free(exchange, fresh);
    return BASE_ENOMEM;
}

void gossip_edge_remove(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    BASE_ASSERT(gossip_edge_find(exchange, &edge->peer) == edge);
    gossip_trust_remember(exchange, edge);
    gossip_edge_drop_correction(exchange, edge);
    gossip_edge_drop_request(edge);
    gossip_hold_lose(exchange, edge);
    exchange->chosen_of = NULL; // it may be one of this edge's
    gossip_pending_inherit(&exchange->pending, &edge->request);
    gossip_pending_inherit(&exchange->pending, &edge->answer);
    gossip_pace_remove(&exchange->pace, &edge->pace);
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (exchange->edges[i] == edge) {
            exchange->n_edges--;
            memmove(&exchange->edges[i], &exchange->edges[i + 1],
                    (exchange->n_edges - i) * sizeof *exchange->edges);
            break;
        }
    gossip_edge_rests(exchange, edge);
    gossip_edge_free(exchange, edge);
}

void gossip_edge_drop_correction(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    if (!gossip_vector_is(&edge->correction))
        return;
    BASE_ASSERT(exchange->options.drift_correction);
    gossip_vector_free(exchange->options.kernels, &edge->correction);
    gossip_sum_again(exchange);
}

void gossip_edge_drop_request(struct gossip_edge *edge)
{
    edge->request.held = false;
    gossip_pace_dropped(&edge->pace);
}

bool gossip_edge_leads(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return gossip_id_compare(&exchange->options.self, &edge->peer) < 0;
}

bool gossip_edge_apart(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return exchange->scaling != 0 && edge->peer_scaling != 0 && edge->peer_scaling != exchange->scaling;
}

static enum gossip_pace_tie tie_of(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    static const enum gossip_pace_tie ties[] = {
        [GOSSIP_EDGE_DOWN] = GOSSIP_PACE_APART,     [GOSSIP_EDGE_BARRED] = GOSSIP_PACE_APART,
        [GOSSIP_EDGE_HELLO] = GOSSIP_PACE_BEGINS,   [GOSSIP_EDGE_LIVE] = GOSSIP_PACE_LIVE,
        [GOSSIP_EDGE_RESYNC] = GOSSIP_PACE_RESYNCS, [GOSSIP_EDGE_IN_DOUBT] = GOSSIP_PACE_BEGINS,
    };
    const bool covers = edge->resync_offset == exchange->options.parameters;

    return gossip_edge_asks(edge) && !covers ? GOSSIP_PACE_RESYNCS : ties[edge->state];
}

void gossip_edge_enter(struct gossip_exchange *exchange, struct gossip_edge *edge,
                       enum gossip_edge_state state)
{
    BASE_ASSERT(state <= GOSSIP_EDGE_IN_DOUBT);
    edge->state = state;
    gossip_pace_tie(&exchange->pace, &edge->pace, tie_of(exchange, edge));
}

void gossip_edge_resume(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    BASE_ASSERT(edge->state != GOSSIP_EDGE_DOWN && edge->resync_offset <= exchange->options.parameters);
    const bool covers = edge->resync_offset == exchange->options.parameters;

    gossip_edge_enter(exchange, edge, covers ? GOSSIP_EDGE_LIVE : GOSSIP_EDGE_RESYNC);
    if (!covers && !edge->request.held)
        edge->alarm_ns = 0; // the next block goes at once
}

bool gossip_edge_asks(const struct gossip_edge *edge)
{
    return edge->state == GOSSIP_EDGE_HELLO || edge->state == GOSSIP_EDGE_IN_DOUBT;
}

uint64_t gossip_edge_patience(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const uint64_t usual_ns = LATE_TIMES * gossip_answers_median(&edge->pace.answers),
                   floor_ns = exchange->options.deadline_floor_ns,
                   ceiling_ns = exchange->options.deadline_ceiling_ns;

    if (usual_ns == 0 || usual_ns > ceiling_ns)
        return ceiling_ns;
    return usual_ns > floor_ns ? usual_ns : floor_ns;
}

void gossip_edge_send(struct gossip_exchange_actions *actions, const struct gossip_edge *edge,
                      const struct gossip_message *message)
{
    BASE_ASSERT(actions->count < GOSSIP_EXCHANGE_ACTIONS);
    actions->list[actions->count++] = (struct gossip_exchange_action){
        .kind = GOSSIP_EXCHANGE_SEND, .peer = edge->peer, .message = *message};
}

void gossip_edge_down(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    const bool lost = edge->pace.tie >= GOSSIP_PACE_BEGINS;
    edge->deferred.held = false;
    gossip_edge_enter(exchange, edge, GOSSIP_EDGE_DOWN);
    if (lost)
        gossip_pace_tie(&exchange->pace, &edge->pace, GOSSIP_PACE_LOST);
}

static enum gossip_refusal refusal_of(enum base_error error)
{
    if (error == BASE_ELIMIT)
        return GOSSIP_REFUSAL_IMPLAUSIBLE;
    return error == BASE_EMISMATCH ? GOSSIP_REFUSAL_SCALING : GOSSIP_REFUSAL_BROKEN;
}

enum base_error gossip_edge_settle(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                   enum base_error error, struct gossip_exchange_actions *actions)
{
    if (!error || error == BASE_ENOMEM)
        return error;
    BASE_ASSERT(error == BASE_EFORMAT || error == BASE_ELIMIT || error == BASE_EMISMATCH);
    BASE_ASSERT(actions->count < GOSSIP_EXCHANGE_ACTIONS);
    if (error == BASE_EFORMAT)
        gossip_edge_down(exchange, edge);
    BASE_ASSERT(edge->state <= GOSSIP_EDGE_BARRED);
    actions->list[actions->count++] = (struct gossip_exchange_action){
        .kind = GOSSIP_EXCHANGE_REFUSE, .peer = edge->peer, .why = refusal_of(error)};
    return BASE_OK;
}

const char *gossip_edge_state_name(enum gossip_edge_state state)
{
    static const char *const names[] = {"down", "barred", "hello", "live", "resync", "in_doubt"};

    return names[state];
}

static bool is_worth_less(const struct gossip_edge *a, const struct gossip_edge *b)
{
    return a->sequence != b->sequence ? a->sequence < b->sequence : a->pace.met < b->pace.met;
}

bool gossip_exchange_surplus(const struct gossip_exchange *exchange, struct gossip_id *peer)
{
    const struct gossip_edge *least = NULL;
    size_t count = 0;

    for (size_t i = 0; i < exchange->n_edges; i++) {
        const struct gossip_edge *edge = exchange->edges[i];
        if (edge->state != GOSSIP_EDGE_DOWN || !gossip_vector_is(&edge->reference))
            continue;
        count++;
        least = !least || is_worth_less(edge, least) ? edge : least;
    }
    if (count <= GOSSIP_EDGES_DOWN)
        return false;
    *peer = least->peer;
    return true;
}

// Does this edge count among those that exchange? It does between two turns of all edges, even if its link
// has just broken or its process has just started, so that the weight of an exchange does not depend on that.
bool gossip_edge_is_met(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (edge->state == GOSSIP_EDGE_LIVE)
        return true;
    return edge->resync_offset == exchange->options.parameters && edge->sequence > 0 &&
           exchange->pace.rounds - edge->pace.met <= 2 * (uint64_t)exchange->n_edges;
}

size_t gossip_edges_met(const struct gossip_exchange *exchange)
{
    size_t met = 0;

    for (size_t i = 0; i < exchange->n_edges; i++)
        met += gossip_edge_is_met(exchange, exchange->edges[i]);
    return met ? met : 1;
}
