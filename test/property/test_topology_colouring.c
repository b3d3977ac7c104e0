// Edge colourings of any graph: proper, at most one colour more than the largest degree, classes of even
// size, and the same every time.
#include "topology_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MOST 48u

static uint64_t seed;

static int read_seed(void **state)
{
    (void)state;
    seed = world_seed(20261121);
    return 0;
}

struct graph {
    size_t n, n_edges, degree_most;
    struct topology_edge edges[MOST * MOST];
    uint32_t colour[MOST * MOST], colours;
};

static void add(struct graph *graph, uint32_t a, uint32_t b)
{
    graph->edges[graph->n_edges++] = (struct topology_edge){.a = a, .b = b};
}

static void check(struct graph *graph)
{
    uint32_t again[MOST * MOST], colours;
    size_t degree[MOST] = {0}, size[MOST + 1] = {0}, least = SIZE_MAX, most = 0;
    assert_int_equal(topology_colour(graph->n, graph->edges, graph->n_edges, graph->colour, &graph->colours),
                     BASE_OK);
    assert_int_equal(topology_colour(graph->n, graph->edges, graph->n_edges, again, &colours), BASE_OK);
    assert_int_equal(colours, graph->colours);
    assert_memory_equal(again, graph->colour, graph->n_edges * sizeof *again);
    graph->degree_most = 0;
    for (size_t i = 0; i < graph->n_edges; i++) {
        size[graph->colour[i]]++;
        degree[graph->edges[i].a]++;
        degree[graph->edges[i].b]++;
        for (size_t j = 0; j < i; j++) {
            struct topology_edge x = graph->edges[i], y = graph->edges[j];
            bool touch = x.a == y.a || x.a == y.b || x.b == y.a || x.b == y.b;
            assert_false(touch && graph->colour[i] == graph->colour[j]);
        }
    }
    for (size_t v = 0; v < graph->n; v++)
        graph->degree_most = degree[v] > graph->degree_most ? degree[v] : graph->degree_most;
    assert_true(colours >= graph->degree_most && colours <= graph->degree_most + 1);
    for (size_t i = 0; i < colours; i++) {
        least = size[i] < least ? size[i] : least;
        most = size[i] > most ? size[i] : most;
    }
    assert_true(colours == 0 || (least > 0 && most - least <= 1));
}

static void random_graphs_are_coloured_properly(void **state)
{
    static struct graph graph;
    struct base_rng rng;
    (void)state;
    base_rng_seed(&rng, seed);
    for (int trial = 0; trial < 400; trial++) {
        double density = base_rng_uniform(&rng);
        graph.n = base_rng_below(&rng, MOST) + 1;
        graph.n_edges = 0;
        for (uint32_t a = 0; a < graph.n; a++)
            for (uint32_t b = a + 1; b < graph.n; b++)
                if (base_rng_uniform(&rng) < density)
                    add(&graph, a, b);
        check(&graph);
    }
}

// Graphs that need one colour more than their degree: odd cycles, complete graphs of odd order, Petersen's.
static void graphs_of_class_two_get_one_more_colour(void **state)
{
    static struct graph graph;
    (void)state;
    for (uint32_t n = 3; n < MOST; n += 2) {
        graph.n = n;
        graph.n_edges = 0;
        for (uint32_t i = 0; i < n; i++)
            add(&graph, i, (i + 1) % n);
        check(&graph);
        assert_int_equal(graph.colours, 3);
        graph.n_edges = 0;
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = a + 1; b < n; b++)
                add(&graph, a, b);
        check(&graph);
        assert_int_equal(graph.colours, n);
    }
    graph.n = 10;
    graph.n_edges = 0;
    for (uint32_t i = 0; i < 5; i++) {
        add(&graph, i, (i + 1) % 5);
        add(&graph, i, i + 5);
        add(&graph, i + 5, (i + 2) % 5 + 5);
    }
    check(&graph);
    assert_int_equal(graph.colours, 4);
}

// Here no colour may be free at both ends of an edge, so that fans must be rotated.
static void a_shuffled_complete_graph_needs_fans(void **state)
{
    static struct graph graph;
    struct base_rng rng;
    (void)state;
    base_rng_seed(&rng, seed);
    for (int trial = 0; trial < 60; trial++) {
        uint32_t order[MOST * MOST];
        size_t count = 0;
        graph.n = 4 + base_rng_below(&rng, 20);
        graph.n_edges = graph.n * (graph.n - 1) / 2;
        for (uint32_t i = 0; i < graph.n_edges; i++)
            order[i] = i;
        base_rng_shuffle(&rng, order, graph.n_edges);
        for (uint32_t a = 0; a < graph.n; a++)
            for (uint32_t b = a + 1; b < graph.n; b++)
                graph.edges[order[count++]] = (struct topology_edge){.a = a, .b = b};
        check(&graph);
    }
}

static void a_graph_without_edges_has_no_colours(void **state)
{
    static struct graph graph;
    (void)state;
    graph.n_edges = 0;
    for (graph.n = 0; graph.n < 3; graph.n++) {
        check(&graph);
        assert_int_equal(graph.colours, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_are_coloured_properly),
        cmocka_unit_test(graphs_of_class_two_get_one_more_colour),
        cmocka_unit_test(a_shuffled_complete_graph_needs_fans),
        cmocka_unit_test(a_graph_without_edges_has_no_colours),
    };
    return cmocka_run_group_tests(tests, read_seed, NULL);
}
