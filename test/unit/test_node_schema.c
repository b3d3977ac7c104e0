// The schema engine on a table of its own: every type, every way to be wrong, and that nothing changes on
// error.
#include "base/file.h"
#include "base/limits.h"
#include "node/schema/schema.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct sample {
    struct node_origins origins;
    char *text;
    int choice;
    bool flag;
    uint64_t number, any, wait_ns;
    double ratio, wide;
    struct node_texts peers;
    struct node_integers hidden;
    char *deep;
};

#define AT(field) offsetof(struct sample, field)
static const struct node_key keys[] = {
    {"node.name", NODE_KEY_TEXT, AT(text), "", 0, 0, NULL, .meaning = "A name."},
    {"average.kind", NODE_KEY_CHOICE, AT(choice), "ring", 0, 0, "ring|butterfly", .meaning = "A kind."},
    {"average.drift", NODE_KEY_BOOL, AT(flag), "true", 0, 0, NULL, .meaning = "A switch."},
    {"average.steps", NODE_KEY_INTEGER, AT(number), "4", 1, 1000, NULL, .meaning = "A number."},
    {"node.seed", NODE_KEY_INTEGER, AT(any), "1", 0, 0x1p64, NULL, .meaning = "Any number."},
    {"node.wait", NODE_KEY_DURATION, AT(wait_ns), "30s", 0, 3600, NULL, .meaning = "A time."},
    {"average.ratio", NODE_KEY_REAL, AT(ratio), "1/32", 0, 1, NULL, .meaning = "A ratio."},
    {"average.wide", NODE_KEY_REAL, AT(wide), "0", -1e300, 1e300, NULL, .meaning = "A real number."},
    {"peers", NODE_KEY_TEXTS, AT(peers), "[]", 0, 0, NULL, .meaning = "Peers."},
    {"model.hidden", NODE_KEY_INTEGERS, AT(hidden), "[256]", 1, 4096, NULL, .meaning = "Units."},
    {"a.very.deep.key", NODE_KEY_TEXT, AT(deep), "x", 0, 0, NULL, .meaning = "Deep."},
};
static const struct node_schema schema = {keys, sizeof keys / sizeof *keys};

static void start(struct sample *config)
{
    struct base_reason why = {""};
    memset(config, 0, sizeof *config);
    assert_int_equal(node_schema_defaults(&schema, config, &why), BASE_OK);
}

static void stop(struct sample *config)
{
    node_schema_free(&schema, config);
    const struct sample zero = {0};
    assert_null(config->text);
    assert_null(config->peers.items);
    assert_memory_equal(&config->origins, &zero.origins, sizeof zero.origins);
}

static enum base_error read_text(struct sample *config, const char *text, struct base_reason *why)
{
    memset(why, 0, sizeof *why);
    return node_schema_read_text(&schema, "node.yaml", text, strlen(text), config, why);
}

static void good(struct sample *config, const char *text)
{
    struct base_reason why;
    if (read_text(config, text, &why))
        fail_msg("%s\nrefused: %s", text, why.text);
}

// A copy of all values and origins as one text, to see that nothing changed.
static char *snapshot(const struct sample *config)
{
    char *values = node_schema_write(&schema, config), *all = NULL;
    assert_non_null(values);
    for (size_t i = 0; i < schema.count; i++) {
        char *longer = NULL;
        assert_true(asprintf(&longer, "%s%s\n", all ? all : values, config->origins.of_key[i]) >= 0);
        free(all);
        all = longer;
    }
    free(values);
    return all;
}

static void defaults_of_every_type(void **state)
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
    const struct node_schema table = {bad, 2};
    struct sample config = {0};
    const struct sample zero = {0};
    struct base_reason why;
    assert_int_equal(node_schema_defaults(&table, &config, &why), BASE_EINVAL);
    assert_string_equal(why.text, "default: a.number: found \"0\", expected a whole number from 1 to 2");
    assert_memory_equal(&config, &zero, sizeof zero);
}

static void reads_every_type_and_notes_the_lines(void **state)
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

static void empty_files_and_sections_are_fine(void **state)
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

