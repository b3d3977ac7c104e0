#include "node/setup.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "compress/packet.h"
#include "gossip/life/rounds.h"
#include "node/config/compatibility.h"
#include "node/queue/clock.h"
#include "node/queue/message.h"
#include "node/store/checkpoint.h"
#include "node/store/checkpoint_files.h"
#include "node/store/model_file.h"
#include "node/store/place.h"
#include "node/store/removed.h"
#include "topology/file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define PACKET_ROOM   256u                  // headers of packets and blocks, generously
#define LEAST_JOURNAL (64ull << 20)         // bytes
#define BESIDE_NS     (2 * NODE_SECOND_NS)  // how long the last checkpoint waits for one under way
#define RESCUE_NS     (30 * NODE_SECOND_NS) // ... and how long it may continue if the last one fails

// Removes what a killed process left half-written. The directory may hold other files, too.
static void sweep(const char *directory)
{
    static const char *const own[] = {NODE_CHECKPOINT_PREFIX, NODE_MODEL_LAST ".tmp-", "boot.tmp-",
                                      "joined.tmp-"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        base_file_sweep(directory, own[i]);
}

// Two processes in one directory would overwrite each other's checkpoints.
static enum base_error take_directory(struct node_setup *s, struct base_reason *why)
{
    char path[NODE_PATH_BYTES];
    BASE_ASSERT(s->lock < 0);
    enum base_error error = base_directory_make(s->config->node.dir, NODE_DIRECTORY_MODE, why);
    if (error)
        return base_fail_context(why, error, "node.dir");
    error = node_place_path(s->config->node.dir, "lock", path, why);
    if (error)
        return error;
    s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock < 0)
        return base_fail(why, BASE_EIO, "node.dir: %s: %s", path, base_open_error(errno));
    if (flock(s->lock, LOCK_EX | LOCK_NB) == 0) {
        sweep(s->config->node.dir);
        return BASE_OK;
    }
    if (errno == EWOULDBLOCK)
        return base_fail(
            why, BASE_ESTATE,
            "node.dir: %s is in use by another p2pml-node; give every node a directory of its own",
            s->config->node.dir);
    return base_fail(why, BASE_EIO, "node.dir: %s cannot be locked: %s", path, strerror(errno));
}

static enum base_error take_identity(struct node_setup *s, struct base_reason *why)
{
    char path[NODE_PATH_BYTES], hex[GOSSIP_ID_HEX];
    const char *configured = s->config->node.identity;
    BASE_ASSERT(s->lock >= 0); // no other process makes one here
    if (strlen(configured) >= sizeof path)
        return base_fail(why, BASE_ELIMIT, "node.identity: the path is too long");
    enum base_error error = BASE_OK;
    if (configured[0])
        snprintf(path, sizeof path, "%s", configured);
    else
        error = node_place_path(s->config->node.dir, "identity", path, why);
    if (!error)
        error = gossip_identity_load(path, &s->identity, why);
    if (error == BASE_ENOTFOUND)
        error = gossip_identity_create(path, &s->identity, why);
    if (error)
        return base_fail_context(why, error, "identity");
    gossip_id_hex(&s->identity.id, hex);
    if (s->config->node.name[0])
        snprintf(s->name, sizeof s->name, "%s", s->config->node.name);
    else
        snprintf(s->name, sizeof s->name, "%.8s", hex);
    return BASE_OK;
}

static enum base_error take_operator(struct node_setup *s, struct base_reason *why)
{
    const char *hex = s->config->cluster.operator_id;
    if (!hex[0])
        return BASE_OK;
    if (gossip_id_parse(hex, &s->remover))
        return base_fail(
            why, BASE_EFORMAT,
            "cluster.operator: found \"%.80s\", expected an id of 64 hex digits: that of the identity "
            "that may remove members ('p2pml keygen --identity FILE' makes one and prints its id)",
            hex);
    s->allow.all = !s->has_allow;
    s->has_allow = s->has_remover = true;
    const enum base_error error =
        node_removed_read(s->config->node.dir, s->config->cluster.name, &s->remover, &s->allow.removed, why);
    return error ? base_fail_context(why, error, "the list of removed members") : BASE_OK;
}

