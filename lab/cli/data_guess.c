#include "lab/cli/data_guess.h"
#include "base/limits.h"
#include "train/unpack.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES    4096
#define START_BYTES   4096u // of a file, to recognise its kind
#define CIFAR10_BYTES 3073  // of an image and its label

static bool ends_with(const char *path, const char *end)
{
    const size_t a = strlen(path), b = strlen(end);
    return a >= b && strcmp(path + a - b, end) == 0;
}

void lab_data_start(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "rb");
    size_t got = file ? fread(text, 1, capacity - 1, file) : 0;
    struct train_bytes bytes;
    uint8_t *owned = NULL;
    if (file)
        fclose(file);
    if (got > 2 && (uint8_t)text[0] == 0x1f && (uint8_t)text[1] == 0x8b &&
        !train_unpack_file(path, &bytes, &owned, NULL)) {
        got = bytes.bytes < capacity - 1 ? bytes.bytes : capacity - 1;
        memcpy(text, bytes.data, got);
        free(owned);
    }
    text[got] = 0;
}

// The most frequent delimiter of the first line.
static const char *guess_delimiter(const char *start)
{
    static const char *const names[] = {",", ";", "tab", "|"};
    static const char characters[] = {',', ';', '\t', '|'};
    size_t best = 0, most = 0;
    for (size_t d = 0; d < sizeof characters; d++) {
        size_t count = 0;
        for (const char *c = start; *c && *c != '\n'; c++)
            count += *c == characters[d];
        if (count > most) {
            most = count;
            best = d;
        }
    }
    return names[best];
}

// A label, an index and a colon.
static bool looks_like_libsvm(const char *start)
{
    const char *label = start + strspn(start, " \t"), *blank = label + strspn(label, "+-.0123456789"),
               *index = blank + strspn(blank, " \t"), *end = index + strspn(index, "0123456789");
    return label < blank && blank < index && index < end && *end == ':';
}

enum base_error lab_data_assign(struct node_config *config, const char *key, const char *value,
                                struct base_reason *why)
{
    char setting[PATH_BYTES + 32];
    snprintf(setting, sizeof setting, "%s=%s", key, value);
    return node_schema_assign(&node_config_schema, "guess", setting, config, why);
}

static enum base_error assign_number(struct node_config *config, const char *key, size_t value,
                                     struct base_reason *why)
{
    char text[24];
    snprintf(text, sizeof text, "%zu", value);
    return lab_data_assign(config, key, text, why);
}

// -- IDX

// `path` with the first `from` in the name of the file replaced by `to`. False: the name has no `from`, or
// the path is too long.
static bool sibling(const char *path, const char *from, const char *to, char out[PATH_BYTES])
{
    const char *name = strrchr(path, '/'), *at = strstr(name ? name : path, from);
    if (!at)
        return false;
    const int used = snprintf(out, PATH_BYTES, "%.*s%s%s", (int)(at - path), path, to, at + strlen(from));
    return used > 0 && used < PATH_BYTES;
}

