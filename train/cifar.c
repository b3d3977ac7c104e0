#include "train/cifar.h"
#include "base/file.h"
#include "base/limits.h"
#include "train/loaders.h"
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SIDE         32u
#define CHANNELS     3u
#define PIXELS       (SIDE * SIDE)
#define RECORD_BYTES (1u + CHANNELS * PIXELS)
#define PIXEL_MAX    255.0f
#define FILE_LIMIT   ((size_t)LIMIT_DATASET_VALUES)

static const char *const class_names[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                          "dog",      "frog",       "horse", "ship", "truck"};
#define CLASSES (sizeof class_names / sizeof *class_names)

static enum base_error check_records(const struct train_bytes *file, struct base_reason *why)
{
    const size_t left = file->bytes % RECORD_BYTES;
    if (file->bytes == 0 || left != 0)
        return base_fail(why, BASE_EFORMAT,
                         "%s: found %zu bytes, expected records of %u (label and 32 x 32 pixels of three "
                         "colours): %s",
                         file->name, file->bytes, RECORD_BYTES,
                         file->bytes == 0 ? "it is empty"
                                          : "is it the binary version of CIFAR-10, and "
                                            "complete?");
    for (size_t i = 0; i < file->bytes / RECORD_BYTES; i++)
        if (file->data[i * RECORD_BYTES] >= CLASSES)
            return base_fail(why, BASE_EFORMAT, "%s: the label of image %zu is %u, expected 0 to %zu",
                             file->name, i, file->data[i * RECORD_BYTES], CLASSES - 1);
    return BASE_OK;
}

// Converts planes to pixels of three channels.
static void put_image(const uint8_t *planes, float *row)
{
    for (size_t p = 0; p < PIXELS; p++)
        for (size_t c = 0; c < CHANNELS; c++)
            row[p * CHANNELS + c] = (float)planes[c * PIXELS + p] / PIXEL_MAX;
}

static enum base_error name_classes(struct train_dataset *data)
{
    struct train_meaning *meaning = train_meaning_create(data->features);
    if (!meaning)
        return BASE_ENOMEM;
    data->meaning = meaning;
    meaning->height = data->height = SIDE;
    meaning->width = data->width = SIDE;
    meaning->channels = data->channels = CHANNELS;
    for (size_t c = 0; c < CLASSES; c++)
        if (!train_names_add(&meaning->classes, class_names[c], strlen(class_names[c])))
            return BASE_ENOMEM;
    return BASE_OK;
}

enum base_error train_cifar10_parse(const struct train_bytes *files, size_t n_files,
                                    struct train_dataset *data, struct base_reason *why)
{
    struct train_dataset filled = {0};
    size_t examples = 0, at = 0;
    for (size_t f = 0; f < n_files; f++) {
        enum base_error error = check_records(&files[f], why);
        if (error)
            return error;
        examples += files[f].bytes / RECORD_BYTES;
    }
    enum base_error error =
        train_dataset_allocate(examples, (size_t)CHANNELS * PIXELS, CLASSES, 0, &filled, why);
    if (error)
        return error;
    if (name_classes(&filled)) {
        train_dataset_destroy(&filled);
        return base_fail(why, BASE_ENOMEM, "%s: no memory", files[0].name);
    }
    filled.input_divisor = PIXEL_MAX;
    for (size_t f = 0; f < n_files; f++)
        for (size_t i = 0; i < files[f].bytes / RECORD_BYTES; i++, at++) {
            const uint8_t *record = files[f].data + i * RECORD_BYTES;
            filled.labels[at] = record[0];
            put_image(record + 1, filled.x + at * filled.features);
        }
    *data = filled;
    return BASE_OK;
}

static int is_batch(const struct dirent *entry)
{
    return fnmatch("data_batch_*.bin", entry->d_name, 0) == 0;
}

// Lists the files to read: the path itself, or the batches in the folder.
static enum base_error list(const char *path, struct train_names *names, struct base_reason *why)
{
    struct stat status;
    struct dirent **entries = NULL;
    char file[4096];
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode))
        return train_names_add(names, path, strlen(path))
                   ? BASE_OK
                   : base_fail(why, BASE_ENOMEM, "%s: no memory", path);
    const int count = scandir(path, &entries, is_batch, alphasort);
    enum base_error error = BASE_OK;
    if (count < 0)
        error = base_fail(why, BASE_ENOTFOUND, "%s: cannot be read as a folder: %s", path, strerror(errno));
    else if (count == 0)
        error = base_fail(why, BASE_ENOTFOUND,
                          "%s: found no data_batch_*.bin, expected those of CIFAR-10's binary version", path);
    for (int i = 0; i < count; i++) {
        const int used = snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (!error && (used < 0 || (size_t)used >= sizeof file))
            error = base_fail(why, BASE_ELIMIT, "%s: a path of over %zu bytes", path, sizeof file - 1);
        else if (!error && !train_names_add(names, file, (size_t)used))
            error = base_fail(why, BASE_ENOMEM, "%s: no memory", path);
        free(entries[i]);
    }
    free(entries);
    return error;
}

enum base_error train_dataset_load_cifar10(const char *path, struct train_dataset *data,
                                           struct base_reason *why)
{
    struct train_names names = {0};
    enum base_error error = list(path, &names, why);
    struct train_bytes *files = error ? NULL : calloc(names.count, sizeof *files);
    uint8_t **bytes = error ? NULL : calloc(names.count, sizeof *bytes);
    if (!error && (!files || !bytes))
        error = base_fail(why, BASE_ENOMEM, "%s: no memory", path);
    for (size_t f = 0; !error && f < names.count; f++) {
        files[f].name = names.items[f];
        error = base_file_read(names.items[f], FILE_LIMIT, &bytes[f], &files[f].bytes, why);
        files[f].data = bytes[f];
    }
    if (!error)
        error = train_cifar10_parse(files, names.count, data, why);
    for (size_t f = 0; bytes && f < names.count; f++)
        free(bytes[f]);
    free(bytes);
    free(files);
    train_names_free(&names);
    return error;
}