struct bad {
    const char *text, *message;
};
#define STEPS "a whole number from 1 to 1000"
static const struct bad bads[] = {
    // values
    {"average:\n  ratio: 2\n", "node.yaml:2: average.ratio: found \"2\", expected a number from 0 to 1"},
    {"average:\n  ratio: nan\n", "node.yaml:2: average.ratio: found \"nan\", expected a number from 0 to 1"},
    {"average:\n  ratio: -1/2\n",
     "node.yaml:2: average.ratio: found \"-1/2\", expected a number from 0 to 1"},
    {"average:\n  ratio: 1/0\n", "node.yaml:2: average.ratio: found \"1/0\", expected a number from 0 to 1"},
    {"average:\n  ratio: 0,5\n", "node.yaml:2: average.ratio: found \"0,5\", expected a number from 0 to 1"},
    {"average:\n  ratio: 50%\n", "node.yaml:2: average.ratio: found \"50%\", expected a number from 0 to 1"},
    {"average:\n  wide: 1e999\n",
     "node.yaml:2: average.wide: found \"1e999\", expected a number from -1e+300 to 1e+300"},
    {"average:\n\n  steps: 0\n", "node.yaml:3: average.steps: found \"0\", expected " STEPS},
    {"average:\n  steps: 1001\n", "node.yaml:2: average.steps: found \"1001\", expected " STEPS},
    {"average:\n  steps: +4\n", "node.yaml:2: average.steps: found \"+4\", expected " STEPS},
    {"average:\n  steps: -4\n", "node.yaml:2: average.steps: found \"-4\", expected " STEPS},
    {"average:\n  steps: \" 4\"\n", "node.yaml:2: average.steps: found \" 4\", expected " STEPS},
    {"average:\n  steps: 4.0\n", "node.yaml:2: average.steps: found \"4.0\", expected " STEPS},
    {"average:\n  steps: 0x10\n", "node.yaml:2: average.steps: found \"0x10\", expected " STEPS},
    {"average:\n  steps: four\n", "node.yaml:2: average.steps: found \"four\", expected " STEPS},
    {"average:\n  steps:\n", "node.yaml:2: average.steps: found nothing, expected " STEPS},
    {"average:\n  steps: null\n", "node.yaml:2: average.steps: found nothing, expected " STEPS},
    {"node:\n  seed: 18446744073709551616\n", "node.yaml:2: node.seed: found \"18446744073709551616\", "
                                              "expected a whole number from 0 to 18446744073709551615"},
    {"node:\n  seed: 99999999999999999999999999999999999\n",
     "node.yaml:2: node.seed: found \"99999999999999999999999999999999999\", expected a whole number from 0 "
     "to "
     "18446744073709551615"},
    {"average:\n  drift: maybe\n", "node.yaml:2: average.drift: found \"maybe\", expected true or false"},
    {"average:\n  kind: rign\n",
     "node.yaml:2: average.kind: found \"rign\", expected one of ring, butterfly"},
    {"average:\n  kind: ring|butterfly\n",
     "node.yaml:2: average.kind: found \"ring|butterfly\", expected one of ring, butterfly"},
    {"average:\n  kind: \"\"\n", "node.yaml:2: average.kind: found \"\", expected one of ring, butterfly"},
    {"node:\n  wait: 30\n", "node.yaml:2: node.wait: found \"30\", expected a duration from 0 to 1h: a whole "
                            "number and ms, s, m or h"},
    {"node:\n  wait: 61m\n", "node.yaml:2: node.wait: found \"61m\", expected a duration from 0 to 1h: a "
                             "whole number and ms, s, m or h"},
    {"node:\n  wait: 99999999999999999h\n",
     "node.yaml:2: node.wait: found \"99999999999999999h\", expected a duration "
     "from 0 to 1h: a whole number and ms, s, m or h"},
    {"node:\n  wait: 1.5s\n", "node.yaml:2: node.wait: found \"1.5s\", expected a duration from 0 to 1h: a "
                              "whole number and ms, s, m or h"},
    {"node:\n  name:\n",
     "node.yaml:2: node.name: found nothing, expected a text; write \"\" for an empty one"},
    {"node:\n  name: \"a\\x1b[31m\"\n",
     "node.yaml:2: node.name: found \"a?[31m\" with the byte 0x1b at offset 1, "
     "expected a text in UTF-8 without control characters"},
    {"node:\n  name: \"a\\0b\"\n",
     "node.yaml:2: node.name: found \"a?b\" with the byte 0x00 at offset 1, expected a "
     "text in UTF-8 without control characters"},
    {"node:\n  name: |\n    two\n    lines\n",
     "node.yaml:2: node.name: found \"two?lines?\" with the byte 0x0a at "
     "offset 3, expected a text in UTF-8 without control characters"},
    {"average:\n  steps: "
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaa\n",
     "node.yaml:2: average.steps: found "
     "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaa...\", expected " STEPS},
    // lists
    {"peers: a:1\n", "node.yaml:1: peers: found \"a:1\", expected a list of texts, such as [a, b]"},
    {"peers:\n  a: 1\n", "node.yaml:2: peers: found a section, expected a list of texts, such as [a, b]"},
    {"peers:\n- a:1\n- [b]\n",
     "node.yaml:3: peers: found a list, expected a list of texts; this stands inside the list"},
    {"peers:\n- a:1\n- b: 1\n",
     "node.yaml:3: peers: found a section, expected a list of texts; this stands inside the list"},
    {"peers:\n- a:1\n-\n",
     "node.yaml:3: peers: found nothing, expected a list of texts; this stands inside the list"},
    {"peers:\n- \"\"\n", "node.yaml:2: peers: found an empty element, expected a text or a number in each"},
    {"model:\n  hidden: [1, 0]\n",
     "node.yaml:2: model.hidden: found \"0\", expected a list of whole numbers from 1 to 4096"},
    {"model:\n  hidden: 256\n", "node.yaml:2: model.hidden: found \"256\", expected a list of whole numbers "
                                "from 1 to 4096, such as [a, b]"},
    // shapes
    {"average: 3\n", "node.yaml:1: average: found \"3\", expected a section with keys such as average.kind"},
    {"average: [ratio]\n",
     "node.yaml:1: average: found a list, expected a section with keys such as average.kind"},
    {"average:\n  steps: [4]\n", "node.yaml:2: average.steps: found a list, expected " STEPS},
    {"average:\n  steps:\n    a: 4\n", "node.yaml:3: average.steps: found a section, expected " STEPS},
    {"- a\n- b\n", "node.yaml:1: found a list, expected lines such as 'key: value'"},
    {"hello\n", "node.yaml:1: found \"hello\", expected lines such as 'key: value'"},
    {"[a]: 1\n", "node.yaml:1: found a list in the place of a key, expected a name"},
    {"node:\n  {a: 1}: 1\n", "node.yaml:2: node: found a section in the place of a key, expected a name"},
    {"node:\n  \"\": 1\n", "node.yaml:2: node: found \"\" in the place of a key, expected a name"},
    // names
    {"average:\n  ration: 1\n",
     "node.yaml:2: found the unknown key \"average.ration\", did you mean average.ratio?"},
    {"avrage:\n  ratio: 1\n", "node.yaml:1: found the unknown key \"avrage\", did you mean average?"},
    {"train:\n  ratio: 1\n",
     "node.yaml:1: found the unknown key \"train\", expected one of the keys that --help lists"},
    {"node:\n  ratio: 1\n", "node.yaml:2: found the unknown key \"node.ratio\", did you mean average.ratio?"},
    {"ratio: 1\n", "node.yaml:1: found the unknown key \"ratio\", did you mean average.ratio?"},
    {"Peers: []\n", "node.yaml:1: found the unknown key \"Peers\", did you mean peers?"},
    {"node:\n  quux-something: 1\n", "node.yaml:2: found the unknown key \"node.quux-something\", expected "
                                     "one of the keys that --help lists"},
    {"<<: {}\n", "node.yaml:1: found the unknown key \"<<\", expected one of the keys that --help lists"},
    {"\"pe\\0ers\": []\n",
     "node.yaml:1: found the unknown key \"pe?ers\", expected one of the keys that --help lists"},
    {"a:\n  very: {deep: {kee: 1}}\n",
     "node.yaml:2: found the unknown key \"a.very.deep.kee\", did you mean a.very.deep.key?"},
    // repeated
    {"node:\n  name: a\n  name: b\n",
     "node.yaml:3: node.name: given a second time, the first is at node.yaml:2; expected it once"},
    {"node:\n  name: a\npeers: []\nnode:\n  seed: 1\n",
     "node.yaml:4: node: given a second time, the first is at node.yaml:1; expected all its keys in one "
     "section"},
    {"node.name: a\nnode:\n  name: b\n",
     "node.yaml:3: node.name: given a second time, the first is at node.yaml:1; expected it once"},
    // what YAML can and a configuration need not
    {"node:\n  name: &a x\n",
     "node.yaml:2: node.name: found the anchor or alias \"a\", expected a plain value: write it "
     "out"},
    {"node: &n\n  name: x\n",
     "node.yaml:1: node: found the anchor or alias \"n\", expected a plain value: write it out"},
    {"node:\n  name: *a\n",
     "node.yaml:2: node.name: found the anchor or alias \"a\", expected a plain value: write it out"},
    {"node:\n  name: !!str x\n",
     "node.yaml:2: node.name: found the tag \"tag:yaml.org,2002:str\", expected a plain "
     "value: write it out"},
    {"peers: [&a b]\n",
     "node.yaml:1: peers: found the anchor or alias \"a\", expected a plain value: write it out"},
    {"peers: []\n---\npeers: []\n", "node.yaml:2: found a second document, expected one in a file"},
    {"%TAG !a! b\n---\nnode: {}\n", "node.yaml:1: found a %TAG directive, expected plain values"},
    // broken files
    {"node:\n\tname: a\n",
     "node.yaml:2: found a tab in the indentation, expected spaces: YAML takes no tabs there"},
    {"node:\n  name: a\n \t seed: 1\n",
     "node.yaml:3: found a tab in the indentation, expected spaces: YAML takes no tabs there"},
    {"node:\n  name: \"a\n", "node.yaml:3: found broken YAML (found unexpected end of stream, while scanning "
                             "a quoted scalar that starts in "
                             "line 2), expected lines such as 'key: value', indented alike"},
    {"node:\n  name: a\n seed: 1\n", "node.yaml:3: found broken YAML (did not find expected key, while "
                                     "parsing a block mapping that starts in line 1), "
                                     "expected lines such as 'key: value', indented alike"},
    {"node: name: a\n", "node.yaml:1: node: found \"name\", expected a section with keys such as node.name"},
    {"peers: []: a\n",
     "node.yaml:1: found broken YAML (mapping values are not allowed in this context), expected lines "
     "such as 'key: value', indented alike"},
    {"node:\n  name: \xff\n", "node.yaml:2: found the byte 0xff, expected text in UTF-8"},
    {"\xff\xfen\n", "node.yaml:1: found the byte 0xff, expected text in UTF-8"},
    {"node:\n# \x1b\n", "node.yaml:2: found the control character 0x1b, expected text"},
};

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
        // The good lines in front or behind must not stick either.
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

