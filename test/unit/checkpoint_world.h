// What the tests of checkpoints share: a small trainer, a temporary directory, and functions that look into
// both.
#ifndef TEST_UNIT_CHECKPOINT_WORLD_H
#define TEST_UNIT_CHECKPOINT_WORLD_H

#include "base/file.h"
#include "base/hash.h"
#include "node/store/checkpoint.h"
#include "test/support/temporary.h"
#include "train/dataset.h"
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct learner { // model, optimiser and outer momentum of one node
    struct train_dataset data;
    struct train_model *model;
    struct train_trainer *trainer;
    float *outer, *round_start;
    struct node_checkpoint_parts parts;
};

static inline void learner_make(struct learner *learner, enum train_optimizer_kind optimizer, size_t hidden)
{
    const struct kernels *kernels;
    struct base_reason why = {.text = ""};
    struct train_model_spec spec = {.kind = TRAIN_MLP,
                                    .inputs = 784,
                                    .classes = 10,
                                    .hidden = {hidden, 5},
                                    .n_hidden = optimizer == TRAIN_MUON ? 2 : 1};
    struct train_options options = {.optimizer = optimizer,
                                    .rate = 0.01,
                                    .momentum = 0.9,
                                    .beta1 = 0.9,
                                    .beta2 = 0.999,
                                    .epsilon = 1e-8,
                                    .steps = 100,
                                    .batch = 8,
                                    .clip_norm = 1e30, // never reached, but there is a gradient to clip
                                    .seed = 5};
    assert_int_equal(kernels_open("cpu", 1, &kernels, &why), BASE_OK);
    assert_int_equal(train_dataset_make_digits(3, 0, 40, &learner->data, &why), BASE_OK);
    assert_int_equal(train_model_create(&spec, kernels, 8, &learner->model, &why), BASE_OK);
    const size_t parameters = train_model_parameters(learner->model);
    float *start = calloc(parameters, sizeof *start);
    learner->outer = calloc(parameters, sizeof *learner->outer);
    assert_non_null(start);
    learner->round_start = calloc(parameters, sizeof *learner->round_start);
    assert_non_null(learner->outer);
    assert_non_null(learner->round_start);
    train_model_initialise(learner->model, 1, start);
    assert_int_equal(
        train_trainer_create(&options, learner->model, &learner->data, start, &learner->trainer, &why),
        BASE_OK);
    free(start);
    learner->parts = (struct node_checkpoint_parts){.model = learner->model,
                                                    .trainer = learner->trainer,
                                                    .outer = learner->outer,
                                                    .round_start = learner->round_start,
                                                    .node = "node-01",
                                                    .model_seed = 1,
                                                    .resumes = 4,
                                                    .id = {{0xab, 1, 2, 3}}};
}

static inline void learner_free(struct learner *learner)
{
    train_trainer_destroy(learner->trainer);
    train_model_destroy(learner->model);
    train_dataset_destroy(&learner->data);
    free(learner->outer);
    free(learner->round_start);
}

static inline void learner_train(struct learner *learner, size_t steps)
{
    struct kernels_loss loss;
    size_t rows;
    for (size_t i = 0; i < steps; i++) {
        train_trainer_step(learner->trainer, false, &loss, &rows);
        learner->outer[i] += 0.5f;
        learner->parts.round++;
    }
}

// Everything that a checkpoint may change, as one hash.
static inline uint64_t learner_hash(struct learner *learner)
{
    const size_t parameters = train_model_parameters(learner->model);
    struct train_state_vector state[4];
    struct train_cursor cursor = train_trainer_cursor(learner->trainer);
    uint64_t hash =
        base_hash_bytes(learner->parts.round + 7 * learner->parts.resumes, &cursor, sizeof cursor);
    hash = base_hash_bytes(hash, train_trainer_model(learner->trainer), parameters * sizeof(float));
    hash = base_hash_bytes(hash, learner->outer, parameters * sizeof(float));
    const size_t n_state = train_trainer_state_vectors(learner->trainer, state);
    for (size_t i = 0; i < n_state; i++)
        hash = base_hash_bytes(hash, state[i].values, parameters * sizeof(float));
    return hash;
}

struct world {
    char directory[TEMPORARY_BYTES];
    char path[160]; // of the file that path_of() named last
};

static inline const char *path_of(struct world *world, const char *name)
{
    snprintf(world->path, sizeof world->path, "%s/%s", world->directory, name);
    return world->path;
}

static inline int world_set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    temporary_make(world->directory, "checkpoint");
    *state = world;
    return 0;
}

static inline int world_tear_down(void **state)
{
    struct world *world = *state;
    temporary_remove(world->directory);
    free(world);
    return 0;
}

