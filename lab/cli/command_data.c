// p2pml data info: the kind of a file, its content, and a configuration that fits.
#include "base/plural.h"
#include "lab/cli/command.h"
#include "lab/cli/data_guess.h"
#include "lab/experiment/options.h"
#include "node/learn/data.h"
#include "node/store/model_file.h"
#include "train/scale.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_SHOWN     5u
#define FEATURES_SHOWN 40u
#define CLASSES_SHOWN  40u
#define PICTURE_WIDE   72u
#define TEXT_SHOWN     240u // bytes
#define MANY_CLASSES   20u  // more of them than this, and few rows each: a quantity rather than classes

struct wanted {
    const char *path, *stats;
    struct lab_texts settings; // of --set
};

static const struct lab_argument table[] = {
    LAB_ARGUMENT("set", TEXTS, settings),
    LAB_ARGUMENT("stats", TEXT, stats),
};
static const struct lab_arguments arguments = {"data", table, sizeof table / sizeof *table};

// -- the content

static void print_features(const struct train_dataset *data)
{
    const size_t shown = data->features < FEATURES_SHOWN ? data->features : FEATURES_SHOWN;
    if (data->width) {
        printf("  each %zu x %zu pixels, %s, 0 to 1\n", data->width, data->height,
               data->channels == 3 ? "rgb" : "grey");
        return;
    }
    printf("\n  %-32s %12s %12s %12s %12s\n", "feature", "minimum", "maximum", "mean", "deviation");
    for (size_t i = 0; i < shown; i++) {
        char name[64];
        const struct train_spread s =
            train_scale_spread(data->x, data->x_rest, data->examples, data->features, i);
        train_meaning_feature(data->meaning, i, name, sizeof name);
        printf("  %-32.32s %12.5g %12.5g %12.5g %12.5g\n", name, s.least, s.most, s.mean, s.deviation);
    }
    if (shown < data->features)
        printf("  ... and %zu more\n", data->features - shown);
}

static const char *class_name(const struct train_dataset *data, size_t class, char number[NODE_MODEL_LABEL])
{
    const struct node_model_about about = {.first_label = data->first_label, .meaning = data->meaning};
    return node_model_label(&about, class, number);
}

static void print_classes(const struct train_dataset *data)
{
    char number[NODE_MODEL_LABEL];
    size_t *counts = calloc(data->classes, sizeof *counts);
    for (size_t i = 0; counts && i < data->examples; i++)
        counts[data->labels[i]]++;
    printf("\n  %-32s %12s %9s\n", "class", "examples", "share");
    for (size_t c = 0; counts && c < data->classes && c < CLASSES_SHOWN; c++)
        printf("  %-32.32s %12zu %8.2f%%\n", class_name(data, c, number), counts[c],
               100 * (double)counts[c] / (double)data->examples);
    if (data->classes > CLASSES_SHOWN)
        printf("  ... and %zu more\n", data->classes - CLASSES_SHOWN);
    free(counts);
}

static void print_targets(const struct train_dataset *data)
{
    printf("\n  %-32s %12s %12s %12s %12s\n", "target", "minimum", "maximum", "mean", "deviation");
    for (size_t o = 0; o < data->outputs && o < FEATURES_SHOWN; o++) {
        const struct train_spread s =
            train_scale_spread(data->targets, data->targets_rest, data->examples, data->outputs, o);
        printf("  %-32.32s %12.5g %12.5g %12.5g %12.5g\n", data->meaning->targets.items[o], s.least, s.most,
               s.mean, s.deviation);
    }
}

// Prints an image as characters, the darkest as a blank. An image that is too wide for a terminal is left
// out.
static void print_picture(const struct train_dataset *data)
{
    static const char shades[] = " .:-=+*#%@";
    if (data->width > PICTURE_WIDE)
        return;
    printf("\n  the first image:\n");
    for (size_t y = 0; y < data->height; y++) {
        printf("    ");
        for (size_t x = 0; x < data->width; x++) {
            const float value = data->x[(y * data->width + x) * data->channels];
            putchar(shades[(size_t)(value * 9.99f)]);
        }
        putchar('\n');
    }
}

static void print_rows(const struct train_dataset *data)
{
    char number[NODE_MODEL_LABEL];
    printf("\n  the first rows, as features:\n");
    for (size_t i = 0; i < data->examples && i < ROWS_SHOWN; i++) {
        printf("   ");
        for (size_t k = 0; k < data->features && k < 10; k++)
            printf(" %g", (double)data->x[i * data->features + k]);
        printf("%s -> ", data->features > 10 ? " ..." : "");
        if (data->labels)
            printf("%s\n", class_name(data, data->labels[i], number));
        else
            printf("%g\n", (double)data->targets[i * data->outputs]);
    }
}

