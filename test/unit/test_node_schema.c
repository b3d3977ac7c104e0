// The schema engine with its own table: every type, every kind of mistake, and that nothing changes on an
// error.
#include "node_schema_world.h"

static void every_type_has_its_default(void **state)
{
    (void)state;
    struct sample config;
    start(&config);
    assert_string_equal(config.text, "");
    assert_int_equal(config.choice, 0);
    assert_true(config.flag);
    assert_int_equal(config.number, 4);
    assert_int_equal(config.any, 1);
    assert_true(config.wait_ns == 30000000000u);
    assert_true(config.ratio == 1.0 / 32);
    assert_int_equal(config.peers.count, 0);
    assert_int_equal(config.hidden.count, 1);
    assert_int_equal(config.hidden.items[0], 256);
    assert_string_equal(config.deep, "x");
    assert_string_equal(node_schema_origin(&schema, &config, "average.ratio"), "default");
    stop(&config);
}

static void a_bad_default_is_an_error_and_leaves_zeroes(void **state)
{
    (void)state;
    const struct node_key bad[] = {
        {"a.text", NODE_KEY_TEXT, AT(text), "x", 0, 0, NULL, .meaning = ""},
        {"a.number", NODE_KEY_INTEGER, AT(number), "0", 1, 2, NULL, .meaning = ""}};
    const struct node_schema table = {.keys = bad, .count = 2};
    struct sample config = {0};
    const struct sample zero = {0};
    struct base_reason why;
    assert_int_equal(node_schema_defaults(&table, &config, &why), BASE_EINVAL);
    assert_string_equal(why.text, "default: a.number: found \"0\", expected a whole number from 1 to 2");
    assert_memory_equal(&config, &zero, sizeof zero);
}

static void every_type_is_read_with_its_line(void **state)
{
    (void)state;
    struct sample config;
    start(&config);
    good(&config, "# a comment\n"
                  "node:\n"
                  "  name: host one\n"
                  "  seed: 18446744073709551615\n"
                  "  wait: 250ms\n"
                  "average:\n"
                  "  kind: butterfly\n"
                  "  drift: Off\n"
                  "  steps: 1000\n"
                  "  ratio: 1/100\n"
                  "  wide: -1.5e-3\n"
                  "peers: [a:1, \"[::1]:2\"]\n"
                  "model:\n"
                  "  hidden:\n"
                  "    - 128\n"
                  "    - 64\n"
                  "    - 32\n"
                  "a: {very: {deep: {key: 'it''s'}}}\n");
    assert_string_equal(config.text, "host one");
    assert_true(config.any == UINT64_MAX);
    assert_int_equal(config.wait_ns, 250000000);
    assert_int_equal(config.choice, 1);
    assert_false(config.flag);
    assert_int_equal(config.number, 1000);
    assert_true(config.ratio == 0.01);
    assert_true(config.wide == -0.0015);
    assert_int_equal(config.peers.count, 2);
    assert_string_equal(config.peers.items[1], "[::1]:2");
    assert_int_equal(config.hidden.count, 3);
    assert_int_equal(config.hidden.items[2], 32);
    assert_string_equal(config.deep, "it's");
    assert_string_equal(node_schema_origin(&schema, &config, "average.ratio"), "node.yaml:10");
    assert_string_equal(node_schema_origin(&schema, &config, "model.hidden"), "node.yaml:14");
    assert_string_equal(node_schema_origin(&schema, &config, "a.very.deep.key"), "node.yaml:18");
    stop(&config);
}

static void empty_files_and_sections_are_valid(void **state)
{
    (void)state;
    const char *const texts[] = {"",
                                 "\n\n",
                                 "# only a comment",
                                 "---\n",
                                 "---\n...\n",
                                 "{}",
                                 "\xef\xbb\xbf",
                                 "\xef\xbb\xbfnode:\n  name: \"\"\n",
                                 "average:\n# all commented out\nnode:\n",
                                 "average: {}\n",
                                 "average: ~\n",
                                 "peers:\n",
                                 "node.name: \"\"\n", // dots instead of nesting
                                 "a.very:\n  deep.key: x\n",
                                 "%YAML 1.1\n---\nnode: {}\n",
                                 "node:\r\n  name: \"\"\r\n"};
    struct sample config, fresh;
    start(&fresh);
    char *expected = node_schema_write(&schema, &fresh);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        start(&config);
        good(&config, texts[i]);
        char *written = node_schema_write(&schema, &config);
        assert_string_equal(written, expected);
        free(written);
        stop(&config);
    }
    free(expected);
    stop(&fresh);
}

static void every_mistake_is_named_and_changes_nothing(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    size_t wrong = 0;
    start(&config);
    good(&config, "node: {name: before}\npeers: [x:1]\n");
    char *before = snapshot(&config);
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        // Valid lines before or after it must not take effect either.
        assert_int_not_equal(read_text(&config, bads[i].text, &why), BASE_OK);
        if (strcmp(why.text, bads[i].message) != 0) {
            print_error("%s\nsays:     %s\nexpected: %s\n", bads[i].text, why.text, bads[i].message);
            wrong++;
        }
        char *after = snapshot(&config);
        assert_string_equal(after, before);
        free(after);
    }
    assert_int_equal(wrong, 0);
    free(before);
    stop(&config);
}

