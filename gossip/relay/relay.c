#include "gossip/relay/relay.h"
#include "gossip/relay/relay_private.h"
#include <stdlib.h>
#include <string.h>

#define SECOND_NS     1000000000ull
#define CREDIT_BYTES  4096u              // taken, they are worth a message
#define CREDIT_AT     GOSSIP_RELAY_CHUNK // ... at once; less is told after
#define CREDIT_NS     100000000ull
#define PACE_NS       500000000ull // at least so long are bytes counted
#define PACE_LEAST    8192u        // bytes on the way
#define PACE_MORE     2048u
#define PACE_PATH_NS  400000000ull   // the most that is allowed for the way there and back without queues
#define LATE_NS       1000000000ull  // at least,
#define LATE_TIMES    4u             // and so many times as long as usual;
#define LATE_FIRST_NS 4000000000ull  // before anything is usual
#define LATE_IDLE_NS  10000000000ull // without bytes on the way: nothing is late any more
#define LOOK_NS       1000000000ull  // between two looks: this process was suspended in between

const char *gossip_relay_end_text(enum gossip_relay_end why)
{
    switch (why) {
    case GOSSIP_RELAY_GOES_ON:
        return "goes on";
    case GOSSIP_RELAY_END_ENDED:
        return "the other end has ended it";
    case GOSSIP_RELAY_END_NO_LINK:
        return "the relay has no link to the other end";
    case GOSSIP_RELAY_END_FULL:
        return "the relay or the other end has too many relayed links";
    case GOSSIP_RELAY_END_OFF:
        return "that member does not relay";
    case GOSSIP_RELAY_END_BROKEN:
        return "a message against the rules";
    case GOSSIP_RELAY_END_LOST:
        return "the link to the relay has ended";
    }
    return "?";
}

// -- life

enum base_error gossip_relay_create(const struct gossip_relay_options *options, struct gossip_relay **out)
{
    struct gossip_relay *relay = calloc(1, sizeof *relay);
    if (!relay)
        return BASE_ENOMEM;
    relay->options = *options;
    TAILQ_INIT(&relay->streams);
    TAILQ_INIT(&relay->ready);
    TAILQ_INIT(&relay->owed);
    TAILQ_INIT(&relay->waiting);
    *out = relay;
    return BASE_OK;
}

void gossip_relay_destroy(struct gossip_relay *relay)
{
    struct relay_stream *stream;
    if (!relay)
        return;
    while ((stream = TAILQ_FIRST(&relay->streams))) {
        TAILQ_REMOVE(&relay->streams, stream, all);
        base_buffer_free(&stream->side[0].waiting);
        base_buffer_free(&stream->side[1].waiting);
        free(stream);
    }
    base_buffer_free(&relay->handed);
    free(relay->peers);
    free(relay);
}

// -- the rate: a token bucket, as the time at which it is full again (GCRA, ITU-T I.371)

static uint64_t rate_cost_ns(const struct gossip_relay *relay, size_t bytes)
{
    BASE_ASSERT(bytes <= GOSSIP_RELAY_CHUNK);
    uint64_t rate = relay->options.rate, cost = bytes * SECOND_NS;
    if (rate == 0 || rate == GOSSIP_RELAY_ANY)
        return 0;
    return cost / rate + (cost % rate != 0);
}

static uint64_t rate_burst_ns(const struct gossip_relay *relay)
{
    return base_max(GOSSIP_RELAY_BURST_NS, rate_cost_ns(relay, GOSSIP_RELAY_CHUNK));
}

// When so many may be forwarded.
static uint64_t rate_due_ns(const struct gossip_relay *relay, size_t bytes)
{
    uint64_t full_ns = base_max(relay->full_ns, relay->now_ns) + rate_cost_ns(relay, bytes);
    return full_ns - base_min(full_ns, rate_burst_ns(relay));
}

static void rate_use(struct gossip_relay *relay, size_t bytes)
{
    relay->full_ns = base_max(relay->full_ns, relay->now_ns) + rate_cost_ns(relay, bytes);
    relay->forwarded_bytes += bytes;
}

