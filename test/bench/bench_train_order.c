// The first weights of the built-in trainer and the order in which it takes its examples, for a loop in
// another language that takes the same steps (python/tests/bench_methods.py --order): IMAGES LABELS SEED
// NODES STEPS BATCH FILE. An MLP 784-256-10 on the first 8,000 examples, Dirichlet 0.1; `experiment.seed:
// SEED`, all other keys at their defaults. FILE gets, in this machine's byte order, the weights (float
// [parameters]), then for each node the part of the examples that it owns (float) and the places of its
// examples (uint32_t [steps, batch]).
#include "base/hash.h"
#include "train/feed.h"
#include "train/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXAMPLES = 8000, LEAST = 10, DEFAULT_SEED = 1 };

static const struct train_model_spec spec = {
    .kind = TRAIN_MLP, .inputs = 784, .classes = 10, .hidden = {256}, .n_hidden = 1};

static void need(enum base_error code, const struct base_reason *why)
{
    if (!code)
        return;
    fprintf(stderr, "%s: %s\n", base_error_name(code), why->text);
    exit(1);
}

static void write_all(FILE *file, const void *data, size_t size, size_t count)
{
    if (fwrite(data, size, count, file) != count) {
        perror("order");
        exit(1);
    }
}

static void write_weights(FILE *file, const struct kernels *kernels, uint64_t seed)
{
    struct base_reason why = {""};
    struct train_model *model;
    need(train_model_create(&spec, kernels, 1, &model, &why), &why);
    float *weights = malloc(train_model_parameters(model) * sizeof *weights);
    BASE_ASSERT(weights);
    train_model_initialise(model, seed, weights);
    write_all(file, weights, sizeof *weights, train_model_parameters(model));
    free(weights);
    train_model_destroy(model);
}

// In the order of train_feed_next: feed.order of each epoch in turn; a batch may extend over the end of one.
static void write_places(FILE *file, struct train_feed *feed, const uint32_t *rows, size_t count)
{
    for (; count > 0; count--) {
        if (feed->position == feed->data->examples)
            train_feed_seek(feed, feed->epoch + 1, 0);
        write_all(file, &rows[feed->order[feed->position++]], sizeof *rows, 1);
    }
}

static void write_node(FILE *file, const struct kernels *kernels, const struct train_dataset *all,
                       const uint32_t *owner, uint32_t node, uint64_t seed, size_t steps, size_t batch)
{
    struct base_reason why = {""};
    struct train_dataset mine;
    struct train_feed feed;
    char name[24];
    uint32_t rows[EXAMPLES], count = 0;
    for (uint32_t i = 0; i < EXAMPLES; i++)
        if (owner[i] == node)
            rows[count++] = i;
    snprintf(name, sizeof name, "node-%02u", node);
    need(train_dataset_subset(all, rows, count, &mine), &why);
    need(train_feed_create(kernels, &mine, &(struct train_augment){0}, batch,
                           base_hash_bytes(seed, name, strlen(name)), 0, &feed),
         &why);
    const float part = (float)count / EXAMPLES;
    write_all(file, &part, sizeof part, 1);
    write_places(file, &feed, rows, steps * batch);
    train_feed_destroy(&feed);
    train_dataset_destroy(&mine);
}

int main(int argc, char **argv)
{
    struct base_reason why = {""};
    struct train_dataset all;
    const struct kernels *kernels;
    uint32_t owner[EXAMPLES];
    if (argc != 8) {
        fprintf(stderr, "usage: %s IMAGES LABELS SEED NODES STEPS BATCH FILE\n", argv[0]);
        return 2;
    }
    const uint64_t seed = DEFAULT_SEED + strtoull(argv[3], NULL, 10);
    const size_t nodes = strtoul(argv[4], NULL, 10), steps = strtoul(argv[5], NULL, 10),
                 batch = strtoul(argv[6], NULL, 10);
    FILE *file = fopen(argv[7], "wb");
    if (!file) {
        perror(argv[7]);
        return 1;
    }
    need(kernels_open("cpu", 1, &kernels, &why), &why);
    need(train_dataset_load_idx(argv[1], argv[2], 0, EXAMPLES, 10, &all, &why), &why);
    need(train_partition_dirichlet(all.labels, EXAMPLES, 10, nodes, 0.1, LEAST, seed, owner, &why), &why);
    write_weights(file, kernels, seed);
    for (size_t i = 0; i < nodes; i++)
        write_node(file, kernels, &all, owner, (uint32_t)i, seed, steps, batch);
    train_dataset_destroy(&all);
    return fclose(file) == 0 ? 0 : 1;
}
