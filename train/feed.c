#include "train/feed.h"

#include "base/hash.h"
#include "base/rng.h"
#include "train/tokens.h"

#include <stdlib.h>
#include <string.h>

// The order of an epoch depends only on (seed, epoch), so that a cursor is sufficient to restore it.
static void shuffle_epoch(struct train_feed *feed)
{
    struct base_rng rng;
    base_rng_seed_stream(&rng, feed->seed, feed->epoch);
    for (size_t i = 0; i < feed->data->examples; i++)
        feed->order[i] = (uint32_t)i;
    // A batch that holds all sparse examples is the same in any order, and in this one memory is read
    // fastest.
    if (!feed->data->csr || feed->batch < feed->data->examples)
        base_rng_shuffle(&rng, feed->order, feed->data->examples);
    feed->phase = feed->data->tokens ? (size_t)base_rng_below(&rng, feed->data->features) : 0;
}

// The number of 4-byte values per example.
static size_t width_of(const struct train_dataset *data)
{
    return data->csr ? 1 : data->features;
}

enum base_error train_feed_create(const struct kernels *kernels, const struct train_dataset *data,
                                  const struct train_augment *augment, size_t batch, uint64_t seed,
                                  uint64_t epoch, struct train_feed *feed)
{
    struct train_feed made = {
        .kernels = kernels, .data = data, .batch = batch, .seed = seed, .epoch = epoch, .augment = *augment};
    const size_t x_bytes = batch * width_of(data) * sizeof(float),
                 label_bytes = batch * train_dataset_labels(data) * sizeof(uint32_t);
    made.input.x = kernels->alloc(x_bytes);
    made.stage.x = kernels->shares_host ? made.input.x : malloc(x_bytes);
    if (data->outputs > 0) {
        made.targets = malloc(batch * data->outputs * sizeof *made.targets);
    } else {
        made.input.labels = kernels->alloc(label_bytes);
        made.stage.labels = kernels->shares_host ? made.input.labels : malloc(label_bytes);
    }
    made.order = malloc(data->examples * sizeof *made.order);
    if (!made.input.x || !made.stage.x || !made.order ||
        (!made.targets && (!made.input.labels || !made.stage.labels))) {
        train_feed_destroy(&made);
        return BASE_ENOMEM;
    }
    shuffle_epoch(&made);
    *feed = made;
    return BASE_OK;
}

void train_feed_destroy(struct train_feed *feed)
{
    if (feed->kernels) {
        if (!feed->kernels->shares_host) {
            free(feed->stage.x);
            free(feed->stage.labels);
        }
        feed->kernels->release(feed->input.x);
        feed->kernels->release(feed->input.labels);
    }
    free(feed->targets);
    free(feed->order);
    *feed = (struct train_feed){0};
}

// Copies example `row` to place i of the stage.
static void gather(struct train_feed *feed, size_t row, size_t i)
{
    const struct train_dataset *data = feed->data;
    if (data->tokens) {
        const size_t at = i * data->features;
        train_tokens_window(data, row, feed->phase, (uint32_t *)feed->stage.x + at, feed->stage.labels + at);
        return;
    }
    const float *from = data->x + row * data->features;
    float *to = (float *)feed->stage.x + i * data->features;
    if (train_augment_is_on(&feed->augment)) {
        const uint64_t place[] = {feed->epoch, feed->position};
        train_augment_image(&feed->augment, data, base_hash_bytes(feed->seed, place, sizeof place), from, to);
    } else {
        memcpy(to, from, data->features * sizeof *to);
    }
    if (feed->targets) {
        memcpy(feed->targets + i * data->outputs, data->targets + row * data->outputs,
               data->outputs * sizeof *data->targets);
    } else {
        feed->stage.labels[i] = data->labels[row];
    }
}

// A batch of sparse examples holds row numbers and labels. Fills it from place `first` on with as many as fit
// and the epoch still has; returns how many.
static size_t gather_rows(struct train_feed *feed, size_t first)
{
    const struct train_dataset *data = feed->data;
    const size_t left = data->examples - feed->position, room = feed->batch - first,
                 count = left < room ? left : room;
    const uint32_t *restrict order = feed->order + feed->position, *restrict labels = data->labels;
    uint32_t *restrict row = (uint32_t *)feed->stage.x + first, *restrict label = feed->stage.labels + first;
    for (size_t i = 0; i < count; i++) {
        row[i] = order[i];
        label[i] = labels[order[i]];
    }
    feed->position += count;
    return count;
}

void train_feed_next(struct train_feed *feed)
{
    const struct train_dataset *data = feed->data;
    for (size_t i = 0; i < feed->batch;) {
        if (feed->position == data->examples)
            train_feed_seek(feed, feed->epoch + 1, 0);
        if (data->csr)
            i += gather_rows(feed, i);
        else
            gather(feed, feed->order[feed->position++], i++);
    }
    if (feed->input.x != feed->stage.x)
        feed->kernels->upload(feed->input.x, feed->stage.x, feed->batch * width_of(data) * sizeof(float));
    if (feed->input.labels != feed->stage.labels) {
        feed->kernels->upload(feed->input.labels, feed->stage.labels,
                              feed->batch * train_dataset_labels(data) * sizeof *data->labels);
    }
}

void train_feed_seek(struct train_feed *feed, uint64_t epoch, uint64_t position)
{
    feed->epoch = epoch;
    feed->position = position;
    shuffle_epoch(feed);
}