static void good_lines_before_a_mistake_do_not_stick(void **state)
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

static void deep_nesting_ends_early(void **state)
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

static void too_large_and_not_a_file(void **state)
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
    snprintf(expected, sizeof expected, "'%s' is larger than 1048576 bytes, the most that is read here",
             path);
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

static void assignments(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    start(&config);
    const char *const fine[] = {
        "average.ratio=.5", "node.name=a=b, c", "peers=a:1, b:2 ,[::1]:3", "model.hidden=[8, 9]",
        "node.wait=0",      "a.very.deep.key=", "average.drift=yes",       "average.steps=0007"};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        assert_int_equal(node_schema_set(&schema, fine[i], &config, &why), BASE_OK);
    assert_true(config.ratio == 0.5);
    assert_string_equal(config.text, "a=b, c");
    assert_int_equal(config.peers.count, 3);
    assert_string_equal(config.peers.items[1], "b:2");
    assert_string_equal(config.peers.items[2], "[::1]:3");
    assert_int_equal(config.hidden.items[1], 9);
    assert_int_equal(config.wait_ns, 0);
    assert_string_equal(config.deep, "");
    assert_int_equal(config.number, 7);
    assert_string_equal(node_schema_origin(&schema, &config, "peers"), "--set");
    assert_int_equal(node_schema_set(&schema, "peers=", &config, &why), BASE_OK);
    assert_int_equal(config.peers.count, 0);
    assert_int_equal(node_schema_set(&schema, "peers=[[::1]:1]", &config, &why), BASE_OK);
    assert_string_equal(config.peers.items[0], "[::1]:1");
    stop(&config);
}

