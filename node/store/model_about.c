// What a model's metadata says beside its tensors, written and read: task, labels, divisor, what the data
// mean, what its text is.
#include "node/store/model_private.h"

#include "node/store/meaning_text.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t label_number(const struct node_model_about *about, size_t class)
{
    if (about->first_label < 0)
        return class ? 1 : -1;
    return about->first_label + (int32_t) class;
}

const char *node_model_label(const struct node_model_about *about, size_t class,
                             char number[NODE_MODEL_LABEL])
{
    if (about->meaning && class < about->meaning->classes.count)
        return about->meaning->classes.items[class];
    snprintf(number, NODE_MODEL_LABEL, "%" PRId32, label_number(about, class));
    return number;
}

// "0..9", "1..3" or "-1 1".
static void labels_text(const struct node_model_about *about, size_t classes, char text[NODE_MODEL_TEXT])
{
    const int32_t first = label_number(about, 0), last = label_number(about, classes - 1);
    snprintf(text, NODE_MODEL_TEXT, first < 0 ? "%" PRId32 " %" PRId32 : "%" PRId32 "..%" PRId32, first,
             last);
}

// -- writing

static const char *task_of(const struct node_model_about *about, const struct train_model_spec *spec)
{
    return spec->loss != TRAIN_CROSS_ENTROPY ? "regression"
           : about->text != TRAIN_TEXT_NONE  ? "text"
                                             : "classification";
}

static struct node_text_pair *add(struct node_text_pair *pairs, size_t *count, const char *key)
{
    struct node_text_pair *pair = &pairs[(*count)++];
    *pair = (struct node_text_pair){.text = NULL};
    snprintf(pair->key, sizeof pair->key, "%s", key);
    return pair;
}

#define SPLIT_FORMAT "%zu of %zu, part %.*g, seed %" PRIu64 ", digest %016" PRIx64 " of %016" PRIx64

static void split_text(const struct train_split *s, char text[NODE_MODEL_SPLIT])
{
    char part[32];
    int digits = 0;
    do // as few as read back to the same bits
        snprintf(part, sizeof part, "%.*g", ++digits, s->part);
    while (digits < 17 && (strtod(part, NULL) < s->part || strtod(part, NULL) > s->part));
    snprintf(text, NODE_MODEL_SPLIT, SPLIT_FORMAT, s->tests, s->examples, digits, s->part, s->seed,
             s->tests_digest, s->digest);
}

enum base_error node_model_about_pairs(const struct node_model_about *about,
                                       const struct train_model_spec *spec, struct node_text_pair *pairs,
                                       size_t *count, char **owned, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    const bool is_named = about->meaning && about->meaning->classes.count > 0;
    *count = 0;
    *owned = NULL;
    snprintf(add(pairs, count, "task")->value, sizeof pairs->value, "%s", task_of(about, spec));
    if (about->kind[0])
        snprintf(add(pairs, count, "data_kind")->value, sizeof pairs->value, "%s", about->kind);
    if (spec->loss == TRAIN_CROSS_ENTROPY && !is_named)
        labels_text(about, spec->classes, add(pairs, count, "labels")->value);
    snprintf(add(pairs, count, "input_divisor")->value, sizeof pairs->value, "%.9g",
             (double)about->input_divisor);
    if (about->meaning) {
        error = node_meaning_text(about->meaning, 0, owned, why);
        add(pairs, count, "data")->text = *owned;
    }
    if (about->split.examples > 0)
        split_text(&about->split, add(pairs, count, "held_out")->value);
    *count += node_model_text_pairs(about, pairs + *count);
    BASE_ASSERT(*count <= NODE_MODEL_ABOUT_PAIRS);
    return error;
}

// -- reading

static enum base_error read_labels(const char *text, size_t classes, struct node_model_about *about,
                                   struct base_reason *why)
{
    static const int32_t firsts[] = {0, 1, -1};
    char known[NODE_MODEL_TEXT];
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        about->first_label = firsts[i];
        labels_text(about, classes, known);
        if ((firsts[i] >= 0 || classes == 2) && !strcmp(text, known))
            return BASE_OK;
    }
    about->first_label = 0;
    labels_text(about, classes, known);
    return base_fail(why, BASE_EFORMAT,
                     "metadata 'labels' is '%.40s', expected for example '%s' for %zu classes", text, known,
                     classes);
}

