// HELLO: the two ends of an edge compare epoch, sequence and hashes, and resolve exchanges that a broken link
// or a missing answer left open. One of four things follows: they agree; this end replays its last answer; it
// waits for such a replay; or the edge RESYNCs. An edge whose ends have never met also RESYNCs if it begins
// late.
#include "gossip/exchange/state.h"

#include "base/array.h"

#define QUESTION_MAX   127u // 1..127 ask, 128 + n answers question n
#define ANSWER_FLAG    128u
#define REPEAT_DOUBLES 4u // of the pause between two repetitions
#define ORDERS         4u // RESYNCs of an edge at once, such as those of a peer that restarts again and again
#define ORDER_EACH_NS  60000000000ull // ... and one more in this time

// The corrections of the two ends are opposite, so their hash ignores the sign.
static uint64_t correction_hash(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (!gossip_vector_is(&edge->correction))
        return 0;
    return gossip_vector_hash(exchange->options.kernels, &edge->correction, exchange->options.parameters,
                              true);
}

static void send_hello(const struct gossip_exchange *exchange, struct gossip_edge *edge, uint8_t answer,
                       struct gossip_exchange_actions *actions)
{
    struct gossip_message message = {.kind = GOSSIP_HELLO};

    BASE_ASSERT(edge->state != GOSSIP_EDGE_DOWN && edge->resync_offset <= exchange->options.parameters);
    message.as.hello = (struct gossip_hello){
        .epoch = edge->epoch,
        .sequence = edge->sequence,
        .reference_hash = edge->reference_hash,
        .correction_hash = correction_hash(exchange, edge),
        .resync_offset = edge->resync_offset,
        .answer = answer,
        .standing = (uint8_t)exchange->standing,
        .scaling = exchange->scaling,
    };
    edge->scaling_told = exchange->scaling;
    gossip_edge_send(actions, edge, &message);
}

void gossip_hello_ask(struct gossip_exchange *exchange, struct gossip_edge *edge,
                      struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(edge->state != GOSSIP_EDGE_DOWN);
    edge->question = (uint8_t)(edge->question % QUESTION_MAX + 1);
    edge->repeats = 0;
    edge->alarm_ns = exchange->now_ns + gossip_edge_patience(exchange, edge);
    send_hello(exchange, edge, edge->question, actions);
}

// Repetitions have the same number: nothing was sent in between, so an answer to any of them is valid. (A
// stalled stream would collect so many new questions that their numbers wrap around.)
void gossip_hello_repeat(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(gossip_edge_asks(edge) && edge->question > 0);
    if (edge->repeats < REPEAT_DOUBLES)
        edge->repeats++;
    edge->alarm_ns = exchange->now_ns + (gossip_edge_patience(exchange, edge) << edge->repeats);
    send_hello(exchange, edge, edge->question, actions);
}

void gossip_hello_tell(struct gossip_exchange *exchange, struct gossip_edge *edge,
                       struct gossip_exchange_actions *actions)
{
    send_hello(exchange, edge, 0, actions);
}

static bool is_untold(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return edge->state > GOSSIP_EDGE_BARRED && edge->scaling_told != exchange->scaling;
}

bool gossip_hello_untold(const struct gossip_exchange *exchange)
{
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (is_untold(exchange, exchange->edges[i]))
            return true;
    return false;
}

void gossip_hello_update(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    for (size_t i = 0; i < exchange->n_edges && actions->count < GOSSIP_EXCHANGE_ACTIONS / 2; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (is_untold(exchange, edge))
            gossip_hello_tell(exchange, edge, actions);
    }
}

// The first HELLO asks: a peer that learns of this edge later has not kept our HELLO, and must answer.
void gossip_hello_greet(struct gossip_exchange *exchange, struct gossip_edge *edge,
                        struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(edge->state == GOSSIP_EDGE_BARRED);
    gossip_edge_enter(exchange, edge, GOSSIP_EDGE_HELLO);
    gossip_hello_ask(exchange, edge, actions);
}

static bool packet_is(const struct gossip_packet *packet, uint64_t epoch, uint64_t sequence)
{
    return packet->held && packet->epoch == epoch && packet->sequence == sequence;
}

