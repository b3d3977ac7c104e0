#include "lab/model/model.h"
#include "lab/model/rows.h"
#include "train/images.h"
#include "train/npy.h"
#include "train/scale.h"
#include "train/table_rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)1 << 16)

// The source of rows: lines of numbers, a table with named columns, an array, or image files.
struct source {
    struct lab_rows numbers;
    struct train_table_rows *table;
    struct train_npy_rows *array;
    uint8_t *bytes; // of the table or array
    float *pixels;  // [inputs] of one image
    const char *const *images;
    size_t n_images, next_image;
};

static enum base_error next_image(const struct lab_model *m, struct source *source, double *x, bool *more,
                                  struct base_reason *why)
{
    *more = source->next_image < source->n_images;
    if (!*more)
        return BASE_OK;
    enum base_error error =
        train_image_row(source->images[source->next_image++], m->file.about.meaning, source->pixels, why);
    for (size_t i = 0; !error && i < m->file.spec.inputs; i++)
        x[i] = (double)source->pixels[i];
    return error;
}

static enum base_error next_row(const struct lab_model *m, struct source *source, double *x, bool *more,
                                struct base_reason *why)
{
    if (source->table)
        return train_table_rows_next(source->table, x, more, why);
    if (source->array)
        return train_npy_rows_next(source->array, x, more, why);
    return source->images ? next_image(m, source, x, more, why)
                          : lab_rows_next(&source->numbers, x, more, why);
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

static void print_row(const struct lab_model *m, float *outputs, const double *values, FILE *out)
{
    const size_t count = m->file.spec.classes;
    const bool classifies = m->file.spec.loss == TRAIN_CROSS_ENTROPY;
    // A value far from 0 needs more digits than a float has, or its differences would not be seen.
    const int digits = train_scale_needs_double(m->file.about.meaning) ? 12 : 7;
    char number[NODE_MODEL_LABEL];
    if (classifies) {
        print_field("", node_model_label(&m->file.about, softmax(outputs, count), number), out);
        putc(',', out);
    }
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%.*g%c", classifies ? 7 : digits, classifies ? (double)outputs[i] : values[i],
                i + 1 < count ? ',' : '\n');
}

// A batch: rows as they are read, as the model takes them, and its outputs, also in the units of the targets.
struct batch {
    double *rows, *values; // [m->batch, inputs], [m->batch, outputs]
    float *x, *outputs;    // likewise
};

static bool make_batch(const struct lab_model *m, struct batch *b)
{
    const size_t inputs = m->batch * m->file.spec.inputs, outputs = m->batch * m->file.spec.classes;
    *b = (struct batch){malloc(inputs * sizeof *b->rows), malloc(outputs * sizeof *b->values),
                        malloc(inputs * sizeof *b->x), malloc(outputs * sizeof *b->outputs)};
    return b->rows && b->values && b->x && b->outputs;
}

static void free_batch(struct batch *b)
{
    free(b->rows);
    free(b->values);
    free(b->x);
    free(b->outputs);
}

static void answer(struct lab_model *m, const struct source *source, const struct batch *b, size_t rows,
                   FILE *out)
{
    const struct node_model_about *about = &m->file.about;
    const size_t inputs = m->file.spec.inputs, outputs = m->file.spec.classes;
    for (size_t i = 0; i < rows * inputs; i++)
        b->rows[i] = about->input_divisor != 1 ? b->rows[i] / (double)about->input_divisor : b->rows[i];
    train_scale_rows(about->meaning, b->rows, inputs, rows, b->x);
    train_model_logits(m->model, m->parameters, b->x, rows, b->outputs);
    train_scale_targets_back(about->meaning, b->outputs, outputs, rows, b->values);
    for (size_t row = 0; row < rows; row++) {
        if (source->images) {
            print_field("", source->images[source->next_image - rows + row], out);
            putc(',', out);
        }
        print_row(m, b->outputs + row * outputs, b->values + row * outputs, out);
    }
}

static enum base_error answer_all(struct lab_model *m, struct source *source, FILE *out,
                                  struct base_reason *why)
{
    const size_t inputs = m->file.spec.inputs;
    struct batch batch;
    source->pixels = malloc(inputs * sizeof *source->pixels);
    enum base_error error = make_batch(m, &batch) && source->pixels
                                ? BASE_OK
                                : base_fail(why, BASE_ENOMEM, "no memory for a batch of rows");
    bool more = !error;
    if (more)
        print_head(m, source->images != NULL, out);
    while (more) {
        size_t count = 0;
        while (count < m->batch && more) {
            error = next_row(m, source, batch.rows + count * inputs, &more, why);
            more = more && !error;
            count += more;
        }
        if (error && source->images) // the failed image has no answer
            source->next_image--;
        if (count)
            answer(m, source, &batch, count, out);
        more = more && !ferror(out);
    }
    free_batch(&batch);
    free(source->pixels);
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

// The first byte of a NumPy file is that of no number.
static bool begins_as_array(FILE *in)
{
    const int first = getc(in);
    if (first != EOF)
        ungetc(first, in);
    return first == 0x93 || first == 'P';
}

static enum base_error open_source(const struct lab_model *m, const char *name, FILE *in,
                                   struct source *source, struct base_reason *why)
{
    const struct train_meaning *meaning = m->file.about.meaning;
    const bool is_table = meaning && meaning->n_columns > 0;
    size_t bytes = 0;
    source->numbers = (struct lab_rows){.in = in, .name = name, .columns = m->file.spec.inputs};
    if (!is_table && !begins_as_array(in))
        return BASE_OK;
    enum base_error error = read_all(name, in, &source->bytes, &bytes, why);
    if (error)
        return error;
    if (train_npy_is_file(source->bytes, bytes))
        return train_npy_rows_open(name, source->bytes, bytes, m->file.spec.inputs, &source->array, why);
    if (is_table)
        return train_table_rows_open(name, source->bytes, bytes, meaning, &source->table, why);
    return base_fail(why, BASE_EFORMAT, "%s: found neither rows of numbers nor a .npy or .npz", name);
}

enum base_error lab_model_predict(struct lab_model *m, const char *name, FILE *in, FILE *out,
                                  struct base_reason *why)
{
    struct source source = {0};
    enum base_error error = check_numbers(m, why);
    if (!error)
        error = open_source(m, name, in, &source, why);
    if (!error)
        error = answer_all(m, &source, out, why);
    train_table_rows_close(source.table);
    train_npy_rows_close(source.array);
    free(source.bytes);
    return error;
}

bool lab_model_takes_images(const struct lab_model *m)
{
    return m->file.about.meaning && m->file.about.meaning->width > 0;
}

enum base_error lab_model_predict_images(struct lab_model *m, const char *const *paths, size_t count,
                                         FILE *out, struct base_reason *why)
{
    struct source source = {.images = paths, .n_images = count};
    if (!lab_model_takes_images(m))
        return base_fail(why, BASE_EMISMATCH,
                         "'%s' is not a model of images; pass one file of its rows, or standard input",
                         m->path);
    return answer_all(m, &source, out, why);
}