// The number of entries of the directory whose name contains `part`.
static inline size_t count_files(const char *directory, const char *part)
{
    size_t count = 0;
    DIR *entries = opendir(directory);
    const struct dirent *entry;
    assert_non_null(entries);
    while ((entry = readdir(entries)))
        count += entry->d_name[0] != '.' && strstr(entry->d_name, part);
    closedir(entries);
    return count;
}

static inline void flip(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    int byte = fgetc(file);
    assert_true(byte >= 0);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

// Reads a checkpoint and writes it again with one change and a valid digest: metadata `key` becomes `value`
// (NULL: is removed), or the tensor `name` gets the shape [1, count] (NULL: none does).
static inline void rewrite(const char *path, const char *key, const char *value, const char *name)
{
    struct node_safetensors *file;
    struct base_reason why = {.text = ""};
    struct node_tensor tensors[32];
    struct node_text_pair pairs[32] = {{.text = NULL}};
    size_t n_pairs = 0;
    const char *at, *text;
    assert_int_equal(node_safetensors_read(path, 1 << 26, 1, &file, &why), BASE_OK);
    const size_t n_tensors = node_safetensors_count(file);
    assert_true(n_tensors <= 32);
    for (size_t i = 0; i < n_tensors; i++) {
        tensors[i] = *node_safetensors_at(file, i);
        if (name && !strcmp(tensors[i].name, name)) {
            tensors[i].n_dims = 2;
            tensors[i].shape[0] = 1;
            tensors[i].shape[1] = tensors[i].bytes / node_tensor_type_bytes(tensors[i].type);
        }
    }
    for (size_t i = 0; (at = node_safetensors_metadata_at(file, i, &text)); i++) {
        const char *put = key && !strcmp(at, key) ? value : text;
        if (!put || !strcmp(at, "digest"))
            continue;
        assert_true(n_pairs < 32);
        snprintf(pairs[n_pairs].key, sizeof pairs[0].key, "%s", at);
        snprintf(pairs[n_pairs++].value, sizeof pairs[0].value, "%s", put);
    }
    assert_int_equal(node_safetensors_write(path, tensors, n_tensors, pairs, n_pairs, &why), BASE_OK);
    node_safetensors_free(file);
}

// Writes it again with one number of the tensor `name` changed and a valid digest.
static inline void poison(const char *path, const char *name, float value)
{
    struct node_safetensors *file;
    struct base_reason why = {.text = ""};
    assert_int_equal(node_safetensors_read(path, 1 << 26, 1, &file, &why), BASE_OK);
    const struct node_tensor *tensor = node_safetensors_find(file, name);
    assert_non_null(tensor);
    float *data = (float *)(uintptr_t)tensor->data; // allocated with the file
    data[tensor->bytes / sizeof value - 1] = value;
    struct node_tensor tensors[32];
    struct node_text_pair pairs[32] = {{.text = NULL}};
    size_t n_pairs = 0;
    const char *at, *text;
    for (size_t i = 0; i < node_safetensors_count(file); i++)
        tensors[i] = *node_safetensors_at(file, i);
    for (size_t i = 0; (at = node_safetensors_metadata_at(file, i, &text)); i++) {
        if (!strcmp(at, "digest"))
            continue;
        snprintf(pairs[n_pairs].key, sizeof pairs[0].key, "%s", at);
        snprintf(pairs[n_pairs++].value, sizeof pairs[0].value, "%s", text);
    }
    assert_int_equal(
        node_safetensors_write(path, tensors, node_safetensors_count(file), pairs, n_pairs, &why), BASE_OK);
    node_safetensors_free(file);
}

// Sends a standard stream (1 or 2) to the file `path` until capture_end, which returns what was written; the
// caller frees it.
static inline int capture_begin(int stream, const char *path)
{
    fflush(NULL);
    int old = dup(stream), file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(old >= 0 && file >= 0);
    assert_int_equal(dup2(file, stream), stream);
    close(file);
    return old;
}

static inline char *capture_end(int stream, int old, const char *path)
{
    uint8_t *text;
    size_t bytes;
    struct base_reason why = {.text = ""};
    fflush(NULL);
    assert_int_equal(dup2(old, stream), stream);
    close(old);
    assert_int_equal(base_file_read(path, 1 << 20, &text, &bytes, &why), BASE_OK);
    unlink(path);
    return (char *)text;
}

static inline void write_generation(struct world *world, struct learner *learner)
{
    struct base_reason why = {.text = ""};
    if (node_checkpoint_write(world->directory, 3, &learner->parts, &why))
        fail_msg("%s", why.text);
}

static inline enum base_error resume(struct world *world, struct learner *learner, struct base_reason *why)
{
    why->text[0] = 0;
    return node_checkpoint_resume(world->directory, &learner->parts, NULL, why);
}

#endif
