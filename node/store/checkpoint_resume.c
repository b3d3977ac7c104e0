#include "base/limits.h"
#include "base/log.h"
#include "gossip/session/identity.h"
#include "node/store/checkpoint.h"
#include "node/store/checkpoint_files.h"
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A checkpoint that fits the parts: where everything is in the file, all checked before anything changes.
struct plan {
    const struct node_tensor *model[LIMIT_TENSORS];
    struct train_state_vector state[TRAIN_STATES];
    const struct node_tensor *state_from[TRAIN_STATES], *outer, *round_start, *blob,
        *program; // the last four NULL where the file has none
    uint8_t *program_copy;
    bool open, unsettled;
    float open_scale;
    size_t n_state;
    struct train_cursor cursor;
    uint64_t round, resumes, journal;
};

// `count` decimal numbers with one space between them.
static bool parse_numbers(const char *text, uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t digits = text ? strspn(text, "0123456789") : 0;
        uint64_t value = 0;
        for (size_t j = 0; j < digits; j++)
            if (__builtin_mul_overflow(value, 10u, &value) ||
                __builtin_add_overflow(value, (uint64_t)(text[j] - '0'), &value))
                return false;
        if (digits == 0 || text[digits] != (i + 1 < count ? ' ' : 0))
            return false;
        numbers[i] = value;
        text += digits + 1;
    }
    return true;
}

static enum base_error find_number(const struct node_safetensors *file, const char *key, uint64_t *number,
                                   struct base_reason *why)
{
    const char *text = node_safetensors_metadata(file, key);
    if (!parse_numbers(text, number, 1))
        return base_fail(why, BASE_EFORMAT, "metadata '%s' is '%.40s', expected a number", key,
                         text ? text : "(missing)");
    return BASE_OK;
}

// The vector `name` of floats in exactly this shape. The reason of BASE_EMISMATCH has both shapes.
static enum base_error find_vector(const struct node_safetensors *file, const char *name, const size_t *shape,
                                   size_t n_dims, const struct node_tensor **tensor, struct base_reason *why)
{
    char expected[NODE_SHAPE_TEXT], found[NODE_SHAPE_TEXT];
    const struct node_tensor *at = node_safetensors_find(file, name);
    node_tensor_shape(shape, n_dims, expected);
    if (!at)
        return base_fail(why, BASE_EMISMATCH, "there is no tensor '%s' %s in it", name, expected);
    node_tensor_shape(at->shape, at->n_dims, found);
    if (at->type != NODE_TENSOR_F32 || at->n_dims != n_dims ||
        memcmp(at->shape, shape, n_dims * sizeof *shape) != 0)
        return base_fail(why, BASE_EMISMATCH, "its tensor '%s' is %s %s, expected F32 %s", name,
                         node_tensor_type_name(at->type), found, expected);
    *tensor = at;
    return BASE_OK;
}

static enum base_error find_model(const struct node_safetensors *file, const struct train_model *model,
                                  const struct node_tensor *tensors[LIMIT_TENSORS], struct base_reason *why)
{
    char name[LIMIT_TENSOR_NAME_BYTES + 8], ours[200], schema[20];
    size_t count;
    const struct train_tensor *table = train_model_tensors(model, &count);
    const char *theirs = node_safetensors_metadata(file, "schema");
    BASE_ASSERT(count <= LIMIT_TENSORS);
    train_model_describe(model, ours, sizeof ours);
    snprintf(schema, sizeof schema, "%016" PRIx64, train_model_schema(model));
    if (theirs && strcmp(theirs, schema) != 0) {
        const char *described = node_safetensors_metadata(file, "model");
        return base_fail(why, BASE_EMISMATCH, "it holds the model '%.80s', this configuration says '%.80s'",
                         described ? described : "(unknown)", ours);
    }
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "model.%s", table[i].name);
        enum base_error error = find_vector(file, name, table[i].shape, table[i].n_dims, &tensors[i], why);
        if (error)
            return base_fail_context(why, error, "it does not fit the model '%.80s'", ours);
    }
    return BASE_OK;
}

static void copy_model(const struct train_model *model, const struct node_tensor *const *tensors,
                       float *parameters)
{
    size_t count;
    const struct train_tensor *table = train_model_tensors(model, &count);
    for (size_t i = 0; i < count; i++)
        memcpy(parameters + table[i].offset, tensors[i]->data, tensors[i]->bytes);
}