static void print_text(const char *path)
{
    char start[TEXT_SHOWN];
    lab_data_start(path, start, sizeof start);
    printf("\n  it begins:\n    ");
    for (const char *c = start; *c; c++)
        if (*c == '\n')
            printf("\n    ");
        else if ((unsigned char)*c >= ' ')
            putchar(*c);
    putchar('\n');
}

// -- the configuration

static void print_configuration(const struct node_config *config, const struct train_dataset *data,
                                bool certain)
{
    static const char *const keys[] = {
        "data.kind",         "data.train_file",  "data.train_images", "data.train_labels", "data.test_file",
        "data.test_images",  "data.test_labels", "data.features",     "data.classes",      "data.labels",
        "data.text",         "data.vocabulary",  "data.token_bytes",  "data.header",       "data.delimiter",
        "data.decimal",      "data.target",      "data.categorical",  "data.ignore",       "data.image_size",
        "data.image_colour", "data.scale",       "data.scale_from"};
    static const char *const losses[] = {"cross-entropy", "mse", "mae"};
    _Static_assert(sizeof losses / sizeof *losses == NODE_LOSSES, "every loss has a name");
    printf(certain ? "\nA configuration that fits:\n\n"
                   : "\nA configuration that fits if the guess is right:\n\n");
    if (data->outputs)
        printf("model:\n  loss: %s\n", losses[config->model.loss]);
    if (data->tokens)
        printf("model:\n  kind: gpt2\n  context: %zu\n", data->features);
    printf("data:\n");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char *value = node_schema_value(&node_config_schema, config, keys[i]);
        if (value && strcmp(node_schema_origin(&node_config_schema, config, keys[i]), "default") != 0)
            printf("  %s: %s\n", keys[i] + 5, value);
        free(value);
    }
}

// True if training is poor without scaling: features are large or of very different sizes, or the target is a
// quantity.
static bool wants_scale(const struct train_dataset *data)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < data->features; i++) {
        const struct train_spread s =
            train_scale_spread(data->x, data->x_rest, data->examples, data->features, i);
        const double size = fmax(fabs(s.least), fabs(s.most));
        least = s.most > s.least && size < least ? size : least;
        most = s.most > s.least && size > most ? size : most;
    }
    return !data->width && (most > 10 || most > 100 * least || data->outputs > 0);
}

static bool is_chosen(const struct node_config *config, const char *key)
{
    return strcmp(node_schema_origin(&node_config_schema, config, key), "default") != 0;
}

// Loads all examples unscaled. A target that is no class is a quantity, if everything else is right.
static enum base_error load(struct node_config *config, struct train_dataset *data, struct base_reason *why)
{
    struct node_config quantity = *config; // borrowed
    struct base_reason ignored;
    const bool may_be_quantity = !is_chosen(config, "model.loss") &&
                                 (config->data.kind == NODE_DATA_CSV || config->data.kind == NODE_DATA_NPY);
    enum base_error error = node_data_load_whole(config, data, why);
    const bool has_classes =
        !error && (data->outputs || data->classes <= MANY_CLASSES || data->classes * 10 < data->examples);
    if (!may_be_quantity || has_classes)
        return error;
    struct train_dataset found = {0};
    quantity.model.loss = NODE_LOSS_MSE;
    if (node_data_load_whole(&quantity, &found, &ignored))
        return error;
    train_dataset_destroy(data);
    *data = found;
    return lab_data_assign(config, "model.loss", "mse", why);
}

// What --set data.kind says; NULL: nothing.
static const char *kind_of(const struct wanted *wanted)
{
    const char *kind = NULL;
    for (size_t i = 0; i < wanted->settings.count; i++)
        if (strncmp(wanted->settings.items[i], "data.kind=", 10) == 0)
            kind = wanted->settings.items[i] + 10;
    return kind;
}

static enum base_error configure(const struct wanted *wanted, struct node_config *config, bool *certain,
                                 struct base_reason *why)
{
    enum base_error error = node_schema_defaults(&node_config_schema, config, why);
    if (!error)
        error = lab_data_guess(wanted->path, kind_of(wanted), config, certain, why);
    *certain |= kind_of(wanted) != NULL;
    for (size_t i = 0; i < wanted->settings.count && !error; i++)
        error = node_schema_set(&node_config_schema, wanted->settings.items[i], config, why);
    return error ? error : node_config_check(config, why);
}