// -- ends of streams

static void side_close(struct gossip_relay *relay, struct relay_side *side, enum gossip_relay_end why)
{
    if (side->state != RELAY_OPEN)
        return;
    side->state = RELAY_CLOSING;
    side->why = why;
    relay_ready(relay, side);
}

// Both sides are told, the one of `side` at once and without what waits for it.
static void side_cut(struct gossip_relay *relay, struct relay_side *side, enum gossip_relay_end why)
{
    BASE_ASSERT(side->state != RELAY_GONE);
    side_close(relay, relay_other(side), why);
    relay_drop(relay, side);
    side_close(relay, side, why);
    side->why = why; // also if it was to hear of an end after bytes that are dropped now
    relay_ready(relay, side);
}

// The side knows that the stream is over, or cannot be told.
static void side_leave(struct gossip_relay *relay, struct relay_side *side, enum gossip_relay_end why)
{
    side_close(relay, relay_other(side), why);
    relay_forget(relay, side);
}

static void unlinked(struct gossip_relay *relay, const struct gossip_id *peer)
{
    struct relay_stream *stream, *next;
    for (stream = TAILQ_FIRST(&relay->streams); stream; stream = next) {
        next = TAILQ_NEXT(stream, all);
        for (size_t i = 0; i < 2; i++) {
            struct relay_side *side = &stream->side[i];
            if (side->kind != RELAY_LINK || side->state == RELAY_GONE || gossip_id_compare(&side->id, peer))
                continue;
            side_leave(relay, side,
                       relay_forwards(stream) ? GOSSIP_RELAY_END_NO_LINK : GOSSIP_RELAY_END_LOST);
            break;
        }
    }
    relay_unlink(relay, peer);
}

// -- how fast the bytes of a local end are taken

// Bytes of this end begin to wait for credit.
static void wait_begins(struct relay_side *side, uint64_t now_ns)
{
    if (side->kind == RELAY_LINK || side->busy_ns || side->flight < CREDIT_BYTES)
        return;
    side->busy_ns = side->since_ns = side->credited_ns = now_ns;
    side->taken = 0;
}

// How much this end may have on the way: what is taken in half a second, besides the time without queues.
// More would only make what follows wait, at the relay for the slower of its two links: a BYE, and the
// streams of others. PACE_MORE makes the parts of streams over one relay equal, since it is the same for all.
static uint32_t pace_of(const struct relay_side *side, uint64_t passed_ns)
{
    const double rate = (double)side->taken / (double)base_max(passed_ns, 1),
                 pace = rate * (double)(PACE_NS + base_min(side->least_ns, PACE_PATH_NS)) + PACE_MORE;
    return pace < GOSSIP_RELAY_WINDOW ? (uint32_t)base_max(PACE_LEAST, (uint64_t)pace) : GOSSIP_RELAY_WINDOW;
}

static void pace_learn(struct relay_side *side, uint64_t now_ns, uint32_t amount)
{
    const uint64_t passed_ns = now_ns - side->since_ns;
    const bool enough = passed_ns >= PACE_NS,
               whole = side->since_ns == side->busy_ns && side->flight < CREDIT_BYTES;
    side->taken += amount;
    const uint32_t pace = pace_of(side, passed_ns);
    if (enough || (whole && pace > side->pace))
        side->pace = pace;
    if (!enough)
        return;
    side->since_ns = now_ns;
    side->taken = 0;
}

static uint64_t late_ns(const struct relay_side *side)
{
    return side->usual_ns ? base_max(LATE_NS, LATE_TIMES * side->usual_ns) : LATE_FIRST_NS;
}