static enum base_error take_secrets(struct node_setup *s, struct base_reason *why)
{
    BASE_ASSERT(!s->has_allow);
    enum base_error error = gossip_secrets_load(s->config->cluster.secret_file, &s->secrets, why);
    if (error)
        return base_fail_context(why, error, "cluster.secret_file");
    if (s->config->cluster.allow_file[0]) {
        error = gossip_allow_list_load(s->config->cluster.allow_file, &s->allow, why);
        if (error)
            return base_fail_context(why, error, "cluster.allow_file");
        s->has_allow = true;
    }
    return take_operator(s, why);
}

static enum base_error take_graph(struct node_setup *s, struct base_reason *why)
{
    BASE_ASSERT(s->name[0]); // its place in the graph may depend on it
    enum base_error error = node_config_graph(s->config, NULL, 0, &s->graph, why);
    if (!error)
        error = node_config_check_place(s->config, s->graph, s->name, why);
    s->topology = (struct topology_options){.kind = (enum topology_kind)s->config->topology.kind,
                                            .seed = s->config->topology.seed,
                                            .rings = (unsigned)s->config->topology.rings,
                                            .base_k = (unsigned)s->config->topology.base_k,
                                            .graph = s->graph};
    return error;
}

static struct node_checkpoint_parts checkpoint_parts(struct node_setup *s)
{
    return (struct node_checkpoint_parts){.model = s->model,
                                          .trainer = s->trainer,
                                          .exchange = s->exchange,
                                          .outer = s->outer,
                                          .round_start = s->round_start,
                                          .blob = s->blob,
                                          .state = s->state,
                                          .round = s->round,
                                          .model_seed = s->config->model.seed,
                                          .resumes = s->resumes,
                                          .node = s->name,
                                          .id = s->identity.id,
                                          .about = &s->about};
}

// Writes a checkpoint while no thread changes the vectors: the last one, or one for which no process can be
// forked.
static enum base_error write_checkpoint(struct node_setup *s, const struct node_checkpoint_parts *parts,
                                        struct base_reason *why)
{
    enum base_error error = node_checkpoint_replace(
        &s->beside, s->config->node.dir, s->config->checkpoint.keep, parts, BESIDE_NS, RESCUE_NS, why);
    if (!error)
        base_log(BASE_LOG_INFO, "checkpoint", "step %llu is written",
                 (unsigned long long)train_trainer_steps_done(s->trainer));
    return error;
}

static enum base_error begin_checkpoint(struct node_setup *s, const struct node_checkpoint_parts *parts,
                                        struct base_reason *why)
{
    enum base_error error =
        node_checkpoint_begin(&s->beside, s->config->node.dir, s->config->checkpoint.keep, parts, why);
    if (error == BASE_ESTATE) {
        base_log(BASE_LOG_WARN, "checkpoint_slow",
                 "%s; this one is skipped (is the disk slow, or checkpoint.every too short?)", why->text);
        return BASE_OK;
    }
    return error ? write_checkpoint(s, parts, why) : BASE_OK;
}

// At least 64 MiB: a small model makes many exchanges between two checkpoints. Beyond it, a checkpoint is
// shorter than the journal.
static void begin_journal(struct node_setup *s)
{
    const uint64_t times = 32 * (uint64_t)train_model_parameters(s->model);

    s->journal.limit = times > LEAST_JOURNAL ? times : LEAST_JOURNAL;
    node_journal_begin(&s->journal, s->config->node.dir, train_trainer_steps_done(s->trainer));
    gossip_exchange_journal_begin(s->exchange);
}

