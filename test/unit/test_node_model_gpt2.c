// Models of text in files: what a gpt2 file of Hugging Face may and may not contain, and how the characters
// of a model are stored.
#include "node/store/model_file.h"
#include "node/store/safetensors.h"
#include "test/support/spec_parameters.h"
#include "train/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LAYERS = 2, WIDTH = 64, HEADS = 1, CONTEXT = 5, WORDS = 7, TENSORS = 40 };

static char path[] = "/tmp/p2pml_gpt2_XXXXXX";

static struct train_model_spec spec_of(void)
{
    return (struct train_model_spec){
        .kind = TRAIN_GPT2, .inputs = CONTEXT, .classes = WORDS, .decoder = {LAYERS, WIDTH, HEADS, 0.0f}};
}

// A file as another program would write it; a test then changes it.
struct other {
    struct train_plan plan;
    struct node_tensor tensors[TENSORS];
    size_t count;
    float *values;
};

static struct other make(const char *prefix)
{
    struct other o = {.count = 0};
    struct base_reason why = {""};
    const struct train_model_spec spec = spec_of();
    assert_int_equal(train_plan_create(&spec, &o.plan, &why), BASE_OK);
    o.values = malloc(o.plan.parameters * sizeof *o.values);
    assert_non_null(o.values);
    for (size_t i = 0; i < o.plan.parameters; i++)
        o.values[i] = (float)(i % 1000) / 1000.0f;
    for (; o.count < o.plan.n_tensors; o.count++) {
        const struct train_tensor *ours = &o.plan.tensors[o.count];
        struct node_tensor *t = &o.tensors[o.count];
        *t = (struct node_tensor){.type = NODE_TENSOR_F32,
                                  .n_dims = ours->n_dims,
                                  .bytes = ours->count * sizeof(float),
                                  .data = o.values + ours->offset};
        memcpy(t->shape, ours->shape, ours->n_dims * sizeof *ours->shape);
        snprintf(t->name, sizeof t->name, "%s%s", prefix, ours->name);
    }
    return o;
}

static void close_other(struct other *o)
{
    train_plan_destroy(&o->plan);
    free(o->values);
}

static void add(struct other *o, const char *name, const float *data, size_t rows, size_t cols)
{
    struct node_tensor *t = &o->tensors[o->count++];
    *t = (struct node_tensor){.type = NODE_TENSOR_F32,
                              .shape = {rows, cols},
                              .n_dims = 2,
                              .bytes = rows * cols * sizeof *data,
                              .data = data};
    snprintf(t->name, sizeof t->name, "%s", name);
}

static void write_other(const struct other *o, const char *model)
{
    struct base_reason why = {""};
    struct node_text_pair pairs[1] = {{.key = "model"}};
    snprintf(pairs[0].value, sizeof pairs[0].value, "%s", model ? model : "");
    if (node_safetensors_write(path, o->tensors, o->count, pairs, model ? 1 : 0, &why))
        fail_msg("%s", why.text);
}

static void reads(const struct other *o, const struct train_model_spec *expected)
{
    struct node_model_file file = {.parameters = NULL};
    struct base_reason why = {""};
    write_other(o, NULL);
    if (node_model_read(path, expected, &file, &why))
        fail_msg("%s", why.text);
    assert_int_equal(file.spec.kind, TRAIN_GPT2);
    assert_int_equal(file.spec.inputs, CONTEXT);
    assert_int_equal(file.spec.classes, WORDS);
    assert_int_equal(file.spec.decoder.layers, LAYERS);
    assert_int_equal(file.spec.decoder.heads, HEADS);
    assert_memory_equal(file.parameters, o->values, o->plan.parameters * sizeof *o->values);
    node_model_free(&file);
}

static void refuses(const struct other *o, const char *model, const struct train_model_spec *expected,
                    const char *part)
{
    struct node_model_file file = {.parameters = NULL};
    struct base_reason why = {""};
    write_other(o, model);
    assert_int_not_equal(node_model_read(path, expected, &file, &why), BASE_OK);
    if (!strstr(why.text, part))
        fail_msg("'%s' lacks '%s'", why.text, part);
    assert_null(file.parameters);
}

static void files_of_hugging_face_are_accepted(void **state)
{
    static const char *const prefixes[] = {"", "transformer."};
    static const float mask[CONTEXT * CONTEXT] = {1};
    const struct train_model_spec spec = spec_of();
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char name[64];
        struct other o = make(prefixes[i]);
        reads(&o, NULL);
        reads(&o, &spec);
        add(&o, "lm_head.weight", o.values, WORDS, WIDTH); // wte is the first tensor
        reads(&o, NULL);
        snprintf(name, sizeof name, "%sh.0.attn.bias", prefixes[i]);
        add(&o, name, mask, CONTEXT, CONTEXT);
        snprintf(name, sizeof name, "%sh.1.attn.masked_bias", prefixes[i]);
        add(&o, name, mask, 1, 1);
        reads(&o, NULL);
        reads(&o, &spec);
        close_other(&o);
    }
}

