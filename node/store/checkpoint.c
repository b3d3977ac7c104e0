#include "node/store/checkpoint.h"

#include "base/file.h"
#include "gossip/session/identity.h"
#include "node/store/checkpoint_files.h"
#include "node/store/place.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_VECTORS 4
#define FIXED_PAIRS   22 // pairs of metadata, without those of edges and kept corrections

// The content of the file to be written; the data is borrowed from the parts.
struct draft {
    struct node_tensor *tensors;
    struct node_text_pair *pairs;
    struct gossip_edge_record *edges;
    void **copies; // of vectors of the exchange that are not in ordinary memory
    size_t n_tensors, n_pairs, n_edges, n_copies;
    size_t max_tensors, max_pairs, max_copies; // that there is room for
    char *about;                               // what some of the pairs point into
};

static void add_pair(struct draft *draft, const char *key, const char *format, ...) BASE_PRINTF(3, 4);
static void add_pair(struct draft *draft, const char *key, const char *format, ...)
{
    BASE_ASSERT(draft->n_pairs < draft->max_pairs);
    struct node_text_pair *pair = &draft->pairs[draft->n_pairs++];
    va_list arguments;
    va_start(arguments, format);
    snprintf(pair->key, sizeof pair->key, "%s", key);
    vsnprintf(pair->value, sizeof pair->value, format, arguments);
    va_end(arguments);
}

static struct node_tensor *add_tensor(struct draft *draft, const char *scope, const char *name,
                                      const void *data, size_t count)
{
    BASE_ASSERT(draft->n_tensors < draft->max_tensors);
    struct node_tensor *tensor = &draft->tensors[draft->n_tensors++];
    *tensor = (struct node_tensor){
        .type = NODE_TENSOR_F32, .shape = {count}, .n_dims = 1, .bytes = count * sizeof(float), .data = data};
    snprintf(tensor->name, sizeof tensor->name, "%s.%s", scope, name);
    return tensor;
}

static void draft_metadata(struct draft *draft, const struct node_checkpoint_parts *parts)
{
    char model[200], id[GOSSIP_ID_HEX];
    struct train_cursor cursor = train_trainer_cursor(parts->trainer);
    train_model_describe(parts->model, model, sizeof model);
    gossip_id_hex(&parts->id, id);
    add_pair(draft, "format", NODE_CHECKPOINT_FORMAT);
    add_pair(draft, "version", NODE_CHECKPOINT_VERSION);
    add_pair(draft, "model", "%s", model);
    add_pair(draft, "schema", "%016" PRIx64, train_model_schema(parts->model));
    add_pair(draft, "node", "%s", parts->node ? parts->node : "");
    add_pair(draft, "id", "%s", id);
    add_pair(draft, "round", "%" PRIu64, parts->round);
    add_pair(draft, "step", "%" PRIu64, cursor.step);
    add_pair(draft, "epoch", "%" PRIu64, cursor.epoch);
    add_pair(draft, "position", "%" PRIu64, cursor.position);
    add_pair(draft, "seed", "%" PRIu64, cursor.seed);
    add_pair(draft, "model_seed", "%" PRIu64, parts->model_seed);
    add_pair(draft, "boot", "%" PRIu64, parts->resumes);
    if (parts->journal)
        add_pair(draft, "journal", "%016" PRIx64, parts->journal);
    if (parts->open)
        add_pair(draft, "open", "%a", (double)parts->open_scale);
    if ((parts->unsettled || parts->open) && train_trainer_settles(parts->trainer))
        add_pair(draft, "unsettled", "1");
}

static void draft_model(struct draft *draft, const struct node_checkpoint_parts *parts)
{
    size_t n_tensors, parameters = train_model_parameters(parts->model);
    const struct train_tensor *table = train_model_tensors(parts->model, &n_tensors);
    train_trainer_fetch(parts->trainer);
    const float *model = train_trainer_model(parts->trainer);
    for (size_t i = 0; i < n_tensors; i++) {
        struct node_tensor *tensor =
            add_tensor(draft, "model", table[i].name, model + table[i].offset, table[i].count);
        tensor->n_dims = table[i].n_dims;
        memcpy(tensor->shape, table[i].shape, sizeof table[i].shape);
    }
    struct train_state_vector vectors[STATE_VECTORS];
    size_t n_vectors = train_trainer_state_vectors(parts->trainer, vectors);
    for (size_t i = 0; i < n_vectors; i++)
        add_tensor(draft, "state", vectors[i].name, vectors[i].values, parameters);
    if (parts->outer)
        add_tensor(draft, "outer", "momentum", parts->outer, parameters);
    if (parts->outer && (parts->open || parts->unsettled))
        add_tensor(draft, "outer", "start", parts->round_start, parameters);
}

