// Lists of maps in a configuration: their shape, the lines of their parts, and every kind of mistake.
#include "node/schema/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct sample {
    struct node_origins origins;
    struct node_tree events;
    uint64_t steps;
};
static const struct node_key keys[] = {
    {"events", NODE_KEY_MAPS, offsetof(struct sample, events), "[]", 0, 0, NULL, .meaning = "What happens."},
    {"steps", NODE_KEY_INTEGER, offsetof(struct sample, steps), "4", 1, 1000, NULL, .meaning = "A number."},
};
static const struct node_schema schema = {.keys = keys, .count = sizeof keys / sizeof *keys};

static void start(struct sample *config)
{
    struct base_reason why = {""};
    memset(config, 0, sizeof *config);
    assert_int_equal(node_schema_defaults(&schema, config, &why), BASE_OK);
}

static void good(struct sample *config, const char *text)
{
    struct base_reason why = {""};
    if (node_schema_read_text(&schema, "a.yaml", text, strlen(text), config, &why))
        fail_msg("%s\nrefused: %s", text, why.text);
}

static void the_default_is_empty(void **state)
{
    (void)state;
    struct sample config;
    start(&config);
    assert_true(config.events.kind == NODE_TREE_LIST && config.events.count == 0);
    good(&config, "events:\n"); // all its lines commented out
    assert_int_equal(config.events.count, 0);
    node_schema_free(&schema, &config);
}

static void parts_have_their_lines(void **state)
{
    (void)state;
    struct sample config;
    char origin[64], found[NODE_TREE_FOUND_BYTES];
    uint64_t value = 0;
    start(&config);
    good(&config, "# what happens\nevents:\n  - {at: 10s, kill: 3}\n  - at: 1m\n"
                  "    partition: [[0, 1],\n      [2, \"x y\"]]\nsteps: 7\n");
    assert_int_equal(config.events.count, 2);
    const struct node_tree *first = &config.events.items[0], *second = &config.events.items[1];
    assert_true(first->kind == NODE_TREE_MAP && first->line == 3 && second->line == 4);
    assert_true(node_tree_duration(node_tree_entry(first, "at"), &value) && value == 10000000000u);
    assert_true(node_tree_integer(node_tree_entry(first, "kill"), &value) && value == 3);
    assert_null(node_tree_entry(first, "stop"));
    const struct node_tree *groups = node_tree_entry(second, "partition");
    assert_true(groups->kind == NODE_TREE_LIST && groups->count == 2 && groups->items[1].line == 6);
    assert_string_equal(groups->items[1].items[1].text, "x y");
    assert_false(node_tree_integer(groups, &value));
    assert_false(node_tree_integer(&groups->items[1].items[1], &value));
    node_tree_found(groups, found);
    assert_string_equal(found, "a list");
    node_tree_found(&groups->items[1].items[1], found);
    assert_string_equal(found, "\"x y\"");
    node_schema_origin_of(&schema, &config, "events", &groups->items[1], origin, sizeof origin);
    assert_string_equal(origin, "a.yaml:6");
    assert_string_equal(node_schema_origin(&schema, &config, "events"), "a.yaml:2");
    node_schema_free(&schema, &config);
}

static void lists_of_maps_can_be_set_on_the_command_line(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why = {""};
    char origin[64];
    start(&config);
    good(&config, "events: [{a: b}, {a: c}]\n");
    assert_int_equal(node_schema_set(&schema, "events=[{at: 5s, stop: [1, 2]}]", &config, &why), BASE_OK);
    assert_true(config.events.count == 1 && config.events.items[0].line == 0);
    node_schema_origin_of(&schema, &config, "events", &config.events.items[0], origin, sizeof origin);
    assert_string_equal(origin, "--set");
    assert_int_equal(node_schema_set(&schema, "events=", &config, &why), BASE_OK);
    assert_int_equal(config.events.count, 0);
    node_schema_free(&schema, &config);
}

