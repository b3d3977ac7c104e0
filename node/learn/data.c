#include "node/learn/data.h"
#include "node/store/meaning_text.h"
#include "train/cifar.h"
#include "train/images.h"
#include "train/model.h"
#include "train/npy.h"
#include "train/scale.h"
#include "train/split.h"
#include "train/table.h"
#include "train/tokens.h"
#include <stdlib.h>
#include <string.h>

#define DESCRIBED_VALUES (1u << 24) // of a training file: its digest reads them all at each start

static enum train_loss loss_of(const struct node_config *config)
{
    return (enum train_loss)config->model.loss;
}

static struct train_names names_of(const struct node_texts *texts)
{
    return (struct train_names){texts->items, texts->count};
}

static enum base_error load_csv(const struct node_config *config, const char *path,
                                struct train_meaning *like, struct train_dataset *data,
                                struct base_reason *why)
{
    const struct train_table_options options = {.delimiter = node_config_delimiter(config),
                                                .decimal = node_config_decimal(config),
                                                .header = (enum train_header)config->data.header,
                                                .target = names_of(&config->data.target),
                                                .categorical = names_of(&config->data.categorical),
                                                .ignore = names_of(&config->data.ignore),
                                                .regression = loss_of(config) != TRAIN_CROSS_ENTROPY,
                                                .like = like};
    return train_dataset_load_csv(path, &options, data, why);
}

static enum base_error load_images(const struct node_config *config, const char *path,
                                   struct train_meaning *like, struct train_dataset *data,
                                   struct base_reason *why)
{
    static const size_t channels[] = {0, 1, 3}; // auto, grey, rgb
    struct train_images_options options = {.channels = channels[config->data.image_colour], .like = like};
    enum base_error error = node_config_image_size(config, &options.width, &options.height, why);
    return error ? error : train_dataset_load_images(path, &options, data, why);
}

static enum base_error load_text(const struct node_config *config, const char *path,
                                 struct train_meaning *like, struct train_dataset *data,
                                 struct base_reason *why)
{
    const struct train_text_options options = {
        .text = config->data.text == NODE_TEXT_CHARACTERS ? TRAIN_TEXT_CHARACTERS : TRAIN_TEXT_BYTES,
        .context = config->model.context,
        .like = like};
    if (config->data.kind == NODE_DATA_TOKENS)
        return train_dataset_load_tokens(path, config->data.token_bytes, config->data.vocabulary,
                                         config->model.context, data, why);
    return train_dataset_load_text(path, &options, data, why);
}

static enum base_error load_cifar10(const char *path, struct train_meaning *like, struct train_dataset *data,
                                    struct base_reason *why)
{
    enum base_error error = train_dataset_load_cifar10(path, data, why);
    if (error || !like)
        return error;
    train_meaning_release(data->meaning); // same classes, but the statistics of the training examples
    data->meaning = train_meaning_share(like);
    return BASE_OK;
}

// Loads a whole file of a kind that has its own classes.
static enum base_error load_found(const struct node_config *config, bool test, struct train_meaning *like,
                                  struct train_dataset *data, struct base_reason *why)
{
    const char *path = test ? config->data.test_file : config->data.train_file;
    const char *labels = test ? config->data.test_labels : config->data.train_labels;
    const char *dot = strrchr(path, '.');
    switch (config->data.kind) {
    case NODE_DATA_NPY:
        return train_dataset_load_npy(path, dot && strcmp(dot, ".npz") == 0 ? NULL : labels,
                                      loss_of(config) != TRAIN_CROSS_ENTROPY, like, data, why);
    case NODE_DATA_IMAGES:
        return load_images(config, path, like, data, why);
    case NODE_DATA_CIFAR10:
        return load_cifar10(path, like, data, why);
    case NODE_DATA_TEXT:
    case NODE_DATA_TOKENS:
        return load_text(config, path, like, data, why);
    default:
        return load_csv(config, path, like, data, why);
    }
}

// Keeps `count` rows from `first` on (0: up to the end) and frees the others.
static enum base_error take_range(const char *name, size_t first, size_t count, struct train_dataset *data,
                                  struct base_reason *why)
{
    struct train_dataset part = {0};
    if (first == 0 && (count == 0 || count == data->examples))
        return BASE_OK;
    enum base_error error = train_dataset_range(name, data->examples, first, count, &count, why);
    if (error)
        return error;
    uint32_t *rows = malloc(count * sizeof *rows);
    error = rows ? BASE_OK : BASE_ENOMEM;
    for (size_t i = 0; rows && i < count; i++)
        rows[i] = (uint32_t)(first + i);
    if (!error)
        error = train_dataset_subset(data, rows, count, &part);
    free(rows);
    if (error)
        return base_fail(why, error, "out of memory for %zu examples", count);
    train_dataset_destroy(data);
    *data = part;
    data->whole = count;
    return BASE_OK;
}