// Exactly what split_text writes.
static enum base_error read_split(const char *text, struct train_split *s, struct base_reason *why)
{
    char again[NODE_MODEL_SPLIT];
    struct train_split found = {0};
    if (sscanf(text, "%zu of %zu, part %lf, seed %" SCNu64 ", digest %" SCNx64 " of %" SCNx64, &found.tests,
               &found.examples, &found.part, &found.seed, &found.tests_digest, &found.digest) == 6) {
        split_text(&found, again);
        if (strcmp(text, again) == 0 && found.tests < found.examples && found.part > 0 && found.part < 1) {
            *s = found;
            return BASE_OK;
        }
    }
    return base_fail(why, BASE_EFORMAT, "metadata 'held_out' is '%.60s', expected '80 of 400, part 0.2, ...'",
                     text);
}

// A checkpoint states its origin in its own way.
static void read_origin(const struct node_safetensors *file, struct node_model_about *about)
{
    const char *origin = node_safetensors_metadata(file, "origin"),
               *node = node_safetensors_metadata(file, "node"),
               *step = node_safetensors_metadata(file, "step");
    int used = -1;
    if (origin)
        used = snprintf(about->origin, sizeof about->origin, "%s", origin);
    else if (node && step)
        used = snprintf(about->origin, sizeof about->origin, "node %s, step %s", node, step);
    if (used >= (int)sizeof about->origin)
        about->origin[0] = 0; // cut off, it might end within a character
}

static enum base_error check_meaning(const struct train_meaning *meaning, const struct train_model_spec *spec,
                                     struct base_reason *why)
{
    const bool regression = spec->loss != TRAIN_CROSS_ENTROPY;
    if (spec->kind == TRAIN_GPT2)
        return base_fail(why, BASE_EFORMAT,
                         "metadata 'data' is of numbers, expected none: the model takes text");
    if (meaning->features != spec->inputs)
        return base_fail(why, BASE_EFORMAT,
                         "metadata 'data' is of %zu features, expected the model's %zu inputs",
                         meaning->features, spec->inputs);
    if (meaning->classes.count && (regression || meaning->classes.count != spec->classes))
        return base_fail(why, BASE_EFORMAT, "metadata 'data' names %zu classes, expected %zu",
                         meaning->classes.count, regression ? 0 : spec->classes);
    if (meaning->targets.count && (!regression || meaning->targets.count != spec->classes))
        return base_fail(why, BASE_EFORMAT, "metadata 'data' names %zu targets, expected %zu",
                         meaning->targets.count, regression ? spec->classes : 0);
    return BASE_OK;
}

static enum base_error read_meaning(const struct node_safetensors *file, const struct train_model_spec *spec,
                                    struct node_model_about *about, struct base_reason *why)
{
    const char *text = node_safetensors_metadata(file, "data");
    struct train_meaning *meaning = NULL;
    if (!text)
        return BASE_OK;
    enum base_error error = node_meaning_parse("metadata 'data'", text, strlen(text), &meaning, why);
    if (!error)
        error = check_meaning(meaning, spec, why);
    if (error)
        train_meaning_release(meaning);
    else
        about->meaning = meaning;
    return error;
}

enum base_error node_model_read_about(const struct node_safetensors *file,
                                      const struct train_model_spec *spec, struct node_model_about *about,
                                      struct base_reason *why)
{
    const char *labels = node_safetensors_metadata(file, "labels"),
               *divisor = node_safetensors_metadata(file, "input_divisor"),
               *kind = node_safetensors_metadata(file, "data_kind"),
               *held_out = node_safetensors_metadata(file, "held_out");
    char *end = NULL;
    *about = (struct node_model_about){.input_divisor = 1};
    read_origin(file, about);
    if (kind && snprintf(about->kind, sizeof about->kind, "%s", kind) >= (int)sizeof about->kind)
        return base_fail(why, BASE_EFORMAT,
                         "metadata 'data_kind' is '%.40s', expected a data.kind, such as idx", kind);
    if (divisor)
        about->input_divisor = strtof(divisor, &end);
    if (divisor && (end == divisor || *end || !isfinite(about->input_divisor) || !(about->input_divisor > 0)))
        return base_fail(why, BASE_EFORMAT, "metadata 'input_divisor' is '%.40s', expected a number above 0",
                         divisor);
    enum base_error error = labels ? read_labels(labels, spec->classes, about, why) : BASE_OK;
    if (!error && held_out)
        error = read_split(held_out, &about->split, why);
    if (!error)
        error = read_meaning(file, spec, about, why);
    return error ? error : node_model_read_text(file, spec->classes, about, why);
}