// A vector of the exchange in ordinary memory. False: out of memory.
static bool take_copy(struct draft *draft, const struct gossip_exchange *exchange, const float **vector)
{
    const struct kernels *kernels = gossip_exchange_kernels(exchange);
    const size_t bytes = gossip_exchange_parameters(exchange) * sizeof **vector;
    if (!*vector || kernels->shares_host)
        return true;
    float *copy = malloc(bytes);
    if (!copy)
        return false;
    BASE_ASSERT(draft->n_copies < draft->max_copies);
    kernels->download(copy, *vector, bytes);
    draft->copies[draft->n_copies++] = copy;
    *vector = copy;
    return true;
}

static bool draft_kept(struct draft *draft, const struct gossip_exchange *exchange, size_t parameters)
{
    char scope[16 + GOSSIP_ID_HEX], id[GOSSIP_ID_HEX];
    size_t n = exchange ? gossip_exchange_orphans(exchange) : 0;
    for (size_t i = 0; i < n; i++) {
        struct gossip_orphan_record kept = gossip_exchange_orphan_at(exchange, i);
        if (!take_copy(draft, exchange, &kept.correction))
            return false;
        gossip_id_hex(&kept.peer, id);
        snprintf(scope, sizeof scope, "kept.%s", id);
        add_pair(draft, scope, "%" PRIu64, kept.left);
        add_tensor(draft, scope, "correction", kept.correction, parameters);
    }
    return true;
}

static void add_edge_vector(struct draft *draft, const char *scope, const char *name, const float *fp32,
                            const uint16_t *bf16, size_t parameters)
{
    struct node_tensor *tensor = add_tensor(draft, scope, name, bf16 ? (const void *)bf16 : fp32, parameters);
    if (!bf16)
        return;
    tensor->type = NODE_TENSOR_BF16;
    tensor->bytes = parameters * sizeof *bf16;
}

// Vectors in bf16 follow those in fp32, and the opaque transactions go last, so that all are aligned.
static void draft_edges(struct draft *draft, size_t parameters)
{
    char scope[16 + GOSSIP_ID_HEX], id[GOSSIP_ID_HEX];
    for (size_t i = 0; i < draft->n_edges; i++) {
        const struct gossip_edge_record *edge = &draft->edges[i];
        gossip_id_hex(&edge->peer, id);
        snprintf(scope, sizeof scope, "edge.%s", id);
        add_pair(draft, scope, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, edge->epoch, edge->sequence,
                 edge->resync_offset, edge->clock);
        if (edge->reference || edge->reference_bf16)
            add_edge_vector(draft, scope, "reference", edge->reference, edge->reference_bf16, parameters);
        if (edge->correction || edge->correction_bf16)
            add_edge_vector(draft, scope, "correction", edge->correction, edge->correction_bf16, parameters);
    }
    for (size_t i = 0; i < draft->n_edges; i++) {
        const struct gossip_edge_record *edge = &draft->edges[i];
        if (edge->transactions_bytes == 0)
            continue;
        gossip_id_hex(&edge->peer, id);
        snprintf(scope, sizeof scope, "edge.%s", id);
        struct node_tensor *tensor =
            add_tensor(draft, scope, "transactions", edge->transactions, edge->transactions_bytes);
        tensor->type = NODE_TENSOR_U8;
        tensor->bytes = edge->transactions_bytes;
    }
}

// After the transactions, for the same reason.
static void draft_bytes(struct draft *draft, const char *name, const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return;
    struct node_tensor *tensor = add_tensor(draft, "program", name, data, bytes);
    tensor->type = NODE_TENSOR_U8;
    tensor->bytes = bytes;
}

static void draft_program(struct draft *draft, const struct node_checkpoint_parts *parts)
{
    if (parts->blob)
        draft_bytes(draft, "blob", parts->blob->data, parts->blob->bytes);
    if (parts->state)
        draft_bytes(draft, "state", parts->state->data, parts->state->bytes);
}

static void draft_free(struct draft *draft)
{
    for (size_t i = 0; i < draft->n_copies; i++)
        free(draft->copies[i]);
    free(draft->copies);
    free(draft->tensors);
    free(draft->pairs);
    free(draft->edges);
    free(draft->about);
}

static enum base_error draft_about(struct draft *draft, const struct node_checkpoint_parts *parts,
                                   struct base_reason *why)
{
    size_t count = 0;
    if (!parts->about)
        return BASE_OK;
    enum base_error error = node_model_about_pairs(parts->about, train_model_spec(parts->model),
                                                   draft->pairs + draft->n_pairs, &count, &draft->about, why);
    draft->n_pairs += count;
    BASE_ASSERT(draft->n_pairs <= draft->max_pairs);
    return error;
}