static bool is_there(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

static bool labels_of(const char *images, char labels[PATH_BYTES])
{
    char named[PATH_BYTES];
    if (!sibling(images, "images", "labels", named))
        return false;
    if (!sibling(named, "idx3", "idx1", labels))
        snprintf(labels, PATH_BYTES, "%s", named);
    return is_there(labels);
}

// The highest label plus one; 0: the file cannot be read, and the loader will give the reason.
static size_t classes_of(const char *labels)
{
    struct train_bytes bytes;
    uint8_t *owned = NULL;
    size_t most = 0;
    if (train_unpack_file(labels, &bytes, &owned, NULL))
        return 0;
    for (size_t i = TRAIN_IDX_LABELS_HEADER_BYTES; i < bytes.bytes; i++)
        most = bytes.data[i] + 1u > most ? bytes.data[i] + 1u : most;
    free(owned);
    return most;
}

// The four files are named like those of MNIST.
static enum base_error guess_idx(const char *path, const char *start, struct node_config *config,
                                 struct base_reason *why)
{
    char labels[PATH_BYTES], tests[PATH_BYTES];
    if (start[3] == 1)
        return base_fail(why, BASE_EINVAL,
                         "%s: holds the labels of an IDX data set, expected the file of its images", path);
    enum base_error error = lab_data_assign(config, "data.kind", "idx", why);
    if (!error)
        error = lab_data_assign(config, "data.train_images", path, why);
    if (!error && !labels_of(path, labels))
        return base_fail(
            why, BASE_ENOTFOUND,
            "%s: found IDX images without their labels; expected a file beside it whose name has labels in "
            "place of images, and idx1 in place of idx3",
            path);
    if (!error)
        error = lab_data_assign(config, "data.train_labels", labels, why);
    const size_t classes = classes_of(labels);
    if (!error && classes > 1)
        error = assign_number(config, "data.classes", classes, why);
    char test_labels[PATH_BYTES];
    const bool tested =
        sibling(path, "train", "t10k", tests) && is_there(tests) && labels_of(tests, test_labels);
    if (!error)
        error = lab_data_assign(config, "data.test_images", tested ? tests : path, why);
    return error ? error : lab_data_assign(config, "data.test_labels", tested ? test_labels : labels, why);
}

// -- LIBSVM

struct libsvm_survey {
    size_t features;
    long least, most; // labels
};

// Skips a malformed line, which the loader will report.
static void survey_line(const char *line, struct libsvm_survey *survey)
{
    char *end;
    const long label = strtol(line, &end, 10);
    if (end == line)
        return;
    survey->least = label < survey->least ? label : survey->least;
    survey->most = label > survey->most ? label : survey->most;
    const char *last = strrchr(end, ':'); // indices ascend
    while (last && last > end && last[-1] >= '0' && last[-1] <= '9')
        last--;
    const size_t index = last ? strtoull(last, NULL, 10) : 0;
    survey->features = index > survey->features ? index : survey->features;
}

static enum base_error survey_libsvm(const char *path, struct libsvm_survey *survey, struct base_reason *why)
{
    *survey = (struct libsvm_survey){.least = LONG_MAX, .most = LONG_MIN};
    FILE *file = fopen(path, "rb");
    char *line = malloc(LIMIT_TEXT_LINE_BYTES);
    while (file && line && fgets(line, LIMIT_TEXT_LINE_BYTES, file))
        survey_line(line, survey);
    free(line);
    if (file)
        fclose(file);
    if (survey->features && survey->most > survey->least)
        return BASE_OK;
    return base_fail(
        why, BASE_EFORMAT,
        "%s: looks like LIBSVM text, found %s, expected lines \"label index:value ...\" of at least "
        "two classes",
        path, survey->features ? "the same label in every line" : "no index");
}

static enum base_error guess_libsvm(const char *path, struct node_config *config, struct base_reason *why)
{
    struct libsvm_survey survey;
    if (ends_with(path, ".gz"))
        return base_fail(why, BASE_EINVAL, "%s: holds packed LIBSVM text; unpack it first", path);
    enum base_error error = survey_libsvm(path, &survey, why);
    if (error)
        return error;
    char tests[PATH_BYTES];
    snprintf(tests, sizeof tests, "%s.t", path);
    const size_t classes = survey.least < 0    ? 2
                           : survey.least == 0 ? (size_t)survey.most + 1
                                               : (size_t)survey.most;
    error = lab_data_assign(config, "data.kind", "libsvm", why);
    if (!error)
        error = lab_data_assign(config, "data.train_file", path, why);
    if (!error)
        error = lab_data_assign(config, "data.test_file", is_there(tests) ? tests : path, why);
    if (!error)
        error = assign_number(config, "data.features", survey.features, why);
    return error ? error : assign_number(config, "data.classes", classes, why);
}

// -- the others

// True for a file of the binary version, and for its folder.
static bool is_cifar10(const char *path, const struct stat *status)
{
    char batch[PATH_BYTES + 32];
    snprintf(batch, sizeof batch, "%s/data_batch_1.bin", path);
    if (S_ISDIR(status->st_mode))
        return is_there(batch);
    return ends_with(path, ".bin") && status->st_size > 0 && status->st_size % CIFAR10_BYTES == 0;
}

// True for .txt and .md, and for words and sentences: the first line has no delimiter of a table.
static bool looks_like_text(const char *path, const char *start)
{
    const size_t first = strcspn(start, "\n");
    const bool prose =
        !memchr(start, '\t', first) && !memchr(start, ';', first) && !memchr(start, '|', first);
    return ends_with(path, ".txt") || ends_with(path, ".md") ||
           (prose && !memchr(start, ',', first) && strchr(start, ' '));
}

static enum base_error guess_text(struct node_config *config, struct base_reason *why)
{
    enum base_error error = lab_data_assign(config, "data.kind", "text", why);
    if (!error)
        error = lab_data_assign(config, "data.text", "characters", why);
    if (!error)
        error = lab_data_assign(config, "model.kind", "gpt2", why);
    return error ? error : lab_data_assign(config, "model.context", "64", why);
}

enum base_error lab_data_guess(const char *path, struct node_config *config, struct base_reason *why)
{
    char start[START_BYTES] = {0};
    struct stat status;
    if (strlen(path) >= PATH_BYTES - 4 || stat(path, &status))
        return base_fail(why, BASE_ENOTFOUND,
                         "%s: cannot be read, expected a file or a folder of folders of images", path);
    lab_data_start(path, start, sizeof start);
    if (!S_ISDIR(status.st_mode) && start[0] == 0 && start[1] == 0 && start[2] == 8)
        return guess_idx(path, start, config, why);
    if (!S_ISDIR(status.st_mode) && looks_like_libsvm(start))
        return guess_libsvm(path, config, why);
    enum base_error error = lab_data_assign(config, "data.train_file", path, why);
    if (error)
        return error;
    if (is_cifar10(path, &status))
        return lab_data_assign(config, "data.kind", "cifar10", why);
    if (S_ISDIR(status.st_mode))
        return lab_data_assign(config, "data.kind", "images", why);
    if (ends_with(path, ".npz") || ends_with(path, ".npy"))
        return lab_data_assign(config, "data.kind", "npy", why);
    if (looks_like_text(path, start))
        return guess_text(config, why);
    error = lab_data_assign(config, "data.kind", "csv", why);
    return error ? error : lab_data_assign(config, "data.delimiter", guess_delimiter(start), why);
}
