// With P2PML_FAR set, every exchange that a test creates gets a twin over kernels whose memory the host
// cannot touch (far_kernels.h). The twin gets the same events, and must give the same messages and have the
// same vectors, bit for bit, after each of them. The linker puts these functions in place of the exchange's
// (test/CMakeLists.txt), so that the tests need not change. Without P2PML_FAR they only forward.
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/state.h"
#include "test/support/cpu_kernels.h"
#include "test/support/far_kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TWINS 256u

enum vector { MODEL, SECOND, CORRECTION, HELD, VECTORS };

struct twin {
    const struct gossip_exchange *first; // the exchange of the test
    struct gossip_exchange *second;
    size_t parameters;
    float *of_trainer[VECTORS]; // what the test's trainer has lent, or NULL
    float *far[VECTORS];        // the same vectors of the twin
    float *fetched;             // [parameters] scratch
};

static struct twin twins[TWINS];
static size_t compared;

enum base_error __real_gossip_exchange_create(const struct gossip_exchange_options *options,
                                              struct gossip_exchange **exchange, struct base_reason *why);
void __real_gossip_exchange_destroy(struct gossip_exchange *exchange);
enum base_error __real_gossip_exchange_step(struct gossip_exchange *exchange,
                                            const struct gossip_exchange_event *event,
                                            struct gossip_exchange_actions *actions);
void __real_gossip_exchange_scaling(struct gossip_exchange *exchange, uint64_t scaling);
void __real_gossip_exchange_freeze(struct gossip_exchange *exchange);
void __real_gossip_exchange_standing(struct gossip_exchange *exchange, enum gossip_standing standing);
void __real_gossip_exchange_adopt(struct gossip_exchange *exchange, const float *model,
                                  const float *second_moment, uint64_t round);
enum base_error __real_gossip_exchange_export(struct gossip_exchange *exchange, size_t edge,
                                              struct gossip_edge_record *record);
enum base_error __real_gossip_exchange_import(struct gossip_exchange *exchange,
                                              const struct gossip_edge_record *record);
enum base_error __real_gossip_exchange_keep(struct gossip_exchange *exchange,
                                            const struct gossip_orphan_record *record);
void __real_gossip_exchange_journal_begin(struct gossip_exchange *exchange);
enum base_error __real_gossip_exchange_replay(struct gossip_exchange *exchange, const uint8_t *records,
                                              size_t bytes, bool recovers,
                                              struct gossip_exchange_replayed *replayed);

enum base_error __wrap_gossip_exchange_create(const struct gossip_exchange_options *options,
                                              struct gossip_exchange **exchange, struct base_reason *why);
void __wrap_gossip_exchange_destroy(struct gossip_exchange *exchange);
enum base_error __wrap_gossip_exchange_step(struct gossip_exchange *exchange,
                                            const struct gossip_exchange_event *event,
                                            struct gossip_exchange_actions *actions);
void __wrap_gossip_exchange_scaling(struct gossip_exchange *exchange, uint64_t scaling);
void __wrap_gossip_exchange_freeze(struct gossip_exchange *exchange);
void __wrap_gossip_exchange_standing(struct gossip_exchange *exchange, enum gossip_standing standing);
void __wrap_gossip_exchange_adopt(struct gossip_exchange *exchange, const float *model,
                                  const float *second_moment, uint64_t round);
enum base_error __wrap_gossip_exchange_export(struct gossip_exchange *exchange, size_t edge,
                                              struct gossip_edge_record *record);
enum base_error __wrap_gossip_exchange_import(struct gossip_exchange *exchange,
                                              const struct gossip_edge_record *record);
enum base_error __wrap_gossip_exchange_keep(struct gossip_exchange *exchange,
                                            const struct gossip_orphan_record *record);
void __wrap_gossip_exchange_journal_begin(struct gossip_exchange *exchange);
enum base_error __wrap_gossip_exchange_replay(struct gossip_exchange *exchange, const uint8_t *records,
                                              size_t bytes, bool recovers,
                                              struct gossip_exchange_replayed *replayed);

static struct twin *find(const struct gossip_exchange *first)
{
    for (size_t i = 0; i < TWINS; i++)
        if (twins[i].first == first)
            return first ? &twins[i] : NULL;
    return NULL;
}

// --- what must be equal