static void bad_assignments(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"average.ratio", "--set: found \"average.ratio\", expected key=value"},
        {"=3", "--set: found \"=3\", expected key=value"},
        {"", "--set: found \"\", expected key=value"},
        {"average=3", "--set: average: is a section, expected one of its keys, such as average.kind=..."},
        {"average.ration=3", "--set: found the unknown key \"average.ration\", did you mean average.ratio?"},
        {"zzzzzzzz=3",
         "--set: found the unknown key \"zzzzzzzz\", expected one of the keys that --help lists"},
        {"average.ratio= 1", "--set: average.ratio: found \" 1\", expected a number from 0 to 1"},
        {"average.ratio=", "--set: average.ratio: found \"\", expected a number from 0 to 1"},
        {"average.ratio=inf", "--set: average.ratio: found \"inf\", expected a number from 0 to 1"},
        {"average.ratio=0x1p-1", "--set: average.ratio: found \"0x1p-1\", expected a number from 0 to 1"},
        {"average.ratio=1e", "--set: average.ratio: found \"1e\", expected a number from 0 to 1"},
        {"average.ratio=.", "--set: average.ratio: found \".\", expected a number from 0 to 1"},
        {"peers=a,,b", "--set: peers: found an empty element, expected a text or a number in each"},
        {"peers=a,", "--set: peers: found an empty element, expected a text or a number in each"},
        {"model.hidden=1,x",
         "--set: model.hidden: found \"x\", expected a list of whole numbers from 1 to 4096"},
        {"node.name=\xff",
         "--set: node.name: found \"?\" with the byte 0xff at offset 0, expected a text in UTF-8 "
         "without control characters"},
        {"node.name=\xed\xa0\x80",
         "--set: node.name: found \"???\" with the byte 0xed at offset 0, expected a text in "
         "UTF-8 without control characters"},
    };
    struct sample config;
    struct base_reason why;
    start(&config);
    char *before = snapshot(&config);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(node_schema_set(&schema, cases[i].text, &config, &why), BASE_EINVAL);
        assert_string_equal(why.text, cases[i].message);
        char *after = snapshot(&config);
        assert_string_equal(after, before);
        free(after);
    }
    free(before);
    stop(&config);
}

