#include "lab/model/model.h"
#include "lab/model/rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// logits[classes] become probabilities; returns the likeliest class, the first of those.
static size_t softmax(float *logits, size_t classes)
{
    size_t best = 0;
    double sum = 0;
    for (size_t i = 1; i < classes; i++)
        best = logits[i] > logits[best] ? i : best;
    const double most = (double)logits[best];
    for (size_t i = 0; i < classes; i++)
        sum += exp((double)logits[i] - most);
    for (size_t i = 0; i < classes; i++)
        logits[i] = (float)(exp((double)logits[i] - most) / sum);
    return best;
}

static void print_head(const struct lab_model *m, FILE *out)
{
    fputs("class", out);
    for (size_t i = 0; i < m->file.spec.classes; i++)
        fprintf(out, ",p_%d", (int)node_model_label(&m->file.about, i));
    putc('\n', out);
}

static void answer(struct lab_model *m, float *x, size_t rows, float *logits, FILE *out)
{
    const size_t inputs = m->file.spec.inputs, classes = m->file.spec.classes;
    for (size_t i = 0; i < rows * inputs; i++)
        x[i] /= m->file.about.input_divisor;
    train_model_logits(m->model, m->parameters, x, rows, logits);
    for (size_t row = 0; row < rows; row++) {
        float *of = logits + row * classes;
        fprintf(out, "%d", (int)node_model_label(&m->file.about, softmax(of, classes)));
        for (size_t i = 0; i < classes; i++)
            fprintf(out, ",%.7g", (double)of[i]);
        putc('\n', out);
    }
}

enum base_error lab_model_predict(struct lab_model *m, const char *name, FILE *in, FILE *out,
                                  struct base_reason *why)
{
    if (train_model_takes_ids(m->model))
        return base_fail(why, BASE_EMISMATCH,
                         "'%s' is a model of text, expected one of numbers; see p2pml generate", m->path);
    struct lab_rows rows = {.in = in, .name = name, .columns = m->file.spec.inputs};
    float *x = malloc(m->batch * m->file.spec.inputs * sizeof *x),
          *logits = malloc(m->batch * m->file.spec.classes * sizeof *logits);
    enum base_error error =
        x && logits ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory for a batch of rows");
    bool more = !error;
    if (more)
        print_head(m, out);
    while (more) {
        size_t count = 0;
        while (count < m->batch && more) {
            error = lab_rows_next(&rows, x + count * m->file.spec.inputs, &more, why);
            more = more && !error;
            count += more;
        }
        if (count)
            answer(m, x, count, logits, out);
        more = more && !ferror(out);
    }
    free(x);
    free(logits);
    if ((fflush(out) || ferror(out)) && !error)
        error = base_fail(why, BASE_EIO, "cannot write the answers: %s", strerror(errno));
    return error;
}
