// Two ends of one edge, with links that the input cuts and messages that it loses, delays, repeats and
// changes: whole exchanges take place, and damaged bytes reach an edge in any state. Until bytes are changed,
// nothing may be refused and r is the same on both ends; after that, a refused message changes nothing and
// ends the link.
#include "base/bf16.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "gossip/exchange/state.h"
#include "test/support/cpu_kernels.h"
#include "test/support/exchange_looks.h"

#include <math.h>
#include <string.h>

// Long enough that a packet is shorter without its indices.
enum { D = 200, QUEUE = 16, MESSAGE_BYTES = 2048 };

#define MS      1000000ull
#define CEILING (1000 * MS) // of a wait: longer than any pause after a refusal, as in every configuration

struct end {
    struct gossip_exchange *exchange;
    struct gossip_id self;
    float x[D], v[D], correction[D], held[D];
    uint64_t round;
    bool open; // a round
    struct {
        uint8_t bytes[MESSAGE_BYTES];
        size_t count;
    } inbox[QUEUE];
    size_t waiting;
};

struct pair {
    struct end end[2];
    uint64_t now_ns;
    bool up, honest, holds;
    bool refused; // an end has refused a message: the link is to end
};

static const struct kernels_apply *apply(void)
{
    return cpu_kernels()->apply;
}

static uint64_t state_hash(const struct gossip_exchange *exchange)
{
    uint64_t hash = apply()->hash(gossip_exchange_model(exchange), D, 0, false);

    return base_hash_mix(hash ^ edges_hash(exchange, D));
}

static float correction_at(const struct gossip_edge_info *info, size_t j)
{
    if (info->correction_bf16)
        return bf16_widen(info->correction_bf16[j]);
    return info->correction ? info->correction[j] : 0;
}

static void check_corrections(const struct gossip_edge_info info[2])
{
    for (size_t j = 0; j < D; j++)
        BASE_ASSERT(correction_at(&info[0], j) == -correction_at(&info[1], j));
}

static void check_ends(const struct pair *pair)
{
    struct gossip_edge_info info[2];

    for (size_t i = 0; i < 2; i++) {
        if (gossip_exchange_edges(pair->end[i].exchange) == 0)
            return;
        gossip_exchange_edge_info(pair->end[i].exchange, 0, &info[i]);
    }
    if (pair->honest && info[0].epoch == info[1].epoch && info[0].sequence == info[1].sequence &&
        info[0].state == GOSSIP_EDGE_LIVE && info[1].state == GOSSIP_EDGE_LIVE) {
        BASE_ASSERT(edge_hash(info[0].reference, info[0].reference_bf16, D) ==
                    edge_hash(info[1].reference, info[1].reference_bf16, D));
        check_corrections(info);
    }
}

static void post(struct end *to, const struct gossip_message *message)
{
    const struct gossip_exchange_message *exchange = &message->as.exchange;
    bool carries = message->kind == GOSSIP_XCHG || message->kind == GOSSIP_XACK;
    size_t used, delta = carries ? exchange->delta_bytes : 0, moment = carries ? exchange->moment_bytes : 0;

    if (to->waiting == QUEUE)
        return; // lost
    uint8_t *bytes = to->inbox[to->waiting].bytes;
    BASE_ASSERT(!gossip_message_encode_header(message, bytes, MESSAGE_BYTES, &used));
    BASE_ASSERT(used + delta + moment <= MESSAGE_BYTES);
    if (delta)
        memcpy(bytes + used, exchange->delta, delta);
    if (moment)
        memcpy(bytes + used + delta, exchange->moment, moment);
    to->inbox[to->waiting++].count = used + delta + moment;
}

