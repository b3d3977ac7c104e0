// The checks of a graph from a file: each error names its line.
#include "base/limits.h"
#include "kernels/kernels.h"
#include "node/config/config.h"
#include "test/support/node_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

// Makes a file of this process with these lines; the caller removes it.
static void write_graph(const char *text, char path[32])
{
    snprintf(path, 32, "/tmp/p2pml-graph-XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
}

static void an_error_in_a_graph_names_its_line_and_a_graph_must_name_this_node(void **state)
{
    (void)state;
    static const struct {
        const char *text, *node, *message; // after the name of the file
    } cases[] = {
        {"a b\nb c\n", "", NULL},
        {"a b\nb c\n", "c", NULL},
        {"a b\nc d\n", "", ":2: not connected: no path leads from 'c' to 'a'"},
        {"a b\nb c\nb\n", "", ":3: expected an edge as 'name name [weight]', found one word"},
        {"a b\nb c\n", "d",
         " does not name this node, 'd'; expected a line with it, or one of the "
         "names there, 'a' to 'c', as node.name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node_config config;
        struct base_reason why = {""};
        char path[32], text[128], name[64], expected[512];
        write_graph(cases[i].text, path);
        start(&config);
        snprintf(text, sizeof text, "topology:\n  kind: file\n  file: %s\n", path);
        snprintf(name, sizeof name, "node.name=%s", cases[i].node);
        assert_int_equal(node_schema_read_text(schema, "node.yaml", text, strlen(text), &config, &why),
                         BASE_OK);
        set(&config, name);
        enum base_error error = node_config_check(&config, &why);
        assert_int_equal(error == BASE_OK, !cases[i].message);
        snprintf(expected, sizeof expected, cases[i].message ? cases[i].message : "", path);
        snprintf(expected, sizeof expected, "node.yaml:3: topology.file: %s%s", path,
                 cases[i].message ? cases[i].message : "");
        assert_string_equal(why.text, error ? expected : "");
        node_schema_free(schema, &config);
        unlink(path);
    }
}

static void a_graph_with_too_many_neighbours_is_refused(void **state)
{
    (void)state;
    for (int leaves = 64; leaves <= 65; leaves++) {
        struct node_config config;
        struct base_reason why = {""};
        char path[32], text[4096], expected[256];
        size_t used = 0;
        for (int i = 0; i < leaves; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "leaf-%d hub\n", i);
        write_graph(text, path);
        start(&config);
        set(&config, "topology.kind=file");
        snprintf(text, sizeof text, "topology.file=%s", path);
        set(&config, text);
        assert_int_equal(node_config_check(&config, &why), BASE_OK);
        snprintf(expected, sizeof expected,
                 "--set: topology.file: %s: 'hub' has 65 neighbours, expected at most 64", path);
        assert_int_equal(node_config_check_runnable(&config, &why), leaves == 64 ? BASE_OK : BASE_ELIMIT);
        if (leaves > 64)
            assert_string_equal(why.text, expected);
        node_schema_free(schema, &config);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_in_a_graph_names_its_line_and_a_graph_must_name_this_node),
        cmocka_unit_test(a_graph_with_too_many_neighbours_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
