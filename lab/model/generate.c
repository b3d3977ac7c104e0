#include "lab/model/generate.h"
#include "lab/model/vocabulary.h"

#include "base/rng.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    const struct lab_generate *options;
    struct lab_vocabulary vocabulary;
    struct train_model *model;
    const struct kernels *kernels;
    float *parameters; // in the kernels' memory
    float *logits;     // [context, words]
    double *share;     // [words]
    float *sorted;     // [words]
    uint32_t *window;  // [context]
    uint32_t *ids;     // [count + tokens]
    size_t count, context, words;
    struct base_rng rng;
};

// Copies the parameters into a model with a shorter context: the first positions, and everything else
// unchanged. `shorter` has the length of that model's vector.
static void take_parameters(const struct train_model *whole, const struct train_model *model,
                            const float *from, float *shorter)
{
    size_t count;
    const struct train_tensor *ours = train_model_tensors(model, &count),
                              *theirs = train_model_tensors(whole, &count);
    for (size_t i = 0; i < count; i++)
        memcpy(shorter + ours[i].offset, from + theirs[i].offset, ours[i].count * sizeof *shorter);
}

// Uses no more context than needed, because every step computes all of it.
static enum base_error open_model(const struct node_model_file *file, struct writer *w,
                                  struct base_reason *why)
{
    struct train_model_spec spec = file->spec;
    struct train_model *whole = NULL;
    const size_t needed = w->count + w->options->tokens;
    spec.inputs = w->context = needed < spec.inputs ? needed : spec.inputs;
    spec.decoder.dropout = 0.0f;
    enum base_error error = kernels_open("cpu", 1, &w->kernels, why);
    if (!error)
        error = train_model_create(&spec, w->kernels, 1, &w->model, why);
    if (!error)
        error = train_model_create(&file->spec, w->kernels, 1, &whole, why);
    if (!error) {
        float *parameters = malloc(train_model_parameters(w->model) * sizeof *parameters);
        w->parameters = w->kernels->alloc(train_model_parameters(w->model) * sizeof *parameters);
        w->logits = malloc(w->context * w->words * sizeof *w->logits);
        w->share = malloc(w->words * sizeof *w->share);
        w->sorted = malloc(w->words * sizeof *w->sorted);
        w->window = malloc(w->context * sizeof *w->window);
        if (parameters && w->parameters && w->logits && w->share && w->sorted && w->window) {
            take_parameters(whole, w->model, file->parameters, parameters);
            w->kernels->upload(w->parameters, parameters,
                               train_model_parameters(w->model) * sizeof *parameters);
        } else {
            error = base_fail(why, BASE_ENOMEM, "no memory for a model of %zu parameters",
                              train_model_parameters(w->model));
        }
        free(parameters);
    }
    train_model_destroy(whole);
    return error;
}

static void close_writer(struct writer *w)
{
    if (w->kernels)
        w->kernels->release(w->parameters);
    train_model_destroy(w->model);
    lab_vocabulary_close(&w->vocabulary);
    free(w->logits);
    free(w->share);
    free(w->sorted);
    free(w->window);
    free(w->ids);
}

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

// The k-th largest logit; tokens with a smaller one are not drawn. Without top_k: -infinity.
static float floor_of(const struct writer *w, const float *logits)
{
    const size_t k = w->options->top_k;
    if (k == 0 || k >= w->words)
        return -INFINITY;
    memcpy(w->sorted, logits, w->words * sizeof *w->sorted);
    qsort(w->sorted, w->words, sizeof *w->sorted, descending);
    return w->sorted[k - 1];
}

static uint32_t choose(struct writer *w, const float *logits)
{
    size_t best = 0, taken = 0;
    double sum = 0;
    for (size_t i = 1; i < w->words; i++)
        best = logits[i] > logits[best] ? i : best;
    if (!(w->options->temperature > 0) || w->options->top_k == 1)
        return (uint32_t)best;
    const float floor = floor_of(w, logits);
    for (size_t i = 0; i < w->words; i++) {
        const bool counts = logits[i] >= floor;
        w->share[i] = counts ? exp(((double)logits[i] - (double)logits[best]) / w->options->temperature) : 0;
        sum += w->share[i];
    }
    const double drawn = base_rng_uniform(&w->rng) * sum;
    for (double reached = 0; taken + 1 < w->words && (reached += w->share[taken]) <= drawn;)
        taken++;
    return w->share[taken] > 0 ? (uint32_t)taken : (uint32_t)best; // 0 only by rounding
}

// The logits of the token after the latest `context` tokens.
static const float *ask(struct writer *w)
{
    const size_t used = w->count < w->context ? w->count : w->context;
    memset(w->window, 0, w->context * sizeof *w->window); // later positions are not used
    memcpy(w->window, w->ids + w->count - used, used * sizeof *w->window);
    train_model_logits(w->model, w->parameters, w->window, 1, w->logits);
    return w->logits + (used - 1) * w->words;
}

static void write_scores(struct writer *w, FILE *out)
{
    const float *logits = ask(w);
    for (size_t i = 0; i < w->words; i++)
        fprintf(out, "%zu,%.9g\n", i, (double)logits[i]);
}

static void write_text(struct writer *w, FILE *out)
{
    for (size_t i = 0; i < w->count && w->options->prompt[0]; i++)
        lab_vocabulary_write(&w->vocabulary, w->ids[i], out);
    for (size_t i = 0; i < w->options->tokens && !ferror(out); i++) {
        w->ids[w->count] = choose(w, ask(w));
        lab_vocabulary_write(&w->vocabulary, w->ids[w->count++], out);
        fflush(out);
    }
    putc('\n', out);
}

static enum base_error write_all(struct writer *w, FILE *out, struct base_reason *why)
{
    if (w->options->scores)
        write_scores(w, out);
    else
        write_text(w, out);
    if (fflush(out) || ferror(out))
        return base_fail(why, BASE_EIO, "cannot write the text: %s", strerror(errno));
    return BASE_OK;
}

enum base_error lab_generate(const struct node_model_file *file, const struct lab_generate *options,
                             FILE *out, struct base_reason *why)
{
    struct writer w = {.options = options, .words = file->spec.classes};
    if (file->spec.kind != TRAIN_GPT2) {
        char described[LIMIT_MODEL_TEXT_BYTES];
        train_spec_describe(&file->spec, described, sizeof described);
        return base_fail(why, BASE_EMISMATCH, "the model is '%.120s', expected a gpt2, which writes text",
                         described);
    }
    base_rng_seed(&w.rng, options->seed);
    w.ids = malloc((strlen(options->prompt) + options->tokens + 1) * sizeof *w.ids);
    enum base_error error = w.ids ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory for a text");
    if (!error)
        error = lab_vocabulary_open(file, options->vocabulary, &w.vocabulary, why);
    if (!error)
        error = lab_vocabulary_encode(&w.vocabulary, options->prompt, w.ids, &w.count, why);
    if (!error)
        error = open_model(file, &w, why);
    if (!error)
        error = write_all(&w, out, why);
    close_writer(&w);
    return error;
}
