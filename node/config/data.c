// Checks of data.*, and of what model.loss requires of the data.
#include "node/config/private.h"
#include "node/schema/private.h"
#include "train/meaning.h"
#include "train/model.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"

#define DIGITS_TRAIN 8000u
#define DIGITS_TEST  2000u

bool node_config_finds_classes(const struct node_config *config)
{
    return config->data.kind >= NODE_DATA_CSV;
}

bool node_config_scales_together(const struct node_config *config)
{
    return config->data.scale_from && strcmp(config->data.scale_from, "cluster") == 0;
}

bool node_config_gathers(const struct node_config *config)
{
    return node_config_scales_together(config) && config->data.scale != TRAIN_SCALE_NONE &&
           config->data.shards < 2 && config->average.method != NODE_METHOD_LOCAL;
}

bool node_config_is_text(const struct node_config *config)
{
    return config->data.kind == NODE_DATA_TEXT || config->data.kind == NODE_DATA_TOKENS;
}

bool node_config_splits(const struct node_config *config)
{
    return config->data.kind >= NODE_DATA_LIBSVM && !config->data.test_file[0];
}

char node_config_decimal(const struct node_config *config)
{
    static const char marks[] = {0, '.', ','};
    return marks[config->data.decimal];
}

char node_config_delimiter(const struct node_config *config)
{
    const char *text = config->data.delimiter;
    return strcmp(text, "tab") == 0 ? '\t' : strcmp(text, "space") == 0 ? ' ' : text[0];
}

enum base_error node_config_image_size(const struct node_config *config, size_t *width, size_t *height,
                                       struct base_reason *why)
{
    const char *text = config->data.image_size;
    char found[SCHEMA_FOUND_BYTES], *end = NULL;
    *width = *height = 0;
    if (!text[0])
        return BASE_OK;
    node_schema_found(text, strlen(text), found);
    const unsigned long w = text[0] >= '1' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    const bool both = end && *end == 'x' && end[1] >= '1' && end[1] <= '9';
    const unsigned long h = both ? strtoul(end + 1, &end, 10) : 0;
    if (!both || *end || w > LIMIT_IMAGE_SIDE || h > LIMIT_IMAGE_SIDE)
        return node_config_refuse(config, "data.image_size", why,
                                  "found %s, expected width and height in pixels, such as 28x28, each at "
                                  "most %u",
                                  found, LIMIT_IMAGE_SIDE);
    *width = w;
    *height = h;
    return BASE_OK;
}

void node_config_data_ranges(const struct node_config *config, struct node_data_ranges *ranges)
{
    ranges->train_first = config->data.train_first;
    ranges->train_count = config->data.train_count;
    ranges->test_first = config->data.test_first;
    ranges->test_count = config->data.test_count;
    if (config->data.kind != NODE_DATA_DIGITS)
        return;
    if (!ranges->train_count)
        ranges->train_count = DIGITS_TRAIN;
    if (!ranges->test_count)
        ranges->test_count = DIGITS_TEST;
    if (!ranges->test_first)
        ranges->test_first = ranges->train_first + ranges->train_count;
}

static const char *const kind_names[] = {"digits", "idx",  "libsvm", "csv",    "npy",
                                         "images", "text", "tokens", "cifar10"};
_Static_assert(sizeof kind_names / sizeof *kind_names == NODE_DATA_KINDS, "data.kind");

const char *node_config_data_kind(const struct node_config *config)
{
    return kind_names[config->data.kind];
}

static bool is_npz(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".npz") == 0;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static enum base_error check_folder(const struct node_config *config, const char *key, const char *path,
                                    struct base_reason *why)
{
    char found[SCHEMA_FOUND_BYTES];
    node_schema_found(path, strlen(path), found);
    DIR *folder = opendir(path);
    if (!folder)
        return node_config_fail(config, key, BASE_ENOTFOUND, why,
                                "found %s, which cannot be read as a folder (%s), expected one with a folder "
                                "of images for each class",
                                found, strerror(errno));
    closedir(folder);
    return BASE_OK;
}

