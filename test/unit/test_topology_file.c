// Graphs from files: what is read, what is refused with which message, and how a plan closes over dead
// members.
#include "test/property/topology_world.h"
#include "topology/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct topology_member named(const char *name)
{
    struct topology_member member = {.slot = TOPOLOGY_NO_SLOT};
    size_t length = strlen(name);
    assert_true(length < sizeof member.name);
    memcpy(member.name, name, length + 1);
    member.id[0] = (uint8_t)name[0];
    return member;
}

static struct topology_graph *read_graph(const char *text)
{
    struct base_reason why = {""};
    struct topology_graph *graph = NULL;
    enum base_error error = topology_graph_read("g", text, strlen(text), NULL, 0, &graph, &why);
    if (error)
        print_message("%s\n", why.text);
    assert_int_equal(error, BASE_OK);
    return graph;
}

static void lines_are_edges(void **state)
{
    (void)state;
    struct topology_graph *graph = read_graph("# a path\n\n  a b\t0.5 # heavy\r\nb c");
    assert_int_equal(topology_graph_nodes(graph), 3);
    assert_string_equal(topology_graph_name(graph, 0), "a");
    assert_string_equal(topology_graph_name(graph, 2), "c");
    topology_graph_destroy(graph);
    topology_graph_destroy(read_graph("a b 2\nb a 2\nb c 1\nc b 1\n"));
}

static void an_invalid_graph_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *words;
    } wrong[] = {
        {"", "g: no edges"},
        {"# only this\n", "g: no edges"},
        {"a b\na\n", "g:2: expected an edge"},
        {"a b 1 2\n", "g:1: expected an edge"},
        {"a b\nb c x\n", "g:2: the weight is 'x'"},
        {"a b -1\n", "g:1: the weight is '-1'"},
        {"a b nan\n", "g:1: the weight is 'nan'"},
        {"a b 1e999\n", "g:1: the weight is '1e999'"},
        {"a b\n\nc c\n", "g:3: an edge from 'c' to itself"},
        {"a b\nb c\na b\n", "g:3: the edge from 'a' to 'b' is already in line 1"},
        {"a b\nb a\nb a\n", "g:3: the edge from 'b' to 'a' is already in line 2"},
        {"a b\nb a\na b\n", "g:3: the edge from 'a' to 'b' is already in line 1"},
        {"a b 1\nb a 2\n", "g:2: not symmetric: 'b' to 'a' has weight 2, but 'a' to 'b' in line 1 has 1"},
        {"a b\nb c\nb a\n", "g:2: not symmetric: 'b' to 'c' is given in this direction only"},
        {"a b\nc d\n", "g:2: not connected: no path leads from 'c' to 'a'"},
        {"a b\nb 0123456789012345678901234567890123456789012345678901234567890123\n", "g:2: the name"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct base_reason why = {""};
        struct topology_graph *graph = NULL;
        assert_int_not_equal(
            topology_graph_read("g", wrong[i].text, strlen(wrong[i].text), NULL, 0, &graph, &why), BASE_OK);
        assert_null(graph);
        if (strncmp(why.text, wrong[i].words, strlen(wrong[i].words)) != 0)
            fail_msg("found '%s', expected '%s'", why.text, wrong[i].words);
    }
    struct base_reason why = {""};
    struct topology_graph *graph = NULL;
    assert_int_equal(topology_graph_read("g", "a b\nb\0c\n", 8, NULL, 0, &graph, &why), BASE_EFORMAT);
    assert_string_equal(why.text, "g:2: a zero byte; expected text");
}