// The statistics are of the examples to train on, as the nodes will have them.
static enum base_error write_stats(const char *path, const struct node_config *config,
                                   struct base_reason *why)
{
    struct train_dataset train = {0};
    enum base_error error = node_data_load(config, NODE_DATA_ALL, &train, NULL, why);
    if (!error)
        error = node_data_meaning_write(path, train.meaning, why);
    train_dataset_destroy(&train);
    return error;
}

static void print_all(const struct wanted *wanted, const struct node_config *config,
                      const struct train_dataset *data, bool certain)
{
    static const char *const kinds[] = {
        [NODE_DATA_IDX] = "IDX images (MNIST's)",  [NODE_DATA_LIBSVM] = "LIBSVM rows",
        [NODE_DATA_CSV] = "a table (CSV)",         [NODE_DATA_NPY] = "NumPy arrays",
        [NODE_DATA_IMAGES] = "a folder of images", [NODE_DATA_TEXT] = "a text",
        [NODE_DATA_TOKENS] = "token ids",          [NODE_DATA_DIGITS] = "digits",
        [NODE_DATA_CIFAR10] = "CIFAR-10 images"};
    _Static_assert(sizeof kinds / sizeof *kinds == NODE_DATA_KINDS, "every kind has a name");
    printf("%s: %s%s, ", wanted->path,
           certain ? "" : "a guess from its first lines: ", kinds[config->data.kind]);
    if (data->tokens) {
        printf("%zu examples of %zu tokens, %zu different %s\n", data->examples, data->features,
               data->classes, config->data.text == NODE_TEXT_CHARACTERS ? "characters" : "bytes");
        print_text(wanted->path);
        return;
    }
    printf("%zu example%s of %zu feature%s, ", data->examples, base_plural(data->examples), data->features,
           base_plural(data->features));
    if (data->outputs)
        printf("%zu target%s of a regression\n", data->outputs, base_plural(data->outputs));
    else
        printf("%zu classes\n", data->classes);
    print_features(data);
    if (data->outputs)
        print_targets(data);
    else
        print_classes(data);
    if (data->width)
        print_picture(data);
    else
        print_rows(data);
    node_data_advise(config, NODE_DATA_ALL, data, NULL);
}

static enum base_error perform(const struct wanted *wanted, struct node_config *config,
                               struct base_reason *why)
{
    struct train_dataset data = {0};
    bool certain = false;
    enum base_error error = configure(wanted, config, &certain, why);
    if (!error)
        error = load(config, &data, why);
    if (error)
        return error;
    print_all(wanted, config, &data, certain);
    const bool scales = strcmp(node_schema_origin(&node_config_schema, config, "data.scale"), "default") != 0;
    if (!scales && !data.tokens && wants_scale(&data))
        error = lab_data_assign(config, "data.scale", "standard", why);
    if (!error && wanted->stats)
        error = write_stats(wanted->stats, config, why);
    if (!error && wanted->stats)
        error = lab_data_assign(config, "data.scale_from", wanted->stats, why);
    if (!error)
        print_configuration(config, &data, certain);
    train_dataset_destroy(&data);
    return error;
}

int lab_command_data(int argc, char **argv)
{
    struct wanted wanted = {0};
    struct node_config config = {0};
    struct base_reason why = {""};
    int status = LAB_EXIT_USAGE;
    if (argc > 1 && strcmp(argv[1], "fetch") == 0)
        return lab_command_fetch(argc - 1, argv + 1);
    const enum lab_arguments_end end = lab_arguments_read(&arguments, argc, argv, &wanted);
    wanted.path = argv[argc - 1];
    if (end == LAB_ARGUMENTS_HELP) {
        status = lab_command_about("data");
    } else if (end == LAB_ARGUMENTS_WRONG || argc - optind != 2 || strcmp(argv[optind], "info") != 0) {
        fputs(
            "p2pml data: expected 'p2pml data info FILE' or 'p2pml data fetch NAME'; see 'p2pml help data'\n",
            stderr);
    } else if (perform(&wanted, &config, &why)) {
        fprintf(stderr, "p2pml data: %s\n", why.text);
    } else {
        status = fflush(stdout) || ferror(stdout) ? LAB_EXIT_FAILED : LAB_EXIT_DONE;
    }
    node_schema_free(&node_config_schema, &config);
    free(wanted.settings.items);
    return status;
}