void node_setup_journal(void *context, const uint8_t *records, size_t bytes)
{
    node_journal_append(&((struct node_setup *)context)->journal, records, bytes);
}

bool node_setup_checkpoint_wanted(const void *context)
{
    const struct node_setup *s = context;
    return !s->beside.pid && (s->journal.wants || !gossip_exchange_journal_kept(s->exchange));
}

enum base_error node_setup_checkpoint(void *context, const struct node_round *round, struct base_reason *why)
{
    struct node_setup *s = context;
    if (s->scaling && s->scaling->blob.bytes == 0)
        return BASE_OK; // nothing is learned yet, and without its scaling no node can resume
    bool restored;
    const enum base_error error = node_keeper_look(s->keeper, &restored, why);
    if (error == BASE_ESTATE)
        return error; // not into another process's directory
    struct node_checkpoint_parts parts = checkpoint_parts(s);
    parts.round = round->at.meet.round - round->at.meet.open;
    parts.unsettled = round->at.meet.meets;
    parts.open = round->at.meet.open;
    parts.open_scale = round->at.meet.step_scale;
    begin_journal(s);
    parts.journal = s->journal.key;
    if (!round->at.meet.last && s->kernels->shares_host && s->steps == NODE_STEPS_BUILT_IN)
        return begin_checkpoint(s, &parts, why);
    return write_checkpoint(s, &parts, why);
}

enum base_error node_setup_checkpoint_ended(void *context, struct base_reason *why)
{
    struct node_setup *s = context;
    return node_checkpoint_end(&s->beside, 0, why);
}

static enum base_error resume_scaling(struct node_setup *s, struct base_reason *why)
{
    BASE_ASSERT(s->resumed);
    if (!s->scaling)
        return BASE_OK;
    const struct gossip_blob blob = s->scaling->blob;
    s->scaling->blob.bytes = 0; // the data are not scaled yet
    return node_scaling_take(s->scaling, &blob, why);
}

// Loads the newest checkpoint into trainer and outer momentum; *file is kept for the edges.
static enum base_error resume_training(struct node_setup *s, bool resume, struct node_safetensors **file,
                                       struct base_reason *why)
{
    char path[NODE_PATH_BYTES];
    BASE_ASSERT(s->model && s->trainer && !s->exchange); // the exchange begins with what is resumed
    if (!resume) {
        if (!node_checkpoint_newest(s->config->node.dir, path, sizeof path, why))
            base_log(BASE_LOG_WARN, "fresh_start",
                     "%s exists, but training starts from step 0; --resume would continue from it", path);
        return BASE_OK;
    }
    struct node_checkpoint_parts parts = checkpoint_parts(s);
    enum base_error error = node_checkpoint_resume(s->config->node.dir, &parts, file, why);
    if (error == BASE_ENOTFOUND) {
        base_log(BASE_LOG_WARN, "fresh_start", "--resume: no checkpoint in %s; training begins at step 0",
                 s->config->node.dir);
        return BASE_OK;
    }
    if (error)
        return base_fail_context(why, error, "--resume");
    s->resumed = true;
    s->round = parts.round;
    s->unsettled = parts.unsettled;
    s->open = parts.open;
    s->open_scale = parts.open_scale;
    s->resumes = parts.resumes + 1;
    s->journal.key = parts.journal;
    train_trainer_store(s->trainer);
    error = node_setup_check_resumed(s, *file, why);
    if (!error)
        error = resume_scaling(s, why);
    if (error)
        return base_fail_context(why, error, "--resume");
    base_log(BASE_LOG_INFO, "resume", "from step %llu, round %llu",
             (unsigned long long)train_trainer_steps_done(s->trainer), (unsigned long long)s->round);
    return BASE_OK;
}

