// What a model's file says about its data: it reads back complete, and invalid contents are refused with the
// reason.
#include "node/store/meaning_text.h"
#include "node/store/model_file.h"
#include "node/store/safetensors.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[96];

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/p2pml-meaning-XXXXXX");
    return close(mkstemp(path));
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

static float *floats(size_t count, const float *values)
{
    float *copy = malloc(count * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, values, count * sizeof *copy);
    return copy;
}

static double *doubles(size_t count, const double *values)
{
    double *copy = malloc(count * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, values, count * sizeof *copy);
    return copy;
}

static void add(struct train_names *names, const char *text)
{
    assert_true(train_names_add(names, text, strlen(text)));
}

// id;age;colour;y with two colours: three features.
static struct train_meaning *meaning_of(bool regression)
{
    struct train_meaning *m = train_meaning_create(3);
    assert_non_null(m);
    m->columns = calloc(2, sizeof *m->columns);
    assert_non_null(m->columns);
    m->n_columns = 2;
    m->columns[0].name = strdup("age");
    m->columns[1].name = strdup("colour");
    add(&m->columns[1].categories, "blue");
    add(&m->columns[1].categories, "r\xc3\xb6t \"2\"");
    static const char *const layout[] = {"id", "age", "colour", "y"};
    for (size_t i = 0; i < 4; i++)
        add(&m->layout, layout[i]);
    m->delimiter = ';';
    m->scale = TRAIN_SCALE_STANDARD;
    m->shift = doubles(3, (const double[]){1700000000.3, 0, 0});
    m->factor = floats(3, (const float[]){1.0f / 3, 1, 1});
    if (regression) {
        add(&m->targets, "y");
        m->target_shift = doubles(1, (const double[]){-1e-7});
        m->target_factor = floats(1, (const float[]){12345.678f});
    } else {
        m->label = strdup("y");
        add(&m->classes, "no");
        add(&m->classes, "yes");
    }
    return m;
}

static const struct train_model_spec classes = {.kind = TRAIN_SOFTMAX, .inputs = 3, .classes = 2},
                                     quantity = {
                                         .kind = TRAIN_SOFTMAX, .inputs = 3, .classes = 1, .loss = TRAIN_MSE};
static float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static void written(const struct train_model_spec *spec, struct train_meaning *meaning)
{
    struct base_reason why = {""};
    const struct node_model_file file = {
        .spec = *spec, .about = {.input_divisor = 1, .meaning = meaning}, .parameters = numbers};
    if (node_model_write(path, &file, &why))
        fail_msg("%s", why.text);
}

static void the_meaning_of_data_reads_back_the_same(void **state)
{
    (void)state;
    for (int regression = 0; regression < 2; regression++) {
        struct train_meaning *meaning = meaning_of(regression);
        struct base_reason why = {""};
        struct node_model_file read;
        written(regression ? &quantity : &classes, meaning);
        if (node_model_read(path, NULL, &read, &why))
            fail_msg("%s", why.text);
        const struct train_meaning *m = read.about.meaning;
        assert_non_null(m);
        // Everything but layout and delimiter is in the digest, to the last bit of the statistics.
        assert_true(train_meaning_digest(m) == train_meaning_digest(meaning));
        assert_int_equal(m->layout.count, 4);
        assert_string_equal(m->layout.items[0], "id");
        assert_int_equal(m->delimiter, ';');
        char number[NODE_MODEL_LABEL];
        if (!regression)
            assert_string_equal(node_model_label(&read.about, 1, number), "yes");
        assert_int_equal(read.spec.loss, regression ? TRAIN_MSE : TRAIN_CROSS_ENTROPY);
        node_model_free(&read);
        train_meaning_release(meaning);
    }
}

static void other_programs_can_read_it(void **state)
{
    (void)state;
    struct train_meaning *meaning = meaning_of(true);
    struct node_safetensors *file;
    struct base_reason why = {""};
    written(&quantity, meaning);
    assert_int_equal(node_safetensors_read(path, 1 << 20, 1, &file, &why), BASE_OK);
    assert_string_equal(node_safetensors_metadata(file, "task"), "regression");
    assert_string_equal(node_safetensors_metadata(file, "model"), "linear 3-1, mse");
    assert_null(node_safetensors_metadata(file, "labels"));
    assert_non_null(strstr(node_safetensors_metadata(file, "data"), "\"layout\":[\"id\",\"age\","));
    node_safetensors_free(file);
    train_meaning_release(meaning);
}

static void a_name_that_is_not_utf8_is_refused_before_training(void **state)
{
    (void)state;
    struct train_meaning *meaning = meaning_of(false);
    struct base_reason why = {""};
    assert_int_equal(node_meaning_check(meaning, &why), BASE_OK);
    meaning->classes.items[0][0] = '\xe9';
    assert_int_equal(node_meaning_check(meaning, &why), BASE_EINVAL);
    assert_non_null(strstr(why.text, "not UTF-8"));
    train_meaning_release(meaning);
}