static void valid_lines_before_a_mistake_have_no_effect(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    start(&config);
    char *before = snapshot(&config);
    assert_int_equal(
        read_text(&config, "node: {name: new}\npeers: [a, b]\nmodel: {hidden: [7]}\noops: 1\n", &why),
        BASE_EINVAL);
    char *after = snapshot(&config);
    assert_string_equal(after, before);
    free(before);
    free(after);
    stop(&config);
}

static void deep_nesting_is_refused_early(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    char *text = malloc(60001);
    assert_non_null(text);
    memset(text, '[', 60000);
    text[60000] = 0;
    start(&config);
    assert_int_equal(read_text(&config, text, &why), BASE_EFORMAT);
    assert_string_equal(why.text, "node.yaml:1: found a list, expected lines such as 'key: value'");
    free(text);
    stop(&config);
}

static void files_that_are_too_large_and_directories_are_refused(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    char directory[] = "/tmp/p2pml-schema-XXXXXX", path[64], expected[160];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/big.yaml", directory);
    size_t bytes = LIMIT_CONFIG_BYTES + 1;
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, '\n', bytes);
    start(&config);
    assert_int_equal(node_schema_read_text(&schema, "node.yaml", text, bytes, &config, &why), BASE_ELIMIT);
    assert_string_equal(why.text,
                        "node.yaml: found 1048577 bytes, expected a configuration of at most 1048576");
    assert_int_equal(node_schema_read_text(&schema, "node.yaml", text, bytes - 1, &config, &why), BASE_OK);
    const struct base_span span = {text, bytes};
    assert_int_equal(base_file_write(path, 0644, &span, 1, &why), BASE_OK);
    assert_int_equal(node_schema_read_file(&schema, path, &config, &why), BASE_ELIMIT);
    snprintf(expected, sizeof expected, "'%s' is larger than 1048576 bytes, the maximum here", path);
    assert_string_equal(why.text, expected);
    assert_int_equal(node_schema_read_file(&schema, directory, &config, &why), BASE_EIO);
    snprintf(expected, sizeof expected, "cannot read '%s': it is a directory, expected a file", directory);
    assert_string_equal(why.text, expected);
    assert_int_equal(node_schema_read_file(&schema, "/nowhere/node.yaml", &config, &why), BASE_ENOTFOUND);
    assert_string_equal(why.text, "cannot open '/nowhere/node.yaml': No such file or directory");
    free(text);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
    stop(&config);
}

static void a_file_is_named_with_its_path(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    char path[] = "/tmp/p2pml-schema-XXXXXX", expected[160];
    const char text[] = "average:\n  ratio: 2\n";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    start(&config);
    assert_int_equal(node_schema_read_file(&schema, path, &config, &why), BASE_EINVAL);
    snprintf(expected, sizeof expected, "%s:2: average.ratio: found \"2\", expected a number from 0 to 1",
             path);
    assert_string_equal(why.text, expected);
    unlink(path);
    stop(&config);
}

static void a_long_path_keeps_room_for_the_message(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    char origin[2000];
    memset(origin, 'd', sizeof origin);
    memcpy(origin + sizeof origin - 11, "/node.yaml", 11);
    const char text[] = "average:\n  ratio: 2\n";
    start(&config);
    assert_int_equal(node_schema_read_text(&schema, origin, text, strlen(text), &config, &why), BASE_EINVAL);
    assert_non_null(
        strstr(why.text, "/node.yaml:2: average.ratio: found \"2\", expected a number from 0 to 1"));
    stop(&config);
}

// If a locale with a decimal comma is installed, it must change nothing.
static void locales_change_nothing(void **state)
{
    (void)state;
    const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8", "C.UTF-8"};
    size_t i = 0;
    while (i + 1 < sizeof names / sizeof *names && !setlocale(LC_ALL, names[i]))
        i++;
    print_message("locale: %s\n", setlocale(LC_ALL, NULL));
    struct sample config;
    struct base_reason why;
    start(&config);
    assert_int_equal(node_schema_set(&schema, "average.ratio=0.125", &config, &why), BASE_OK);
    assert_true(config.ratio == 0.125);
    assert_int_equal(node_schema_set(&schema, "average.ratio=0,125", &config, &why), BASE_EINVAL);
    char *text = node_schema_write(&schema, &config);
    assert_non_null(strstr(text, "ratio: 0.125\n"));
    free(text);
    stop(&config);
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_its_default),
        cmocka_unit_test(a_bad_default_is_an_error_and_leaves_zeroes),
        cmocka_unit_test(every_type_is_read_with_its_line),
        cmocka_unit_test(empty_files_and_sections_are_valid),
        cmocka_unit_test(every_mistake_is_named_and_changes_nothing),
        cmocka_unit_test(valid_lines_before_a_mistake_have_no_effect),
        cmocka_unit_test(deep_nesting_is_refused_early),
        cmocka_unit_test(files_that_are_too_large_and_directories_are_refused),
        cmocka_unit_test(a_file_is_named_with_its_path),
        cmocka_unit_test(a_long_path_keeps_room_for_the_message),
        cmocka_unit_test(locales_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
