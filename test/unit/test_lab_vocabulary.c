// The tokens of GPT-2's vocab.json as text: each character of a token stands for a byte (Radford et al. 2019,
// section 2.2).
#include "lab/model/vocabulary.h"
#include "test/support/temporary.h"

static void assert_token(const struct lab_vocabulary *vocabulary, uint32_t id, const char *expected)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    assert_non_null(out);
    lab_vocabulary_write(vocabulary, id, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

static void test_tokens_are_bytes_and_one_with_another_character_stays_whole(void **state)
{
    const struct node_model_file file = {.spec = {.kind = TRAIN_GPT2, .classes = 4},
                                         .about = {.text = TRAIN_TEXT_IDS}};
    struct lab_vocabulary vocabulary;
    struct base_reason why = {.text = ""};
    char directory[TEMPORARY_BYTES], path[TEMPORARY_BYTES + 16];

    (void)state;
    temporary_make(directory, "vocabulary");
    snprintf(path, sizeof path, "%s/vocab.json", directory);
    temporary_write(path, "{\"\\u0120a\": 0, \"\\u0120b\\u2603\": 1, \"\\u00c3\\u00a9\": 2}");
    if (lab_vocabulary_open(&file, path, &vocabulary, &why))
        fail_msg("%s", why.text);
    assert_token(&vocabulary, 0, " a");
    assert_token(&vocabulary, 1,
                 "\xc4\xa0"
                 "b\xe2\x98\x83");            // U+2603 stands for no byte
    assert_token(&vocabulary, 2, "\xc3\xa9"); // e acute in UTF-8
    lab_vocabulary_close(&vocabulary);
    temporary_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_are_bytes_and_one_with_another_character_stays_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