static enum base_error draft_make(const struct node_checkpoint_parts *parts, struct draft *draft,
                                  struct base_reason *why)
{
    size_t n_table, n_edges = parts->exchange ? gossip_exchange_edges(parts->exchange) : 0;
    size_t n_orphans = parts->exchange ? gossip_exchange_orphans(parts->exchange) : 0;
    BASE_ASSERT(!draft->tensors && !draft->pairs);
    train_model_tensors(parts->model, &n_table);
    draft->n_edges = n_edges;
    draft->max_tensors = n_table + STATE_VECTORS + 4 + 3 * n_edges + n_orphans;
    draft->max_pairs = FIXED_PAIRS + NODE_MODEL_ABOUT_PAIRS + n_edges + n_orphans;
    draft->max_copies = 2 * n_edges + n_orphans;
    draft->tensors = calloc(draft->max_tensors, sizeof *draft->tensors);
    draft->pairs = calloc(draft->max_pairs, sizeof *draft->pairs);
    draft->edges = calloc(n_edges + 1, sizeof *draft->edges);
    draft->copies = calloc(draft->max_copies + 1, sizeof *draft->copies);
    if (!draft->tensors || !draft->pairs || !draft->edges || !draft->copies)
        return base_fail(why, BASE_ENOMEM, "no memory to describe a checkpoint with %zu edges", n_edges);
    for (size_t i = 0; i < n_edges; i++) {
        struct gossip_edge_record *edge = &draft->edges[i];
        enum base_error error = gossip_exchange_export(parts->exchange, i, edge);
        if (!error && (!take_copy(draft, parts->exchange, &edge->reference) ||
                       !take_copy(draft, parts->exchange, &edge->correction)))
            error = BASE_ENOMEM;
        if (error)
            return base_fail(why, error, "cannot take the state of edge %zu: %s", i, base_error_name(error));
    }
    draft_metadata(draft, parts);
    draft_model(draft, parts);
    if (!draft_kept(draft, parts->exchange, train_model_parameters(parts->model)))
        return base_fail(why, BASE_ENOMEM, "no memory for the orphaned corrections of %zu edges", n_orphans);
    draft_edges(draft, train_model_parameters(parts->model));
    draft_program(draft, parts);
    return draft_about(draft, parts, why);
}

static enum base_error check_finite(const struct draft *draft, const struct kernels *kernels,
                                    struct base_reason *why)
{
    for (size_t i = 0; i < draft->n_tensors; i++) {
        const struct node_tensor *tensor = &draft->tensors[i];
        if (tensor->type == NODE_TENSOR_F32 &&
            !kernels->host->apply->finite(tensor->data, tensor->bytes / sizeof(float)))
            return base_fail(why, BASE_ESTATE, "its tensor '%s' holds NaN or infinity", tensor->name);
    }
    return BASE_OK;
}

enum base_error node_checkpoint_add(const char *directory, size_t keep,
                                    const struct node_checkpoint_parts *parts, struct base_reason *why)
{
    char path[NODE_CHECKPOINT_PATH];
    struct draft draft = {0};
    uint64_t step = train_trainer_cursor(parts->trainer).step;
    enum base_error error = node_checkpoint_file_path(directory, step, path, why);
    if (error)
        return error;
    error = base_directory_make(directory, NODE_DIRECTORY_MODE, why);
    if (error)
        goto out;
    error = draft_make(parts, &draft, why);
    if (!error)
        error = check_finite(&draft, train_model_kernels(parts->model), why);
    if (!error)
        error = node_safetensors_write(path, draft.tensors, draft.n_tensors, draft.pairs, draft.n_pairs, why);
    if (!error)
        node_checkpoint_files_retire(directory, keep, step);
out:
    draft_free(&draft);
    if (error)
        return base_fail_context(why, error, "no checkpoint of step %" PRIu64 " was written", step);
    return BASE_OK;
}

enum base_error node_checkpoint_write(const char *directory, size_t keep,
                                      const struct node_checkpoint_parts *parts, struct base_reason *why)
{
    base_file_sweep(directory, NODE_CHECKPOINT_PREFIX);
    return node_checkpoint_add(directory, keep, parts, why);
}

enum base_error node_checkpoint_newest(const char *directory, char *path, size_t capacity,
                                       struct base_reason *why)
{
    struct node_checkpoint_files files;
    char newest[NODE_CHECKPOINT_PATH];
    enum base_error error = node_checkpoint_files_list(directory, &files, why);
    if (error)
        return error;
    if (files.count == 0)
        error = base_fail(why, BASE_ENOTFOUND, "there is no checkpoint in '%s'", directory);
    else
        error = node_checkpoint_file_path(directory, files.steps[0], newest, why);
    node_checkpoint_files_free(&files);
    if (error)
        return error;
    if (strlen(newest) >= capacity)
        return base_fail(why, BASE_EINVAL, "the path '%.200s...' is too long", newest);
    memcpy(path, newest, strlen(newest) + 1);
    return BASE_OK;
}