#define BIT(kind) (1u << (kind))
#define ONE_FILE                                                                                             \
    (BIT(NODE_DATA_LIBSVM) | BIT(NODE_DATA_CSV) | BIT(NODE_DATA_NPY) | BIT(NODE_DATA_IMAGES) |               \
     BIT(NODE_DATA_TEXT) | BIT(NODE_DATA_TOKENS) | BIT(NODE_DATA_CIFAR10))

// Which kinds read which file, and which of them must have it.
static const struct {
    unsigned kinds, needed;
    const char *key, *what;
    size_t offset;
} files[] = {
    {BIT(NODE_DATA_IDX), BIT(NODE_DATA_IDX), "data.train_images", "the training images",
     offsetof(struct node_config, data.train_images)},
    {BIT(NODE_DATA_IDX) | BIT(NODE_DATA_NPY), BIT(NODE_DATA_IDX), "data.train_labels", "the training labels",
     offsetof(struct node_config, data.train_labels)},
    {BIT(NODE_DATA_IDX), BIT(NODE_DATA_IDX), "data.test_images", "the test images",
     offsetof(struct node_config, data.test_images)},
    {BIT(NODE_DATA_IDX) | BIT(NODE_DATA_NPY), BIT(NODE_DATA_IDX), "data.test_labels", "the test labels",
     offsetof(struct node_config, data.test_labels)},
    {ONE_FILE, ONE_FILE, "data.train_file", "the training examples",
     offsetof(struct node_config, data.train_file)},
    {ONE_FILE, 0, "data.test_file", "the test examples", offsetof(struct node_config, data.test_file)},
};

static enum base_error check_file(const struct node_config *config, size_t i, struct base_reason *why)
{
    const char *path = *(char *const *)((const char *)config + files[i].offset);
    const unsigned kind = BIT(config->data.kind);
    if (!(files[i].kinds & kind)) {
        char kinds[96] = "data.kind is ";
        for (size_t k = 0; k < sizeof kind_names / sizeof *kind_names; k++)
            if (files[i].kinds & BIT(k)) {
                strcat(kinds, kinds[13] ? ", " : "");
                strcat(kinds, kind_names[k]);
            }
        node_config_warn_unused(config, files[i].key, kinds);
        return BASE_OK;
    }
    const bool labels_beside = config->data.kind == NODE_DATA_NPY && files[i].kinds & BIT(NODE_DATA_IDX);
    const char *with = i == 1 ? config->data.train_file : config->data.test_file;
    if (labels_beside && (is_npz(with) || !with[0])) {
        if (path[0])
            node_config_say(BASE_LOG_WARN, config, files[i].key, "has no effect here: a .npz has its own y");
        return BASE_OK;
    }
    if (!path[0] && !(files[i].needed & kind) && !labels_beside)
        return BASE_OK;
    if (config->data.kind == NODE_DATA_IMAGES && path[0])
        return check_folder(config, files[i].key, path, why);
    if (config->data.kind == NODE_DATA_CIFAR10 && is_folder(path))
        return BASE_OK;
    return node_config_check_file(config, files[i].key, path, files[i].what, why);
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

bool node_config_tests_on_training_file(const struct node_config *config)
{
    if (config->data.kind == NODE_DATA_DIGITS)
        return true;
    if (config->data.kind == NODE_DATA_IDX)
        return is_same_file(config->data.train_images, config->data.test_images);
    return !node_config_splits(config) && is_same_file(config->data.train_file, config->data.test_file);
}

static void warn_overlap(const struct node_config *config)
{
    struct node_data_ranges ranges;
    node_config_data_ranges(config, &ranges);
    uint64_t train_end = ranges.train_count ? ranges.train_first + ranges.train_count : UINT64_MAX;
    uint64_t test_end = ranges.test_count ? ranges.test_first + ranges.test_count : UINT64_MAX;
    if (node_config_tests_on_training_file(config) && ranges.train_first < test_end &&
        ranges.test_first < train_end)
        node_config_say(BASE_LOG_WARN, config,
                        config->data.kind == NODE_DATA_DIGITS ? "data.test_first"
                        : config->data.kind == NODE_DATA_IDX  ? "data.test_images"
                                                              : "data.test_file",
                        "test and training examples overlap: the measured accuracy will be too good");
}

// A split uses a whole file; ranges need two files.
static enum base_error check_split(const struct node_config *config, struct base_reason *why)
{
    static const char *const keys[] = {"data.train_first", "data.train_count", "data.test_first",
                                       "data.test_count"};
    if (!node_config_splits(config)) {
        node_config_warn_unused(config, "data.test_part",
                                "data.kind is neither digits nor idx, and there is no data.test_file");
        return BASE_OK;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!node_schema_is_initial(&node_config_schema, config, keys[i]))
            return node_config_refuse(config, keys[i], why,
                                      "found a range without data.test_file, expected data.test_file (it may "
                                      "be the training file) or data.test_part");
    return BASE_OK;
}

static enum base_error check_table(const struct node_config *config, struct base_reason *why)
{
    static const char *const keys[] = {"data.header", "data.delimiter",   "data.decimal",
                                       "data.target", "data.categorical", "data.ignore"};
    const char *delimiter = config->data.delimiter;
    char found[SCHEMA_FOUND_BYTES];
    if (config->data.kind != NODE_DATA_CSV) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            node_config_warn_unused(config, keys[i], "data.kind is csv");
        return BASE_OK;
    }
    node_schema_found(delimiter, strlen(delimiter), found);
    const bool named = strcmp(delimiter, "tab") == 0 || strcmp(delimiter, "space") == 0;
    if (!named && (strlen(delimiter) != 1 || strchr("\"\n\r", delimiter[0])))
        return node_config_refuse(config, "data.delimiter", why,
                                  "found %s, expected one character other than a quote, or tab or space",
                                  found);
    if (node_config_decimal(config) && node_config_decimal(config) == delimiter[0])
        return node_config_refuse(
            config, "data.decimal", why,
            "found the mark that is also data.delimiter, expected another one: a decimal "
            "comma needs columns between semicolons or tabs");
    return BASE_OK;
}