// The edges of the checkpoint are imported: what happened after it is done again. The next process finds the
// records of this one behind them.
static enum base_error resume_journal(struct node_setup *s, struct base_reason *why)
{
    struct gossip_exchange_replayed replayed;
    const uint64_t key = s->journal.key;
    if (!key)
        return BASE_OK; // an older file: the first checkpoint begins a journal
    const bool settled = !s->unsettled || (!s->outer && !train_trainer_settles(s->trainer));
    enum base_error error =
        node_journal_replay(&s->journal, s->config->node.dir, key, s->exchange, settled, &replayed, why);
    if (error)
        return base_fail_context(why, error, "--resume");
    s->reached = replayed.round;
    if (replayed.records > 0)
        base_log(BASE_LOG_INFO, "resume", "%llu records of the journal lead to round %llu; %llu do not fit",
                 (unsigned long long)replayed.records, (unsigned long long)replayed.round,
                 (unsigned long long)replayed.left_out);
    begin_journal(s);
    s->journal.wants = replayed.records > 0;
    return BASE_OK;
}

struct gossip_rounds_options node_setup_rounds(const struct node_setup *s)
{
    const uint64_t steps = s->config->train.steps;
    return (struct gossip_rounds_options){.local_steps = s->config->average.local_steps,
                                          .steps = steps > 0 ? steps : UINT64_MAX, // 0: until it is stopped
                                          .round = s->round,
                                          .step = train_trainer_steps_done(s->trainer),
                                          .resumed = s->resumed,
                                          .open = s->open,
                                          .open_scale = s->open_scale,
                                          .reached = s->reached};
}

// Generates the initial model again. New edges are rare enough for the time that this takes, and it saves a
// vector that only they need.
static void make_start(void *setup, float *start)
{
    const struct node_setup *s = setup;
    train_model_initialise(s->model, s->config->model.seed, start);
}

// A program of the user's own has its vectors in ordinary memory.
static const struct kernels *exchange_kernels(const struct node_setup *s)
{
    return s->trainee.trainer ? node_built_in_kernels(&s->trainee) : s->kernels->host;
}

static enum base_error make_exchange(struct node_setup *s, const struct node_safetensors *file,
                                     struct base_reason *why)
{
    const struct node_config *c = s->config;
    size_t d = train_model_parameters(s->model);
    struct gossip_exchange_options options;
    enum base_error error = node_setup_exchange_options(c, &options, why);
    if (error)
        return error;
    options.self = s->identity.id;
    options.kernels = exchange_kernels(s);
    if (s->steps == NODE_STEPS_OF_PROGRAM && options.robust == GOSSIP_ROBUST_PROBE)
        options.robust = GOSSIP_ROBUST_CLIP; // it compares no models
    options.parameters = d;
    options.start = s->seeded ? NULL : s->start;
    options.make_start = make_start;
    options.start_owner = s;
    options.model = file ? train_trainer_model(s->trainer) : NULL;
    options.round = s->round;
    error = gossip_exchange_create(&options, &s->exchange, why);
    if (error || !file)
        return error;
    node_checkpoint_resume_edges(file, s->exchange);
    error = resume_journal(s, why);
    if (error)
        return error;
    if (s->scaling)
        gossip_exchange_scaling(s->exchange, gossip_blob_hash(&s->scaling->blob));
    const float *correction = gossip_exchange_correction(s->exchange);
    if (correction) { // for the steps before the first boundary
        options.kernels->download(train_trainer_correction(s->trainer), correction, d * sizeof *correction);
        train_trainer_store(s->trainer);
    }
    return BASE_OK;
}

