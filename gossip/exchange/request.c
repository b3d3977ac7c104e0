// Requests and answers. Whom to ask and whom to answer now is decided by gossip/pace.
#include "gossip/exchange/state.h"

#define BLOCK_AGAIN_NS 100000000u // after a refused block of a RESYNC
#define SIGNS          4u         // of life that a neighbour gets, in the longest time that it waits for one

void gossip_request_decline(const struct gossip_id *peer, uint64_t epoch, uint64_t sequence,
                            struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(actions->count < GOSSIP_EXCHANGE_ACTIONS);
    actions->list[actions->count++] = (struct gossip_exchange_action){
        .kind = GOSSIP_EXCHANGE_SEND,
        .peer = *peer,
        .message = {.kind = GOSSIP_BUSY, .as.busy = {.epoch = epoch, .sequence = sequence}}};
}

// All packets of one step have the same round.
static void add_news(struct gossip_exchange *exchange, struct gossip_message *message)
{
    struct gossip_exchange_message *packet = &message->as.exchange;

    _Static_assert(GOSSIP_MESSAGE_NEWS == GOSSIP_NEWS_BYTES, "as many bytes as the message has room for");
    BASE_ASSERT(packet->clock == exchange->pace.round);
    packet->news = exchange->news_bytes;
    packet->news_bytes =
        (uint32_t)gossip_news_write(&exchange->pace.news, packet->clock, exchange->news_bytes);
}

enum base_error gossip_request_ask(struct gossip_exchange *exchange, struct gossip_edge *edge, float weight,
                                   struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(edge->state == GOSSIP_EDGE_LIVE && !edge->request.held);
    enum base_error error = gossip_averaging_prepare(exchange, edge, GOSSIP_DELTA_SPARSE, 0,
                                                     exchange->pace.round, &edge->request);

    if (error) {
        exchange->totals.not_finite += error == BASE_ESTATE;
        gossip_pace_skip(&exchange->pace);
        return error == BASE_ESTATE ? BASE_OK : error;
    }
    edge->request.weight = gossip_pace_weight(&exchange->pace, &edge->pace, weight);
    gossip_pace_asked(&exchange->pace, &edge->pace, edge->request.weight);
    gossip_journal_request(exchange, edge);
    struct gossip_message message = gossip_packet_message(&edge->request, GOSSIP_XCHG);
    add_news(exchange, &message);
    gossip_sparse_shorten(edge, &edge->request, &message);
    gossip_edge_send(actions, edge, &message);
    return BASE_OK;
}

// The next block of a RESYNC. It belongs to no round: the other end always answers at once, so it waits for
// nothing, delays nothing, and is sent once.
static enum base_error start_block(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                   struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(edge->state == GOSSIP_EDGE_RESYNC && !edge->request.held);
    size_t count = gossip_block_elements(&edge->blocks);
    enum base_error error = gossip_averaging_prepare(exchange, edge, GOSSIP_DELTA_BLOCK, count,
                                                     exchange->pace.round, &edge->request);

    edge->alarm_ns = exchange->now_ns + exchange->options.deadline_floor_ns; // if our model is not finite
    if (error == BASE_ESTATE)
        exchange->totals.not_finite++;
    if (error)
        return error == BASE_ESTATE ? BASE_OK : error;
    edge->request.weight = 0.5f;
    edge->sent_ns = exchange->now_ns;
    edge->alarm_ns = exchange->now_ns + gossip_block_patience(&edge->blocks, edge->request.delta_bytes,
                                                              exchange->options.deadline_ceiling_ns);
    gossip_journal_request(exchange, edge);
    struct gossip_message message = gossip_packet_message(&edge->request, GOSSIP_XCHG);
    gossip_edge_send(actions, edge, &message);
    return BASE_OK;
}

enum base_error gossip_request_blocks(struct gossip_exchange *exchange,
                                      struct gossip_exchange_actions *actions)
{
    enum base_error error = BASE_OK;

    for (size_t i = 0; i < exchange->n_edges && !error; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (edge->state == GOSSIP_EDGE_RESYNC && gossip_edge_leads(exchange, edge) && !edge->request.held &&
            exchange->now_ns >= edge->alarm_ns && actions->count < GOSSIP_EXCHANGE_ACTIONS / 2)
            error = start_block(exchange, edge, actions);
    }
    return error;
}

static bool same_transaction(const struct gossip_edge *edge, uint64_t epoch, uint64_t sequence)
{
    return edge->epoch == epoch && edge->sequence == sequence;
}

static enum base_error answer_request(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                      const struct gossip_exchange_message *request,
                                      struct gossip_exchange_actions *actions)
{
    struct gossip_exchange_message asked = *request;
    const struct gossip_exchange_message *const theirs = &asked;
    enum gossip_delta_form form = (enum gossip_delta_form)theirs->form;
    bool resyncing = edge->resync_offset < exchange->options.parameters;