static enum base_error load_libsvm(const struct node_config *config, bool test, struct train_meaning *like,
                                   size_t first, size_t count, struct train_dataset *data,
                                   struct base_reason *why)
{
    const struct train_libsvm_options options = {.features = config->data.features,
                                                 .classes = config->data.classes,
                                                 .labels = names_of(&config->data.labels),
                                                 .like = like,
                                                 .first = first,
                                                 .count = count,
                                                 .sparse = config->model.kind == TRAIN_LOGISTIC};
    return train_dataset_load_libsvm(test ? config->data.test_file : config->data.train_file, &options, data,
                                     why);
}

// `like`: what the training examples mean, or data.scale_from; NULL: nothing is known yet.
static enum base_error load(const struct node_config *config, bool test, struct train_meaning *like,
                            struct train_dataset *data, struct base_reason *why)
{
    struct node_data_ranges ranges;
    node_config_data_ranges(config, &ranges);
    size_t first = test ? ranges.test_first : ranges.train_first,
           count = test ? ranges.test_count : ranges.train_count;
    enum base_error error;
    switch (config->data.kind) {
    case NODE_DATA_IDX:
        error = train_dataset_load_idx(test ? config->data.test_images : config->data.train_images,
                                       test ? config->data.test_labels : config->data.train_labels, first,
                                       count, config->data.classes, data, why);
        break;
    case NODE_DATA_LIBSVM:
        return load_libsvm(config, test, like, first, count, data, why);
    case NODE_DATA_DIGITS:
        error = train_dataset_make_digits(config->data.seed, first, count, data, why);
        break;
    default:
        error = load_found(config, test, like, data, why);
        return error ? error
                     : take_range(test ? config->data.test_file : config->data.train_file, first, count, data,
                                  why);
    }
    if (!error)
        data->meaning = train_meaning_share(like);
    return error;
}

// rows[examples]: those to test on first, then those to train on, each in the order of the file.
static void order_rows(const bool *is_test, size_t examples, uint32_t *rows)
{
    size_t count = 0;
    for (int train = 0; train < 2; train++)
        for (size_t i = 0; i < examples; i++)
            if (is_test[i] != train)
                rows[count++] = (uint32_t)i;
}

// data.test_part of one file; the same on all nodes that have it. `test` may be NULL.
static enum base_error split(const struct node_config *config, struct train_dataset *all,
                             struct train_dataset *train, struct train_dataset *test, struct base_reason *why)
{
    struct train_dataset parts[2] = {{0}};
    uint32_t *rows = malloc(all->examples * sizeof *rows);
    bool *is_test = calloc(all->examples, sizeof *is_test);
    enum base_error error = rows && is_test ? train_split_draw(all, config->data.test_part, config->data.seed,
                                                               is_test, &all->split, why)
                                            : base_fail(why, BASE_ENOMEM, "no memory for its examples");
    if (!error) {
        const size_t tests = all->split.tests;
        order_rows(is_test, all->examples, rows);
        error = train_dataset_subset(all, rows + tests, all->examples - tests, &parts[0]);
        if (!error && test)
            error = train_dataset_subset(all, rows, tests, &parts[1]);
        if (error)
            error = base_fail(why, error, "out of memory for %zu examples", all->examples);
    }
    free(rows);
    free(is_test);
    if (error) {
        train_dataset_destroy(&parts[0]);
        return base_fail_context(why, error, "%s", config->data.train_file);
    }
    parts[0].whole = parts[0].examples;
    parts[1].whole = parts[1].examples;
    *train = parts[0];
    if (test)
        *test = parts[1];
    return BASE_OK;
}

static enum base_error load_split(const struct node_config *config, struct train_meaning *like,
                                  struct train_dataset *train, struct train_dataset *test,
                                  struct base_reason *why)
{
    struct train_dataset all = {0};
    enum base_error error = load(config, false, like, &all, why);
    if (!error)
        error = split(config, &all, train, test, why);
    train_dataset_destroy(&all);
    return error;
}

// What data.scale_from says, or NULL. Kinds without columns have their features only.
static enum base_error read_meaning(const struct node_config *config, struct train_meaning **like,
                                    struct base_reason *why)
{
    static const char *const scales[] = {"none", "standard", "minmax"};
    _Static_assert(sizeof scales / sizeof *scales == TRAIN_SCALES, "every scale has a name");
    *like = NULL;
    if (config->data.kind == NODE_DATA_DIGITS || !config->data.scale_from || !config->data.scale_from[0] ||
        node_config_scales_together(config))
        return BASE_OK;
    enum base_error error = node_data_meaning_read(config->data.scale_from, like, why);
    if (!error && config->data.scale != (int)(*like)->scale) {
        error = base_fail(why, BASE_EMISMATCH, "data.scale: found %s, but %s was written with %s",
                          scales[config->data.scale], config->data.scale_from, scales[(*like)->scale]);
        train_meaning_release(*like);
        *like = NULL;
    }
    return error;
}