static void step(struct pair *pair, size_t at, struct gossip_exchange_event *event)
{
    struct end *end = &pair->end[at], *other = &pair->end[!at];
    struct gossip_exchange_actions actions;
    const uint64_t before = state_hash(end->exchange), place = edges_places(end->exchange);

    event->now_ns = pair->now_ns++;
    event->peer = other->self;
    BASE_ASSERT(!gossip_exchange_step(end->exchange, event, &actions));
    const bool refused = actions_refuse(&actions, &other->self);
    BASE_ASSERT(!refused || !pair->honest);
    pair->refused |= refused;
    if (refused && event->kind == GOSSIP_EXCHANGE_MESSAGE)
        BASE_ASSERT(edges_places(end->exchange) != place || state_hash(end->exchange) == before);
    for (size_t i = 0; i < actions.count; i++)
        if (actions.list[i].kind == GOSSIP_EXCHANGE_ROUND_DONE)
            end->open = false;
        else if (actions.list[i].kind == GOSSIP_EXCHANGE_SEND && pair->up)
            post(other, &actions.list[i].message);
    check_ends(pair);
}

static void tell(struct pair *pair, size_t at, enum gossip_exchange_event_kind kind)
{
    struct gossip_exchange_event event = {.kind = kind};

    step(pair, at, &event);
}

static void set_link(struct pair *pair, bool up)
{
    pair->up = up;
    for (size_t i = 0; i < 2; i++)
        pair->end[i].waiting = 0;
    for (size_t i = 0; i < 2; i++)
        tell(pair, i, up ? GOSSIP_EXCHANGE_LINK_UP : GOSSIP_EXCHANGE_LINK_DOWN);
}

static void begin_round(struct pair *pair, size_t at, uint8_t change)
{
    struct end *end = &pair->end[at];
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND};

    if (end->open)
        return;
    end->open = true;
    for (size_t j = 0; j < D; j++) {
        uint64_t drawn = base_hash_mix(j << 8 ^ change);
        end->x[j] += ((float)(drawn & 255) - 127.5f) / 64;
        end->v[j] += (float)(drawn >> 8 & 255) / 256;
    }
    event.round.round = ++end->round;
    event.round.meets = true;
    event.round.partner = pair->end[!at].self;
    event.round.weight = change & 1 ? 0.5f : (float)(change | 1) / 256;
    event.round.pace_ns = change;
    event.round.step_scale = change & 2 ? 0.1f : ldexpf(1, -(change >> 2));
    event.round.model = end->x;
    event.round.second_moment = end->v;
    event.round.correction = end->correction;
    event.round.held = pair->holds ? end->held : NULL;
    step(pair, at, &event);
}

// A look, and a verdict: that of a node with more neighbours, since nobody distrusts its only one.
static void judge(struct pair *pair, size_t at, uint8_t what)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_TRUST,
                                          .losses = {.nothing = 2, .own = 1, .other = what & 16 ? 1 : 3}};
    float reference[D];

    step(pair, at, &event);
    (void)gossip_exchange_look(pair->end[at].exchange, &event.peer, reference);
    struct gossip_edge *edge = gossip_edge_find(pair->end[at].exchange, &pair->end[!at].self);
    if (!edge)
        return;
    edge->trust.state = what & 32 ? GOSSIP_DISTRUSTED : GOSSIP_TRUSTED;
    edge->trust.verdicts += what & 32 && edge->trust.verdicts == 0;
}

static void close_refused(struct pair *pair)
{
    if (!pair->refused)
        return;
    set_link(pair, false);
    set_link(pair, true);
    pair->refused = false;
}

enum delivery { WHOLE, CHANGED, LOST, REPEATED };

static void deliver(struct pair *pair, size_t at, enum delivery how, struct base_reader *in)
{
    struct end *end = &pair->end[at];
    struct gossip_message message;
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_MESSAGE, .message = &message};
    uint8_t bytes[MESSAGE_BYTES];

    if (end->waiting == 0)
        return;
    size_t count = end->inbox[0].count;
    memcpy(bytes, end->inbox[0].bytes, count);
    if (how != REPEATED)
        memmove(&end->inbox[0], &end->inbox[1], --end->waiting * sizeof end->inbox[0]);
    if (how == LOST)
        return;
    if (how == CHANGED) {
        size_t place = base_read_u16(in) % count;
        bytes[place] = base_read_u8(in);
    }
    pair->honest &= how == WHOLE; // a stream that is not attacked repeats nothing
    if (!gossip_message_decode(bytes, count, &message) &&
        (message.kind == GOSSIP_HELLO || message.kind == GOSSIP_XCHG || message.kind == GOSSIP_XACK ||
         message.kind == GOSSIP_BUSY || message.kind == GOSSIP_PARKED))
        step(pair, at, &event);
    else
        pair->refused = true;
    close_refused(pair);
}

