// Which links carry an edge: the topology applied to the view, told as changes.
#include "base/limits.h"
#include "base/rng.h"
#include "node/graph.h"
#include "topology/file.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 24 };

static struct topology_options options_of(enum topology_kind kind)
{
    return (struct topology_options){.kind = kind, .seed = 3, .rings = TOPOLOGY_RINGS_MOST};
}

static struct gossip_id id_of(size_t number)
{
    struct gossip_id id = {{(uint8_t)(number >> 8), (uint8_t)number, 1}};
    return id;
}

static size_t number_of(const struct gossip_id *id)
{
    return (size_t)id->bytes[0] << 8 | id->bytes[1];
}

static struct topology_member member_of(size_t number)
{
    struct topology_member member = {.slot = TOPOLOGY_NO_SLOT};
    struct gossip_id id = id_of(number);
    snprintf(member.name, sizeof member.name, "node-%zu", number);
    member.group = (uint32_t)(number / 5);
    memcpy(member.id, id.bytes, sizeof member.id);
    return member;
}

static void fill(struct topology_member *view, size_t n)
{
    for (size_t i = 0; i < n; i++)
        view[i] = member_of(i);
}

static size_t neighbours(enum topology_kind kind, const struct topology_member *view, size_t n, size_t self,
                         struct gossip_id out[NODE_GRAPH_NEIGHBOURS], uint32_t *slot)
{
    struct topology_options options = options_of(kind);
    struct gossip_id id = id_of(self);
    size_t count = SIZE_MAX;
    assert_int_equal(node_graph_neighbours(&options, view, n, &id, out, &count, slot), BASE_OK);
    return count;
}

static void check_every(const struct topology_options *options, const struct topology_member *view, size_t n)
{
    struct gossip_id out[NODE_GRAPH_NEIGHBOURS];
    size_t positions[NODE_GRAPH_NEIGHBOURS];
    struct topology_plan *plan;
    assert_int_equal(topology_plan_create(options, view, n, &plan), BASE_OK);
    for (size_t self = 0; self < n; self += 1 + n / 40) {
        uint32_t slot = 99;
        size_t count = topology_plan_neighbours(plan, self, positions, NODE_GRAPH_NEIGHBOURS);
        assert_true(count <= NODE_GRAPH_NEIGHBOURS);
        assert_int_equal(neighbours(options->kind, view, n, self, out, &slot), count);
        assert_int_equal(slot, topology_plan_slot(plan, self));
        for (size_t i = 0; i < count; i++)
            assert_memory_equal(out[i].bytes, view[positions[i]].id, sizeof out[i].bytes);
    }
    topology_plan_destroy(plan);
}

// Members come from the network: no number of them, and no claims, may need more neighbours than there is
// room for.
static void neighbours_fit_for_every_number_of_members(void **state)
{
    struct topology_member *view = calloc(LIMIT_MEMBERS + 1, sizeof *view);
    struct gossip_id out[NODE_GRAPH_NEIGHBOURS], self = id_of(0);
    struct base_rng rng;
    (void)state;
    assert_non_null(view);
    base_rng_seed(&rng, 1);
    fill(view, LIMIT_MEMBERS + 1);
    for (int kind = TOPOLOGY_RING; kind <= TOPOLOGY_HIERARCHICAL; kind++) {
        struct topology_options options = options_of((enum topology_kind)kind);
        if (kind >= TOPOLOGY_COMPLETE && kind <= TOPOLOGY_MATCHINGS)
            continue; // everybody_is_at_most_65
        for (size_t n = 1; n <= LIMIT_MEMBERS; n += n < 150 ? 7 : 1315) {
            for (size_t i = 0; i < n; i++)
                view[i].slot = TOPOLOGY_NO_SLOT;
            check_every(&options, view, n);
            for (size_t i = 0; i < n; i++)
                view[i].slot = (uint32_t)base_rng_below(&rng, 2 * n);
            check_every(&options, view, n);
        }
        size_t count = 77;
        uint32_t slot = 78;
        assert_int_equal(node_graph_neighbours(&options, view, LIMIT_MEMBERS + 1, &self, out, &count, &slot),
                         BASE_EINVAL);
        assert_int_equal(count, 77);
        assert_int_equal(slot, 78);
    }
    free(view);
}