static void same(const struct twin *twin, const char *what, const float *near, const float *far)
{
    BASE_ASSERT(!near == !far);
    if (!near)
        return;
    far_kernels()->download(twin->fetched, far, twin->parameters * sizeof *far);
    if (memcmp(near, twin->fetched, twin->parameters * sizeof *near) == 0)
        return;
    for (size_t i = 0; i < twin->parameters; i++)
        if (memcmp(&near[i], &twin->fetched[i], sizeof near[i]) != 0) {
            (void)fprintf(stderr, "twin: %s, element %zu: %a on the host, %a in other memory\n", what, i,
                          (double)near[i], (double)twin->fetched[i]);
            abort();
        }
}

static bool same_peer(const struct gossip_id *a, const struct gossip_id *b)
{
    return gossip_id_compare(a, b) == 0;
}

static void same_message(const struct gossip_message *a, const struct gossip_message *b)
{
    uint8_t header[2][LIMIT_MESSAGE_HEADER_BYTES];
    struct gossip_payload payload[2][GOSSIP_MESSAGE_PAYLOADS];
    size_t bytes[2];

    BASE_ASSERT(!gossip_message_encode_header(a, header[0], sizeof header[0], &bytes[0]) &&
                !gossip_message_encode_header(b, header[1], sizeof header[1], &bytes[1]));
    BASE_ASSERT(bytes[0] == bytes[1] && memcmp(header[0], header[1], bytes[0]) == 0);
    const size_t n = gossip_message_payloads(a, payload[0]);
    BASE_ASSERT(n == gossip_message_payloads(b, payload[1]));
    for (size_t i = 0; i < n; i++)
        BASE_ASSERT(payload[0][i].count == payload[1][i].count &&
                    memcmp(payload[0][i].bytes, payload[1][i].bytes, payload[0][i].count) == 0);
}

static void same_journal(const struct twin *twin)
{
    size_t near_bytes, far_bytes;
    const uint8_t *near = gossip_exchange_journal(twin->first, &near_bytes),
                  *far = gossip_exchange_journal(twin->second, &far_bytes);

    BASE_ASSERT(near_bytes == far_bytes && (near_bytes == 0 || memcmp(near, far, near_bytes) == 0));
}

static void same_actions(const struct gossip_exchange_actions *a, const struct gossip_exchange_actions *b)
{
    BASE_ASSERT(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        BASE_ASSERT(a->list[i].kind == b->list[i].kind && a->list[i].round == b->list[i].round);
        BASE_ASSERT(same_peer(&a->list[i].peer, &b->list[i].peer) && a->list[i].why == b->list[i].why);
        if (a->list[i].kind == GOSSIP_EXCHANGE_SEND)
            same_message(&a->list[i].message, &b->list[i].message);
    }
}

static void same_edges(const struct twin *twin)
{
    const size_t n = gossip_exchange_edges(twin->first);

    BASE_ASSERT(n == gossip_exchange_edges(twin->second));
    for (size_t i = 0; i < n; i++) {
        struct gossip_edge_info a, b;
        gossip_exchange_edge_info(twin->first, i, &a);
        gossip_exchange_edge_info(twin->second, i, &b);
        BASE_ASSERT(same_peer(&a.peer, &b.peer) && a.state == b.state && a.epoch == b.epoch &&
                    a.sequence == b.sequence && a.clock == b.clock && a.resync_offset == b.resync_offset &&
                    a.exchanges == b.exchanges && a.implausible == b.implausible && a.barred == b.barred);
        same(twin, "reference", a.reference, b.reference);
        same(twin, "correction", a.correction, b.correction);
    }
}

static void same_orphans(const struct twin *twin)
{
    const size_t n = gossip_exchange_orphans(twin->first);

    BASE_ASSERT(n == gossip_exchange_orphans(twin->second));
    for (size_t i = 0; i < n; i++) {
        const struct gossip_orphan_record a = gossip_exchange_orphan_at(twin->first, i),
                                          b = gossip_exchange_orphan_at(twin->second, i);
        BASE_ASSERT(same_peer(&a.peer, &b.peer) && a.left == b.left);
        same(twin, "what an edge has left", a.correction, b.correction);
    }
}

// For a consensus: energies are summed in another order, and their difference may be all that is left.
static bool is_near(double a, double b)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-4 * fabs(a) + 1e-3;
}