static void credited(struct relay_side *side, uint64_t now_ns, uint32_t amount)
{
    const uint64_t took_ns = base_max(now_ns - side->credited_ns, 1);
    if (!side->busy_ns)
        return;
    if (side->since_ns == side->busy_ns && side->taken == 0) // the first since they began to wait
        side->least_ns =
            base_min(side->least_ns ? side->least_ns : UINT64_MAX, base_max(now_ns - side->busy_ns, 1));
    side->late &= took_ns > late_ns(side) / 2;
    side->usual_ns = side->usual_ns ? side->usual_ns - side->usual_ns / 8 + took_ns / 8 : took_ns;
    side->credited_ns = now_ns;
    pace_learn(side, now_ns, amount);
    if (side->flight < CREDIT_BYTES)
        side->busy_ns = 0;
}

// -- bytes

static void bytes_wait(struct gossip_relay *relay, struct relay_side *to, const uint8_t *bytes, size_t count)
{
    if (base_buffer_append(&to->waiting, bytes, count, GOSSIP_RELAY_WINDOW)) {
        side_close(relay, relay_other(to), GOSSIP_RELAY_END_FULL);
        side_close(relay, to, GOSSIP_RELAY_END_FULL); // what has come before is in order
    } else if (!relay_forwards(to->stream)) {
        relay_ready(relay, to);
    } else if (!(to->in & RELAY_WAITING)) {
        TAILQ_INSERT_TAIL(&relay->waiting, to, turn);
        to->in |= RELAY_WAITING;
    }
}

// The owner has not taken all actions before the next event.
static void bytes_keep(struct gossip_relay *relay)
{
    if (relay->count)
        bytes_wait(relay, relay->passing, relay->bytes, relay->count);
    relay->count = 0;
}

static bool bytes_pass(const struct gossip_relay *relay, const struct relay_side *to, size_t count)
{
    return !relay_forwards(to->stream) ||
           (TAILQ_EMPTY(&relay->waiting) && rate_due_ns(relay, count) <= relay->now_ns);
}

static void bytes_from(struct gossip_relay *relay, struct relay_side *side, const uint8_t *bytes,
                       size_t count)
{
    struct relay_side *to = relay_other(side);
    if (side->state != RELAY_OPEN)
        return;
    if (count > GOSSIP_RELAY_WINDOW - side->flight) {
        BASE_ASSERT(side->kind == RELAY_LINK);
        side_cut(relay, side, GOSSIP_RELAY_END_BROKEN);
        return;
    }
    side->flight += (uint32_t)count;
    wait_begins(side, relay->now_ns);
    if (!bytes_pass(relay, to, count)) {
        bytes_wait(relay, to, bytes, count);
        return;
    }
    BASE_ASSERT(relay->count == 0);
    relay->passing = to;
    relay->bytes = bytes;
    relay->count = count;
}

// The local end has taken bytes that came over this link.
static void credit_owed(struct gossip_relay *relay, struct relay_side *side)
{
    if (side->in & RELAY_OWED || side->credit < CREDIT_BYTES)
        return;
    side->owed_ns = relay->now_ns + CREDIT_NS;
    side->in |= RELAY_OWED;
    TAILQ_INSERT_TAIL(&relay->owed, side, owed);
}

// `side` has taken bytes of the other one.
static void credit_from(struct gossip_relay *relay, struct relay_side *side, uint64_t amount)
{
    struct relay_side *from = relay_other(side);
    if (side->state != RELAY_OPEN)
        return;
    BASE_ASSERT(from->flight >= from->credit + base_buffer_length(&side->waiting));
    if (amount > from->flight - from->credit - base_buffer_length(&side->waiting)) {
        BASE_ASSERT(side->kind == RELAY_LINK);
        side_cut(relay, side, GOSSIP_RELAY_END_BROKEN);
        return;
    }
    from->credit += (uint32_t)amount;
    if (side->kind == RELAY_LOCAL)
        credit_owed(relay, from);
    relay_ready(relay, from);
}

// -- streams that others open

static bool stream_may_forward(const struct gossip_relay *relay, const struct gossip_id *from)
{
    const struct relay_stream *stream;
    size_t all = 0, own = 0;
    TAILQ_FOREACH(stream, &relay->streams, all) {
        all += relay_forwards(stream);
        own += relay_forwards(stream) && gossip_id_compare(&stream->side[0].id, from) == 0;
    }
    return all < GOSSIP_RELAY_STREAMS && own < GOSSIP_RELAY_MEMBER;
}

