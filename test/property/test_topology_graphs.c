// The graphs of the kinds that do not change over time, compared with their definitions.
#include "topology_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MOST 70u

static uint64_t seed;

static int read_seed(void **state)
{
    (void)state;
    seed = world_seed(20261121);
    return 0;
}

// Whether `mate` is a neighbour of `self` in this kind, both as positions among n.
typedef bool rule(size_t n, size_t self, size_t mate);

static void check_graph(enum topology_kind kind, size_t n, rule *joined)
{
    struct topology_options options = {.kind = kind, .seed = seed + n};
    struct topology_member members[MOST];
    struct base_rng rng;
    uint32_t order[MOST];
    base_rng_seed_stream(&rng, seed, n);
    world_members(&rng, members, n);
    assert_int_equal(topology_ring_order(options.seed, 0, members, n, order), BASE_OK);
    struct topology_plan *plan = world_plan(&options, members, n);
    for (size_t self = 0; self < n; self++) {
        bool is[MOST] = {false};
        size_t peers[MOST], count = topology_plan_neighbours(plan, order[self], peers, MOST);
        for (size_t i = 0; i < count; i++)
            is[peers[i]] = true;
        for (size_t mate = 0; mate < n; mate++)
            assert_int_equal(is[order[mate]], mate != self && joined(n, self, mate));
    }
    topology_plan_destroy(plan);
}

// The most square s x t with 3 <= s <= t, or 0.
static size_t rows_of(size_t n)
{
    for (size_t s = n; s >= 3; s--)
        if (s * s <= n && n % s == 0)
            return s;
    return 0;
}

static bool joined_on_a_torus(size_t n, size_t self, size_t mate)
{
    size_t rows = rows_of(n);
    if (rows == 0) { // one row that wraps around
        size_t s = 1, apart = (mate + n - self) % n;
        while ((s + 1) * (s + 1) <= n)
            s++;
        return apart == 1 || apart == n - 1 || apart == s % n || apart == (n - s) % n;
    }
    size_t columns = n / rows;
    size_t down = (mate / columns + rows - self / columns) % rows;
    size_t right = (mate % columns + columns - self % columns) % columns;
    return (down == 0 && (right == 1 || right == columns - 1)) ||
           (right == 0 && (down == 1 || down == rows - 1));
}

static void a_torus_joins_rows_and_columns(void **state)
{
    (void)state;
    for (size_t n = 1; n <= MOST; n++)
        check_graph(TOPOLOGY_TORUS, n, joined_on_a_torus);
}

static void the_torus_of_each_number_of_members_is_the_most_square(void **state)
{
    (void)state;
    assert_int_equal(rows_of(16), 4);
    assert_int_equal(rows_of(24), 4);
    assert_int_equal(rows_of(21), 3);
    assert_int_equal(rows_of(22), 0);
    assert_int_equal(rows_of(23), 0);
    assert_int_equal(rows_of(8), 0);
}

static bool is_power(size_t offset)
{
    return offset && (offset & (offset - 1)) == 0;
}

static bool joined_exponentially(size_t n, size_t self, size_t mate)
{
    return is_power((mate + n - self) % n) || is_power((self + n - mate) % n);
}

static void exponential_graphs_join_powers_of_two(void **state)
{
    (void)state;
    for (size_t n = 1; n <= MOST; n++) {
        check_graph(TOPOLOGY_EXPONENTIAL, n, joined_exponentially);
        check_graph(TOPOLOGY_ONE_PEER, n, joined_exponentially);
    }
}

static bool joined_to_all(size_t n, size_t self, size_t mate)
{
    return self < n && mate < n;
}

static bool joined_to_the_hub(size_t n, size_t self, size_t mate)
{
    return n > 1 && (self == 0 || mate == 0);
}

static void complete_graphs_and_stars_follow_their_definitions(void **state)
{
    (void)state;
    for (size_t n = 1; n <= MOST; n++) {
        check_graph(TOPOLOGY_COMPLETE, n, joined_to_all);
        check_graph(TOPOLOGY_MATCHINGS, n, joined_to_all);
        check_graph(TOPOLOGY_STAR, n, joined_to_the_hub);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_torus_joins_rows_and_columns),
        cmocka_unit_test(exponential_graphs_join_powers_of_two),
        cmocka_unit_test(complete_graphs_and_stars_follow_their_definitions),
        cmocka_unit_test(the_torus_of_each_number_of_members_is_the_most_square),
    };
    return cmocka_run_group_tests(tests, read_seed, NULL);
}
