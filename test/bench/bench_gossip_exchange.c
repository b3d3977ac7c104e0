// The whole path out of a node (x - r, select, quantise, encode, seal), the whole path in (open, check,
// decode, apply to x, to r and its hash, keep the pending updates for the trainer), its records in the
// journal (of the request and of the exchange, written to a file), and a round boundary after it (take the
// trainer's model, give it back), beside one read of x and r, and of x. Sealing: ChaCha20-Poly1305 of
// libsodium in records of 64 KiB, as in a session. Arguments: --count N (31000000),
// --ratio R (0.01), --values NAME (int8), --drift (with drift correction), --bf16 (references in bf16: the
// floors stay those of fp32), --seconds S (10), --cpu (processor time, where other programs use the machine).
// Also the passes over x of a boundary and of the learner, with average.hold and without. --clip: instead,
// the ways out and in with and without clipping in turn; no update is cut.
#include "gossip/exchange/state.h"
#include "test/support/bench.h"
#include "test/support/cpu_kernels.h"

#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOURNAL = 64 << 20, RECORD = 65519, TAG = crypto_aead_chacha20poly1305_ietf_ABYTES };

struct way {
    struct gossip_exchange *exchange;
    struct gossip_edge *edge;
    uint8_t *theirs; // the packet of another model over the same r
    size_t theirs_bytes;
    uint8_t *sealed, *theirs_sealed, *opened;
    float *trainer; // its x
    float *copy, *held;
    uint64_t round;
    int journal; // a file
    size_t journal_bytes;
};

static const uint8_t key[crypto_aead_chacha20poly1305_ietf_KEYBYTES] = {1};
static const uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];

static void seal(const uint8_t *bytes, size_t count, uint8_t *out)
{
    for (size_t done = 0; done < count; done += RECORD, out += RECORD + TAG)
        crypto_aead_chacha20poly1305_ietf_encrypt(out, NULL, bytes + done,
                                                  count - done < RECORD ? count - done : RECORD, NULL, 0,
                                                  NULL, nonce, key);
}

static void unseal(const uint8_t *in, size_t count, uint8_t *bytes)
{
    for (size_t done = 0; done < count; done += RECORD, in += RECORD + TAG) {
        size_t record = count - done < RECORD ? count - done : RECORD;
        int refused = crypto_aead_chacha20poly1305_ietf_decrypt(bytes + done, NULL, NULL, in, record + TAG,
                                                                NULL, 0, nonce, key);
        BASE_ASSERT(!refused);
    }
}

// Far more progress than the norm of an update and of the correction, which one pull for ever has here, so
// that nothing is cut; and not before the first round.
static void reach_far(struct gossip_exchange *exchange)
{
    exchange->clip.energy = (double)exchange->options.parameters;
    exchange->clip.highest = 1e9 * (double)exchange->options.parameters;
    exchange->lately = 1;
    exchange->pace.rounds += exchange->pace.rounds == 0;
}

static void run_prepare(void *context)
{
    struct way *way = context;
    reach_far(way->exchange);
    enum base_error error =
        gossip_averaging_prepare(way->exchange, way->edge, GOSSIP_DELTA_SPARSE, 0, 1, &way->edge->request);
    BASE_ASSERT(!error);
}

static void run_seal(void *context)
{
    struct way *way = context;
    seal(way->edge->request.bytes, way->edge->request.delta_bytes, way->sealed);
}

static void run_out(void *context)
{
    run_prepare(context);
    run_seal(context);
}

static void run_unseal(void *context)
{
    struct way *way = context;
    unseal(way->theirs_sealed, way->theirs_bytes, way->opened);
}

static void commit(struct way *way)
{
    const struct gossip_exchange_message theirs = {.form = GOSSIP_DELTA_SPARSE,
                                                   .step_scale = 0.1f,
                                                   .weight = 0.5f,
                                                   .limit = INFINITY,
                                                   .bound = INFINITY,
                                                   .delta = way->opened,
                                                   .delta_bytes = (uint32_t)way->theirs_bytes};
    enum base_error error =
        gossip_averaging_commit(way->exchange, way->edge, &way->edge->request, &theirs, 1);
    BASE_ASSERT(!error);
}

// Without what the trainer gets of all of them together, which would be another case.
static void run_commit(void *context)
{
    struct way *way = context;
    commit(way);
    gossip_pending_drop(way->exchange);
}