    BASE_ASSERT(edge->state != GOSSIP_EDGE_DOWN && !edge->request.held);
    if (resyncing != (form == GOSSIP_DELTA_BLOCK))
        return BASE_EFORMAT;
    size_t count = theirs->delta_bytes / sizeof(float);
    if (resyncing && count == 0)
        return BASE_EFORMAT;
    enum base_error error =
        gossip_averaging_prepare(exchange, edge, form, count, theirs->clock, &edge->answer);
    if (error == BASE_ESTATE) {
        exchange->totals.not_finite++;
        gossip_request_decline(&edge->peer, theirs->epoch, theirs->sequence, actions);
        return BASE_OK;
    }
    if (form == GOSSIP_DELTA_SPARSE)
        asked.weight = gossip_pace_weight(&exchange->pace, &edge->pace, asked.weight);
    edge->answer.weight = asked.weight;
    struct gossip_message message = gossip_packet_message(&edge->answer, GOSSIP_XACK);
    if (!error) {
        add_news(exchange, &message);
        gossip_sparse_shorten(edge, &edge->answer, &message);
        error = gossip_averaging_commit(exchange, edge, &edge->answer, theirs, theirs->clock);
    }
    if (error)
        edge->answer.held = false;
    if (error == BASE_ENOTFOUND) {
        // Over indices that we do not remember. Our HELLO makes the peer forget them and withdraw the
        // request, which then comes again with its indices.
        gossip_hello_tell(exchange, edge, actions);
        gossip_request_decline(&edge->peer, theirs->epoch, theirs->sequence, actions);
        return BASE_OK;
    }
    if (error)
        return error;
    gossip_edge_resume(exchange, edge);
    if (form == GOSSIP_DELTA_SPARSE) {
        gossip_pace_answered(&exchange->pace, asked.weight);
        gossip_pace_met(&exchange->pace, &edge->pace, theirs->clock);
    }
    gossip_edge_send(actions, edge, &message);
    if (edge->sequence == 1) // one end may have forgotten the edge and started from zero: compare again
        gossip_hello_tell(exchange, edge, actions);
    return BASE_OK;
}

// Their packet completes the exchange that our request has opened. If nothing is committed, `sequence` stays.
static enum base_error complete(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                const struct gossip_exchange_message *theirs, uint64_t clock,
                                struct gossip_exchange_actions *actions)
{
    const struct gossip_packet *request = &edge->request;
    const bool doubted = edge->state == GOSSIP_EDGE_IN_DOUBT;

    BASE_ASSERT(request->held && edge->state != GOSSIP_EDGE_HELLO);
    enum base_error error = theirs->form == (uint8_t)request->form
                                ? gossip_averaging_commit(exchange, edge, request, theirs, request->clock)
                                : BASE_EFORMAT;
    if (error == BASE_ENOTFOUND) { // over indices that we do not remember: the peer replays it with them
        gossip_edge_enter(exchange, edge, GOSSIP_EDGE_IN_DOUBT);
        gossip_hello_ask(exchange, edge, actions);
        return BASE_OK;
    }
    if (error ==
        BASE_EFORMAT) // otherwise the same answer would break every later link; without it the edge RESYNCs
        gossip_edge_drop_request(edge);
    if (error)
        return error;
    if (!doubted && request->form == GOSSIP_DELTA_BLOCK)
        gossip_block_learn(&edge->blocks, request->delta_bytes, exchange->now_ns - edge->sent_ns);
    if (theirs->form == GOSSIP_DELTA_SPARSE)
        gossip_pace_met(&exchange->pace, &edge->pace, clock);
    gossip_edge_drop_request(edge);
    gossip_edge_resume(exchange, edge);
    edge->alarm_ns = 0;
    if (doubted) // this may answer another request than the one from an old checkpoint: compare again
        gossip_hello_tell(exchange, edge, actions);
    return BASE_OK;
}

// Both ends have asked at once. An exchange is two packets of one number, and either may come first, so each
// request answers the other. Ours is then what a lost answer is replayed from.
static enum base_error complete_crossed(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        const struct gossip_exchange_message *theirs,
                                        struct gossip_exchange_actions *actions)
{
    const uint64_t sequence = edge->sequence;
    struct gossip_packet *request = &edge->request;
    struct gossip_exchange_message answer = *theirs;

    BASE_ASSERT(request->held && edge->state != GOSSIP_EDGE_DOWN);
    answer.weight = request->weight = gossip_edge_leads(exchange, edge) ? request->weight : theirs->weight;
    if (theirs->clock != request->clock) { // the two ends have chosen different slices
        answer.moment_bytes = 0;
        request->moment_bytes = 0;
    }
    const uint64_t clock = theirs->clock > request->clock ? theirs->clock : request->clock;
    enum base_error error = complete(exchange, edge, &answer, clock, actions);
    if (error || edge->sequence == sequence)
        return error;
    edge->crossings++;
    gossip_pending_move(&exchange->pending, request, &edge->answer);
    edge->answer.held = true;
    exchange->chosen_of = NULL;
    if (edge->sequence == 1) // as in answer_request
        gossip_hello_tell(exchange, edge, actions);
    return BASE_OK;
}

