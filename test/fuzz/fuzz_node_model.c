// Any safetensors file as a model: refused with a reason, or every number is finite and there are as many as
// the shape says. What the file says about its data can be written again, read, and used on rows.
#include "node/store/meaning_text.h"
#include "node/store/model_file.h"
#include "node/store/safetensors.h"
#include "test/support/spec_parameters.h"
#include "train/table_rows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check_text(const struct train_meaning *meaning)
{
    struct train_meaning *again = NULL;
    char *text = NULL;
    BASE_ASSERT(!node_meaning_text(meaning, 0, &text, NULL));
    BASE_ASSERT(!node_meaning_parse("text", text, strlen(text), &again, NULL));
    BASE_ASSERT(train_meaning_digest(again) == train_meaning_digest(meaning));
    train_meaning_release(again);
    free(text);
}

static void check_rows(const struct train_meaning *meaning)
{
    static const char *const tables[] = {"a,b,y\n1,x,0\n", "1,2,3\n", "x;1\n2;y\n"};
    double *x = calloc(meaning->features, sizeof *x);
    for (size_t i = 0; x && meaning->n_columns && i < sizeof tables / sizeof *tables; i++) {
        struct train_table_rows *rows = NULL;
        bool more = true;
        enum base_error error =
            train_table_rows_open("rows", tables[i], strlen(tables[i]), meaning, &rows, NULL);
        while (!error && more)
            error = train_table_rows_next(rows, x, &more, NULL);
        train_table_rows_close(rows);
    }
    free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const struct train_model_spec small = {
        .kind = TRAIN_MLP, .inputs = 3, .classes = 2, .hidden = {4}, .n_hidden = 1};
    struct node_safetensors *file;
    if (node_safetensors_parse(bytes, count, 0, &file, NULL))
        return 0;
    for (int expected = 0; expected < 2; expected++) {
        struct node_model_file model;
        struct base_reason why = {.text = ""};
        if (node_model_take(file, expected ? &small : NULL, &model, &why)) {
            BASE_ASSERT(why.text[0]);
            continue;
        }
        BASE_ASSERT(!expected || spec_parameters(&model.spec) == spec_parameters(&small));
        BASE_ASSERT(!train_spec_check(&model.spec, NULL) && model.about.input_divisor > 0);
        for (size_t i = 0; i < spec_parameters(&model.spec); i++)
            BASE_ASSERT(isfinite(model.parameters[i]));
        if (model.about.meaning) {
            BASE_ASSERT(model.about.meaning->features == model.spec.inputs);
            check_text(model.about.meaning);
            check_rows(model.about.meaning);
        }
        node_model_free(&model);
    }
    node_safetensors_free(file);
    return 0;
}