static enum base_error find_state(const struct node_safetensors *file,
                                  const struct node_checkpoint_parts *parts, struct plan *plan,
                                  struct base_reason *why)
{
    char name[160];
    const size_t parameters = train_model_parameters(parts->model);
    plan->n_state = train_trainer_state_vectors(parts->trainer, plan->state);
    for (size_t i = 0; i < plan->n_state; i++) {
        snprintf(name, sizeof name, "state.%s", plan->state[i].name);
        enum base_error error = find_vector(file, name, &parameters, 1, &plan->state_from[i], why);
        if (error)
            return base_fail_context(why, error, "it was written with another optimiser or momentum");
    }
    size_t found = 0;
    for (size_t i = 0; i < node_safetensors_count(file); i++)
        found += strncmp(node_safetensors_at(file, i)->name, "state.", 6) == 0;
    if (found != plan->n_state)
        return base_fail(
            why, BASE_EMISMATCH,
            "it was written with another optimiser or momentum: it has %zu vectors of optimiser state, "
            "expected %zu",
            found, plan->n_state);
    enum base_error error = BASE_OK;
    if (parts->outer && node_safetensors_find(file, "outer.momentum"))
        error = find_vector(file, "outer.momentum", &parameters, 1, &plan->outer, why);
    if (!error && plan->outer && node_safetensors_find(file, "outer.start"))
        error = find_vector(file, "outer.start", &parameters, 1, &plan->round_start, why);
    return error;
}

static enum base_error find_blob(const struct node_safetensors *file, struct plan *plan,
                                 struct base_reason *why)
{
    plan->blob = node_safetensors_find(file, "program.blob");
    if (plan->blob && (plan->blob->type != NODE_TENSOR_U8 || plan->blob->bytes > LIMIT_BLOB_BYTES))
        return base_fail(why, BASE_EFORMAT, "its 'program.blob' has %zu bytes, expected U8 and at most %u",
                         plan->blob->bytes, LIMIT_BLOB_BYTES);
    return BASE_OK;
}

size_t node_program_state_most(size_t parameters)
{
    return LIMIT_BLOB_BYTES + LIMIT_STATE_VECTORS * parameters * sizeof(float);
}

// Copied here, where an error still changes nothing.
static enum base_error find_program(const struct node_safetensors *file,
                                    const struct node_checkpoint_parts *parts, struct plan *plan,
                                    struct base_reason *why)
{
    const size_t most = node_program_state_most(train_model_parameters(parts->model));
    plan->program = parts->state ? node_safetensors_find(file, "program.state") : NULL;
    if (!plan->program)
        return BASE_OK;
    const size_t bytes = plan->program->bytes;
    if (plan->program->type != NODE_TENSOR_U8 || bytes > most)
        return base_fail(why, BASE_EFORMAT, "its 'program.state' has %zu bytes, expected U8 and at most %zu",
                         bytes, most);
    plan->program_copy = malloc(bytes + 1);
    if (!plan->program_copy)
        return base_fail(why, BASE_ENOMEM, "no memory for a program's state of %zu bytes", bytes);
    memcpy(plan->program_copy, plan->program->data, bytes);
    return BASE_OK;
}

static enum base_error find_open(const struct node_safetensors *file, struct plan *plan,
                                 struct base_reason *why)
{
    const char *text = node_safetensors_metadata(file, "open");
    char *end = NULL;
    plan->unsettled = node_safetensors_metadata(file, "unsettled") != NULL;
    if (!text)
        return BASE_OK;
    plan->open = true;
    plan->open_scale = strtof(text, &end);
    if (end == text || *end || !isfinite(plan->open_scale) || plan->open_scale < 0)
        return base_fail(why, BASE_EFORMAT, "metadata 'open' is '%.40s', expected the step scale of a round",
                         text);
    return BASE_OK;
}

// For files of another program, or of a node that did not check. (An edge that does not fit is left out.)
static enum base_error check_finite(const struct node_safetensors *file, const struct kernels *kernels,
                                    struct base_reason *why)
{
    for (size_t i = 0; i < node_safetensors_count(file); i++) {
        const struct node_tensor *tensor = node_safetensors_at(file, i);
        if (tensor->type == NODE_TENSOR_F32 && strncmp(tensor->name, "edge.", 5) != 0 &&
            strncmp(tensor->name, "kept.", 5) != 0 && (uintptr_t)tensor->data % sizeof(float) == 0 &&
            !kernels->host->apply->finite(tensor->data, tensor->bytes / sizeof(float)))
            return base_fail(why, BASE_EFORMAT, "its tensor '%s' holds NaN or infinity", tensor->name);
    }
    return BASE_OK;
}