static enum gossip_relay_end stream_judge(const struct gossip_relay *relay, const struct gossip_id *from,
                                          const struct gossip_relay_message *message,
                                          const struct gossip_id *far)
{
    bool opens = message->verb == GOSSIP_RELAY_OPEN;
    if (message->amount != GOSSIP_RELAY_WINDOW || !relay_may_open(relay, from, message->stream) ||
        gossip_id_compare(far, from) == 0 || gossip_id_compare(far, &relay->options.self) == 0)
        return GOSSIP_RELAY_END_BROKEN;
    if (opens && relay->options.rate == 0)
        return GOSSIP_RELAY_END_OFF;
    if (opens && !relay_linked(relay, far))
        return GOSSIP_RELAY_END_NO_LINK;
    if (opens ? !stream_may_forward(relay, from) : !relay_may_end(relay))
        return GOSSIP_RELAY_END_FULL;
    return GOSSIP_RELAY_GOES_ON;
}

static void stream_opened(struct gossip_relay *relay, const struct gossip_id *from,
                          const struct gossip_relay_message *message)
{
    struct gossip_id far;
    BASE_ASSERT(message->bytes_bytes == sizeof far.bytes && relay_linked(relay, from));
    memcpy(far.bytes, message->bytes, sizeof far.bytes);
    enum gossip_relay_end why = stream_judge(relay, from, message, &far);
    struct relay_stream *stream = relay_add(relay);
    if (!stream)
        return;
    relay_add_link(relay, &stream->side[0], from, &message->stream);
    stream->side[1].kind = RELAY_LOCAL;
    if (why) {
        relay->refused++;
        side_close(relay, &stream->side[0], why);
        return;
    }
    if (message->verb == GOSSIP_RELAY_OPEN)
        relay_add_link(relay, &stream->side[1], &far, NULL);
    else
        relay_add_local(relay, &stream->side[1], &far);
    stream->side[1].fresh = true;
    relay_ready(relay, &stream->side[1]);
}

uint64_t gossip_relay_call(struct gossip_relay *relay, uint64_t now_ns, const struct gossip_id *via,
                           const struct gossip_id *peer)
{
    relay->now_ns = base_max(relay->now_ns, now_ns);
    if (!relay_linked(relay, via) || !relay_may_end(relay) || gossip_id_compare(peer, via) == 0 ||
        gossip_id_compare(peer, &relay->options.self) == 0)
        return 0;
    struct relay_stream *stream = relay_add(relay);
    if (!stream)
        return 0;
    relay_add_local(relay, &stream->side[0], peer);
    relay_add_link(relay, &stream->side[1], via, NULL);
    stream->side[1].fresh = true;
    relay_ready(relay, &stream->side[1]);
    return stream->side[0].handle;
}

// -- events

static void message_heard(struct gossip_relay *relay, const struct gossip_id *peer,
                          const struct gossip_relay_message *message)
{
    struct relay_side *side = relay_find(relay, peer, message->stream);
    switch ((enum gossip_relay_verb)message->verb) {
    case GOSSIP_RELAY_OPEN:
    case GOSSIP_RELAY_CALLED:
        if (side)
            side_cut(relay, side, GOSSIP_RELAY_END_BROKEN);
        else
            stream_opened(relay, peer, message);
        return;
    case GOSSIP_RELAY_DATA:
        if (side)
            bytes_from(relay, side, message->bytes, message->bytes_bytes);
        return;
    case GOSSIP_RELAY_CREDIT:
        if (side)
            credit_from(relay, side, message->amount);
        return;
    case GOSSIP_RELAY_CLOSE:
        if (side)
            side_leave(relay, side,
                       message->amount > GOSSIP_RELAY_GOES_ON && message->amount < GOSSIP_RELAY_END_LOST
                           ? (enum gossip_relay_end)message->amount
                           : GOSSIP_RELAY_END_ENDED);
        return;
    }
}

