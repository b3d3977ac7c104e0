// Configuration from files, the environment and --set together: which one wins, and which mistakes are
// reported. Also the help, and the written form.
#include "node_schema_world.h"

static void assignments_set_every_type(void **state)
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

static void invalid_assignments_are_refused(void **state)
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

static void the_environment_sets_keys(void **state)
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
    // Variables of others, those of Kubernetes for a service that is called p2pml, and misspelt ones.
    char *const foreign[] = {"P2PML_SERVICE_HOST=10.0.0.1",
                             "P2PML_SERVICE_PORT=7400",
                             "P2PML_SERVICE_PORT_PEERS=7400",
                             "P2PML_PORT=tcp://10.0.0.1:7400",
                             "P2PML_PORT_7400_TCP=tcp://10.0.0.1:7400",
                             "P2PML_PORT_7400_TCP_ADDR=10.0.0.1",
                             "P2PML_AVERAGE_RATION=1",
                             "P2PML_QUITE_ELSE=1",
                             NULL};
    assert_int_equal(node_schema_read_environment(&schema, "P2PML", foreign, NULL, &config, &why), BASE_OK);
    char *same = snapshot(&config);
    assert_string_equal(same, before);
    free(same);
    static const struct bad cases[] = {
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

// Mistakes after the first one are found, too, and nothing takes effect.
static void several_mistakes_are_reported_at_once(void **state)
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
        "node.yaml:7: average: given a second time (the first is at node.yaml:2), expected all its keys "
        "in one section\n"
        "node.yaml:10: model.hidden: found \"x\", expected a list of whole numbers from 1 to 4096");
    // After broken YAML nothing can be read.
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

static void the_number_of_reported_mistakes_is_limited(void **state)
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
    for (size_t i = 0; i < 9; i++) { // long ones, as many as there is room for
        memset(line, 'x', 120);
        snprintf(line + 120, sizeof line - 120, "%zu: 1\n", i);
        strcat(text, line);
    }
    assert_int_equal(read_text(&config, text, &why), BASE_EINVAL);
    assert_true(strlen(why.text) < sizeof why.text - 1);
    stop(&config);
}

static void mistakes_of_all_sources_are_reported_at_once(void **state)
{
    (void)state;
    struct sample config;
    struct base_reason why;
    char *const the_environment_sets_keys[] = {"P2PML_AVERAGE_RATIO=3", "P2PML_NODE_NAME=good",
                                               "P2PML_AVERAGE_STEPS=x", NULL};
    const char *const settings[] = {"node.name=a", "average.ratio=4", "wrong"};
    const struct node_schema_sources sources = {.path = "/nowhere/node.yaml",
                                                .environment = the_environment_sets_keys,
                                                .settings = settings,
                                                .n_settings = 3};
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

static void values_are_written_as_nested_yaml(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assignments_set_every_type),
        cmocka_unit_test(invalid_assignments_are_refused),
        cmocka_unit_test(the_environment_sets_keys),
        cmocka_unit_test(several_mistakes_are_reported_at_once),
        cmocka_unit_test(the_number_of_reported_mistakes_is_limited),
        cmocka_unit_test(mistakes_of_all_sources_are_reported_at_once),
        cmocka_unit_test(later_sources_win_and_replace_lists),
        cmocka_unit_test(help_has_every_key),
        cmocka_unit_test(values_are_written_as_nested_yaml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