static enum base_error find_place(const struct node_safetensors *file, struct plan *plan,
                                  struct base_reason *why)
{
    const struct {
        const char *key;
        uint64_t *number;
    } wanted[] = {{"round", &plan->round},
                  {"boot", &plan->resumes},
                  {"step", &plan->cursor.step},
                  {"epoch", &plan->cursor.epoch},
                  {"position", &plan->cursor.position},
                  {"seed", &plan->cursor.seed}};
    enum base_error error = BASE_OK;
    for (size_t i = 0; !error && i < sizeof wanted / sizeof wanted[0]; i++)
        error = find_number(file, wanted[i].key, wanted[i].number, why);
    const char *journal = node_safetensors_metadata(file, "journal"); // none: its edges have no journal
    plan->journal = journal ? strtoull(journal, NULL, 16) : 0;
    return error;
}

static enum base_error check_format(const struct node_safetensors *file, struct base_reason *why)
{
    const char *format = node_safetensors_metadata(file, "format");
    const char *version = node_safetensors_metadata(file, "version");
    if (!format || strcmp(format, NODE_CHECKPOINT_FORMAT) != 0 || !version)
        return base_fail(why, BASE_EFORMAT, "it is a safetensors file, but not a checkpoint of p2pml");
    if (strcmp(version, NODE_CHECKPOINT_VERSION) != 0)
        return base_fail(why, BASE_EMISMATCH,
                         "it is of checkpoint version %.20s, this p2pml reads version %s", version,
                         NODE_CHECKPOINT_VERSION);
    return BASE_OK;
}

// The order of the examples is of a node and train.seed; in another one the place means nothing, and a new
// epoch begins.
static void begin_own_order(const struct node_checkpoint_parts *parts, struct plan *plan)
{
    const struct train_cursor own = train_trainer_cursor(parts->trainer);
    if (plan->cursor.seed == own.seed || own.seed == 0 || plan->cursor.seed == 0)
        return;
    base_log(
        BASE_LOG_WARN, "other_order",
        "the checkpoint is of another node or train.seed: a new epoch begins, in the order of this node");
    plan->cursor = (struct train_cursor){plan->cursor.step, plan->cursor.epoch + 1, 0, own.seed};
}

// Moves the trainer to its place in the data, but only if everything else fits.
static enum base_error make_plan(const struct node_safetensors *file,
                                 const struct node_checkpoint_parts *parts, struct plan *plan,
                                 struct base_reason *why)
{
    enum base_error error = check_format(file, why);
    if (!error)
        error = find_model(file, parts->model, plan->model, why);
    if (!error)
        error = find_state(file, parts, plan, why);
    if (!error)
        error = find_blob(file, plan, why);
    if (!error)
        error = find_program(file, parts, plan, why);
    if (!error)
        error = find_place(file, plan, why);
    if (!error)
        error = find_open(file, plan, why);
    if (!error)
        error = check_finite(file, train_model_kernels(parts->model), why);
    if (error)
        return error;
    train_trainer_fetch(parts->trainer);
    begin_own_order(parts, plan);
    if (train_trainer_seek(parts->trainer, &plan->cursor))
        return base_fail(why, BASE_EMISMATCH,
                         "its place in the data (example %" PRIu64 " of an epoch, order seed %" PRIu64
                         ") does not fit this node's shard and train.seed",
                         plan->cursor.position, plan->cursor.seed);
    return BASE_OK;
}

static void carry_out(const struct plan *plan, struct node_checkpoint_parts *parts)
{
    const size_t bytes = train_model_parameters(parts->model) * sizeof(float);
    copy_model(parts->model, plan->model, train_trainer_model(parts->trainer));
    for (size_t i = 0; i < plan->n_state; i++)
        memcpy(plan->state[i].values, plan->state_from[i]->data, bytes);
    // Again, because this also copies the vectors to a device.
    enum base_error error = train_trainer_seek(parts->trainer, &plan->cursor);
    BASE_ASSERT(!error);
    if (parts->outer && plan->outer)
        memcpy(parts->outer, plan->outer->data, bytes);
    else if (parts->outer)
        memset(parts->outer, 0, bytes);
    if (parts->round_start)
        memcpy(parts->round_start,
               plan->round_start ? plan->round_start->data : train_trainer_model(parts->trainer), bytes);
    if (parts->blob)
        parts->blob->bytes = plan->blob ? (uint32_t)plan->blob->bytes : 0;
    if (parts->blob && parts->blob->bytes > 0)
        memcpy(parts->blob->data, plan->blob->data, parts->blob->bytes);
    if (parts->state) {
        free(parts->state->data);
        *parts->state =
            (struct node_program_state){plan->program_copy, plan->program ? plan->program->bytes : 0};
    }
    parts->unsettled = (plan->unsettled || plan->round_start) && !plan->open;
    parts->open = plan->open;
    parts->open_scale = plan->open_scale;
    if (plan->unsettled)
        train_trainer_unsettle(parts->trainer);
    parts->round = plan->round;
    parts->resumes = plan->resumes;
    parts->journal = plan->journal;
}