static void same_totals(const struct twin *twin)
{
    struct gossip_exchange_totals a, b;

    gossip_exchange_totals(twin->first, &a);
    gossip_exchange_totals(twin->second, &b);
    BASE_ASSERT(a.exchanges == b.exchanges && a.delta_bytes_out == b.delta_bytes_out &&
                a.clipped == b.clipped && a.waits.overdue == b.waits.overdue &&
                a.not_finite == b.not_finite && a.implausible == b.implausible && a.standing == b.standing);
    BASE_ASSERT(is_near(a.consensus, b.consensus));
}

static void same_state(const struct twin *twin)
{
    same(twin, "model", gossip_exchange_model(twin->first), gossip_exchange_model(twin->second));
    same(twin, "second moments", gossip_exchange_second_moment(twin->first),
         gossip_exchange_second_moment(twin->second));
    same(twin, "sum of corrections", gossip_exchange_correction(twin->first),
         gossip_exchange_correction(twin->second));
    same_edges(twin);
    same_orphans(twin);
    same_totals(twin);
    compared++;
}

// --- the twin's life

// A test that compared nothing has shown nothing.
static void tell(void)
{
    printf("%zu steps over kernels of other memory were compared\n", compared);
    (void)fflush(stdout);
    if (compared == 0)
        _Exit(EXIT_FAILURE);
}

enum base_error __wrap_gossip_exchange_create(const struct gossip_exchange_options *options,
                                              struct gossip_exchange **exchange, struct base_reason *why)
{
    static bool begun;
    const enum base_error error = __real_gossip_exchange_create(options, exchange, why);

    if (error || !getenv("P2PML_FAR") || options->reference_bf16) // other memory refuses bf16
        return error;
    if (!begun)
        BASE_ASSERT(atexit(tell) == 0);
    begun = true;
    struct gossip_exchange_options far = *options;
    far.kernels = far_kernels();
    size_t i = 0;
    while (i < TWINS && twins[i].first)
        i++;
    BASE_ASSERT(i < TWINS);
    struct twin *twin = &twins[i];
    *twin = (struct twin){.first = *exchange, .parameters = options->parameters};
    BASE_ASSERT(!__real_gossip_exchange_create(&far, &twin->second, why));
    twin->fetched = malloc(twin->parameters * sizeof(float));
    BASE_ASSERT(twin->fetched);
    same_state(twin);
    return BASE_OK;
}

void __wrap_gossip_exchange_destroy(struct gossip_exchange *exchange)
{
    struct twin *twin = find(exchange);

    if (twin) {
        __real_gossip_exchange_destroy(twin->second);
        for (size_t v = 0; v < VECTORS; v++)
            far_kernels()->release(twin->far[v]);
        free(twin->fetched);
        *twin = (struct twin){0};
    }
    __real_gossip_exchange_destroy(exchange);
}

static float *lend(struct twin *twin, enum vector which, float *vector)
{
    const size_t bytes = twin->parameters * sizeof *vector;

    twin->of_trainer[which] = vector;
    if (!vector)
        return NULL;
    if (!twin->far[which])
        twin->far[which] = far_kernels()->alloc(bytes);
    far_kernels()->upload(twin->far[which], vector, bytes);
    return twin->far[which];
}

static void give_back(struct twin *twin)
{
    static const char *const name[] = {"trainer's model", "trainer's second moments", "trainer's correction",
                                       "what is held back"};

    for (size_t v = 0; v < VECTORS; v++)
        if (twin->of_trainer[v])
            same(twin, name[v], twin->of_trainer[v], twin->far[v]);
}

static void lend_all(struct twin *twin, struct gossip_exchange_event *event)
{
    event->round.model = lend(twin, MODEL, event->round.model);
    event->round.second_moment = lend(twin, SECOND, event->round.second_moment);
    event->round.correction = lend(twin, CORRECTION, event->round.correction);
    event->round.held = lend(twin, HELD, event->round.held);
}

enum base_error __wrap_gossip_exchange_step(struct gossip_exchange *exchange,
                                            const struct gossip_exchange_event *event,
                                            struct gossip_exchange_actions *actions)
{
    struct twin *twin = find(exchange);
    struct gossip_exchange_event far = *event;
    struct gossip_exchange_actions answer;

    if (twin && event->kind == GOSSIP_EXCHANGE_ROUND)
        lend_all(twin, &far);
    const enum base_error error = __real_gossip_exchange_step(exchange, event, actions);
    if (!twin)
        return error;
    BASE_ASSERT(__real_gossip_exchange_step(twin->second, &far, &answer) == error);
    same_actions(actions, &answer);
    same_journal(twin);
    for (size_t i = 0; i < actions->count; i++)
        if (actions->list[i].kind == GOSSIP_EXCHANGE_ROUND_DONE)
            give_back(twin);
    same_state(twin);
    return error;
}