// Kinds in which somebody meets everybody are for as many as there is room for, and one more.
static void everybody_is_at_most_65(void **state)
{
    struct topology_member view[NODE_GRAPH_NEIGHBOURS + 2];
    struct gossip_id out[NODE_GRAPH_NEIGHBOURS], self = id_of(0);
    (void)state;
    fill(view, NODE_GRAPH_NEIGHBOURS + 2);
    for (int kind = TOPOLOGY_COMPLETE; kind <= TOPOLOGY_MATCHINGS;
         kind += TOPOLOGY_MATCHINGS - TOPOLOGY_COMPLETE) {
        struct topology_options options = options_of((enum topology_kind)kind);
        size_t count = 0;
        uint32_t slot;
        assert_int_equal(
            node_graph_neighbours(&options, view, NODE_GRAPH_NEIGHBOURS + 1, &self, out, &count, &slot),
            BASE_OK);
        assert_int_equal(count, NODE_GRAPH_NEIGHBOURS);
        assert_int_equal(
            node_graph_neighbours(&options, view, NODE_GRAPH_NEIGHBOURS + 2, &self, out, &count, &slot),
            BASE_ELIMIT);
    }
}

static void what_cannot_be_changes_nothing(void **state)
{
    struct topology_member *view = calloc(LIMIT_MEMBERS + 1, sizeof *view);
    struct topology_options options = {.kind = TOPOLOGY_RANDOM, .rings = TOPOLOGY_RINGS_MOST + 1};
    struct gossip_id self = id_of(0), other = id_of(1), partner;
    float weight;
    struct node_graph *graph = NULL;
    (void)state;
    assert_non_null(view);
    assert_int_equal(node_graph_create(&options, &self, &graph), BASE_EINVAL);
    assert_null(graph);
    options = options_of(TOPOLOGY_RANDOM);
    fill(view, LIMIT_MEMBERS + 1);
    assert_int_equal(node_graph_create(&options, &self, &graph), BASE_OK);
    assert_int_equal(node_graph_view(graph, view, 2), BASE_OK);
    assert_int_equal(node_graph_view(graph, view, LIMIT_MEMBERS + 1), BASE_EINVAL);
    assert_true(node_graph_partner(graph, 1, &partner, &weight));
    assert_memory_equal(&partner, &other, sizeof partner);
    other = id_of(2);
    assert_false(node_graph_has(graph, &other));
    node_graph_destroy(graph);
    free(view);
}

static void without_a_place_in_the_view_there_is_nobody(void **state)
{
    struct topology_member view[4], alone = member_of(9);
    struct gossip_id self = id_of(9), peer = id_of(0), partner, out[NODE_GRAPH_NEIGHBOURS];
    float weight;
    struct topology_options options = options_of(TOPOLOGY_RING);
    struct node_graph *graph;
    struct node_graph_change change;
    uint32_t slot = 0;
    (void)state;
    fill(view, 4);
    assert_int_equal(neighbours(TOPOLOGY_RING, view, 4, 9, out, &slot), 0);
    assert_int_equal(neighbours(TOPOLOGY_BUTTERFLY, view, 4, 9, out, &slot), 0);
    assert_int_equal(slot, TOPOLOGY_NO_SLOT);
    assert_int_equal(node_graph_create(&options, &self, &graph), BASE_OK);
    assert_int_equal(node_graph_link(graph, &peer), BASE_OK);
    assert_false(node_graph_next(graph, &change));
    assert_false(node_graph_partner(graph, 1, &partner, &weight));
    assert_int_equal(node_graph_view(graph, view, 4), BASE_OK);
    assert_false(node_graph_next(graph, &change));
    assert_false(node_graph_partner(graph, 1, &partner, &weight));
    assert_int_equal(node_graph_view(graph, &alone, 1), BASE_OK);
    assert_false(node_graph_partner(graph, 1, &partner, &weight));
    node_graph_destroy(graph);
}

static void a_link_that_replaces_another_comes_up_anew(void **state)
{
    struct topology_member view[2];
    struct gossip_id self = id_of(0), peer = id_of(1);
    struct topology_options options = options_of(TOPOLOGY_RING);
    struct node_graph *graph;
    struct node_graph_change change;
    (void)state;
    fill(view, 2);
    assert_int_equal(node_graph_create(&options, &self, &graph), BASE_OK);
    assert_int_equal(node_graph_view(graph, view, 2), BASE_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(node_graph_link(graph, &peer), BASE_OK);
        assert_true(node_graph_next(graph, &change));
        assert_true(change.up);
        assert_memory_equal(&change.peer, &peer, sizeof peer);
        assert_false(node_graph_next(graph, &change));
    }
    node_graph_unlink(graph, &peer);
    node_graph_unlink(graph, &peer);
    assert_true(node_graph_next(graph, &change));
    assert_false(change.up);
    assert_false(node_graph_next(graph, &change));
    node_graph_destroy(graph);
}