static enum base_error check_alike(const struct train_dataset *train, const struct train_dataset *test,
                                   const struct train_meaning *like, struct base_reason *why)
{
    if (like && like->features != train->features)
        return base_fail(why, BASE_EMISMATCH,
                         "data.scale_from: found %zu features in it, but the examples have %zu",
                         like->features, train->features);
    if (test && test->features != train->features)
        return base_fail(why, BASE_EMISMATCH,
                         "the test examples have %zu features, the training examples %zu", test->features,
                         train->features);
    return BASE_OK;
}

// The digest of a file of which nothing is held out, so that another one, or the same one, is noticed later.
static enum base_error describe_whole(const struct node_config *config, const struct train_dataset *data,
                                      struct train_split *split, struct base_reason *why)
{
    bool *is_test = calloc(data->examples, sizeof *is_test);
    enum base_error error =
        is_test ? train_split_draw(data, config->data.test_part, config->data.seed, is_test, split, why)
                : base_fail(why, BASE_ENOMEM, "out of memory for %zu examples", data->examples);
    split->tests = split->seen = 0; // nothing was held out
    split->tests_digest = 0;
    free(is_test);
    return error;
}

static enum base_error advise_test_file(const struct node_config *config, const struct train_dataset *train,
                                        const struct train_dataset *test, struct base_reason *why)
{
    struct train_split splits[2] = {{0}};
    if (node_config_tests_on_training_file(config) || train->examples != test->examples ||
        train->features != test->features || train->examples < 2)
        return BASE_OK;
    enum base_error error = describe_whole(config, train, &splits[0], why);
    if (!error)
        error = describe_whole(config, test, &splits[1], why);
    if (!error)
        node_data_advise_test_file(&splits[0], &splits[1]);
    return error;
}

static enum base_error load_parts(const struct node_config *config, struct train_meaning *like,
                                  struct train_dataset *train, struct train_dataset *test,
                                  struct base_reason *why)
{
    if (node_config_splits(config))
        return load_split(config, like, train, test, why);
    enum base_error error = load(config, false, like, train, why);
    if (!error && train->examples > 1 && train->examples <= DESCRIBED_VALUES / train->features)
        error = describe_whole(config, train, &train->split, why);
    if (!error && test)
        error = load(config, true, train->meaning, test, why);
    return !error && test ? advise_test_file(config, train, test, why) : error;
}

static void note_collapse(struct train_dataset *data)
{
    const size_t feature = train_scale_collapsed(data, &data->different, &data->left);
    data->collapsed = feature == SIZE_MAX ? 0 : feature + 1;
}

// All training examples and, if `test` is not NULL, all test examples, scaled; `open`: not scaled yet.
static enum base_error load_all(const struct node_config *config, bool open, struct train_dataset *train,
                                struct train_dataset *test, struct base_reason *why)
{
    struct train_meaning *like = NULL;
    enum base_error error = read_meaning(config, &like, why);
    if (!error)
        error = load_parts(config, like, train, test, why);
    if (!error)
        error = check_alike(train, test, like, why);
    if (!error && open)
        error = train_scale_open(train, (enum train_scale)config->data.scale, why);
    else if (!error && !like)
        error = train_scale_measure(train, (enum train_scale)config->data.scale, why);
    if (!error && !train->tokens)
        error = node_meaning_check(train->meaning, why);
    train_meaning_release(like);
    if (error)
        return error;
    if (config->data.scale == TRAIN_SCALE_NONE)
        note_collapse(train);
    if (test && !test->meaning)
        test->meaning = train_meaning_share(train->meaning);
    train_scale_apply(train); // does nothing while the scale is open
    if (test)
        train_scale_apply(test);
    for (int i = 0; !open && i < 2; i++) // the scale is final
        if (i == 0 || test)
            train_dataset_round(i == 0 ? train : test);
    return BASE_OK;
}

// Replaces the whole set by the examples that `shard` trains on; `living` NULL: all.
static enum base_error cut(const struct node_config *config, size_t shard, const bool *living,
                           struct train_dataset *data, struct base_reason *why)
{
    struct train_dataset subset = {0};
    uint32_t *owner = malloc((data->examples + 1) * sizeof *owner);
    if (!owner)
        return base_fail(why, BASE_ENOMEM, "out of memory for the partition of %zu examples", data->examples);
    enum base_error error = node_data_owners(config, data, living, owner, why);
    if (!error)
        error = node_data_take(data, owner, shard, &subset, why);
    free(owner);
    if (error)
        return error;
    train_dataset_destroy(data);
    *data = subset;
    return BASE_OK;
}