// The largest message of a peer for this model: all values in fp32 with their indices and a full slice of
// second moments; or a block of a RESYNC or of a snapshot; or a membership packet; or the blob.
static size_t largest_message(size_t parameters, bool blob)
{
    size_t block = 4u * (parameters < LIMIT_RESYNC_BLOCK ? parameters : LIMIT_RESYNC_BLOCK);
    _Static_assert(LIMIT_SNAPSHOT_BLOCK <= LIMIT_RESYNC_BLOCK, "blocks of a snapshot are no larger");
    if (block < LIMIT_GOSSIP_BYTES)
        block = LIMIT_GOSSIP_BYTES;
    _Static_assert(GOSSIP_STATISTICS_BLOCK * GOSSIP_SPREAD_BYTES <= LIMIT_GOSSIP_BYTES, "one of statistics");
    if (blob && block < LIMIT_BLOB_BYTES)
        block = LIMIT_BLOB_BYTES;
    size_t moments = parameters + parameters / 512; // in pieces with a scale each
    size_t packet = compress_packet_bound(parameters, parameters, KERNELS_FP32) + moments;
    size_t bytes = LIMIT_MESSAGE_HEADER_BYTES + PACKET_ROOM + (packet > block ? packet : block);
    return bytes < UINT32_MAX ? bytes : UINT32_MAX; // a stream writes a length in four bytes
}

// Counts this start, on disk, before anything is sent.
static enum base_error take_start(struct node_setup *s, struct base_reason *why)
{
    struct timespec now;
    enum base_error error = node_place_path(s->config->node.dir, "boot", s->starts_path, why);
    if (!error)
        error = node_place_path(s->config->node.dir, "events.jsonl", s->events_path, why);
    if (error)
        return error;
    if (getrandom(&s->instance_id, sizeof s->instance_id, 0) != (ssize_t)sizeof s->instance_id)
        return base_fail(why, BASE_EIO, "the system has no random numbers: %s", strerror(errno));
    clock_gettime(CLOCK_REALTIME, &now);
    error = node_starts_take(s->starts_path, (uint64_t)now.tv_sec, &s->starts, why);
    return error ? base_fail_context(why, error, "node.dir") : BASE_OK;
}

// The code that made the model has filled in its description.
static enum base_error make_greeting(struct node_setup *s, const char *version)
{
    struct gossip_greeting *g = &s->greeting;
    BASE_ASSERT(s->start); // its digest is told
    size_t d = train_model_parameters(s->model);
    snprintf(g->version, sizeof g->version, "%s", version);
    snprintf(g->name, sizeof g->name, "%s", s->name);
    g->parameters = d;
    g->instance_id = s->instance_id;
    s->message_limit = largest_message(d, s->blob);
    const enum base_error error = node_greeting_settings(s->config, g);
    if (error)
        return error;
    const uint64_t start = base_hash_bytes(0, s->start, d * sizeof *s->start);
    // If nodes gather statistics, one of them starts first, and the others take its model with the scaling
    // that it computed.
    s->first_model = s->scaling ? base_hash_bytes(start, s->identity.id.bytes, GOSSIP_ID_BYTES) : start;
    s->first_model += s->first_model == 0;
    return node_greeting_rules(s->config, s->graph ? topology_graph_hash(s->graph) : 0, start, g->rules);
}

static void describe(const struct node_setup *s, const char *version)
{
    char hex[GOSSIP_ID_HEX];
    gossip_id_hex(&s->identity.id, hex);
    base_log(BASE_LOG_INFO, "node", "p2pml-node %s, id %s", version, hex);
    if (s->config->average.method == NODE_METHOD_MODEL_AVERAGE)
        base_log(BASE_LOG_INFO, "method",
                 "model-average: average.ratio is 1, average.values fp32, average.drift_correction false");
    if (s->config->average.method == NODE_METHOD_LOCAL)
        base_log(BASE_LOG_INFO, "method", "local: nothing is averaged");
}

static void describe_exchange(const struct node_setup *s)
{
    const size_t d = train_model_parameters(s->model);
    struct gossip_exchange_totals totals;
    gossip_exchange_totals(s->exchange, &totals);
    base_log(BASE_LOG_INFO, "model", "%s, %zu parameters", s->greeting.model, d);
    if (s->config->average.method != NODE_METHOD_LOCAL)
        base_log(BASE_LOG_INFO, "ratio",
                 "an exchange sends %" PRIu64 " of %zu values, 1/%.3g (average.ratio%s)", totals.entries, d,
                 (double)d / (double)totals.entries, s->config->average.ratio > 0 ? "" : " is auto");
}