static void warn_of_other_id(const struct node_safetensors *file, const struct node_checkpoint_parts *parts,
                             const char *path)
{
    char ours[GOSSIP_ID_HEX];
    const char *theirs = node_safetensors_metadata(file, "id");
    gossip_id_hex(&parts->id, ours);
    if (theirs && strcmp(theirs, ours) != 0)
        base_log(BASE_LOG_WARN, "checkpoint_of_other",
                 "'%s' was written by the node %.64s, this is %s: its model is taken, its edges start again",
                 path, theirs, ours);
}

static size_t largest_file(const struct train_model *model)
{
    // Model, optimiser and outer momentum; for each edge r, c and two open packets.
    const size_t vectors = 6 + 4 * (size_t)LIMIT_PEERS;
    return LIMIT_CHECKPOINT_HEADER_BYTES + (train_model_parameters(model) + 1024) * sizeof(float) * vectors +
           node_program_state_most(train_model_parameters(model));
}

static enum base_error resume_one(const char *path, struct node_checkpoint_parts *parts,
                                  struct node_safetensors **file, struct base_reason *why)
{
    struct node_safetensors *read;
    struct plan plan = {0};
    enum base_error error = node_safetensors_read(path, largest_file(parts->model), 1, &read, why);
    if (error)
        return error;
    error = make_plan(read, parts, &plan, why);
    if (error) {
        free(plan.program_copy);
        node_safetensors_free(read);
        return base_fail_context(why, error, "'%s'", path);
    }
    warn_of_other_id(read, parts, path);
    carry_out(&plan, parts);
    if (file)
        *file = read;
    else
        node_safetensors_free(read);
    return BASE_OK;
}

// Newest first; `newest` becomes what is wrong with the first.
static enum base_error resume_any(const char *directory, const struct node_checkpoint_files *files,
                                  struct node_checkpoint_parts *parts, struct node_safetensors **file,
                                  struct base_reason *why)
{
    struct base_reason newest = {.text = ""}, damage;
    char path[NODE_CHECKPOINT_PATH];
    for (size_t i = 0; i < files->count; i++) {
        enum base_error error = node_checkpoint_file_path(directory, files->steps[i], path, why);
        if (!error)
            error = resume_one(path, parts, file, &damage);
        if (!error)
            return BASE_OK;
        if (error == BASE_EMISMATCH)
            return base_fail(why, error, "cannot resume: %s. Undo the change, or start without --resume",
                             damage.text);
        if (error == BASE_ENOMEM)
            return base_fail(why, error, "cannot resume: %s", damage.text);
        base_log(BASE_LOG_WARN, "checkpoint_damaged", "%s", damage.text);
        if (i == 0)
            newest = damage;
    }
    return base_fail(
        why, BASE_EFORMAT,
        "cannot resume: none of the %zu checkpoints in '%s' is intact (the newest: %.250s). Put an intact "
        "one there, or start without --resume",
        files->count, directory, newest.text);
}

enum base_error node_checkpoint_resume(const char *directory, struct node_checkpoint_parts *parts,
                                       struct node_safetensors **file, struct base_reason *why)
{
    struct node_checkpoint_files files;
    enum base_error error = node_checkpoint_files_list(directory, &files, why);
    if (error)
        return error;
    if (files.count == 0)
        error = base_fail(why, BASE_ENOTFOUND, "there is no checkpoint in '%s'", directory);
    else
        error = resume_any(directory, &files, parts, file, why);
    node_checkpoint_files_free(&files);
    return error;
}

// "edge.<id>.<part>" as `bytes` bytes of this type, or NULL. 0 bytes: as many as there are.
static const struct node_tensor *edge_part(const struct node_safetensors *file, const char *scope,
                                           const char *part, enum node_tensor_type type, size_t bytes)
{
    char name[160];
    snprintf(name, sizeof name, "%.100s.%s", scope, part);
    const struct node_tensor *tensor = node_safetensors_find(file, name);
    if (!tensor || tensor->type != type || tensor->n_dims != 1 || (bytes && tensor->bytes != bytes) ||
        (uintptr_t)tensor->data % node_tensor_type_bytes(type))
        return NULL;
    return tensor;
}