// A file may say of a text that it also has features, and name no class.
static void the_longest_meaning_fits(void **state)
{
    (void)state;
    static struct node_text_pair pairs[NODE_MODEL_ABOUT_PAIRS + 1];
    const struct train_model_spec text = {.kind = TRAIN_GPT2, .inputs = 3, .classes = LIMIT_CLASSES};
    struct node_model_about about = {
        .input_divisor = 1, .meaning = train_meaning_create(3), .text = TRAIN_TEXT_CHARACTERS};
    struct base_reason why = {""};
    char *owned = NULL;
    size_t count = 0;
    memset(about.characters, 'a', sizeof about.characters - 1);
    assert_int_equal(node_model_about_pairs(&about, &text, pairs, &count, &owned, &why), BASE_OK);
    assert_in_range(count, 1, NODE_MODEL_ABOUT_PAIRS);
    free(owned);
    train_meaning_release(about.meaning);
}

// The text of a meaning with one part replaced.
static void write_changed(const char *from, const char *to)
{
    struct train_meaning *meaning = meaning_of(false);
    char *text = NULL, changed[2048];
    struct base_reason why = {""};
    assert_int_equal(node_meaning_text(meaning, 0, &text, &why), BASE_OK);
    char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    const struct node_tensor tensors[2] = {
        {.name = "0.weight",
         .type = NODE_TENSOR_F32,
         .shape = {2, 3},
         .n_dims = 2,
         .bytes = 24,
         .data = numbers},
        {.name = "0.bias", .type = NODE_TENSOR_F32, .shape = {2}, .n_dims = 1, .bytes = 8, .data = numbers}};
    const struct node_text_pair pair = {.key = "data", .text = changed};
    if (node_safetensors_write(path, tensors, 2, &pair, 1, &why))
        fail_msg("%s", why.text);
    free(text);
    train_meaning_release(meaning);
}

static void an_invalid_meaning_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *reason;
    } bads[] = {{"{", "{,", "metadata 'data':1: found"},
                {"\"p2pml_data\":1", "\"p2pml_data\":2", "\"p2pml_data\" is missing or not valid"},
                {"\"features\":3", "\"features\":4", "\"columns\" is missing or not valid"},
                {"\"categories\":[]", "\"categories\":[\"a\",\"b\"]", "\"columns\""},
                {"[\"no\",\"yes\"]", "[\"no\",\"yes\",\"maybe\"]", "names 3 classes, expected 2"},
                {"[\"no\",\"yes\"]", "[\"no\"]", "\"classes\""},
                {"\"targets\":[]", "\"targets\":[\"y\"]", "\"scale\""},
                {"\"factor\":[0.", "\"factor\":[-0.", "\"scale\""},
                {"\"scale\":\"standard\"", "\"scale\":\"none\"", "\"scale\""},
                {"\"layout\":[\"id\",\"age\"", "\"layout\":[\"id\"", "\"layout\""},
                {"\"label\":\"y\"", "\"label\":7", "\"layout\""},
                {"\"delimiter\":\";\"", "\"delimiter\":\"\\n\"", "\"layout\""},
                {"\"standard\",\"shift\":[1700000000.3,0.0,0.0]", "\"none\",\"shift\":[]", "\"scale\""},
                {"\"image\":[0,0,0]", "\"image\":[2,2,1]", "\"image\""},
                {"\"image\":[0,0,0]", "\"image\":[2,2,0]", "\"image\""}};
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct base_reason why = {""};
        struct node_model_file read = {0};
        write_changed(bads[i].from, bads[i].to);
        if (node_model_read(path, NULL, &read, &why) != BASE_EFORMAT || !strstr(why.text, bads[i].reason))
            fail_msg("%zu: '%s', expected '%s'", i, why.text, bads[i].reason);
    }
    write_changed("{", "{");
    struct base_reason why = {""};
    struct node_model_file read;
    const struct train_model_spec four = {.kind = TRAIN_SOFTMAX, .inputs = 4, .classes = 2};
    assert_int_equal(node_model_read(path, &four, &read, &why), BASE_EMISMATCH); // because of its tensors
    assert_int_equal(node_model_read(path, NULL, &read, &why), BASE_OK);
    node_model_free(&read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_meaning_of_data_reads_back_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_programs_can_read_it, set_up, tear_down),
        cmocka_unit_test(a_name_that_is_not_utf8_is_refused_before_training),
        cmocka_unit_test(the_longest_meaning_fits),
        cmocka_unit_test_setup_teardown(an_invalid_meaning_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