static void rate_set(struct gossip_relay *relay, uint64_t bytes_per_second)
{
    struct relay_stream *stream;
    relay->options.rate = bytes_per_second;
    relay->full_ns = base_min(relay->full_ns, relay->now_ns + rate_burst_ns(relay)); // at most empty
    if (bytes_per_second)
        return;
    TAILQ_FOREACH(stream, &relay->streams, all)
        for (size_t i = 0; relay_forwards(stream) && i < 2; i++)
            if (stream->side[i].state != RELAY_GONE)
                side_cut(relay, &stream->side[i], GOSSIP_RELAY_END_OFF);
}

// What happens to the local end of a stream.
static void local_event(struct gossip_relay *relay, const struct gossip_relay_event *event)
{
    struct relay_side *side = relay_find_end(relay, event->stream);
    if (!side)
        return;
    if (event->kind == GOSSIP_RELAY_READ)
        bytes_from(relay, side, event->bytes, event->count);
    else if (event->kind == GOSSIP_RELAY_WRITTEN)
        credit_from(relay, side, event->count);
    else
        side_leave(relay, side, GOSSIP_RELAY_END_ENDED);
}

enum base_error gossip_relay_step(struct gossip_relay *relay, const struct gossip_relay_event *event)
{
    bytes_keep(relay);
    base_buffer_free(&relay->handed);
    relay->now_ns = base_max(relay->now_ns, event->now_ns);
    switch (event->kind) {
    case GOSSIP_RELAY_LINKED:
        unlinked(relay, &event->peer);
        return relay_link(relay, &event->peer) ? BASE_OK : BASE_ENOMEM;
    case GOSSIP_RELAY_UNLINKED:
        unlinked(relay, &event->peer);
        break;
    case GOSSIP_RELAY_HEARD:
        if (relay_linked(relay, &event->peer))
            message_heard(relay, &event->peer, event->message);
        break;
    case GOSSIP_RELAY_READ:
    case GOSSIP_RELAY_WRITTEN:
    case GOSSIP_RELAY_ENDED:
        local_event(relay, event);
        break;
    case GOSSIP_RELAY_TIMER:
        break;
    case GOSSIP_RELAY_RATE:
        rate_set(relay, event->rate);
        break;
    }
    return BASE_OK;
}

// -- actions

static struct gossip_relay_action action_of(const struct relay_side *side,
                                            enum gossip_relay_action_kind local, enum gossip_relay_verb verb)
{
    if (side->kind == RELAY_LOCAL)
        return (struct gossip_relay_action){.kind = local, .stream = side->handle};
    return (struct gossip_relay_action){.kind = GOSSIP_RELAY_SEND,
                                        .peer = side->id,
                                        .message = {.verb = (uint8_t)verb, .stream = side->number}};
}

static void tell_fresh(struct relay_side *side, struct gossip_relay_action *action)
{
    const struct relay_side *other = relay_other(side);
    *action = action_of(side, GOSSIP_RELAY_ACCEPT,
                        other->kind == RELAY_LOCAL ? GOSSIP_RELAY_OPEN : GOSSIP_RELAY_CALLED);
    side->fresh = false;
    if (side->kind == RELAY_LOCAL) {
        action->peer = side->id;
        action->via = other->id;
        return;
    }
    action->message.amount = GOSSIP_RELAY_WINDOW;
    action->message.bytes = other->id.bytes;
    action->message.bytes_bytes = GOSSIP_RELAY_ID_BYTES;
}

static void tell_bytes(struct relay_side *side, const uint8_t *bytes, size_t count,
                       struct gossip_relay_action *action)
{
    BASE_ASSERT(side->state != RELAY_GONE && !side->fresh && count > 0 && count <= GOSSIP_RELAY_CHUNK);
    *action = action_of(side, GOSSIP_RELAY_DELIVER, GOSSIP_RELAY_DATA);
    action->bytes = action->message.bytes = bytes;
    action->message.bytes_bytes = (uint32_t)count;
    action->count = count;
}