static void operate(struct pair *pair, uint8_t what, struct base_reader *in)
{
    size_t at = what & 1;

    switch (what >> 1 & 7) {
    case 0:
    case 1:
        begin_round(pair, at, base_read_u8(in));
        break;
    case 2:
        pair->now_ns += what & 128 ? CEILING + MS : 11 * MS;
        tell(pair, at, GOSSIP_EXCHANGE_TIMER);
        break;
    case 3:
        set_link(pair, !pair->up);
        break;
    case 4:
        judge(pair, at, what);
        break;
    default:
        for (unsigned times = 1 + (what >> 6); times > 1 && pair->end[at].waiting > 1; times--)
            deliver(pair, at, WHOLE, in);
        deliver(pair, at, (enum delivery)(what >> 4 & 3), in);
    }
    close_refused(pair);
}

static void create(struct pair *pair, struct base_reader *in)
{
    static const float start[D];
    const uint8_t mode = base_read_u8(in);

    pair->holds = mode & 128;
    for (size_t i = 0; i < 2; i++) {
        struct end *end = &pair->end[i];
        struct gossip_exchange_options options = {.kernels = cpu_kernels(),
                                                  .hold = pair->holds ? 0.5f : 0,
                                                  .parameters = D,
                                                  .start = start,
                                                  .ratio = 0.2f,
                                                  .sync = mode & 1,
                                                  .drift_correction = true,
                                                  .drift_gain = 2,
                                                  .drift_limit = 0.25f,
                                                  .share_second_moment = mode & 2 ? 4 : 0,
                                                  .reference_bf16 = mode & 64,
                                                  .bounded = mode & 8,
                                                  .max_delay = mode >> 4 & 1,
                                                  .robust =
                                                      mode & 32 ? GOSSIP_ROBUST_PROBE : GOSSIP_ROBUST_OFF,
                                                  .deadline_floor_ns = 10 * MS,
                                                  .deadline_ceiling_ns = CEILING};
        end->self.bytes[0] = (uint8_t)(i + 1);
        options.self = end->self;
        options.values = (enum kernels_format)(base_read_u8(in) % KERNELS_FORMATS);
        if (mode & 4)
            BASE_ASSERT(!compress_filters_add(&options.filters, "same-keys", 2, NULL));
        BASE_ASSERT(!gossip_exchange_create(&options, &end->exchange, NULL));
    }
}

// A round waits for its answer, and then for the state of its edge. Nothing arrives any more.
static void end_rounds(struct pair *pair)
{
    struct gossip_edge_info info = {0};

    for (size_t i = 0; i < 2; i++) {
        if (gossip_exchange_edges(pair->end[i].exchange) > 0)
            gossip_exchange_edge_info(pair->end[i].exchange, 0, &info);
        const uint64_t until_ns = pair->now_ns + 3 * CEILING + 4 * info.answer_median_ns;
        while (pair->end[i].open) {
            BASE_ASSERT(pair->now_ns < until_ns);
            pair->now_ns += CEILING + MS;
            tell(pair, i, GOSSIP_EXCHANGE_TIMER);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pair pair; // too large for the stack
    struct base_reader in = base_reader_of(data, size);

    memset(&pair, 0, sizeof pair);
    pair.now_ns = 1;
    pair.honest = true;
    create(&pair, &in);
    set_link(&pair, true);
    for (int i = 0; i < 500 && !in.failed && base_reader_left(&in) > 0; i++)
        operate(&pair, base_read_u8(&in), &in);
    end_rounds(&pair);
    for (size_t i = 0; i < 2; i++)
        gossip_exchange_destroy(pair.end[i].exchange);
    return 0;
}