// Digits are generated for this shard only, unless statistics over all examples are needed.
static enum base_error load_shard(const struct node_config *config, size_t shard, const bool *living,
                                  struct train_dataset *train, struct train_dataset *test,
                                  struct base_reason *why)
{
    const bool whole = shard == NODE_DATA_ALL || config->data.shards <= 1;
    enum base_error error;
    if (!whole && config->data.kind == NODE_DATA_DIGITS && !config->data.scale) {
        error = node_data_draw(config, shard, living, train, why);
        return !error && test ? load(config, true, NULL, test, why) : error;
    }
    error = load_all(config, false, train, test, why);
    return !error && !whole ? cut(config, shard, living, train, why) : error;
}

// After an error the caller's sets stay as they were. `train`, `test`: NULL if they are not wanted.
static enum base_error hand_over(enum base_error error, struct train_dataset loaded[2],
                                 struct train_dataset *train, struct train_dataset *test)
{
    struct train_dataset *const to[2] = {train, test};
    for (size_t i = 0; i < 2; i++)
        if (!error && to[i])
            *to[i] = loaded[i];
        else
            train_dataset_destroy(&loaded[i]);
    return error;
}

enum base_error node_data_load(const struct node_config *config, size_t shard, struct train_dataset *train,
                               struct train_dataset *test, struct base_reason *why)
{
    struct train_dataset loaded[2] = {{0}};
    enum base_error error = load_shard(config, shard, NULL, &loaded[0], test ? &loaded[1] : NULL, why);
    return hand_over(error, loaded, train, test);
}

enum base_error node_data_load_open(const struct node_config *config, struct train_dataset *train,
                                    struct train_dataset *test, struct base_reason *why)
{
    struct train_dataset loaded[2] = {{0}};
    BASE_ASSERT(node_config_gathers(config));
    return hand_over(load_all(config, true, &loaded[0], &loaded[1], why), loaded, train, test);
}

enum base_error node_data_load_whole(const struct node_config *config, struct train_dataset *data,
                                     struct base_reason *why)
{
    struct train_meaning *like = NULL;
    struct train_dataset loaded = {0};
    struct node_config whole = *config; // borrowed
    if (whole.model.kind == TRAIN_LOGISTIC)
        whole.model.kind = TRAIN_SOFTMAX;
    enum base_error error = read_meaning(&whole, &like, why);
    if (!error)
        error = load(&whole, false, like, &loaded, why);
    if (!error && !loaded.tokens)
        error = node_meaning_check(loaded.meaning, why);
    train_meaning_release(like);
    if (error) {
        train_dataset_destroy(&loaded);
        return error;
    }
    note_collapse(&loaded);
    *data = loaded;
    return BASE_OK;
}

// The model says what its data mean, so no training example is needed.
static enum base_error load_tests_like(const struct node_config *config, struct train_meaning *like,
                                       struct train_dataset *tests, struct base_reason *why)
{
    struct train_dataset train = {0};
    enum base_error error = node_config_splits(config) ? load_split(config, like, &train, tests, why)
                                                       : load(config, true, like, tests, why);
    train_dataset_destroy(&train);
    if (!error && !node_config_splits(config) && tests->examples > 1)
        error = describe_whole(config, tests, &tests->split, why);
    if (!error && tests->features != like->features)
        error =
            base_fail(why, BASE_EMISMATCH, "the test examples have %zu features, expected the model's %zu",
                      tests->features, like->features);
    if (!error) {
        train_scale_apply(tests);
        train_dataset_round(tests);
    }
    return error;
}

enum base_error node_data_load_tests(const struct node_config *config, struct train_meaning *like,
                                     struct train_dataset *test, struct base_reason *why)
{
    struct train_dataset loaded[2] = {{0}};
    enum base_error error;
    if (like)
        error = load_tests_like(config, like, &loaded[1], why);
    else if (!node_config_finds_classes(config) && !config->data.scale && !config->data.scale_from[0])
        error = load(config, true, NULL, &loaded[1], why);
    else
        error = load_all(config, false, &loaded[0], &loaded[1], why);
    return hand_over(error, loaded, NULL, test);
}

enum base_error node_data_load_living(const struct node_config *config, size_t shard, const bool *living,
                                      struct train_dataset *train, struct base_reason *why)
{
    struct train_dataset loaded[2] = {{0}};
    BASE_ASSERT(shard < config->data.shards && living[shard]);
    return hand_over(load_shard(config, shard, living, &loaded[0], NULL, why), loaded, train, NULL);
}
