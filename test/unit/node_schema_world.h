// What the tests of node_schema share.
#ifndef TEST_UNIT_NODE_SCHEMA_WORLD_H
#define TEST_UNIT_NODE_SCHEMA_WORLD_H

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
static const struct node_schema schema = {.keys = keys, .count = sizeof keys / sizeof *keys};

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

// All values and origins as one text, to check that nothing changed.
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
     "node.yaml:3: peers: found a list, expected a list of texts; it is an element of the list"},
    {"peers:\n- a:1\n- b: 1\n",
     "node.yaml:3: peers: found a section, expected a list of texts; it is an element of the list"},
    {"peers:\n- a:1\n-\n",
     "node.yaml:3: peers: found nothing, expected a list of texts; it is an element of the list"},
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
     "node.yaml:3: node.name: given a second time (the first is at node.yaml:2), expected it once"},
    {"node:\n  name: a\npeers: []\nnode:\n  seed: 1\n",
     "node.yaml:4: node: given a second time (the first is at node.yaml:1), expected all its keys in one "
     "section"},
    {"node.name: a\nnode:\n  name: b\n",
     "node.yaml:3: node.name: given a second time (the first is at node.yaml:1), expected it once"},
    // YAML features that a configuration does not need
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
     "node.yaml:2: found a tab in the indentation, expected spaces: YAML allows no tabs there"},
    {"node:\n  name: a\n \t seed: 1\n",
     "node.yaml:3: found a tab in the indentation, expected spaces: YAML allows no tabs there"},
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

#endif