static void a_file_that_does_not_fit_is_refused(void **state)
{
    struct train_model_spec spec = spec_of();
    float head[WORDS * WIDTH];
    (void)state;
    struct other o = make("");
    memcpy(head, o.values, sizeof head);
    head[WIDTH + 3] = 9;
    add(&o, "lm_head.weight", head, WORDS, WIDTH);
    refuses(&o, NULL, NULL, "'lm_head.weight' is not 'wte.weight': element 67 is 0.067 there and 9 here");
    o.tensors[o.count - 1].shape[0] = WORDS - 1;
    o.tensors[o.count - 1].bytes = (WORDS - 1) * WIDTH * sizeof *head;
    refuses(&o, NULL, NULL, "'lm_head.weight' does not have the shape of 'wte.weight', [7, 64]");
    o.count--;
    add(&o, "h.0.attn.mask", head, 1, 1);
    refuses(&o, NULL, NULL, "'h.0.attn.mask' [1, 1], for which the model has no place");
    o.count--;
    spec.decoder.layers = 3;
    refuses(&o, NULL, &spec, "there is no tensor 'h.2.ln_1.weight' [64] in it");
    spec = spec_of();
    spec.inputs = CONTEXT - 1;
    refuses(&o, NULL, &spec, "'wpe.weight' is F32 [5, 64], expected F32 [4, 64]");
    spec = spec_of();
    spec.decoder.heads = 2;
    refuses(&o, "gpt2 2 layers, 64 wide, 1 heads, context 5, vocabulary 7", &spec,
            "it has 1 heads, expected 2");
    refuses(&o, "gpt2 2 layers, 64 wide, 1 heads, context 5", NULL, "is not a model of kind gpt2");
    o.tensors[1] = o.tensors[--o.count]; // removes wpe
    refuses(&o, NULL, NULL, "there is no tensor 'wpe.weight' in it, which GPT-2 has");
    close_other(&o);
}

static void written(struct node_model_about about, size_t words, struct node_model_about *back)
{
    struct train_model_spec spec = spec_of();
    struct node_model_file file = {.about = about}, read = {.parameters = NULL};
    struct base_reason why = {""};
    spec.classes = words;
    file.spec = spec;
    file.parameters = calloc(spec_parameters(&spec), sizeof(float));
    assert_non_null(file.parameters);
    if (node_model_write(path, &file, &why) || node_model_read(path, NULL, &read, &why))
        fail_msg("%s", why.text);
    *back = read.about;
    node_model_free(&file);
    node_model_free(&read);
}

// Up to the largest number of characters, of one to four bytes, split into pieces between two of them.
static void the_characters_of_a_model_are_kept(void **state)
{
    static struct node_model_about about, back;
    (void)state;
    about = (struct node_model_about){.input_divisor = 1, .text = TRAIN_TEXT_CHARACTERS};
    strcpy(about.characters, "\n \"\\ab");
    strcat(about.characters, "\xc3\xa9");
    written(about, WORDS, &back);
    assert_int_equal(back.text, TRAIN_TEXT_CHARACTERS);
    assert_string_equal(back.characters, about.characters);
    about.characters[0] = 0;
    size_t count = 0, used = 0;
    for (unsigned code = 0x4e00; used + 3 < sizeof about.characters; code++, count++)
        used += (size_t)snprintf(about.characters + used, sizeof about.characters - used, "%c%c%c",
                                 (int)(0xe0 | code >> 12), (int)(0x80 | (code >> 6 & 0x3f)),
                                 (int)(0x80 | (code & 0x3f)));
    written(about, count, &back);
    assert_string_equal(back.characters, about.characters);
    about = (struct node_model_about){.input_divisor = 1, .text = TRAIN_TEXT_BYTES};
    written(about, 256, &back);
    assert_int_equal(back.text, TRAIN_TEXT_BYTES);
    assert_string_equal(back.characters, "");
}

static void wrong_characters_are_refused(void **state)
{
    static struct node_model_file file, read;
    struct base_reason why = {""};
    (void)state;
    file = (struct node_model_file){.spec = spec_of(),
                                    .about = {.input_divisor = 1, .text = TRAIN_TEXT_CHARACTERS}};
    file.parameters = calloc(spec_parameters(&file.spec), sizeof(float));
    static const char *const wrong[][2] = {{"abc", "metadata has 3 characters, expected 7"},
                                           {"abcdefa", "entry 6 of the vocabulary"}};
    for (size_t i = 0; i < 2; i++) {
        strcpy(file.about.characters, wrong[i][0]);
        assert_int_equal(node_model_write(path, &file, &why), BASE_OK);
        assert_int_not_equal(node_model_read(path, NULL, &read, &why), BASE_OK);
        if (!strstr(why.text, wrong[i][1]))
            fail_msg("'%s' lacks '%s'", why.text, wrong[i][1]);
    }
    file.about = (struct node_model_about){.input_divisor = 1, .text = TRAIN_TEXT_BYTES};
    assert_int_equal(node_model_write(path, &file, &why), BASE_OK);
    assert_int_not_equal(node_model_read(path, NULL, &read, &why), BASE_OK);
    assert_non_null(strstr(why.text, "the model has 7 tokens, expected 256"));
    node_model_free(&file);
}

static void columns_of_numbers_are_refused(void **state)
{
    static struct node_model_file file, read;
    struct base_reason why = {""};
    (void)state;
    file = (struct node_model_file){.spec = spec_of(),
                                    .about = {.input_divisor = 1, .meaning = train_meaning_create(CONTEXT)}};
    file.parameters = calloc(spec_parameters(&file.spec), sizeof(float));
    assert_int_equal(node_model_write(path, &file, &why), BASE_OK);
    assert_int_equal(node_model_read(path, NULL, &read, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, "metadata 'data' is of numbers"));
    node_model_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_hugging_face_are_accepted),
        cmocka_unit_test(a_file_that_does_not_fit_is_refused),
        cmocka_unit_test(the_characters_of_a_model_are_kept),
        cmocka_unit_test(wrong_characters_are_refused),
        cmocka_unit_test(columns_of_numbers_are_refused),
    };
    const int file = mkstemp(path);
    if (file < 0 || close(file) != 0)
        return 1;
    const int failed = cmocka_run_group_tests_name("node model: gpt2", tests, NULL, NULL);
    (void)remove(path);
    return failed;
}