static void a_file_must_name_exactly_the_known_nodes(void **state)
{
    struct topology_member known[] = {named("a"), named("b"), named("c")};
    struct base_reason why = {""};
    struct topology_graph *graph = NULL;
    (void)state;
    assert_int_equal(topology_graph_read("g", "a b\nb d\n", 8, known, 3, &graph, &why), BASE_ENOTFOUND);
    assert_string_equal(why.text, "g:2: there is no node 'd'; the nodes are 'a' to 'c'");
    assert_int_equal(topology_graph_read("g", "a b\n", 4, known, 3, &graph, &why), BASE_EFORMAT);
    assert_string_equal(why.text, "g: not connected: no line names the node 'c'");
    assert_null(graph);
    assert_int_equal(topology_graph_read("g", "a b\nb c\n", 8, known, 3, &graph, &why), BASE_OK);
    topology_graph_destroy(graph);
}

// Unknown nodes come from the network, and two nodes may have the same name: the graph goes on without them.
static void a_node_without_a_place_in_the_file_has_no_neighbours(void **state)
{
    struct topology_member members[] = {named("x"), named("a"), named("b"), named("a"), named("c")};
    struct topology_graph *graph = read_graph("a b\nb c\nc a\n");
    struct topology_options options = {.kind = TOPOLOGY_FILE, .graph = graph};
    size_t peers[8];
    (void)state;
    members[1].id[0] = 9;
    members[3].id[0] = 8;
    struct topology_plan *plan = world_plan(&options, members, 5);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(topology_plan_neighbours(plan, i, peers, 8), 0);
        for (uint64_t round = 0; round < 6; round++)
            assert_int_equal(topology_plan_partner(plan, i, round), TOPOLOGY_NOBODY);
    }
    assert_int_equal(topology_plan_neighbours(plan, 3, peers, 8), 2);
    assert_true(peers[0] == 2 && peers[1] == 4);
    topology_plan_destroy(plan);
    topology_graph_destroy(graph);
}

// The simulator knows its nodes beforehand, a node does not: both make the same plan from a file.
static void a_plan_follows_the_order_of_the_lines(void **state)
{
    struct topology_member known[] = {named("d"), named("c"), named("b"), named("a")};
    const char text[] = "b d\na b\nd a\nc a\n";
    struct topology_graph *here = read_graph(text), *there = NULL;
    struct base_reason why;
    (void)state;
    assert_int_equal(topology_graph_read("g", text, strlen(text), known, 4, &there, &why), BASE_OK);
    struct topology_plan *a =
        world_plan(&(struct topology_options){.kind = TOPOLOGY_FILE, .graph = here}, known, 4);
    struct topology_plan *b =
        world_plan(&(struct topology_options){.kind = TOPOLOGY_FILE, .graph = there}, known, 4);
    assert_int_equal(topology_plan_period(a), topology_plan_period(b));
    for (size_t i = 0; i < 4; i++)
        for (uint64_t round = 0; round < topology_plan_period(a); round++)
            assert_int_equal(topology_plan_partner(a, i, round), topology_plan_partner(b, i, round));
    assert_true(topology_graph_hash(here) == topology_graph_hash(there));
    topology_plan_destroy(a);
    topology_plan_destroy(b);
    topology_graph_destroy(there);
    there = read_graph("b d\na b\nc a\nd a\n"); // other lines may mean other rounds
    assert_true(topology_graph_hash(here) != topology_graph_hash(there));
    topology_graph_destroy(here);
    topology_graph_destroy(there);
}

static void the_node_with_the_most_neighbours_is_found(void **state)
{
    static const char *const texts[] = {"a b\nc b\nb d\na c\n", "a b\nb a\nc b\nb c\nb d\nd b\n"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct topology_graph *graph = read_graph(texts[i]);
        size_t node = 9, degree = 9;
        assert_int_equal(topology_graph_widest(graph, &node, &degree), BASE_OK);
        assert_string_equal(topology_graph_name(graph, node), "b");
        assert_int_equal(degree, 3);
        assert_true(topology_graph_has(graph, "d") && !topology_graph_has(graph, "e"));
        topology_graph_destroy(graph);
    }
}