// Where a word takes a good part of the ceiling, the one that waits hears at once that this node has its
// request: its deadline may have passed when a later sign arrives.
static uint64_t before_first_sign(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const uint64_t usual_ns = gossip_answers_median(&edge->pace.answers),
                   rest_ns = exchange->options.deadline_ceiling_ns / SIGNS;

    return usual_ns < rest_ns ? rest_ns : 0;
}

enum base_error gossip_request_take(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                    const struct gossip_exchange_message *theirs,
                                    struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(edge->state > GOSSIP_EDGE_BARRED);
    if (edge->state == GOSSIP_EDGE_HELLO) {
        gossip_request_decline(&edge->peer, theirs->epoch, theirs->sequence, actions);
        return BASE_OK;
    }
    if (!same_transaction(edge, theirs->epoch, theirs->sequence)) {
        // The latest answer is not sent again: it was to another request with this number.
        gossip_request_decline(&edge->peer, theirs->epoch, theirs->sequence, actions);
        gossip_hello_ask(exchange, edge, actions);
        return BASE_OK;
    }
    if (edge->request.held)
        return complete_crossed(exchange, edge, theirs, actions);
    if (edge->state == GOSSIP_EDGE_IN_DOUBT)
        gossip_edge_resume(exchange, edge);
    if (theirs->form == GOSSIP_DELTA_BLOCK ||
        gossip_pace_answers(&exchange->pace, &edge->pace, theirs->clock))
        return answer_request(exchange, edge, theirs, actions);
    edge->tell_ns = exchange->now_ns + before_first_sign(exchange, edge);
    return gossip_packet_keep(&edge->deferred, theirs);
}

bool gossip_request_answerable(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const struct gossip_packet *deferred = &edge->deferred;

    return deferred->held && gossip_pace_answers(&exchange->pace, &edge->pace, deferred->clock);
}

enum base_error gossip_request_deferred(struct gossip_exchange *exchange,
                                        struct gossip_exchange_actions *actions)
{
    for (size_t i = 0; i < exchange->n_edges && actions->count < GOSSIP_EXCHANGE_ACTIONS / 2; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (!gossip_request_answerable(exchange, edge))
            continue;
        BASE_ASSERT(edge->state != GOSSIP_EDGE_DOWN);
        struct gossip_message message = gossip_packet_message(&edge->deferred, GOSSIP_XCHG);
        edge->deferred.held = false;
        enum base_error error = gossip_request_take(exchange, edge, &message.as.exchange, actions);
        error = gossip_edge_settle(exchange, edge, error, actions);
        if (error)
            return error;
    }
    return BASE_OK;
}

static bool is_ours(const struct gossip_edge *edge, uint64_t epoch, uint64_t sequence)
{
    BASE_ASSERT(edge->state > GOSSIP_EDGE_BARRED);
    return edge->request.held && edge->request.epoch == epoch && edge->request.sequence == sequence;
}

enum base_error gossip_request_answered(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        const struct gossip_exchange_message *theirs,
                                        struct gossip_exchange_actions *actions)
{
    const struct gossip_packet *request = &edge->request;

    BASE_ASSERT(edge->state > GOSSIP_EDGE_BARRED);
    if (!is_ours(edge, theirs->epoch, theirs->sequence) || edge->state == GOSSIP_EDGE_HELLO)
        return BASE_OK; // an answer was replayed once too often
    return complete(exchange, edge, theirs, request->clock, actions);
}

void gossip_request_tell(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    for (size_t i = 0; i < exchange->n_edges && actions->count < GOSSIP_EXCHANGE_ACTIONS / 2; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (!edge->deferred.held || exchange->now_ns < edge->tell_ns)
            continue;
        const struct gossip_message message = {
            .kind = GOSSIP_PARKED,
            .as.parked = {edge->deferred.epoch, edge->deferred.sequence, exchange->pace.round}};
        edge->tell_ns = exchange->now_ns + exchange->options.deadline_ceiling_ns / SIGNS;
        gossip_edge_send(actions, edge, &message);
    }
}

void gossip_request_parked(struct gossip_exchange *exchange, struct gossip_edge *edge,
                           const struct gossip_parked *theirs)
{
    gossip_pace_hear(&exchange->pace, &edge->pace, theirs->round);
    if (is_ours(edge, theirs->epoch, theirs->sequence) && edge->state == GOSSIP_EDGE_LIVE)
        gossip_pace_parked(&exchange->pace, &edge->pace);
}

void gossip_request_refused(struct gossip_exchange *exchange, struct gossip_edge *edge,
                            const struct gossip_busy *theirs)
{
    if (!is_ours(edge, theirs->epoch, theirs->sequence))
        return;
    gossip_edge_drop_request(edge);
    edge->busy++;
    if (edge->state == GOSSIP_EDGE_IN_DOUBT)
        gossip_edge_resume(exchange, edge);
    edge->alarm_ns = exchange->now_ns + BLOCK_AGAIN_NS;
    gossip_pace_refused(&exchange->pace, &edge->pace);
}
