#include "train/images.h"
#include "base/array.h"
#include "base/file.h"
#include "base/limits.h"
#include "train/image.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define PATH_BYTES 4096u

struct gallery {
    const char *folder;
    const struct train_images_options *options;
    struct train_names classes, files; // files: paths, grouped by class
    uint32_t *labels;                  // [files.count]
    struct train_meaning *meaning;
};

static int order_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool join(char path[PATH_BYTES], const char *folder, const char *name)
{
    const int used = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return used > 0 && (size_t)used < PATH_BYTES;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot &&
           (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
}

// Lists the folders or the files in a folder, sorted.
static enum base_error list(const char *folder, bool folders, struct train_names *names,
                            struct base_reason *why)
{
    char path[PATH_BYTES];
    DIR *open = opendir(folder);
    if (!open)
        return base_fail(why, BASE_ENOTFOUND, "%s: cannot be read as a folder: %s", folder, strerror(errno));
    enum base_error error = BASE_OK;
    for (struct dirent *entry; !error && (entry = readdir(open));) {
        if (entry->d_name[0] == '.')
            continue;
        if (!join(path, folder, entry->d_name))
            error = base_fail(why, BASE_ELIMIT, "%s: a path of over %u bytes", folder, PATH_BYTES - 1);
        else if (is_folder(path) == folders && !train_names_add(names, entry->d_name, strlen(entry->d_name)))
            error = base_fail(why, BASE_ENOMEM, "%s: no memory for %zu names", folder, names->count);
    }
    closedir(open);
    if (!error && names->count > 0)
        qsort(names->items, names->count, sizeof *names->items, order_names);
    return error;
}

static enum base_error add_file(struct gallery *g, const char *path, uint32_t label, struct base_reason *why)
{
    uint32_t *grown = base_array_grow(g->labels, g->files.count, sizeof *grown);
    g->labels = grown ? grown : g->labels;
    if (!grown || !train_names_add(&g->files, path, strlen(path)))
        return base_fail(why, BASE_ENOMEM, "%s: no memory for %zu files", g->folder, g->files.count);
    g->labels[g->files.count - 1] = label;
    return BASE_OK;
}

static enum base_error find_label(const struct gallery *g, const char *name, uint32_t *label,
                                  struct base_reason *why)
{
    const struct train_names *classes = g->options->like ? &g->options->like->classes : &g->classes;
    for (size_t i = 0; i < classes->count; i++)
        if (strcmp(classes->items[i], name) == 0) {
            *label = (uint32_t)i;
            return BASE_OK;
        }
    return base_fail(why, BASE_EMISMATCH,
                     "%s: found a folder \"%.64s\", expected one of the %zu classes that the training "
                     "examples have",
                     g->folder, name, classes->count);
}

static enum base_error list_class(struct gallery *g, const char *name, struct base_reason *why)
{
    char folder[PATH_BYTES], path[PATH_BYTES];
    uint32_t label = 0;
    struct train_names files = {0};
    enum base_error error =
        join(folder, g->folder, name)
            ? find_label(g, name, &label, why)
            : base_fail(why, BASE_ELIMIT, "%s: a path of over %u bytes", g->folder, PATH_BYTES - 1);
    if (!error)
        error = list(folder, false, &files, why);
    if (!error && files.count == 0)
        error = base_fail(why, BASE_EFORMAT, "%s: is empty, expected the images of a class", folder);
    for (size_t i = 0; !error && i < files.count; i++)
        if (!join(path, folder, files.items[i]))
            error = base_fail(why, BASE_ELIMIT, "%s: a path of over %u bytes", folder, PATH_BYTES - 1);
        else if (!is_picture(files.items[i]))
            error = base_fail(why, BASE_EFORMAT,
                              "%s: is not a .png, .jpg or .jpeg, and the folder of a class may contain "
                              "nothing else",
                              path);
        else
            error = add_file(g, path, label, why);
    train_names_free(&files);
    return error;
}

static enum base_error read_image(const char *path, size_t channels, struct train_picture *image,
                                  struct base_reason *why)
{
    uint8_t *bytes = NULL;
    struct train_bytes file = {.name = path};
    enum base_error error = base_file_read(path, LIMIT_IMAGE_FILE_BYTES, &bytes, &file.bytes, why);
    if (error)
        return error;
    file.data = bytes;
    error = train_image_decode(&file, channels, image, why);
    free(bytes);
    return error;
}

// Takes size and colour from the training examples; without these, from the options, and what the options do
// not give from the first file.
static enum base_error mean(struct gallery *g, struct base_reason *why)
{
    const struct train_images_options *o = g->options;
    struct train_picture first = {0};
    if (o->like) {
        g->meaning = train_meaning_share(o->like);
        return o->like->width > 0
                   ? BASE_OK
                   : base_fail(why, BASE_EMISMATCH, "%s: the training examples are not images", g->folder);
    }
    enum base_error error = read_image(g->files.items[0], o->channels, &first, why);
    if (error)
        return error;
    free(first.pixels);
    const size_t width = o->width ? o->width : first.width, height = o->height ? o->height : first.height;
    g->meaning = train_meaning_create(width * height * first.channels);
    if (!g->meaning)
        return base_fail(why, BASE_ENOMEM, "%s: no memory", g->folder);
    g->meaning->width = width;
    g->meaning->height = height;
    g->meaning->channels = first.channels;
    g->meaning->classes = g->classes;
    g->classes = (struct train_names){0};
    return BASE_OK;
}

enum base_error train_image_row(const char *path, const struct train_meaning *meaning, float *row,
                                struct base_reason *why)
{
    struct train_picture image = {0};
    enum base_error error = read_image(path, meaning->channels, &image, why);
    if (!error)
        train_image_fit(&image, meaning->width, meaning->height, row);
    free(image.pixels);
    return error;
}

static enum base_error put_image(const struct gallery *g, const char *path, float *row,
                                 struct base_reason *why)
{
    const struct train_meaning *m = g->meaning;
    const size_t channels = g->options->channels;
    struct train_picture image = {0};
    enum base_error error = read_image(path, channels, &image, why);
    if (error)
        return error;
    if (image.channels != m->channels)
        error =
            base_fail(why, BASE_EMISMATCH,
                      "%s: found a %s image, expected a %s one like the first; data.image_colour: grey or "
                      "rgb converts all of them",
                      path, image.channels == 1 ? "grey" : "colour", m->channels == 1 ? "grey" : "colour");
    else if (g->options->width == 0 && (image.width != m->width || image.height != m->height))
        error = base_fail(why, BASE_EMISMATCH,
                          "%s: found %zu x %zu pixels, expected %zu x %zu like the first; data.image_size "
                          "converts them to one size",
                          path, image.width, image.height, m->width, m->height);
    else
        train_image_fit(&image, m->width, m->height, row);
    free(image.pixels);
    return error;
}

static enum base_error fill(const struct gallery *g, struct train_dataset *data, struct base_reason *why)
{
    struct train_dataset filled = {0};
    const size_t features = g->meaning->features;
    enum base_error error =
        train_dataset_allocate(g->files.count, features, g->meaning->classes.count, 0, &filled, why);
    if (error)
        return error;
    for (size_t i = 0; !error && i < g->files.count; i++) {
        filled.labels[i] = g->labels[i];
        error = put_image(g, g->files.items[i], filled.x + i * features, why);
    }
    if (error) {
        train_dataset_destroy(&filled);
        return error;
    }
    filled.height = g->meaning->height;
    filled.width = g->meaning->width;
    filled.channels = g->meaning->channels;
    filled.meaning = train_meaning_share(g->meaning);
    *data = filled;
    return BASE_OK;
}

static enum base_error load(struct gallery *g, struct train_dataset *data, struct base_reason *why)
{
    enum base_error error = list(g->folder, true, &g->classes, why);
    if (!error && !g->options->like && (g->classes.count < 2 || g->classes.count > LIMIT_CLASSES))
        error =
            base_fail(why, BASE_EFORMAT, "%s: found %zu folders, expected one for each of 2 to %u classes",
                      g->folder, g->classes.count, LIMIT_CLASSES);
    for (size_t i = 0; !error && i < g->classes.count; i++)
        error = list_class(g, g->classes.items[i], why);
    if (!error && g->files.count == 0)
        error = base_fail(why, BASE_EFORMAT, "%s: found no folder of a class", g->folder);
    if (!error)
        error = mean(g, why);
    return error ? error : fill(g, data, why);
}

enum base_error train_dataset_load_images(const char *folder, const struct train_images_options *options,
                                          struct train_dataset *data, struct base_reason *why)
{
    struct gallery g = {.folder = folder, .options = options};
    enum base_error error = load(&g, data, why);
    train_names_free(&g.classes);
    train_names_free(&g.files);
    free(g.labels);
    train_meaning_release(g.meaning);
    return error;
}