static struct node_lines_bounds line_bounds(const struct node_config *config)
{
    return (struct node_lines_bounds){config->metrics.file_bytes, (unsigned)config->metrics.files};
}

static enum base_error make_all(struct node_setup *s, const struct node_setup_options *options,
                                struct base_reason *why)
{
    struct node_safetensors *file = NULL;
    char path[NODE_PATH_BYTES];
    BASE_ASSERT(s->config && options->training && options->version);
    enum base_error error = take_directory(s, why);
    if (!error)
        error = take_identity(s, why);
    if (error)
        return error;
    base_log_configure((enum base_log_level)s->config->log.level, (enum base_log_format)s->config->log.format,
                       s->name);
    describe(s, options->version);
    error = take_secrets(s, why);
    if (!error)
        error = take_graph(s, why);
    if (!error)
        error = options->training(s, options->context, why);
    if (!error)
        error = resume_training(s, options->resume, &file, why);
    if (!error)
        error = make_exchange(s, file, why);
    node_safetensors_free(file);
    if (!error)
        error = node_place_path(s->config->node.dir, "metrics.jsonl", path, why);
    if (!error)
        error = node_metrics_open(path, s->name, line_bounds(s->config), &s->metrics, why);
    if (!error && !(s->rounds = node_rounds_create()))
        error = base_fail(why, BASE_ENOMEM, "no memory for the latest rounds");
    if (!error && s->config->metrics.tensorboard[0])
        error = node_tensorboard_open(s->config->metrics.tensorboard, s->name, &s->tensorboard, why);
    if (error)
        return error;
    error = take_start(s, why);
    if (!error)
        error = node_keeper_create(s->config->node.dir, s->lock, &s->keeper, why);
    if (error)
        return error;
    error = make_greeting(s, options->version);
    if (error)
        return base_fail(why, error, "out of memory");
    if (s->seeded) {
        free(s->start);
        s->start = NULL;
    }
    describe_exchange(s);
    return BASE_OK;
}

enum base_error node_setup_create(const struct node_config *config, const struct node_setup_options *options,
                                  struct node_setup *setup, struct base_reason *why)
{
    *setup = (struct node_setup){.config = config, .lock = -1, .journal = {.fd = -1, .wants = true}};
    enum base_error error = make_all(setup, options, why);
    if (error)
        node_setup_destroy(setup);
    return error;
}

void node_setup_destroy(struct node_setup *s)
{
    struct base_reason why;
    if (node_checkpoint_end(&s->beside, BESIDE_NS, &why)) // a host program keeps running
        base_log(BASE_LOG_WARN, "checkpoint_failed", "%s", why.text);
    node_journal_close(&s->journal);
    node_metrics_close(s->metrics);
    node_rounds_destroy(s->rounds);
    node_tensorboard_close(s->tensorboard);
    gossip_exchange_destroy(s->exchange);
    train_trainer_destroy(s->trainer);
    train_model_destroy(s->model);
    node_scaling_destroy(s->scaling);
    train_dataset_destroy(&s->train);
    train_dataset_destroy(&s->test);
    gossip_allow_list_destroy(&s->allow);
    topology_graph_destroy(s->graph);
    gossip_identity_wipe(&s->identity);
    explicit_bzero(&s->secrets, sizeof s->secrets);
    free(s->start);
    free(s->outer);
    free(s->kept);
    free(s->round_start);
    node_keeper_destroy(s->keeper);
    if (s->lock >= 0)
        close(s->lock);
    *s = (struct node_setup){.lock = -1, .journal = {.fd = -1}};
}
