#include "lab/cli/data_guess.h"
#include "base/log.h"
#include "lab/cli/data_guess_lines.h"
#include "train/unpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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

// Whether each image begins with one of ten labels.
static bool has_cifar10_labels(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "rb");
    bool labels = file;
    for (size_t at = 0; labels && at < bytes; at += CIFAR10_BYTES)
        labels = fseek(file, (long)at, SEEK_SET) == 0 && getc(file) < 10;
    if (file)
        fclose(file);
    return labels;
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
    if (!error && !tested) { // both are needed
        base_log(
            BASE_LOG_WARN, "data",
            "no test images found beside %s: below, the training images stand in their place, whose accuracy "
            "says nothing; name others in data.test_images and data.test_labels",
            path);
    }
    if (!error)
        error = lab_data_assign(config, "data.test_images", tested ? tests : path, why);
    return error ? error : lab_data_assign(config, "data.test_labels", tested ? test_labels : labels, why);
}

// -- the others

// True for a file of the binary version, and for its folder.
static bool is_cifar10(const char *path, const struct stat *status)
{
    char batch[PATH_BYTES + 32];
    snprintf(batch, sizeof batch, "%s/data_batch_1.bin", path);
    if (S_ISDIR(status->st_mode))
        return is_there(batch);
    return ends_with(path, ".bin") && status->st_size > 0 && status->st_size % CIFAR10_BYTES == 0 &&
           has_cifar10_labels(path, (size_t)status->st_size);
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

// Bytes that are no text and begin like no format: nothing can be told from them.
static enum base_error ask(const char *path, const char *start, struct base_reason *why)
{
    const bool is_utf16 = memcmp(start, "\xff\xfe", 2) == 0 || memcmp(start, "\xfe\xff", 2) == 0;
    if (is_utf16)
        return base_fail(why, BASE_EINVAL,
                         "%s: found UTF-16, expected UTF-8; convert it with iconv -f UTF-16 -t "
                         "UTF-8",
                         path);
    return base_fail(
        why, BASE_EINVAL,
        "%s: found bytes that are no text and begin like no known format; say what they are with "
        "--set data.kind=tokens (and data.vocabulary, data.token_bytes) or --set data.kind=cifar10",
        path);
}

// Text of a format that is not read.
static enum base_error check_format(const char *path, const char *start, struct base_reason *why)
{
    static const struct {
        const char *begins, *what;
    } formats[] = {{"@relation", "ARFF: keep the lines below @data, with a header line of the names"},
                   {"%", "comments, as ARFF and Matrix Market have them: keep the rows, as CSV"},
                   {"{", "JSON: write it as CSV"},
                   {"[", "JSON: write it as CSV"},
                   {"<", "XML or HTML: write it as CSV"}};
    const char *at = start + strspn(start, " \t\r\n");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strncasecmp(at, formats[i].begins, strlen(formats[i].begins)) == 0)
            return base_fail(why, BASE_EINVAL, "%s: looks like %s; for a text, say --set data.kind=text",
                             path, formats[i].what);
    return BASE_OK;
}

// The user has said the kind: only what goes with it is set.
static enum base_error follow(const char *path, const char *kind, struct node_config *config,
                              struct base_reason *why)
{
    enum base_error error = lab_data_assign(config, "data.kind", kind, why);
    if (!error)
        error = lab_data_assign(config, "data.train_file", path, why);
    if (error || !node_config_is_text(config))
        return error;
    error = lab_data_assign(config, "model.kind", "gpt2", why);
    return error ? error : lab_data_assign(config, "model.context", "64", why);
}

static bool has_zero(const char *path)
{
    char start[START_BYTES];
    FILE *file = fopen(path, "rb");
    const size_t got = file ? fread(start, 1, sizeof start, file) : 0;
    if (file)
        fclose(file);
    return memchr(start, 0, got) != NULL;
}

static enum base_error guess_lines(const char *path, const char *start, const char *kind,
                                   struct node_config *config, bool *certain, struct base_reason *why)
{
    const bool packed = ends_with(path, ".gz"), is_text = ends_with(path, ".txt") || ends_with(path, ".md");
    *certain = false;
    if (!packed && has_zero(path))
        return ask(path, start, why);
    if (kind ? strcmp(kind, "libsvm") == 0 : lab_data_looks_like_libsvm(start))
        return lab_data_guess_libsvm(path, config, why);
    enum base_error error = kind || is_text ? BASE_OK : check_format(path, start, why);
    if (!error)
        error = lab_data_assign(config, "data.train_file", path, why);
    if (!error && !kind && lab_data_looks_like_prose(start, is_text))
        return guess_text(config, why);
    return error ? error : lab_data_guess_table(start, config, why);
}

enum base_error lab_data_guess(const char *path, const char *kind, struct node_config *config, bool *certain,
                               struct base_reason *why)
{
    char start[START_BYTES] = {0};
    struct stat status;
    *certain = true;
    if (strlen(path) >= PATH_BYTES - 4 || stat(path, &status))
        return base_fail(why, BASE_ENOTFOUND,
                         "%s: cannot be read, expected a file or a folder of folders of images", path);
    lab_data_start(path, start, sizeof start);
    const bool is_folder = S_ISDIR(status.st_mode);
    if (kind && strcmp(kind, "idx") != 0 && strcmp(kind, "libsvm") != 0 && strcmp(kind, "csv") != 0)
        return follow(path, kind, config, why);
    if (!is_folder && start[0] == 0 && start[1] == 0 && start[2] == 8)
        return guess_idx(path, start, config, why);
    const char *found = is_folder && !is_cifar10(path, &status)              ? "images"
                        : is_cifar10(path, &status)                          ? "cifar10"
                        : ends_with(path, ".npz") || ends_with(path, ".npy") ? "npy"
                                                                             : NULL;
    if (!found)
        return guess_lines(path, start, kind, config, certain, why);
    enum base_error error = lab_data_assign(config, "data.train_file", path, why);
    return error ? error : lab_data_assign(config, "data.kind", found, why);
}