static void run_journal(void *context)
{
    struct way *way = context;
    const struct gossip_exchange_message theirs = {.form = GOSSIP_DELTA_SPARSE,
                                                   .step_scale = 0.1f,
                                                   .weight = 0.5f,
                                                   .limit = INFINITY,
                                                   .bound = INFINITY,
                                                   .delta = way->opened,
                                                   .delta_bytes = (uint32_t)way->theirs_bytes};
    const struct gossip_effect effect = {.weight = 0.5f, .gain = 0.1f};
    size_t bytes;

    gossip_exchange_journal_begin(way->exchange);
    gossip_journal_request(way->exchange, way->edge);
    gossip_journal_commit(way->exchange, way->edge, &way->edge->request, &theirs, 1, &effect, NULL);
    const uint8_t *records = gossip_exchange_journal(way->exchange, &bytes);
    const ssize_t written = write(way->journal, records, bytes);
    BASE_ASSERT(written == (ssize_t)bytes);
    way->journal_bytes += bytes;
    if (way->journal_bytes > JOURNAL) { // as a checkpoint begins another file
        way->journal_bytes = 0;
        const int error = ftruncate(way->journal, 0);
        const off_t start = lseek(way->journal, 0, SEEK_SET);
        BASE_ASSERT(!error && start == 0);
    }
    gossip_journal_end(way->exchange);
}

static void run_in_and_round(void *context)
{
    struct way *way = context;
    struct gossip_exchange_actions actions = {.count = 0};
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND};

    run_unseal(way);
    commit(way);
    event.round.round = ++way->round;
    event.round.step_scale = 0.1f;
    event.round.model = way->trainer;
    gossip_round_begin(way->exchange, &event);
    if (gossip_round_pump(way->exchange, &actions))
        abort();
}

// The copy of the boundary, and the learner's look whether x is finite after its steps.
static void run_plain(void *context)
{
    struct way *way = context;
    const struct kernels *kernels = way->exchange->options.kernels;
    const size_t d = way->exchange->options.parameters;
    kernels->vectors->copy(way->copy, way->trainer, d * sizeof *way->copy);
    const bool finite = kernels->apply->finite(way->trainer, d);
    BASE_ASSERT(finite);
}

// The same with average.hold.
static void run_hold(void *context)
{
    struct way *way = context;
    const struct gossip_exchange *exchange = way->exchange;
    const struct kernels_vectors *vectors = exchange->options.kernels->vectors;
    const size_t d = exchange->options.parameters;
    gossip_vector_hold(exchange->options.kernels, &way->edge->reference, d, 0.5f, way->trainer, way->copy,
                       way->held);
    vectors->add(d, -1, way->held, way->trainer);
    const bool finite = vectors->give_back(d, way->held, way->trainer);
    BASE_ASSERT(finite);
}

static void run_in(void *context)
{
    run_unseal(context);
    run_commit(context);
}

static void way_open(struct way *way, const struct gossip_exchange_options *options)
{
    struct base_reason why;
    struct gossip_id peer = {{2}};
    size_t d = options->parameters;

    if (gossip_exchange_create(options, &way->exchange, &why) ||
        gossip_edge_add(way->exchange, &peer, &way->edge)) {
        fprintf(stderr, "%s\n", why.text);
        exit(1);
    }
    char path[] = "/tmp/p2pml-bench-XXXXXX";
    way->journal = mkstemp(path);
    BASE_ASSERT(way->journal >= 0);
    (void)unlink(path);
    gossip_edge_enter(way->exchange, way->edge, GOSSIP_EDGE_HELLO);
    gossip_edge_resume(way->exchange, way->edge);
    bench_fill(BENCH_GAUSSIAN, 2, way->exchange->model, d); // first the model of the other end
    run_prepare(way);
    way->theirs_bytes = way->edge->request.delta_bytes;
    size_t room = way->theirs_bytes + (way->theirs_bytes / RECORD + 1) * TAG + way->theirs_bytes / 2;
    way->theirs = bench_alloc(room);
    way->sealed = bench_alloc(room);
    way->theirs_sealed = bench_alloc(room);
    way->opened = bench_alloc(room);
    way->trainer = bench_alloc(d * sizeof *way->trainer);
    way->copy = bench_alloc(d * sizeof *way->copy);
    way->held = bench_alloc(d * sizeof *way->held);
    bench_fill(BENCH_GAUSSIAN, 1, way->trainer, d);
    memcpy(way->theirs, way->edge->request.bytes, way->theirs_bytes);
    seal(way->theirs, way->theirs_bytes, way->theirs_sealed);
    bench_fill(BENCH_GAUSSIAN, 1, way->exchange->model, d);
    run_prepare(way);
    run_unseal(way);
}

static void way_close(struct way *way)
{
    gossip_exchange_destroy(way->exchange);
    close(way->journal);
    bench_free(way->theirs);
    bench_free(way->sealed);
    bench_free(way->theirs_sealed);
    bench_free(way->opened);
    bench_free(way->trainer);
    bench_free(way->copy);
    bench_free(way->held);
}