static bool same_place(const struct gossip_edge *edge, const struct gossip_hello *theirs)
{
    return theirs->epoch == edge->epoch && theirs->sequence == edge->sequence &&
           theirs->resync_offset == edge->resync_offset && theirs->reference_hash == edge->reference_hash;
}

static void discard_request(struct gossip_edge *edge)
{
    BASE_ASSERT(edge->state != GOSSIP_EDGE_DOWN);
    if (!edge->request.held)
        return;
    gossip_edge_drop_request(edge);
    edge->discards++;
}

// The peer is at the same place: an open request of ours was never committed there.
static void agree(struct gossip_exchange *exchange, struct gossip_edge *edge,
                  const struct gossip_hello *theirs)
{
    discard_request(edge);
    // At the start of a link both ends compare, so that either both drop their correction or neither does.
    if (edge->state == GOSSIP_EDGE_HELLO && theirs->correction_hash != correction_hash(exchange, edge)) {
        gossip_journal_drop(exchange, edge);
        gossip_edge_drop_correction(exchange, edge);
    }
    edge->start = GOSSIP_EDGE_AGREED;
    gossip_edge_resume(exchange, edge);
}

// A RESYNC reads and writes whole vectors, and a HELLO that orders one costs its sender nothing: nobody can
// check where the other end says that it is. Beyond its share the peer is not met until the next one is due;
// the HELLO of that moment finds out again what is to be done.
static bool may_order(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    const uint64_t paid_ns = base_max(edge->orders_ns, exchange->now_ns),
                   debt_ns = paid_ns - exchange->now_ns;

    BASE_ASSERT(debt_ns <= ORDERS * ORDER_EACH_NS);
    if (debt_ns > (ORDERS - 1) * ORDER_EACH_NS) {
        gossip_plausible_bar_until(exchange, edge, paid_ns - (ORDERS - 1) * ORDER_EACH_NS);
        return false;
    }
    edge->orders_ns = paid_ns + ORDER_EACH_NS;
    return true;
}

static void begin_resync(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         const struct gossip_hello *theirs, struct gossip_exchange_actions *actions)
{
    uint64_t highest = theirs->epoch > edge->epoch ? theirs->epoch : edge->epoch;

    if (!may_order(exchange, edge))
        return;
    gossip_edge_resync(exchange, edge, highest + 1);
    gossip_hello_tell(exchange, edge, actions);
}

// Two ends that have never met have the seed model as r. Long after the start it is far from both models, and
// an entry of x - r that only one end sends moves both by half the distance from the seed. A RESYNC costs the
// bytes of about 2 d/k exchanges, so it pays for models that are older than as many rounds. An edge that was
// there from the start meets at its turn, however late that is, and whether its nodes were stopped before or
// not.
static bool begins_late(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return edge->epoch == 0 && edge->sequence == 0 && edge->start != GOSSIP_EDGE_AGREED &&
           exchange->age > gossip_exchange_reach(exchange);
}

// While a resumed node waits, its view grows, and edges come that the graph of all does not have: their
// RESYNC would change the models before the first round.
void gossip_hello_begin(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    for (size_t i = 0; i < exchange->n_edges && actions->count < GOSSIP_EXCHANGE_ACTIONS / 2; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (edge->start != GOSSIP_EDGE_LATE)
            continue;
        if (edge->state == GOSSIP_EDGE_HELLO)
            gossip_hello_ask(exchange, edge, actions);
        edge->start = GOSSIP_EDGE_UNMET;
    }
}

static void replay_answer(struct gossip_edge *edge, struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(edge->state != GOSSIP_EDGE_DOWN && edge->answer.held);
    struct gossip_message message = gossip_packet_message(&edge->answer, GOSSIP_XACK);

    edge->replays++;
    gossip_edge_send(actions, edge, &message);
}