void __wrap_gossip_exchange_scaling(struct gossip_exchange *exchange, uint64_t scaling)
{
    struct twin *twin = find(exchange);

    __real_gossip_exchange_scaling(exchange, scaling);
    if (twin)
        __real_gossip_exchange_scaling(twin->second, scaling);
}

void __wrap_gossip_exchange_freeze(struct gossip_exchange *exchange)
{
    struct twin *twin = find(exchange);

    __real_gossip_exchange_freeze(exchange);
    if (!twin)
        return;
    __real_gossip_exchange_freeze(twin->second);
    same_state(twin);
}

void __wrap_gossip_exchange_standing(struct gossip_exchange *exchange, enum gossip_standing standing)
{
    struct twin *twin = find(exchange);

    __real_gossip_exchange_standing(exchange, standing);
    if (twin)
        __real_gossip_exchange_standing(twin->second, standing);
}

void __wrap_gossip_exchange_adopt(struct gossip_exchange *exchange, const float *model,
                                  const float *second_moment, uint64_t round)
{
    struct twin *twin = find(exchange);

    __real_gossip_exchange_adopt(exchange, model, second_moment, round);
    if (!twin)
        return;
    __real_gossip_exchange_adopt(twin->second, model, second_moment, round);
    same_state(twin);
}

enum base_error __wrap_gossip_exchange_export(struct gossip_exchange *exchange, size_t edge,
                                              struct gossip_edge_record *record)
{
    struct twin *twin = find(exchange);
    struct gossip_edge_record other;
    const enum base_error error = __real_gossip_exchange_export(exchange, edge, record);

    if (!twin)
        return error;
    BASE_ASSERT(__real_gossip_exchange_export(twin->second, edge, &other) == error);
    if (error)
        return error;
    BASE_ASSERT(record->epoch == other.epoch && record->sequence == other.sequence &&
                record->resync_offset == other.resync_offset && record->clock == other.clock);
    BASE_ASSERT(record->transactions_bytes == other.transactions_bytes &&
                memcmp(record->transactions, other.transactions, other.transactions_bytes) == 0);
    same(twin, "exported reference", record->reference, other.reference);
    same(twin, "exported correction", record->correction, other.correction);
    return BASE_OK;
}

enum base_error __wrap_gossip_exchange_import(struct gossip_exchange *exchange,
                                              const struct gossip_edge_record *record)
{
    struct twin *twin = find(exchange);
    const enum base_error error = __real_gossip_exchange_import(exchange, record);

    if (!twin)
        return error;
    BASE_ASSERT(__real_gossip_exchange_import(twin->second, record) == error);
    same_state(twin);
    return error;
}

enum base_error __wrap_gossip_exchange_keep(struct gossip_exchange *exchange,
                                            const struct gossip_orphan_record *record)
{
    struct twin *twin = find(exchange);
    const enum base_error error = __real_gossip_exchange_keep(exchange, record);

    if (!twin)
        return error;
    BASE_ASSERT(__real_gossip_exchange_keep(twin->second, record) == error);
    same_state(twin);
    return error;
}

void __wrap_gossip_exchange_journal_begin(struct gossip_exchange *exchange)
{
    struct twin *twin = find(exchange);

    __real_gossip_exchange_journal_begin(exchange);
    if (twin)
        __real_gossip_exchange_journal_begin(twin->second);
}

enum base_error __wrap_gossip_exchange_replay(struct gossip_exchange *exchange, const uint8_t *records,
                                              size_t bytes, bool recovers,
                                              struct gossip_exchange_replayed *replayed)
{
    struct twin *twin = find(exchange);
    const enum base_error error = __real_gossip_exchange_replay(exchange, records, bytes, recovers, replayed);
    struct gossip_exchange_replayed far;

    if (!twin)
        return error;
    BASE_ASSERT(__real_gossip_exchange_replay(twin->second, records, bytes, recovers, &far) == error);
    BASE_ASSERT(far.bytes == replayed->bytes && far.records == replayed->records &&
                far.left_out == replayed->left_out && far.round == replayed->round);
    same_state(twin);
    return error;
}