static void print(const char *name, const struct way *way, const char *values, struct bench_time time,
                  double floor_ns)
{
    char more[128];

    snprintf(more, sizeof more, "\"values\": \"%s\", \"bytes\": %zu, \"drift\": %s, \"bf16\": %s", values,
             way->edge->request.delta_bytes, gossip_vector_is(&way->edge->correction) ? "true" : "false",
             way->edge->reference.bf16 ? "true" : "false");
    bench_print(&(struct bench_result){.bench = "gossip_exchange",
                                       .name = name,
                                       .count = way->exchange->options.parameters,
                                       .entries = way->exchange->entries,
                                       .time = time,
                                       .floor_ns = floor_ns,
                                       .more = more});
}

// The floor of each with clipping is the same without.
static void compare(struct way *way, struct way *clips, clockid_t clock, const char *values, double seconds)
{
    enum { OUT, OUT_CLIP, IN, IN_CLIP, IN_AND_ROUND, IN_AND_ROUND_CLIP, CASES };
    static const char *const names[CASES] = {"out",     "out_clip",     "in",
                                             "in_clip", "in_and_round", "in_and_round_clip"};
    const struct bench_case cases[CASES] = {{run_out, NULL, way},          {run_out, NULL, clips},
                                            {run_in, NULL, way},           {run_in, NULL, clips},
                                            {run_in_and_round, NULL, way}, {run_in_and_round, NULL, clips}};
    struct bench_time times[CASES];

    bench_alternate_by(clock, cases, CASES, seconds, times);
    BASE_ASSERT(clips->exchange->totals.clipped == 0);
    for (size_t i = 0; i < CASES; i++)
        print(names[i], i % 2 ? clips : way, values, times[i], times[i - i % 2].ns);
}

static void measure(struct way *way, clockid_t clock, const char *values, double seconds)
{
    enum { READ_TWO, READ, OUT, PREPARE, SEAL, IN, UNSEAL, COMMIT, WRITE, IN_AND_ROUND, PLAIN, HOLD, CASES };
    static const char *const names[CASES] = {"read_x_and_r", "read_x",       "out",   "prepare",
                                             "seal",         "in",           "open",  "commit",
                                             "journal",      "in_and_round", "plain", "hold"};
    size_t d = way->exchange->options.parameters;
    struct bench_span span = {.a = way->exchange->model, .b = way->trainer, .bytes = d * sizeof(float)};
    const struct bench_case cases[CASES] = {
        {bench_read_two, NULL, &span}, {bench_read, NULL, &span}, {run_out, NULL, way},
        {run_prepare, NULL, way},      {run_seal, NULL, way},     {run_in, NULL, way},
        {run_unseal, NULL, way},       {run_commit, NULL, way},   {run_journal, NULL, way},
        {run_in_and_round, NULL, way}, {run_plain, NULL, way},    {run_hold, NULL, way}};
    struct bench_time times[CASES];

    bench_alternate_by(clock, cases, CASES, seconds, times);
    for (size_t i = 0; i < CASES; i++)
        print(names[i], way, values, times[i], times[i == READ || i >= IN ? READ : READ_TWO].ns);
}

int main(int argc, char **argv)
{
    const char *values = bench_option(argc, argv, "--values", "int8");
    const double seconds = strtod(bench_option(argc, argv, "--seconds", "10"), NULL);
    struct gossip_exchange_options options = {
        .self = {{1}},
        .kernels = cpu_kernels(),
        .parameters = strtoull(bench_option(argc, argv, "--count", "31000000"), NULL, 10),
        .ratio = strtof(bench_option(argc, argv, "--ratio", "0.01"), NULL),
        .drift_correction = bench_flag(argc, argv, "--drift"),
        .reference_bf16 = bench_flag(argc, argv, "--bf16"),
        .drift_gain = 2,
        .drift_limit = 0.25f,
        .deadline_floor_ns = 1,
        .deadline_ceiling_ns = 1};
    const clockid_t clock = bench_flag(argc, argv, "--cpu") ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    struct way way, clips;

    while (options.values < KERNELS_FORMATS && strcmp(compress_format_name(options.values), values) != 0)
        options.values++;
    if (sodium_init() < 0 || options.values == KERNELS_FORMATS) {
        fprintf(stderr, "bench_gossip_exchange --values: found '%s', expected a value format, such as int4\n",
                values);
        return 1;
    }
    float *start = bench_alloc(options.parameters * sizeof *start);
    options.start = start;
    way_open(&way, &options);
    if (bench_flag(argc, argv, "--clip")) {
        options.robust = GOSSIP_ROBUST_CLIP;
        way_open(&clips, &options);
        compare(&way, &clips, clock, values, seconds);
        way_close(&clips);
    } else {
        measure(&way, clock, values, seconds);
    }
    way_close(&way);
    bench_free(start);
    return 0;
}
