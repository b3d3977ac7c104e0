// Requests and answers: whether to ask, answer, defer or refuse. At most one exchange of our own that is not
// in doubt is under way at a time.
#include "gossip/exchange/state.h"

#include "base/hash.h"
#include <string.h>

#define PARK_AHEAD                                                                                           \
    16u // rounds that a neighbour in step can be ahead (sync); further ahead it is answered at once
#define RETRY_FIRST_NS 1000000u // after BUSY: 1 ms, doubling
#define RETRY_DOUBLES  6u

static void send_busy(const struct gossip_edge *edge, uint64_t epoch, uint64_t sequence,
                      struct gossip_exchange_actions *actions)
{
    struct gossip_message message = {.kind = GOSSIP_BUSY, .as.busy = {.epoch = epoch, .sequence = sequence}};

    gossip_edge_send(actions, edge, &message);
}

static enum base_error start_request(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                     struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(!exchange->active && edge->state == GOSSIP_EDGE_LIVE);
    enum base_error error =
        gossip_averaging_prepare(exchange, edge, GOSSIP_DELTA_SPARSE, 0, exchange->round.due, &edge->request);

    if (error == BASE_ESTATE)
        exchange->totals.not_finite++;
    if (error)
        return error == BASE_ESTATE ? BASE_OK : error;
    edge->request.clock = exchange->round.due;
    edge->request.weight = exchange->round.weight;
    edge->sent_ns = exchange->now_ns;
    edge->alarm_ns = exchange->now_ns + gossip_edge_patience(exchange, edge);
    exchange->active = edge;
    gossip_journal_request(exchange, edge);
    struct gossip_message message = gossip_packet_message(&edge->request, GOSSIP_XCHG);
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
    enum base_error error =
        gossip_averaging_prepare(exchange, edge, GOSSIP_DELTA_BLOCK, count, exchange->clock, &edge->request);

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

static enum base_error start_blocks(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
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

enum base_error gossip_request_pump(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    struct gossip_edge *asked = exchange->active ? NULL : gossip_partner_asked(exchange);
    enum base_error error = BASE_OK;

    BASE_ASSERT(!exchange->active || exchange->active->request.held);
    if (asked && exchange->now_ns >= exchange->round.retry_ns) {
        error = start_request(exchange, asked, actions);
        if (!error && !exchange->active)
            exchange->round.wanted = false; // our model is not finite: we cannot answer
    }
    return error ? error : start_blocks(exchange, actions);
}

static bool same_transaction(const struct gossip_edge *edge, uint64_t epoch, uint64_t sequence)
{
    return edge->epoch == epoch && edge->sequence == sequence;
}

static enum base_error answer_request(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                      const struct gossip_exchange_message *theirs,
                                      struct gossip_exchange_actions *actions)
{
    enum gossip_delta_form form = (enum gossip_delta_form)theirs->form;
    bool resyncing = edge->resync_offset < exchange->options.parameters;

    BASE_ASSERT(edge->linked && !edge->request.held);
    if (resyncing != (form == GOSSIP_DELTA_BLOCK))
        return BASE_EFORMAT;
    size_t count = theirs->delta_bytes / sizeof(float);
    if (resyncing && count == 0)
        return BASE_EFORMAT;
    enum base_error error =
        gossip_averaging_prepare(exchange, edge, form, count, theirs->clock, &edge->answer);
    if (error == BASE_ESTATE) {
        exchange->totals.not_finite++;
        send_busy(edge, theirs->epoch, theirs->sequence, actions);
        return BASE_OK;
    }
    edge->answer.weight = theirs->weight;
    struct gossip_message message = gossip_packet_message(&edge->answer, GOSSIP_XACK);
    if (!error) {
        gossip_sparse_shorten(edge, &edge->answer, &message);
        error = gossip_averaging_commit(exchange, edge, &edge->answer, theirs, theirs->clock);
    }
    if (error)
        edge->answer.held = false;
    if (error == BASE_ENOTFOUND) {
        // Over indices that we do not remember. Our HELLO makes the peer forget them and withdraw the
        // request, which then comes again with its indices.
        gossip_hello_tell(exchange, edge, actions);
        send_busy(edge, theirs->epoch, theirs->sequence, actions);
        return BASE_OK;
    }
    if (error)
        return error;
    gossip_edge_resume(exchange, edge);
    if (form == GOSSIP_DELTA_SPARSE)
        gossip_partner_note(exchange, edge, theirs->clock);
    gossip_edge_send(actions, edge, &message);
    if (edge->sequence == 1) // one end may have forgotten the edge and started from zero: compare again
        gossip_hello_tell(exchange, edge, actions);
    return BASE_OK;
}

static void learn_answer(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    BASE_ASSERT(exchange->now_ns >= edge->sent_ns);
    if (!exchange->options.sync) // gossip_partner_note learns how long the round has waited
        gossip_deadline_learn(&edge->answers, exchange->now_ns - edge->sent_ns);
    gossip_deadline_learn(&exchange->answers, exchange->now_ns - edge->sent_ns);
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
        exchange->active = exchange->active == edge ? NULL : exchange->active;
        edge->state = GOSSIP_EDGE_IN_DOUBT;
        gossip_hello_ask(exchange, edge, actions);
        return BASE_OK;
    }
    if (error ==
        BASE_EFORMAT) // otherwise the same answer would break every later link; without it the edge RESYNCs
        gossip_edge_drop_request(exchange, edge);
    if (error)
        return error;
    if (exchange->active == edge)
        learn_answer(exchange, edge);
    else if (!doubted && request->form == GOSSIP_DELTA_BLOCK)
        gossip_block_learn(&edge->blocks, request->delta_bytes, exchange->now_ns - edge->sent_ns);
    gossip_edge_drop_request(exchange, edge);
    gossip_edge_resume(exchange, edge);
    edge->alarm_ns = 0;
    if (theirs->form == GOSSIP_DELTA_SPARSE)
        gossip_partner_note(exchange, edge, clock);
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

    BASE_ASSERT(request->held && edge->linked);
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

// Sync: the request's round is ahead of ours. It is answered anyway if our trainer waits for this neighbour:
// otherwise each would wait for a round of the other.
static bool is_ahead_of_us(const struct gossip_exchange *exchange, const struct gossip_edge *edge,
                           uint64_t clock)
{
    if (!exchange->options.sync || (exchange->round.open && gossip_edge_wanted(exchange, edge)))
        return false;
    return clock > exchange->clock && clock - exchange->clock <= PARK_AHEAD;
}

// While our own exchange is open. Waits follow one order, so that they form no circle: the node that is ahead
// waits for the one behind; of two in one round, in async, the lower id for the higher one.
static bool may_wait(const struct gossip_exchange *exchange, const struct gossip_edge *edge, uint64_t clock)
{
    if (exchange->options.sync)
        return clock > exchange->clock;
    const uint64_t ours = exchange->active->request.clock;
    return clock == ours ? !gossip_edge_leads(exchange, edge) : clock > ours;
}

enum base_error gossip_request_take(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                    const struct gossip_exchange_message *theirs,
                                    struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(edge->linked && edge->state != GOSSIP_EDGE_DOWN);
    if (edge->state == GOSSIP_EDGE_HELLO) {
        send_busy(edge, theirs->epoch, theirs->sequence, actions);
        return BASE_OK;
    }
    if (!same_transaction(edge, theirs->epoch, theirs->sequence) &&
        !exchange->options.mutate_ignore_sequence) {
        // The latest answer is not sent again: it was to another request with this number.
        send_busy(edge, theirs->epoch, theirs->sequence, actions);
        gossip_hello_ask(exchange, edge, actions);
        return BASE_OK;
    }
    if (edge->request.held)
        return complete_crossed(exchange, edge, theirs, actions);
    if (edge->state == GOSSIP_EDGE_IN_DOUBT)
        gossip_edge_resume(exchange, edge);
    const bool waits = is_ahead_of_us(exchange, edge, theirs->clock) ||
                       (exchange->active && may_wait(exchange, edge, theirs->clock));
    enum base_error error = BASE_OK;
    if (theirs->form == GOSSIP_DELTA_BLOCK || (!waits && !exchange->active)) {
        error = answer_request(exchange, edge, theirs, actions);
    } else if (waits) {
        error = gossip_packet_keep(&edge->deferred, theirs);
    } else {
        edge->busy++;
        send_busy(edge, theirs->epoch, theirs->sequence, actions);
    }
    return error;
}

bool gossip_request_answerable(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const struct gossip_packet *deferred = &edge->deferred;

    return deferred->held && !is_ahead_of_us(exchange, edge, deferred->clock) &&
           !(exchange->active && may_wait(exchange, edge, deferred->clock));
}

enum base_error gossip_request_deferred(struct gossip_exchange *exchange,
                                        struct gossip_exchange_actions *actions)
{
    for (size_t i = 0; i < exchange->n_edges && actions->count < GOSSIP_EXCHANGE_ACTIONS / 2; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (!gossip_request_answerable(exchange, edge))
            continue;
        BASE_ASSERT(edge->linked);
        struct gossip_message message = gossip_packet_message(&edge->deferred, GOSSIP_XCHG);
        edge->deferred.held = false;
        enum base_error error = gossip_request_take(exchange, edge, &message.as.exchange, actions);
        if (error == BASE_EFORMAT)
            edge->mismatches++; // not the fault of this step's peer; the sender gets no answer, and asks
        else if (error)
            return error;
    }
    return BASE_OK;
}

enum base_error gossip_request_answered(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        const struct gossip_exchange_message *theirs,
                                        struct gossip_exchange_actions *actions)
{
    const struct gossip_packet *request = &edge->request;
    bool ours =
        request->held && ((theirs->epoch == request->epoch && theirs->sequence == request->sequence) ||
                          exchange->options.mutate_ignore_sequence);

    BASE_ASSERT(edge->linked && edge->state != GOSSIP_EDGE_DOWN);
    if (!ours || edge->state == GOSSIP_EDGE_HELLO)
        return BASE_OK; // an answer was replayed once too often
    return complete(exchange, edge, theirs, request->clock, actions);
}

static uint64_t retry_delay(const struct gossip_exchange *exchange, const struct gossip_edge *edge,
                            unsigned retries)
{
    uint64_t base = (uint64_t)RETRY_FIRST_NS << (retries < RETRY_DOUBLES ? retries : RETRY_DOUBLES);
    uint64_t salt;

    memcpy(&salt, exchange->options.self.bytes,
           sizeof salt); // two nodes that collided must not retry at the same time
    return base + base_hash_mix(salt ^ edge->sequence ^ retries) % base;
}

void gossip_request_refused(struct gossip_exchange *exchange, struct gossip_edge *edge,
                            const struct gossip_busy *theirs)
{
    const struct gossip_packet *request = &edge->request;

    BASE_ASSERT(edge->linked && edge->state != GOSSIP_EDGE_DOWN);
    if (!request->held || request->epoch != theirs->epoch || request->sequence != theirs->sequence)
        return;
    gossip_edge_drop_request(exchange, edge);
    edge->busy++;
    if (edge->state == GOSSIP_EDGE_IN_DOUBT)
        gossip_edge_resume(exchange, edge);
    edge->alarm_ns = exchange->now_ns + retry_delay(exchange, edge, RETRY_DOUBLES);
    if (!gossip_edge_wanted(exchange, edge))
        return;
    if (gossip_partner_volunteers(exchange, edge)) {
        exchange->round.retries++; // the partner asks
        return;
    }
    exchange->round.retry_ns = exchange->now_ns + retry_delay(exchange, edge, exchange->round.retries++);
    if (exchange->options.sync)
        gossip_partner_hurry(exchange, edge);
}
