#include "lab/model/model.h"
#include "lab/model/rows.h"
#include "train/images.h"
#include "train/scale.h"
#include "train/table_rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)1 << 16)

// The source of rows: lines of numbers, a table with named columns, or image files.
struct source {
    struct lab_rows numbers;
    struct train_table_rows *table;
    uint8_t *text; // of the table
    const char *const *images;
    size_t n_images, next_image;
};

static enum base_error next_row(const struct lab_model *m, struct source *source, float *x, bool *more,
                                struct base_reason *why)
{
    if (source->table)
        return train_table_rows_next(source->table, x, more, why);
    if (!source->images)
        return lab_rows_next(&source->numbers, x, more, why);
    *more = source->next_image < source->n_images;
    return *more ? train_image_row(source->images[source->next_image++], m->file.about.meaning, x, why)
                 : BASE_OK;
}

// -- answers

// Turns values[classes] into probabilities; returns the likeliest class, the first one of several.
static size_t softmax(float *values, size_t classes)
{
    size_t best = 0;
    double sum = 0;
    for (size_t i = 1; i < classes; i++)
        best = values[i] > values[best] ? i : best;
    const double most = (double)values[best];
    for (size_t i = 0; i < classes; i++)
        sum += exp((double)values[i] - most);
    for (size_t i = 0; i < classes; i++)
        values[i] = (float)(exp((double)values[i] - most) / sum);
    return best;
}

// A CSV field, in quotes if it contains a separator.
static void print_field(const char *before, const char *text, FILE *out)
{
    char quoted[2] = "";
    if (strpbrk(text, ",\"\r\n") || strpbrk(before, ",\"\r\n"))
        quoted[0] = '"';
    fputs(quoted, out);
    for (int part = 0; part < 2; part++)
        for (const char *c = part ? text : before; *c; c++)
            fprintf(out, *c == '"' ? "\"\"" : "%c", *c);
    fputs(quoted, out);
}

static void print_head(const struct lab_model *m, bool images, FILE *out)
{
    const struct train_meaning *meaning = m->file.about.meaning;
    char number[NODE_MODEL_LABEL];
    fputs(images ? "file," : "", out);
    if (m->file.spec.loss == TRAIN_CROSS_ENTROPY)
        fputs("class,", out);
    for (size_t i = 0; i < m->file.spec.classes; i++) {
        if (m->file.spec.loss == TRAIN_CROSS_ENTROPY)
            print_field("p_", node_model_label(&m->file.about, i, number), out);
        else if (meaning && i < meaning->targets.count)
            print_field("", meaning->targets.items[i], out);
        else
            fprintf(out, "value_%zu", i);
        putc(i + 1 < m->file.spec.classes ? ',' : '\n', out);
    }
}

static void print_row(const struct lab_model *m, float *values, FILE *out)
{
    const size_t outputs = m->file.spec.classes;
    char number[NODE_MODEL_LABEL];
    if (m->file.spec.loss == TRAIN_CROSS_ENTROPY) {
        print_field("", node_model_label(&m->file.about, softmax(values, outputs), number), out);
        putc(',', out);
    }
    for (size_t i = 0; i < outputs; i++)
        fprintf(out, "%.7g%c", (double)values[i], i + 1 < outputs ? ',' : '\n');
}

static void answer(struct lab_model *m, const struct source *source, float *x, size_t rows, float *values,
                   FILE *out)
{
    const struct node_model_about *about = &m->file.about;
    for (size_t i = 0; i < rows * m->file.spec.inputs; i++)
        x[i] /= about->input_divisor;
    train_scale_rows(about->meaning, x, rows);
    train_model_logits(m->model, m->parameters, x, rows, values);
    train_scale_targets_back(about->meaning, values, rows);
    for (size_t row = 0; row < rows; row++) {
        if (source->images) {
            print_field("", source->images[source->next_image - rows + row], out);
            putc(',', out);
        }
        print_row(m, values + row * m->file.spec.classes, out);
    }
}

static enum base_error answer_all(struct lab_model *m, struct source *source, FILE *out,
                                  struct base_reason *why)
{
    const size_t inputs = m->file.spec.inputs;
    float *x = malloc(m->batch * inputs * sizeof *x),
          *values = malloc(m->batch * m->file.spec.classes * sizeof *values);
    enum base_error error =
        x && values ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory for a batch of rows");
    bool more = !error;
    if (more)
        print_head(m, source->images != NULL, out);
    while (more) {
        size_t count = 0;
        while (count < m->batch && more) {
            error = next_row(m, source, x + count * inputs, &more, why);
            more = more && !error;
            count += more;
        }
        if (error && source->images) // the failed image has no answer
            source->next_image--;
        if (count)
            answer(m, source, x, count, values, out);
        more = more && !ferror(out);
    }
    free(x);
    free(values);
    if ((fflush(out) || ferror(out)) && !error)
        error = base_fail(why, BASE_EIO, "cannot write the answers: %s", strerror(errno));
    return error;
}

// -- questions

static enum base_error check_numbers(const struct lab_model *m, struct base_reason *why)
{
    if (!train_model_takes_ids(m->model))
        return BASE_OK;
    return base_fail(why, BASE_EMISMATCH,
                     "'%s' is a model of text, expected one of numbers; see p2pml generate", m->path);
}

// Reads the whole file; *text is malloc'ed.
static enum base_error read_all(const char *name, FILE *in, uint8_t **text, size_t *bytes,
                                struct base_reason *why)
{
    uint8_t *all = NULL;
    size_t capacity = 0, used = 0;
    do {
        if (used + CHUNK_BYTES > capacity) {
            capacity = 2 * capacity + CHUNK_BYTES;
            uint8_t *grown = realloc(all, capacity);
            if (!grown) {
                free(all);
                return base_fail(why, BASE_ENOMEM, "%s: no memory for more than %zu bytes", name, used);
            }
            all = grown;
        }
        used += fread(all + used, 1, CHUNK_BYTES, in);
    } while (!feof(in) && !ferror(in) && used <= LIMIT_DATA_FILE_BYTES);
    *text = all;
    *bytes = used;
    if (ferror(in))
        return base_fail(why, BASE_EIO, "%s: cannot be read: %s", name, strerror(errno));
    if (used > LIMIT_DATA_FILE_BYTES)
        return base_fail(why, BASE_ELIMIT, "%s: is larger than %llu bytes", name, LIMIT_DATA_FILE_BYTES);
    return BASE_OK;
}

enum base_error lab_model_predict(struct lab_model *m, const char *name, FILE *in, FILE *out,
                                  struct base_reason *why)
{
    const struct train_meaning *meaning = m->file.about.meaning;
    struct source source = {.numbers = {.in = in, .name = name, .columns = m->file.spec.inputs}};
    enum base_error error = check_numbers(m, why);
    if (!error && meaning && meaning->n_columns > 0) {
        size_t bytes = 0;
        error = read_all(name, in, &source.text, &bytes, why);
        if (!error)
            error = train_table_rows_open(name, source.text, bytes, meaning, &source.table, why);
    }
    if (!error)
        error = answer_all(m, &source, out, why);
    train_table_rows_close(source.table);
    free(source.text);
    return error;
}

enum base_error lab_model_predict_images(struct lab_model *m, const char *const *paths, size_t count,
                                         FILE *out, struct base_reason *why)
{
    struct source source = {.images = paths, .n_images = count};
    if (!m->file.about.meaning || m->file.about.meaning->width == 0)
        return base_fail(why, BASE_EMISMATCH,
                         "'%s' is not a model of images; pass its rows on standard input", m->path);
    return answer_all(m, &source, out, why);
}