static enum base_error check_images(const struct node_config *config, struct base_reason *why)
{
    size_t width, height;
    if (config->data.kind == NODE_DATA_IMAGES)
        return node_config_image_size(config, &width, &height, why);
    node_config_warn_unused(config, "data.image_size", "data.kind is images");
    node_config_warn_unused(config, "data.image_colour", "data.kind is images");
    return BASE_OK;
}

static enum base_error check_loss(const struct node_config *config, struct base_reason *why)
{
    const int kind = config->data.kind;
    if (config->model.loss == NODE_LOSS_CROSS_ENTROPY)
        return BASE_OK;
    if (kind != NODE_DATA_CSV && kind != NODE_DATA_NPY)
        return node_config_refuse(config, "model.loss", why,
                                  "found a regression with data.kind %s, which has classes, expected "
                                  "cross-entropy, or data.kind csv or npy",
                                  kind_names[kind]);
    if (config->data.partition == NODE_PARTITION_DIRICHLET && config->data.shards > 1)
        return node_config_refuse(
            config, "data.partition", why,
            "found dirichlet, which divides classes, but a regression has none, expected iid");
    return BASE_OK;
}

static enum base_error check_text(const struct node_config *config, struct base_reason *why)
{
    if (config->data.kind != NODE_DATA_TEXT)
        node_config_warn_unused(config, "data.text", "data.kind is text");
    if (config->data.kind != NODE_DATA_TOKENS) {
        node_config_warn_unused(config, "data.vocabulary", "data.kind is tokens");
        node_config_warn_unused(config, "data.token_bytes", "data.kind is tokens");
    } else if (config->data.token_bytes == 3) {
        return node_config_refuse(config, "data.token_bytes", why, "found 3, expected 2 or 4");
    }
    if (!node_config_is_text(config))
        return BASE_OK;
    if (config->data.scale)
        return node_config_refuse(
            config, "data.scale", why,
            "found a scale with data.kind %s, which has no numbers to scale, expected none",
            kind_names[config->data.kind]);
    if (config->data.partition == NODE_PARTITION_DIRICHLET && config->data.shards > 1)
        return node_config_refuse(
            config, "data.partition", why,
            "found dirichlet, which divides classes, but a text has none, expected contiguous or iid");
    return BASE_OK;
}