// Every node works with a graph of its own: what one says of a meeting the other must say too, and who
// follows the weights has the exact mean, after a period of base.
static void check_exact(struct topology_options options, const struct topology_member *view, size_t n,
                        uint64_t periods)
{
    struct node_graph *graphs[MEMBERS];
    double x[MEMBERS], next[MEMBERS], mean = 0;
    struct topology_plan *plan;
    assert_int_equal(topology_plan_create(&options, view, n, &plan), BASE_OK);
    for (size_t i = 0; i < n; i++) {
        struct gossip_id self = id_of(i);
        assert_int_equal(node_graph_create(&options, &self, &graphs[i]), BASE_OK);
        assert_int_equal(node_graph_view(graphs[i], view, n), BASE_OK);
        x[i] = (double)(i * i % 11);
        mean += x[i] / (double)n;
    }
    for (uint64_t round = 0; round < periods * topology_plan_period(plan); round++) {
        memcpy(next, x, sizeof x);
        for (size_t i = 0; i < n; i++) {
            struct gossip_id partner, back;
            float weight, theirs;
            if (!node_graph_partner(graphs[i], round, &partner, &weight))
                continue;
            size_t peer = number_of(&partner);
            assert_true(node_graph_partner(graphs[peer], round, &back, &theirs));
            assert_true(number_of(&back) == i && weight == theirs && weight > 0 && weight < 1);
            next[i] = (1 - (double)weight) * x[i] + (double)weight * x[peer];
        }
        memcpy(x, next, sizeof x);
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(x[i] - mean < 1e-6 && mean - x[i] < 1e-6);
        node_graph_destroy(graphs[i]);
    }
    topology_plan_destroy(plan);
}

static void weights_are_mutual_and_exact(void **state)
{
    struct topology_member view[MEMBERS];
    (void)state;
    fill(view, MEMBERS);
    for (size_t n = 1; n <= MEMBERS; n++)
        check_exact(options_of(TOPOLOGY_BASE), view, n, 1);
    check_exact(options_of(TOPOLOGY_HIERARCHICAL), view, 20, 100); // four groups of five: x 0.8 a period
}

// Inside a group everybody meets members of it; the leader of each group meets other leaders, and nobody else
// does.
static void only_leaders_leave_their_group(void **state)
{
    struct topology_member view[20];
    size_t leaders = 0;
    (void)state;
    fill(view, 20);
    for (size_t i = 0; i < 20; i++) {
        struct gossip_id out[NODE_GRAPH_NEIGHBOURS];
        uint32_t slot;
        size_t count = neighbours(TOPOLOGY_HIERARCHICAL, view, 20, i, out, &slot), outside = 0;
        for (size_t j = 0; j < count; j++)
            outside += number_of(&out[j]) / 5 != i / 5;
        assert_true(count > outside);
        leaders += outside > 0;
    }
    assert_int_equal(leaders, 4);
}

// A graph from a file is for those whom it names; it closes over one who has died.
static void a_file_is_for_those_whom_it_names(void **state)
{
    static const char text[] = "node-0 node-1\nnode-1 node-2\nnode-2 node-3\n";
    struct topology_graph *file = NULL;
    struct topology_options options = {.kind = TOPOLOGY_FILE};
    struct topology_member view[MEMBERS];
    struct gossip_id out[NODE_GRAPH_NEIGHBOURS], self = id_of(1);
    struct base_reason why;
    size_t count = 0;
    uint32_t slot;
    (void)state;
    assert_int_equal(topology_graph_read("g", text, sizeof text - 1, NULL, 0, &file, &why), BASE_OK);
    options.graph = file;
    fill(view, MEMBERS);
    assert_int_equal(node_graph_neighbours(&options, view, 9, &self, out, &count, &slot), BASE_OK);
    assert_int_equal(count, 2);
    assert_true(number_of(&out[0]) == 0 && number_of(&out[1]) == 2);
    view[2] = view[8]; // node-2 is gone
    assert_int_equal(node_graph_neighbours(&options, view, 8, &self, out, &count, &slot), BASE_OK);
    assert_int_equal(count, 2);
    assert_true(number_of(&out[0]) == 0 && number_of(&out[1]) == 3);
    self = id_of(5); // a stranger to the file
    assert_int_equal(node_graph_neighbours(&options, view, 8, &self, out, &count, &slot), BASE_OK);
    assert_int_equal(count, 0);
    topology_graph_destroy(file);
}

