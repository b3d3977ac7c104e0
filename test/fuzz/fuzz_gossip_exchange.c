// An authenticated but hostile neighbour: whatever messages it sends, in whatever order, the exchange must
// neither crash nor keep a round open beyond its deadline, and a refused message changes nothing.
#include "base/cursor.h"
#include "base/hash.h"
#include "gossip/exchange/exchange.h"
#include "test/support/cpu_kernels.h"
#include "test/support/exchange_looks.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { D = 40 };

// A neighbour knows r as well as this end does.
static uint64_t reference_hash(const struct gossip_exchange *exchange, const struct gossip_id *peer)
{
    struct gossip_edge_info info;

    for (size_t i = 0; i < gossip_exchange_edges(exchange); i++) {
        gossip_exchange_edge_info(exchange, i, &info);
        if (gossip_id_compare(&info.peer, peer) == 0)
            return edge_hash(info.reference, info.reference_bf16, D);
    }
    return 0;
}

// A rate may be anything that a schedule names; a neighbour may name anything else.
static float scale_from(struct base_reader *in)
{
    static const float scales[] = {0.1f, 0.1f, 0.01f, 1e-6f, 0, FLT_TRUE_MIN, 1e30f, FLT_MAX};

    return scales[base_read_u8(in) % (sizeof scales / sizeof *scales)];
}

static struct gossip_message message_from(struct base_reader *in, uint64_t known_hash)
{
    struct gossip_message message = {.kind = (enum gossip_message_kind)(GOSSIP_HELLO + base_read_u8(in) % 5)};
    uint64_t epoch = base_read_u8(in) % 4, sequence = base_read_u8(in) % 4;

    if (message.kind == GOSSIP_BYE) {
        message.kind = GOSSIP_PARKED;
        message.as.parked = (struct gossip_parked){epoch, sequence, base_read_u8(in) % 8};
    } else if (message.kind == GOSSIP_HELLO) {
        message.as.hello = (struct gossip_hello){.epoch = epoch,
                                                 .sequence = sequence,
                                                 .reference_hash = base_read_u8(in) ^ known_hash,
                                                 .resync_offset = base_read_u8(in) % (D + 2),
                                                 .answer = base_read_u8(in)};
        message.as.hello.scaling = message.as.hello.answer % 8 == 7;
    } else if (message.kind == GOSSIP_BUSY) {
        message.as.busy = (struct gossip_busy){.epoch = epoch, .sequence = sequence};
    } else {
        uint8_t flags = base_read_u8(in);
        uint32_t delta = base_read_u8(in), moment = flags & 2 ? base_read_u8(in) : 0;
        uint32_t news = flags & 64 ? base_read_u8(in) % (GOSSIP_MESSAGE_NEWS + 1) : 0;
        message.as.exchange =
            (struct gossip_exchange_message){.epoch = epoch,
                                             .sequence = sequence,
                                             .clock = base_read_u8(in) % 8,
                                             .step_scale = scale_from(in),
                                             .standing = base_read_u8(in) % 3,
                                             .weight = flags & 1 || !(flags & 16) ? 0.5f : 0.75f,
                                             .limit = flags & 128 ? scale_from(in) : INFINITY,
                                             .bound = flags & 128 ? scale_from(in) : INFINITY,
                                             .progress = flags & 128 ? scale_from(in) : 0,
                                             .pace_ns = flags & 32 ? flags : 0,
                                             .form = flags & 1,
                                             .keys = flags >> 3 & 1,
                                             .offset = flags & 4 ? base_read_u8(in) : 0,
                                             .delta_bytes = delta,
                                             .moment_bytes = moment,
                                             .news_bytes = news};
        message.as.exchange.delta = base_read_bytes(in, delta);
        message.as.exchange.moment = base_read_bytes(in, moment);
        message.as.exchange.news = base_read_bytes(in, news);
    }
    return message;
}

// The hash of everything that a refused message must not change.
static uint64_t state_hash(const struct gossip_exchange *exchange)
{
    const struct kernels_apply *apply = cpu_kernels()->apply;
    uint64_t hash = apply->hash(gossip_exchange_model(exchange), D, 0, false);

    hash = base_hash_mix(hash ^ apply->hash(gossip_exchange_correction(exchange), D, 0, false));
    return base_hash_mix(hash ^ edges_hash(exchange, D));
}

static struct gossip_exchange *make_exchange(uint8_t mode, bool holds)
{
    static const float start[D];
    struct gossip_exchange_options options = {
        .kernels = cpu_kernels(),
        .parameters = D,
        .start = start,
        .self = {{2}},
        .ratio = 0.2f,
        .values = (enum kernels_format)(mode >> 1 & 7) % KERNELS_FORMATS,
        .sync = mode & 1,
        .bounded = mode & 32,
        .max_delay = 1,
        .robust = mode & 64 ? GOSSIP_ROBUST_PROBE : GOSSIP_ROBUST_OFF,
        .on_death = mode & 128 ? GOSSIP_ON_DEATH_FADE : GOSSIP_ON_DEATH_KEEP,
        .fade_rounds = 3,
        .hold = holds ? 0.5f : 0,
        .drift_correction = true,
        .reference_bf16 = (mode >> 1 & 7) == KERNELS_FORMATS,
        .drift_gain = 2,
        .drift_limit = 0.25f,
        .share_second_moment = 4,
        .deadline_floor_ns = 10,
        .deadline_ceiling_ns = 1000};
    struct gossip_exchange *exchange;