// True: the stored answer is to be replayed.
static bool compare(struct gossip_exchange *exchange, struct gossip_edge *edge,
                    const struct gossip_hello *theirs, bool settles, struct gossip_exchange_actions *actions)
{
    bool same_epoch = theirs->epoch == edge->epoch;

    BASE_ASSERT(edge->state > GOSSIP_EDGE_BARRED);
    if (theirs->epoch > edge->epoch && theirs->sequence == 0 && theirs->resync_offset == 0) {
        if (may_order(exchange, edge)) // the peer has decided to RESYNC
            gossip_edge_resync(exchange, edge, theirs->epoch);
    } else if (theirs->epoch < edge->epoch && edge->sequence == 0 && edge->resync_offset == 0) {
        // We have decided to RESYNC and told the peer, which sent this HELLO before it heard of that.
        if (edge->state == GOSSIP_EDGE_HELLO && !edge->request.held)
            gossip_edge_resume(exchange, edge);
    } else if (same_place(edge, theirs)) {
        const bool late = settles && begins_late(exchange, edge);
        if (edge->start != GOSSIP_EDGE_AGREED)
            edge->start = late ? GOSSIP_EDGE_LATE : GOSSIP_EDGE_UNMET;
        if (late && exchange->begun)
            begin_resync(exchange, edge, theirs, actions);
        else if (settles && !late)
            agree(exchange, edge, theirs);
    } else if (same_epoch && theirs->sequence == edge->sequence + 1 &&
               packet_is(&edge->request, edge->epoch, edge->sequence)) {
        gossip_edge_enter(exchange, edge,
                          GOSSIP_EDGE_IN_DOUBT); // the peer has committed it and will replay its answer
        edge->alarm_ns = exchange->now_ns + gossip_edge_patience(exchange, edge);
    } else if (same_epoch && theirs->sequence + 1 == edge->sequence &&
               packet_is(&edge->answer, theirs->epoch, theirs->sequence)) {
        if (settles) // the peer is behind our open request, too
            discard_request(edge);
        if (!edge->request.held)
            gossip_edge_resume(exchange, edge);
        return true;
    } else {
        edge->mismatches++;
        begin_resync(exchange, edge, theirs, actions);
    }
    return false;
}

// The peer may have opened the edge anew, and what was sent to it before is lost then. So a block that is out
// is asked about now, not at its deadline.
static void reopened(struct gossip_exchange *exchange, struct gossip_edge *edge,
                     struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(edge->state > GOSSIP_EDGE_BARRED);
    if (edge->state != GOSSIP_EDGE_RESYNC || !edge->request.held)
        return;
    gossip_edge_enter(exchange, edge, GOSSIP_EDGE_IN_DOUBT);
    gossip_hello_ask(exchange, edge, actions);
}

enum base_error gossip_hello_take(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                  const struct gossip_hello *theirs, struct gossip_exchange_actions *actions)
{
    edge->peer_scaling = theirs->scaling;
    if (gossip_edge_apart(exchange, edge)) {
        // Our first HELLO may have arrived before the peer's view had this node; without another one, the
        // peer would not know why it is refused.
        gossip_hello_tell(exchange, edge, actions);
        gossip_plausible_bar(exchange, edge, 0);
        return BASE_EMISMATCH;
    }
    BASE_ASSERT(theirs->resync_offset <= exchange->options.parameters);
    const bool asks = theirs->answer >= 1 && theirs->answer <= QUESTION_MAX;
    bool answers = theirs->answer > ANSWER_FLAG;
    // Only the answer to our latest question says what became of an open request of ours: any other
    // HELLO may have been sent before the request arrived.
    bool settles = (gossip_edge_asks(edge) && theirs->answer == (ANSWER_FLAG | edge->question)) ||
                   (edge->state == GOSSIP_EDGE_HELLO && !edge->request.held);

    compress_history_forget(&edge->sent); // the peer may have restarted, or refused a packet over them
    if (answers && !gossip_edge_asks(edge) && theirs->epoch <= edge->epoch)
        return BASE_OK; // to a question that is no longer open
    if (!answers)
        edge->deferred.held = false; // the peer has given up waiting for it
    const bool replays = compare(exchange, edge, theirs, settles, actions);
    if (edge->state == GOSSIP_EDGE_BARRED)
        return BASE_OK;
    if (asks) {
        send_hello(exchange, edge, (uint8_t)(ANSWER_FLAG | theirs->answer), actions);
        reopened(exchange, edge, actions);
    }
    if (replays) // behind the answer: a peer that has just been linked takes nothing before it
        replay_answer(edge, actions);
    // A peer that opens the edge after us has not heard our own question, and only its answer settles an open
    // request.
    if (asks && edge->state == GOSSIP_EDGE_HELLO && edge->repeats == 0)
        gossip_hello_repeat(exchange, edge, actions);
    return BASE_OK;
}