static void a_written_list_reads_back_the_same(void **state)
{
    (void)state;
    struct sample config, again;
    start(&config);
    start(&again);
    good(&config, "events: [{at: 10s, \"a: b\": [[0, 1], [], {x: \"null\"}], c: \"\"}, {}]\n");
    char *text = node_schema_write(&schema, &config);
    assert_non_null(text);
    assert_string_equal(
        text, "events: [{at: 10s, \"a: b\": [[0, 1], [], {x: \"null\"}], c: \"\"}, {}]\nsteps: 4\n");
    good(&again, text);
    char *second = node_schema_write(&schema, &again);
    assert_string_equal(text, second);
    free(text);
    free(second);
    node_schema_free(&schema, &config);
    node_schema_free(&schema, &again);
}

static void every_mistake_is_named_and_changes_nothing(void **state)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"events: 3\n", "a.yaml:1: events: found \"3\", expected a list of maps"},
        {"events: {at: 3}\n", "a.yaml:1: events: found a section, expected a list of maps"},
        {"events:\n  - 7\n", "a.yaml:2: events: found \"7\", expected a list of maps"},
        {"events:\n  - [1]\n", "a.yaml:2: events: found a list, expected a list of maps"},
        {"events:\n  -\n", "a.yaml:2: events: found nothing, expected a list of maps"},
        {"events:\n  - {at: }\n", "events: found nothing after \"at\""},
        {"events: [{at:5s}]\n", "events: found nothing after \"at:5s\", expected a value; a colon must be"},
        {"events: [{a: [1, ~]}]\n", "events: found an empty element"},
        {"events: [{a: 1, b: 2, a: 3}]\n", "events: found \"a\" twice in one map"},
        {"events: [{[1]: 2}]\n", "events: found a list in the place of a key"},
        {"events: [{a: \"\\x01\"}]\n", "events: found \"?\", expected a text without control"},
        {"events: [{a: [[[[[[1]]]]]]}]\n", "found more than 6 lists and maps inside each other"},
        {"events: [{a: &x 1}]\n", "found the anchor or alias \"x\""},
        {"events: [{a: !!int 1}]\n", "found the tag"},
        {"events: [{a: 1}\n", "found broken YAML"},
        {"events: []\nevents: []\n", "a.yaml:2: events: given a second time"},
    };
    (void)state;
    struct sample config;
    start(&config);
    good(&config, "events: [{a: b}]\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct base_reason why = {""};
        assert_int_not_equal(
            node_schema_read_text(&schema, "a.yaml", cases[i].text, strlen(cases[i].text), &config, &why),
            BASE_OK);
        if (!strstr(why.text, cases[i].said))
            fail_msg("expected '%s' in '%s'", cases[i].said, why.text);
        assert_true(config.events.count == 1 && config.events.items[0].count == 1);
    }
    node_schema_free(&schema, &config);
}

static void mistakes_on_the_command_line_are_named(void **state)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"events=x", "--set: events: found \"x\", expected a list of maps"},
        {"events=[{a: 1}", "--set: events: found a broken list"},
        {"events=[{a: &x 1}]", "--set: events: found the anchor or alias \"x\""},
        {"events=[{a: *x}]", "--set: events: found the anchor or alias \"x\""},
        {"events=[]\n---\n[]", "--set: events: found the byte 0x0a at offset 2"},
    };
    (void)state;
    struct sample config;
    start(&config);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct base_reason why = {""};
        assert_int_not_equal(node_schema_set(&schema, cases[i].text, &config, &why), BASE_OK);
        if (!strstr(why.text, cases[i].said))
            fail_msg("expected '%s' in '%s'", cases[i].said, why.text);
        assert_int_equal(config.events.count, 0);
    }
    node_schema_free(&schema, &config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_empty),
        cmocka_unit_test(parts_have_their_lines),
        cmocka_unit_test(lists_of_maps_can_be_set_on_the_command_line),
        cmocka_unit_test(a_written_list_reads_back_the_same),
        cmocka_unit_test(every_mistake_is_named_and_changes_nothing),
        cmocka_unit_test(mistakes_on_the_command_line_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