// Two adjacent members of a path die, and the hub of a star: the rest stays connected.
static void a_plan_closes_over_dead_members(void **state)
{
    struct topology_member ends[] = {named("a"), named("b"), named("e"), named("f")};
    struct topology_graph *graph = read_graph("a b\nb c\nc d\nd e\ne f\n");
    struct topology_options options = {.kind = TOPOLOGY_FILE, .graph = graph};
    size_t peers[8];
    (void)state;
    struct topology_plan *plan = world_plan(&options, ends, 4);
    assert_int_equal(topology_plan_neighbours(plan, 1, peers, 8), 2);
    assert_int_equal(peers[0], 0);
    assert_int_equal(peers[1], 2);
    assert_int_equal(world_reach(plan), 4);
    topology_plan_destroy(plan);
    topology_graph_destroy(graph);
    graph = read_graph("h a\nh b\nh c\nh d\nh e\n");
    options.graph = graph;
    struct topology_member leaves[] = {named("a"), named("b"), named("c"), named("d"), named("e")};
    plan = world_plan(&options, leaves, 5);
    assert_int_equal(world_reach(plan), 5);
    for (size_t i = 0; i < 5; i++)
        assert_true(topology_plan_neighbours(plan, i, peers, 8) <= 2);
    topology_plan_destroy(plan);
    topology_graph_destroy(graph);
}

// Any connected graph and any deaths: the plan of the survivors is connected, and no edge between them is
// lost.
static void random_deaths_leave_the_plan_connected(void **state)
{
    enum { NODES = 24 };
    struct base_rng rng;
    (void)state;
    base_rng_seed(&rng, world_seed(20261121));
    for (int trial = 0; trial < 300; trial++) {
        char text[8192] = "", names[NODES][8];
        bool joined[NODES][NODES] = {{false}};
        size_t used = 0, n = 0, alive[NODES];
        struct topology_member members[NODES];
        for (size_t i = 0; i < NODES; i++)
            snprintf(names[i], sizeof names[i], "n%zu", i);
        for (size_t i = 1; i < NODES; i++)
            for (size_t times = 0; times < 1 + base_rng_below(&rng, 3); times++) {
                size_t j = base_rng_below(&rng, i);
                if (!joined[i][j])
                    used += (size_t)snprintf(text + used, sizeof text - used, "%s %s\n", names[i], names[j]);
                joined[i][j] = joined[j][i] = true;
            }
        for (size_t i = 0; i < NODES; i++)
            if (base_rng_below(&rng, 3)) {
                alive[n] = i;
                members[n] = named(names[i]);
                members[n++].id[1] = (uint8_t)i;
            }
        struct topology_options options = {.kind = TOPOLOGY_FILE, .graph = read_graph(text)};
        struct topology_plan *plan = world_plan(&options, members, n);
        assert_true(n == 0 || world_reach(plan) == n);
        for (size_t i = 0; i < n; i++) {
            size_t peers[NODES], count = topology_plan_neighbours(plan, i, peers, NODES);
            for (size_t j = 0; j < n; j++) {
                bool is = false;
                for (size_t p = 0; p < count; p++)
                    is = is || peers[p] == j;
                assert_true(is || !joined[alive[i]][alive[j]]);
            }
        }
        topology_plan_destroy(plan);
        topology_graph_destroy((struct topology_graph *)(uintptr_t)options.graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_edges),
        cmocka_unit_test(an_invalid_graph_is_refused_with_its_line),
        cmocka_unit_test(a_file_must_name_exactly_the_known_nodes),
        cmocka_unit_test(a_node_without_a_place_in_the_file_has_no_neighbours),
        cmocka_unit_test(a_plan_follows_the_order_of_the_lines),
        cmocka_unit_test(the_node_with_the_most_neighbours_is_found),
        cmocka_unit_test(a_plan_closes_over_dead_members),
        cmocka_unit_test(random_deaths_leave_the_plan_connected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