// The next chunk of what waits for it.
static size_t next_chunk(const struct relay_side *side)
{
    return base_min(base_buffer_length(&side->waiting), GOSSIP_RELAY_CHUNK);
}

static void tell_waiting(struct gossip_relay *relay, struct relay_side *side,
                         struct gossip_relay_action *action)
{
    size_t count = next_chunk(side);
    tell_bytes(side, base_buffer_head(&side->waiting), count, action);
    base_buffer_consume(&side->waiting, count);
    if (base_buffer_length(&side->waiting) > 0)
        return;
    relay->handed = side->waiting;
    side->waiting = (struct base_buffer){0};
}

// What the side may be told of its credit. The end that takes the bytes tells of many at once, and of few
// when no more have come for a while; what it has told passes at once.
static uint32_t credit_due(const struct gossip_relay *relay, struct relay_side *side)
{
    const bool is_due = relay_other(side)->kind == RELAY_LINK || side->credit >= CREDIT_AT ||
                        (side->in & RELAY_OWED && relay->now_ns >= side->owed_ns);
    return is_due ? side->credit : 0;
}

static void credit_now_due(struct gossip_relay *relay)
{
    struct relay_side *side;
    TAILQ_FOREACH(side, &relay->owed, owed) {
        if (side->owed_ns > relay->now_ns)
            return;
        relay_ready(relay, side);
    }
}

static void tell_credit(struct gossip_relay *relay, struct relay_side *side, uint32_t amount,
                        struct gossip_relay_action *action)
{
    BASE_ASSERT(amount > 0 && amount <= side->credit && side->credit <= side->flight);
    *action = action_of(side, GOSSIP_RELAY_ALLOW, GOSSIP_RELAY_CREDIT);
    side->flight -= amount;
    side->credit -= amount;
    relay_told(relay, side);
    action->message.amount = amount;
    if (side->kind == RELAY_LINK)
        return;
    credited(side, relay->now_ns, amount);
    action->count = side->pace - base_min(side->pace, side->flight);
    if (action->count < side->pace / 4) // more credit comes: no small messages
        action->count = 0;
}

// What the side has to be told apart from bytes that wait for the rate; false: nothing.
static bool tell(struct gossip_relay *relay, struct relay_side *side, struct gossip_relay_action *action)
{
    const size_t waits = base_buffer_length(&side->waiting);
    const uint32_t due = credit_due(relay, side);
    if (side->fresh) {
        tell_fresh(side, action);
    } else if (waits && !relay_forwards(side->stream)) {
        tell_waiting(relay, side, action);
    } else if (due > 0) {
        tell_credit(relay, side, due, action);
    } else if (side->state == RELAY_CLOSING && !waits) {
        *action = action_of(side, GOSSIP_RELAY_END, GOSSIP_RELAY_CLOSE);
        action->why = side->why;
        action->message.amount = side->why;
        relay_forget(relay, side);
        return true;
    } else {
        return false;
    }
    relay_ready(relay, side);
    return true;
}
static void take_turn(struct gossip_relay *relay, struct relay_side *side, struct gossip_relay_action *action)
{
    BASE_ASSERT(side->in & RELAY_WAITING);
    TAILQ_REMOVE(&relay->waiting, side, turn);
    tell_waiting(relay, side, action);
    rate_use(relay, action->count);
    if (base_buffer_length(&side->waiting) > 0) {
        TAILQ_INSERT_TAIL(&relay->waiting, side, turn);
        return;
    }
    side->in &= ~RELAY_WAITING;
    relay_ready(relay, side); // it may have to be told that this is the end
}

bool gossip_relay_next(struct gossip_relay *relay, struct gossip_relay_action *action)
{
    struct relay_side *side;
    base_buffer_free(&relay->handed);
    credit_now_due(relay);
    while ((side = TAILQ_FIRST(&relay->ready))) {
        TAILQ_REMOVE(&relay->ready, side, ready);
        side->in &= ~RELAY_READY;
        if (tell(relay, side, action))
            return true;
    }
    if (relay->count) {
        tell_bytes(relay->passing, relay->bytes, base_min(relay->count, GOSSIP_RELAY_CHUNK), action);
        relay->bytes += action->count;
        relay->count -= action->count;
        if (relay_forwards(relay->passing->stream))
            rate_use(relay, action->count);
        return true;
    }
    side = TAILQ_FIRST(&relay->waiting);
    if (!side || rate_due_ns(relay, next_chunk(side)) > relay->now_ns)
        return false;
    take_turn(relay, side, action);
    return true;
}