static void environment(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    char *const fine[] = {"HOME=/root",  "P2PML_AVERAGE_RATIO=1/4", "P2PML_PEERS=a:1,b:2",     "P2PML_SEED=7",
                          "P2PMLX=oops", "P2PML_NODE_NAME=",        "P2PML_A_VERY_DEEP_KEY=y", NULL};
    const char *const others[] = {"P2PML_SEED", NULL};
    start(&config);
    assert_int_equal(node_schema_read_environment(&schema, "P2PML", fine, others, &config, &why), BASE_OK);
    assert_true(config.ratio == 0.25);
    assert_int_equal(config.peers.count, 2);
    assert_string_equal(config.deep, "y");
    assert_string_equal(node_schema_origin(&schema, &config, "average.ratio"), "P2PML_AVERAGE_RATIO");
    char *before = snapshot(&config);
    static const struct bad cases[] = {
        {"P2PML_AVERAGE_RATION=1", "environment: found \"P2PML_AVERAGE_RATION\", which names no key, did you "
                                   "mean P2PML_AVERAGE_RATIO?"},
        {"P2PML_SEED=7", "environment: found \"P2PML_SEED\", which names no key, did you mean P2PML_PEERS?"},
        {"P2PML_QUITE_ELSE=1",
         "environment: found \"P2PML_QUITE_ELSE\", which names no key, expected P2PML_ and a key of "
         "--help in capitals, with _ for the dot"},
        {"P2PML_AVERAGE_RATIO=2",
         "P2PML_AVERAGE_RATIO: average.ratio: found \"2\", expected a number from 0 to 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char entry[64];
        snprintf(entry, sizeof entry, "%s", cases[i].text);
        char *const bad[] = {"P2PML_NODE_NAME=changed", entry, NULL};
        assert_int_equal(node_schema_read_environment(&schema, "P2PML", bad, NULL, &config, &why),
                         BASE_EINVAL);
        assert_string_equal(why.text, cases[i].message);
        char *after = snapshot(&config);
        assert_string_equal(after, before);
        free(after);
    }
    free(before);
    stop(&config);
}

// What is wrong behind a mistake is found, too, and nothing sticks.
static void several_mistakes_are_told_at_once(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    start(&config);
    char *before = snapshot(&config);
    assert_int_equal(read_text(&config,
                               "node: {nam: a, name: [b, {c: d}]}\n"
                               "average:\n"
                               "  ? [x, {y: z}]\n"
                               "  : [1, 2]\n"
                               "  ratio: 2\n"
                               "unknown: {a: {b: [c]}}\n"
                               "average: 3\n"
                               "peers: [good:1]\n"
                               "model:\n"
                               "  hidden: [1, x, 2, y]\n",
                               &why),
                     BASE_EINVAL);
    assert_string_equal(
        why.text,
        "node.yaml:1: found the unknown key \"node.nam\", did you mean node.name?\n"
        "node.yaml:1: node.name: found a list, expected a text\n"
        "node.yaml:3: average: found a list in the place of a key, expected a name\n"
        "node.yaml:5: average.ratio: found \"2\", expected a number from 0 to 1\n"
        "node.yaml:6: found the unknown key \"unknown\", expected one of the keys that --help lists\n"
        "node.yaml:7: average: given a second time, the first is at node.yaml:2; expected all its keys "
        "in one section\n"
        "node.yaml:10: model.hidden: found \"x\", expected a list of whole numbers from 1 to 4096");
    // Where YAML itself breaks nothing behind it can be read.
    assert_int_equal(read_text(&config, "nodes: a\npeers: [a\nnode: {name: [}\n", &why), BASE_EINVAL);
    assert_non_null(strstr(
        why.text,
        "node.yaml:1: found the unknown key \"nodes\", did you mean node?\nnode.yaml:3: found broken"));
    char *after = snapshot(&config);
    assert_string_equal(after, before);
    free(after);
    free(before);
    stop(&config);
}

static void the_number_of_mistakes_told_is_limited(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    char text[4096] = "", line[200];
    size_t lines = 1;
    start(&config);
    for (size_t i = 0; i < NODE_SCHEMA_PROBLEMS_MAX + 3; i++) {
        snprintf(line, sizeof line, "nobody%zu: 1\n", i);
        strcat(text, line);
    }
    assert_int_equal(read_text(&config, text, &why), BASE_EINVAL);
    for (const char *at = why.text; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, NODE_SCHEMA_PROBLEMS_MAX + 1);
    assert_non_null(strstr(why.text, "\nand 3 more errors"));
    text[0] = 0;
    for (size_t i = 0; i < 9; i++) { // long ones, as many as have room
        memset(line, 'x', 120);
        snprintf(line + 120, sizeof line - 120, "%zu: 1\n", i);
        strcat(text, line);
    }
    assert_int_equal(read_text(&config, text, &why), BASE_EINVAL);
    assert_true(strlen(why.text) < sizeof why.text - 1);
    stop(&config);
}

static void mistakes_of_all_sources_are_told_at_once(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    char *const environment[] = {"P2PML_AVERAGE_RATIO=3", "P2PML_NODE_NAME=good", "P2PML_AVERAGE_STEPS=x",
                                 NULL};
    const char *const settings[] = {"node.name=a", "average.ratio=4", "wrong"};
    const struct node_schema_sources sources = {
        .path = "/nowhere/node.yaml", .environment = environment, .settings = settings, .n_settings = 3};
    start(&config);
    assert_int_equal(node_schema_read_all(&schema, &sources, &config, &why), BASE_EINVAL);
    const char *const told[] = {"/nowhere/node.yaml", "P2PML_AVERAGE_RATIO: average.ratio: found \"3\"",
                                "P2PML_AVERAGE_STEPS: average.steps: found \"x\"",
                                "--set: average.ratio: found \"4\"",
                                "--set: found \"wrong\", expected key=value"};
    const char *at = why.text;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (!(at = strstr(at, told[i])))
            fail_msg("no %s in:\n%s", told[i], why.text);
    stop(&config);
}

static void later_sources_win_and_replace_lists(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    char *const variables[] = {"P2PML_AVERAGE_STEPS=2", "P2PML_PEERS=env:1", "P2PML_MODEL_HIDDEN=2", NULL};
    start(&config);
    good(&config, "average: {steps: 3, ratio: 0.5}\npeers: [a:1, b:1, c:1]\nmodel: {hidden: [3, 3]}\n");
    assert_int_equal(node_schema_read_environment(&schema, "P2PML", variables, NULL, &config, &why), BASE_OK);
    assert_int_equal(node_schema_set(&schema, "average.steps=1", &config, &why), BASE_OK);
    assert_int_equal(node_schema_set(&schema, "average.steps=9", &config, &why), BASE_OK);
    assert_int_equal(config.number, 9);          // --set, the last one
    assert_int_equal(config.hidden.count, 1);    // environment
    assert_int_equal(config.peers.count, 1);     // environment
    assert_true(config.ratio == 0.5);            // file
    assert_true(config.wait_ns == 30000000000u); // default
    assert_string_equal(node_schema_origin(&schema, &config, "average.steps"), "--set");
    assert_string_equal(node_schema_origin(&schema, &config, "average.ratio"), "node.yaml:1");
    stop(&config);
}

static void help_has_every_key(void **state)
{
    (void)state;
    char *help = node_schema_help(&schema);
    assert_non_null(help);
    assert_non_null(strstr(help, "average.ratio = 1/32\n    (a number from 0 to 1) A ratio.\n"));
    assert_non_null(strstr(help, "node.name = \"\"\n    (a text) A name.\n"));
    assert_non_null(strstr(help, "average.kind = ring\n    (one of ring, butterfly) A kind.\n"));
    assert_non_null(strstr(help, "peers = []\n    (a list of texts) Peers.\n"));
    free(help);
}

static void written_as_nested_yaml(void **state)
{
    (void)state;
    struct sample config;
    start(&config);
    good(&config, "node: {name: \"q\\\"\\\\ \xc3\xa9 \\u2028\"}\npeers: [a, 'b, c']\n");
    char *text = node_schema_write(&schema, &config);
    assert_string_equal(text, "node:\n"
                              "  name: \"q\\\"\\\\ \xc3\xa9 \\u2028\"\n"
                              "  seed: 1\n"
                              "  wait: 30s\n"
                              "average:\n"
                              "  kind: ring\n"
                              "  drift: true\n"
                              "  steps: 4\n"
                              "  ratio: 0.03125\n"
                              "  wide: 0\n"
                              "peers: [\"a\", \"b, c\"]\n"
                              "model:\n"
                              "  hidden: [256]\n"
                              "a:\n"
                              "  very:\n"
                              "    deep:\n"
                              "      key: \"x\"\n");
    struct sample again;
    start(&again);
    good(&again, text);
    assert_string_equal(again.text, config.text);
    assert_string_equal(again.peers.items[1], "b, c");
    free(text);
    stop(&again);
    stop(&config);
}

// Where a locale with a decimal comma is installed, it must change nothing.
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
        cmocka_unit_test(defaults_of_every_type),
        cmocka_unit_test(a_bad_default_is_an_error_and_leaves_zeroes),
        cmocka_unit_test(reads_every_type_and_notes_the_lines),
        cmocka_unit_test(empty_files_and_sections_are_fine),
        cmocka_unit_test(every_mistake_is_named_and_changes_nothing),
        cmocka_unit_test(good_lines_before_a_mistake_do_not_stick),
        cmocka_unit_test(deep_nesting_ends_early),
        cmocka_unit_test(too_large_and_not_a_file),
        cmocka_unit_test(a_file_is_named_with_its_path),
        cmocka_unit_test(a_long_path_keeps_room_for_the_message),
        cmocka_unit_test(assignments),
        cmocka_unit_test(bad_assignments),
        cmocka_unit_test(environment),
        cmocka_unit_test(several_mistakes_are_told_at_once),
        cmocka_unit_test(the_number_of_mistakes_told_is_limited),
        cmocka_unit_test(mistakes_of_all_sources_are_told_at_once),
        cmocka_unit_test(later_sources_win_and_replace_lists),
        cmocka_unit_test(help_has_every_key),
        cmocka_unit_test(written_as_nested_yaml),
        cmocka_unit_test(locales_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