// As F32 or, with `halves`, as BF16. gossip_exchange_import refuses the type that is not the configured one.
static const void *edge_vector(const struct node_safetensors *file, const char *scope, const char *part,
                               size_t vector_bytes, bool halves)
{
    const struct node_tensor *tensor =
        edge_part(file, scope, part, halves ? NODE_TENSOR_BF16 : NODE_TENSOR_F32,
                  halves ? vector_bytes / sizeof(float) * sizeof(uint16_t) : vector_bytes);
    return tensor ? tensor->data : NULL;
}

static enum base_error resume_edge(const struct node_safetensors *file, const char *scope,
                                   const char *numbers, size_t vector_bytes, struct gossip_exchange *exchange)
{
    uint64_t number[4];
    struct gossip_edge_record record = {0};
    const struct node_tensor *transactions = edge_part(file, scope, "transactions", NODE_TENSOR_U8, 0);
    record.reference = edge_vector(file, scope, "reference", vector_bytes, false);
    record.reference_bf16 = edge_vector(file, scope, "reference", vector_bytes, true);
    if (!parse_numbers(numbers, number, 4) || gossip_id_parse(scope + strlen("edge."), &record.peer))
        return BASE_EFORMAT;
    record.epoch = number[0];
    record.sequence = number[1];
    record.resync_offset = number[2];
    record.clock = number[3];
    record.correction = edge_vector(file, scope, "correction", vector_bytes, false);
    record.correction_bf16 = edge_vector(file, scope, "correction", vector_bytes, true);
    record.transactions = transactions ? transactions->data : NULL;
    record.transactions_bytes = transactions ? transactions->bytes : 0;
    return gossip_exchange_import(exchange, &record);
}

// The tensor is kept.<id>.correction. The metadata kept.<id> is the number of rounds for which it still
// fades; files of earlier versions lack it.
static enum base_error resume_kept(const struct node_safetensors *file, const struct node_tensor *tensor,
                                   size_t vector_bytes, struct gossip_exchange *exchange)
{
    char hex[GOSSIP_ID_HEX], scope[16 + GOSSIP_ID_HEX];
    struct gossip_orphan_record record = {.correction = tensor->data};
    snprintf(hex, sizeof hex, "%s", tensor->name + strlen("kept."));
    if (tensor->type != NODE_TENSOR_F32 || tensor->n_dims != 1 || tensor->bytes != vector_bytes ||
        (uintptr_t)tensor->data % sizeof(float) || gossip_id_parse(hex, &record.peer) ||
        strcmp(tensor->name + strlen("kept.") + strlen(hex), ".correction") != 0)
        return BASE_EFORMAT;
    snprintf(scope, sizeof scope, "kept.%s", hex);
    const char *left = node_safetensors_metadata(file, scope);
    if (left && !parse_numbers(left, &record.left, 1))
        return BASE_EFORMAT;
    return gossip_exchange_keep(exchange, &record);
}

static void resume_all_kept(const struct node_safetensors *file, size_t vector_bytes,
                            struct gossip_exchange *exchange)
{
    for (size_t i = 0; i < node_safetensors_count(file); i++) {
        const struct node_tensor *tensor = node_safetensors_at(file, i);
        if (strncmp(tensor->name, "kept.", 5) != 0)
            continue;
        enum base_error error = resume_kept(file, tensor, vector_bytes, exchange);
        if (error)
            base_log(BASE_LOG_WARN, "checkpoint_kept", "the kept correction %.100s is not restored: %s",
                     tensor->name, base_error_name(error));
    }
}

void node_checkpoint_resume_edges(const struct node_safetensors *file, struct gossip_exchange *exchange)
{
    size_t vector_bytes = 0;
    for (size_t i = 0; i < node_safetensors_count(file); i++)
        if (!strncmp(node_safetensors_at(file, i)->name, "model.", 6))
            vector_bytes += node_safetensors_at(file, i)->bytes;
    if (vector_bytes == 0)
        return;
    const char *key, *value;
    for (size_t i = 0; (key = node_safetensors_metadata_at(file, i, &value)); i++) {
        if (strncmp(key, "edge.", 5) != 0)
            continue;
        enum base_error error = resume_edge(file, key, value, vector_bytes, exchange);
        if (error)
            base_log(BASE_LOG_WARN, "checkpoint_edge", "%.80s is left out and starts again: %s", key,
                     base_error_name(error));
    }
    resume_all_kept(file, vector_bytes, exchange);
}