uint64_t gossip_relay_deadline(const struct gossip_relay *relay)
{
    const struct relay_side *waits = TAILQ_FIRST(&relay->waiting), *owed = TAILQ_FIRST(&relay->owed);
    return base_min(waits ? rate_due_ns(relay, next_chunk(waits)) : UINT64_MAX,
                    owed ? owed->owed_ns : UINT64_MAX);
}

// -- what others ask

const struct gossip_id *gossip_relay_via(const struct gossip_relay *relay, uint64_t stream)
{
    struct relay_side *side = relay_find_end(relay, stream);
    return side ? &relay_other(side)->id : NULL;
}

bool gossip_relay_is_late(struct gossip_relay *relay, uint64_t stream, uint64_t now_ns)
{
    struct relay_side *side = relay_find_end(relay, stream);
    if (!side)
        return false;
    if (now_ns - side->looked_ns > LOOK_NS)
        side->credited_ns = now_ns;
    side->looked_ns = now_ns;
    const uint64_t waits_ns = now_ns - base_min(now_ns, side->credited_ns);
    if (side->busy_ns)
        side->late |= waits_ns >= late_ns(side);
    else
        side->late &= waits_ns < LATE_IDLE_NS;
    return side->late;
}

void gossip_relay_totals(const struct gossip_relay *relay, struct gossip_relay_totals *totals)
{
    const struct relay_stream *stream;
    *totals = (struct gossip_relay_totals){.bytes = relay->forwarded_bytes, .refused = relay->refused};
    TAILQ_FOREACH(stream, &relay->streams, all)
        totals->forwarded += relay_forwards(stream);
    for (size_t i = 0; i < GOSSIP_RELAY_ENDS; i++)
        totals->ends += relay->end[i] != NULL;
}

static void check_side(const struct gossip_relay *relay, const struct relay_side *side)
{
    const struct relay_side *other = &side->stream->side[side == side->stream->side];
    size_t waits = base_buffer_length(&side->waiting);
    if (side->state == RELAY_GONE) {
        BASE_ASSERT(!side->in && !waits && other->state == RELAY_CLOSING);
        return;
    }
    BASE_ASSERT((side->state == RELAY_OPEN) == (other->state == RELAY_OPEN));
    BASE_ASSERT(side->flight <= GOSSIP_RELAY_WINDOW);
    BASE_ASSERT(waits <= GOSSIP_RELAY_WINDOW && side->waiting.capacity <= GOSSIP_RELAY_WINDOW);
    BASE_ASSERT(other->state != RELAY_OPEN || waits + other->credit <= other->flight);
    BASE_ASSERT(!(side->in & RELAY_WAITING) == !(waits && relay_forwards(side->stream)));
    if (side->kind == RELAY_LINK)
        BASE_ASSERT(relay_linked(relay, &side->id) && relay_find(relay, &side->id, side->number) == side);
    else
        BASE_ASSERT(relay_find_end(relay, side->handle) == side);
}

void gossip_relay_check(const struct gossip_relay *relay)
{
    struct gossip_relay_totals totals;
    const struct relay_stream *stream;
    TAILQ_FOREACH(stream, &relay->streams, all)
        for (size_t i = 0; i < 2; i++)
            check_side(relay, &stream->side[i]);
    gossip_relay_totals(relay, &totals);
    BASE_ASSERT(totals.forwarded <= GOSSIP_RELAY_STREAMS && totals.ends <= GOSSIP_RELAY_ENDS);
    BASE_ASSERT(!relay->count || relay->passing->state != RELAY_GONE);
}