struct model { // what the changes told add up to, and what they should
    struct node_graph *graph;
    enum topology_kind kind;
    struct topology_member view[MEMBERS];
    size_t n;
    bool linked[MEMBERS], up[MEMBERS];
};

static void drain(struct model *model)
{
    struct node_graph_change change;
    struct gossip_id out[NODE_GRAPH_NEIGHBOURS];
    bool is_neighbour[MEMBERS] = {false};
    uint32_t slot;
    size_t count = neighbours(model->kind, model->view, model->n, 0, out, &slot);
    for (size_t i = 0; i < count; i++)
        is_neighbour[number_of(&out[i])] = true;
    for (size_t told = 0; node_graph_next(model->graph, &change); told++) {
        size_t peer = number_of(&change.peer);
        assert_true(told < MEMBERS);
        assert_true(model->up[peer] != change.up);
        model->up[peer] = change.up;
    }
    for (size_t i = 1; i < MEMBERS; i++) {
        struct gossip_id peer = id_of(i);
        bool member = false;
        for (size_t j = 0; j < model->n; j++)
            member |= memcmp(model->view[j].id, peer.bytes, sizeof peer.bytes) == 0;
        assert_int_equal(model->up[i], model->linked[i] && is_neighbour[i]);
        assert_int_equal(node_graph_has(model->graph, &peer), member);
        assert_int_equal(node_graph_is_stranger(model->graph, &peer), member && !is_neighbour[i]);
    }
    for (uint64_t round = 1; round < 12; round++) {
        struct gossip_id partner;
        float weight = 0;
        if (node_graph_partner(model->graph, round, &partner, &weight))
            assert_true(is_neighbour[number_of(&partner)] && weight == 0.5f);
    }
}

static void change_view(struct model *model, struct base_rng *rng)
{
    uint32_t order[MEMBERS];
    for (uint32_t i = 0; i < MEMBERS; i++)
        order[i] = i;
    base_rng_shuffle(rng, order, MEMBERS);
    model->n = base_rng_below(rng, MEMBERS + 1);
    for (size_t i = 0; i < model->n; i++)
        model->view[i] = member_of(order[i]);
    assert_int_equal(node_graph_view(model->graph, model->view, model->n), BASE_OK);
}

static void changes_add_up(void **state)
{
    const char *given = getenv("P2PML_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    struct base_rng rng;
    (void)state;
    printf("seed %llu (set P2PML_SEED to replay another)\n", (unsigned long long)seed);
    base_rng_seed(&rng, seed);
    for (int trial = 0; trial < 40; trial++) {
        struct model model = {.kind = (enum topology_kind)(trial % 3)};
        struct topology_options options = options_of(model.kind);
        struct gossip_id self = id_of(0);
        assert_int_equal(node_graph_create(&options, &self, &model.graph), BASE_OK);
        for (int step = 0; step < 300; step++) {
            size_t peer = 1 + base_rng_below(&rng, MEMBERS - 1);
            struct gossip_id id = id_of(peer);
            if (base_rng_below(&rng, 8) == 0) {
                change_view(&model, &rng);
            } else if (base_rng_below(&rng, 2)) {
                assert_int_equal(node_graph_link(model.graph, &id), BASE_OK);
                model.linked[peer] = true;
                model.up[peer] = false; // whatever edge there was begins anew
            } else {
                node_graph_unlink(model.graph, &id);
                model.linked[peer] = false;
            }
            if (base_rng_below(&rng, 4)) // several changes may come before they are asked for
                drain(&model);
        }
        node_graph_destroy(model.graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_fit_for_every_number_of_members),
        cmocka_unit_test(everybody_is_at_most_65),
        cmocka_unit_test(what_cannot_be_changes_nothing),
        cmocka_unit_test(without_a_place_in_the_view_there_is_nobody),
        cmocka_unit_test(a_link_that_replaces_another_comes_up_anew),
        cmocka_unit_test(weights_are_mutual_and_exact),
        cmocka_unit_test(only_leaders_leave_their_group),
        cmocka_unit_test(a_file_is_for_those_whom_it_names),
        cmocka_unit_test(changes_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