    if (mode & 16) {
        enum base_error error = compress_filters_add(&options.filters, "same-keys", 2, NULL);
        BASE_ASSERT(!error);
    }
    BASE_ASSERT(!gossip_exchange_create(&options, &exchange, NULL));
    return exchange;
}

// A checkpoint may hold anything: what is accepted of it must not break what follows.
static void import_edge(struct gossip_exchange *exchange, struct base_reader *in)
{
    static const float zero[D];
    static const uint16_t zero_bf16[D];
    struct gossip_edge_record record = {.peer = {{1}}, .reference = zero, .correction = zero};

    if (base_reader_left(in) > 0 && *in->at & 128)
        record = (struct gossip_edge_record){
            .peer = {{1}}, .reference_bf16 = zero_bf16, .correction_bf16 = zero_bf16};

    record.epoch = base_read_u8(in) % 4;
    record.sequence = base_read_u8(in) % 4;
    record.resync_offset = base_read_u8(in) % (D + 2);
    record.transactions_bytes = base_read_u8(in);
    record.transactions = base_read_bytes(in, record.transactions_bytes);
    if (!in->failed)
        (void)!gossip_exchange_import(exchange, &record);
}

static bool ends_round(const struct gossip_exchange_actions *actions)
{
    for (size_t i = 0; i < actions->count; i++)
        if (actions->list[i].kind == GOSSIP_EXCHANGE_ROUND_DONE)
            return true;
    return false;
}

// A round ends, at the latest when its waits have passed. A partner that refuses is asked again after 1 ms
// and more, whatever the deadlines are, and given up after 16 refusals (gossip/pace).
static void end_round(struct gossip_exchange *exchange, uint64_t *now,
                      struct gossip_exchange_actions *actions)
{
    for (int wait = 0; !ends_round(actions); wait++) {
        *now += wait < 2 ? 1001 : 200000000; // beyond the deadlines, then beyond the longest pause
        struct gossip_exchange_event timer = {.kind = GOSSIP_EXCHANGE_TIMER, .now_ns = *now};
        BASE_ASSERT(wait < 20 && !gossip_exchange_step(exchange, &timer, actions));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    float x[D] = {1, 2, 3}, v[D] = {0.5f}, correction[D], held[D] = {0}, reference[D];
    struct base_reader in = base_reader_of(data, size);
    const uint8_t mode = base_read_u8(&in), begins = base_read_u8(&in);
    struct gossip_exchange *exchange = make_exchange(mode, begins & 4);
    struct gossip_exchange_actions actions;
    struct gossip_report reports[3] = {{.id = {{1}}}, {.id = {{3}}, .round = 7}, {.id = {{4}}, .round = 1}};
    uint64_t round = 0;

    if (begins & 1)
        import_edge(exchange, &in);
    if (begins & 2)
        gossip_exchange_scaling(exchange, 2);
    for (uint64_t now = 1; !in.failed && now < 2000; now++) {
        struct gossip_exchange_event event = {.now_ns = now};
        struct gossip_message message;
        uint8_t what = base_read_u8(&in);

        event.peer.bytes[0] = what & 16 ? 1 : 3;
        event.kind = (enum gossip_exchange_event_kind)(what % (GOSSIP_EXCHANGE_TIMER + 1));
        event.dead = what & 32;
        if (event.kind == GOSSIP_EXCHANGE_MESSAGE) {
            message = message_from(&in, reference_hash(exchange, &event.peer));
            event.message = &message;
            if (in.failed)
                break;
        } else if (event.kind == GOSSIP_EXCHANGE_NEWS) {
            event.news.reports = reports;
            event.news.count = event.news.members = what >> 5 & 3;
            reports[0].round = base_read_u8(&in);
        } else if (event.kind == GOSSIP_EXCHANGE_TRUST) {
            event.losses =
                (struct gossip_losses){.nothing = 2,
                                       .own = what / 64.0,
                                       .other = what & 32 ? (double)NAN : base_read_u8(&in) / 32.0};
        } else if (event.kind == GOSSIP_EXCHANGE_ROUND) {
            event.round.round = ++round;
            event.round.meets = true;
            event.round.weight = what & 64 ? 0.75f : 0;
            event.round.idle = what & 128;
            event.round.partner = event.peer;
            event.round.step_scale = scale_from(&in);
            const uint8_t how = base_read_u8(&in);
            event.round.others = how & 1;
            event.round.unusable = how & 2;
            event.round.standing = how / 4 % 3;
            event.round.model = x;
            event.round.second_moment = v;
            event.round.correction = correction;
            event.round.held = begins & 4 ? held : NULL;
        }
        const uint64_t before = state_hash(exchange), place = edges_places(exchange);
        BASE_ASSERT(!gossip_exchange_step(exchange, &event, &actions));
        if (event.kind == GOSSIP_EXCHANGE_MESSAGE && actions_refuse(&actions, &event.peer))
            BASE_ASSERT(edges_places(exchange) != place || state_hash(exchange) == before);
        if (event.kind == GOSSIP_EXCHANGE_ROUND)
            end_round(exchange, &now, &actions);
        (void)gossip_exchange_look(exchange, &event.peer, reference);
    }
    gossip_exchange_destroy(exchange);
    return 0;
}