static enum base_error check_scale(const struct node_config *config, struct base_reason *why)
{
    if (config->data.scale && config->data.kind == NODE_DATA_LIBSVM && config->model.kind == TRAIN_LOGISTIC)
        return node_config_refuse(config, "data.scale", why,
                                  "found a scale with model.kind logistic, whose libsvm rows stay sparse: "
                                  "after a shift no value would be 0; expected none");
    if (!config->data.scale_from[0])
        return BASE_OK;
    if (node_config_scales_together(config) && !config->data.scale)
        return node_config_refuse(config, "data.scale_from", why,
                                  "found cluster with data.scale none, expected a scale to agree on: "
                                  "data.scale standard or minmax");
    if (node_config_scales_together(config))
        return BASE_OK;
    if (config->data.kind == NODE_DATA_DIGITS) {
        node_config_warn_unused(config, "data.scale_from", "data come from files");
        return BASE_OK;
    }
    return node_config_check_file(config, "data.scale_from", config->data.scale_from,
                                  "the output of 'p2pml data info --stats'", why);
}

static enum base_error check_shards(const struct node_config *config, struct base_reason *why)
{
    struct node_data_ranges ranges;
    if (config->data.shard >= config->data.shards)
        return node_config_refuse(config, "data.shard", why,
                                  "found %" PRIu64 ", expected less than data.shards, which is %" PRIu64
                                  ": shards are counted from 0",
                                  config->data.shard, config->data.shards);
    node_config_data_ranges(config, &ranges);
    if (ranges.train_count && ranges.train_count < config->data.shards)
        return node_config_refuse(config, "data.shards", why,
                                  "found %" PRIu64
                                  ", expected at most the number of training examples, %" PRIu64,
                                  config->data.shards, ranges.train_count);
    if (config->data.partition != NODE_PARTITION_DIRICHLET)
        node_config_warn_unused(config, "data.alpha", "data.partition is dirichlet");
    return BASE_OK;
}

static enum base_error check_numbers(const struct node_config *config, struct base_reason *why)
{
    if (config->data.kind == NODE_DATA_LIBSVM && !config->data.features)
        return node_config_refuse(config, "data.features", why,
                                  "found 0, expected the number of features of the libsvm files");
    if (config->data.kind != NODE_DATA_LIBSVM) {
        node_config_warn_unused(config, "data.features", "data.kind is libsvm");
        node_config_warn_unused(config, "data.labels", "data.kind is libsvm");
    } else if (config->data.labels.count == 1) {
        return node_config_refuse(config, "data.labels", why,
                                  "found one label, expected those of all classes");
    }
    if (config->data.kind == NODE_DATA_DIGITS && config->data.classes != NODE_DIGITS_CLASSES)
        node_config_say(BASE_LOG_WARN, config, "data.classes", "has no effect here: digits have 10 classes");
    else if (node_config_finds_classes(config))
        node_config_warn_unused(config, "data.classes", "data.kind is idx or libsvm");
    return BASE_OK;
}

// The training file is needed, too, if the test examples are a part of it, or if names and statistics come
// from it and are not known.
enum base_error node_config_check_tests(const struct node_config *config, bool known, struct base_reason *why)
{
    const bool trains =
        node_config_splits(config) || (!known && (node_config_finds_classes(config) || config->data.scale));
    enum base_error error = check_table(config, why);
    for (size_t i = 0; i < sizeof files / sizeof *files && !error; i++)
        if (trains || strncmp(files[i].key, "data.test", 9) == 0)
            error = check_file(config, i, why);
    if (!error)
        error = check_images(config, why);
    return error ? error : check_numbers(config, why);
}

enum base_error node_config_check_data(const struct node_config *config, struct base_reason *why)
{
    enum base_error (*const checks[])(const struct node_config *, struct base_reason *) = {
        check_numbers, check_split, check_table, check_images,
        check_loss,    check_text,  check_scale, check_shards,
    };
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && !error; i++)
        error = check_file(config, i, why);
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !error; i++)
        error = checks[i](config, why);
    if (!error)
        warn_overlap(config);
    return error;
}
