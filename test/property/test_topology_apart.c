// Members that have direct links only with open ones meet open ones, as far as there are enough; and little
// changes when one member is reached in another way.
#include "topology_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST = 70, TRIALS = 300 };

static uint64_t seed;

static int read_seed(void **state)
{
    (void)state;
    seed = world_seed(20261130);
    return 0;
}

static bool are_direct(const struct topology_member *a, const struct topology_member *b)
{
    return (a->access != TOPOLOGY_HARD && b->access != TOPOLOGY_HARD) || a->access == TOPOLOGY_OPEN ||
           b->access == TOPOLOGY_OPEN;
}

static bool edges_of(const struct topology_options *options, const struct topology_member *members, size_t n,
                     bool edge[MOST][MOST])
{
    struct topology_plan *plan = world_plan(options, members, n);
    const bool connected = world_reach(plan) == n;
    memset(edge, 0, MOST * sizeof *edge);
    for (size_t i = 0; i < n; i++) {
        size_t peers[MOST], count = topology_plan_neighbours(plan, i, peers, MOST);
        for (size_t p = 0; p < count; p++)
            edge[i][peers[p]] = true;
    }
    topology_plan_destroy(plan);
    return connected;
}

struct edges {
    size_t all, relayed;
};

static struct edges count(const struct topology_member *members, size_t n, bool edge[MOST][MOST])
{
    struct edges edges = {0};
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < a; b++) {
            edges.all += edge[a][b];
            edges.relayed += edge[a][b] && !are_direct(&members[a], &members[b]);
        }
    return edges;
}

struct numbers {
    size_t open, hard, usual;
};

static struct numbers draw_access(struct base_rng *rng, struct topology_member *members, size_t n)
{
    struct numbers numbers = {0};
    const uint64_t weight[] = {base_rng_below(rng, 4), base_rng_below(rng, 4), base_rng_below(rng, 4)};
    for (size_t i = 0; i < n; i++) {
        uint64_t at = base_rng_below(rng, weight[0] + weight[1] + weight[2] + 1);
        members[i].access = at < weight[0]               ? TOPOLOGY_OPEN
                            : at < weight[0] + weight[1] ? TOPOLOGY_HARD
                                                         : TOPOLOGY_USUAL;
        numbers.open += members[i].access == TOPOLOGY_OPEN;
        numbers.hard += members[i].access == TOPOLOGY_HARD;
    }
    numbers.usual = n - numbers.open - numbers.hard;
    return numbers;
}

// The fewest edges of a ring that cannot be direct: hard members stand in the gaps between open ones, one gap
// stays to the usual ones, and in a gap of k hard ones k - 1 edges are relayed.
static size_t fewest(struct numbers numbers)
{
    const size_t gaps = numbers.open - (numbers.usual > 0);
    return numbers.hard > gaps ? numbers.hard - gaps : 0;
}

static void no_order_of_a_ring_has_fewer_relayed_edges(void **state)
{
    struct base_rng rng;
    struct topology_member members[MOST];
    static bool edge[MOST][MOST];
    size_t mended = 0;
    (void)state;
    base_rng_seed(&rng, seed);
    for (size_t trial = 0; trial < 20 * TRIALS; trial++) {
        const size_t n = 3 + trial % (MOST - 2);
        const struct topology_options options = {.kind = TOPOLOGY_RING, .seed = base_rng_u64(&rng)};
        world_members(&rng, members, n);
        const struct numbers numbers = draw_access(&rng, members, n);
        assert_true(edges_of(&options, members, n, edge));
        if (numbers.open == 0 || numbers.hard == 0)
            continue;
        assert_int_equal(count(members, n, edge).relayed, fewest(numbers));
        mended++;
    }
    assert_true(mended > TRIALS);
}

// Nothing is moved where nothing is gained: without hard members, or without open ones.
static void without_hard_or_without_open_members_nothing_moves(void **state)
{
    struct base_rng rng;
    struct topology_member members[MOST];
    static bool edge[MOST][MOST], plain[MOST][MOST];
    (void)state;
    base_rng_seed(&rng, seed);
    for (int kind = 0; kind < TOPOLOGY_FILE; kind++)
        for (size_t n = 1; n <= MOST; n++) {
            const enum topology_access but = n % 2 ? TOPOLOGY_HARD : TOPOLOGY_OPEN;
            const struct topology_options options = {
                .kind = (enum topology_kind)kind, .seed = base_rng_u64(&rng), .rings = 2};
            world_members(&rng, members, n);
            edges_of(&options, members, n, plain);
            for (size_t i = 0; i < n; i++)
                members[i].access = base_rng_below(&rng, 2) ? TOPOLOGY_USUAL
                                    : but == TOPOLOGY_HARD  ? TOPOLOGY_OPEN
                                                            : TOPOLOGY_HARD;
            edges_of(&options, members, n, edge);
            assert_memory_equal(edge, plain, sizeof edge);
        }
}

static void every_kind_stays_connected_and_knows_no_order(void **state)
{
    struct base_rng rng;
    struct topology_member members[MOST], shuffled[MOST];
    static bool edge[MOST][MOST], other[MOST][MOST];
    uint32_t who[MOST];
    (void)state;
    base_rng_seed(&rng, seed);
    for (int kind = 0; kind < TOPOLOGY_FILE; kind++)
        for (size_t n = 1; n <= MOST; n++) {
            const struct topology_options options = {
                .kind = (enum topology_kind)kind, .seed = base_rng_u64(&rng), .rings = 1 + (unsigned)n % 4};
            world_members(&rng, members, n);
            (void)draw_access(&rng, members, n);
            for (size_t i = 0; i < n; i++)
                who[i] = (uint32_t)i;
            base_rng_shuffle(&rng, who, n);
            for (size_t i = 0; i < n; i++)
                shuffled[i] = members[who[i]];
            assert_true(edges_of(&options, members, n, edge));
            assert_true(edges_of(&options, shuffled, n, other));
            for (size_t a = 0; a < n; a++)
                for (size_t b = 0; b < n; b++)
                    assert_int_equal(other[a][b], edge[who[a]][who[b]]);
        }
}

static void the_hub_of_a_star_is_open_if_some_are_hard(void **state)
{
    struct base_rng rng;
    struct topology_member members[MOST];
    static bool edge[MOST][MOST];
    (void)state;
    base_rng_seed(&rng, seed);
    for (size_t trial = 0; trial < TRIALS; trial++) {
        const size_t n = 2 + trial % (MOST - 1);
        const struct topology_options options = {.kind = TOPOLOGY_STAR, .seed = base_rng_u64(&rng)};
        world_members(&rng, members, n);
        const struct numbers numbers = draw_access(&rng, members, n);
        assert_true(edges_of(&options, members, n, edge));
        if (numbers.open > 0 && numbers.hard > 0)
            assert_int_equal(count(members, n, edge).relayed, 0);
    }
}

// Who has a slot keeps it, however it is reached: a butterfly is laid out once.
static void a_claimed_slot_does_not_depend_on_how_a_member_is_reached(void **state)
{
    struct base_rng rng;
    struct topology_member members[MOST];
    (void)state;
    base_rng_seed(&rng, seed);
    for (size_t n = 1; n <= MOST; n++) {
        const struct topology_options options = {.kind = TOPOLOGY_BUTTERFLY, .seed = base_rng_u64(&rng)};
        world_members(&rng, members, n);
        (void)draw_access(&rng, members, n);
        struct topology_plan *plan = world_plan(&options, members, n), *after;
        for (size_t i = 0; i < n; i += 1 + base_rng_below(&rng, 2)) // some have claimed
            members[i].slot = topology_plan_slot(plan, i);
        after = world_plan(&options, members, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(topology_plan_slot(after, i), topology_plan_slot(plan, i));
            members[i].slot = topology_plan_slot(plan, i);
        }
        topology_plan_destroy(after);
        (void)draw_access(&rng, members, n);
        after = world_plan(&options, members, n);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(topology_plan_slot(after, i), members[i].slot);
        topology_plan_destroy(after);
        topology_plan_destroy(plan);
    }
}

// -- figures

// What stands before a node, as in test/e2e/netns.py. A router that gives each connection another port is
// symmetric; who has a full cone can be called.
struct home {
    const char *name;
    size_t count;
    enum topology_access kinds[5];
};
static const struct home homes[] = {
    {"full cone", 1, {TOPOLOGY_OPEN}},
    {"port-restricted, firewall or double", 1, {TOPOLOGY_USUAL}},
    {"symmetric", 1, {TOPOLOGY_HARD}},
    {"the five in turn", 5, {TOPOLOGY_OPEN, TOPOLOGY_USUAL, TOPOLOGY_HARD, TOPOLOGY_USUAL, TOPOLOGY_USUAL}}};

static void draw_homes(struct base_rng *rng, struct topology_member *members, size_t n, size_t open,
                       const struct home *home)
{
    enum topology_access all[MOST];
    uint32_t who[MOST];
    for (size_t i = 0; i < n; i++) {
        all[i] = i < open ? TOPOLOGY_OPEN : home->kinds[(i - open) % home->count];
        who[i] = (uint32_t)i;
    }
    base_rng_shuffle(rng, who, n);
    world_members(rng, members, n);
    for (size_t i = 0; i < n; i++)
        members[i].access = all[who[i]];
}

struct share {
    double before, after; // direct edges, percent
};

static struct share share_of(enum topology_kind kind, size_t n, size_t open, const struct home *home)
{
    struct base_rng rng;
    struct topology_member members[MOST], plain[MOST];
    static bool edge[MOST][MOST];
    struct edges before = {0}, after = {0};
    base_rng_seed(&rng, seed);
    for (size_t trial = 0; trial < TRIALS; trial++) {
        const struct topology_options options = {.kind = kind, .seed = base_rng_u64(&rng), .rings = 2};
        draw_homes(&rng, members, n, open, home);
        memcpy(plain, members, sizeof plain);
        for (size_t i = 0; i < n; i++)
            plain[i].access = TOPOLOGY_USUAL;
        assert_true(edges_of(&options, plain, n, edge));
        const struct edges was = count(members, n, edge);
        assert_true(edges_of(&options, members, n, edge));
        const struct edges is = count(members, n, edge);
        before = (struct edges){before.all + was.all, before.relayed + was.relayed};
        after = (struct edges){after.all + is.all, after.relayed + is.relayed};
    }
    return (struct share){100 - 100 * (double)before.relayed / (double)before.all,
                          100 - 100 * (double)after.relayed / (double)after.all};
}

static void with_half_of_the_members_open_all_edges_are_direct(void **state)
{
    static const enum topology_kind kinds[] = {TOPOLOGY_RING, TOPOLOGY_RANDOM, TOPOLOGY_BUTTERFLY,
                                               TOPOLOGY_STAR};
    (void)state;
    for (size_t n = 12; n <= 16; n += 4)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (size_t open = 0; open <= n / 2; open += open ? n / 2 - 1 : 1)
                for (size_t h = 0; h < sizeof homes / sizeof *homes; h++) {
                    const struct share share = share_of(kinds[k], n, open, &homes[h]);
                    print_message("%s of %zu, %zu public, others %s: direct %.1f%%, before %.1f%%\n",
                                  topology_kind_name(kinds[k]), n, open, homes[h].name, share.after,
                                  share.before);
                    assert_true(share.after >= share.before - 0.5);
                    if (open == n / 2 && (kinds[k] != TOPOLOGY_BUTTERFLY || n == 16))
                        assert_true(share.after > 99.99);
                }
}

struct moved {
    size_t torn, most; // edges between members that stay
};

static void compare(bool before[MOST][MOST], bool after[MOST][MOST], size_t but, struct moved *moved)
{
    size_t torn = 0;
    for (size_t a = 0; a < MOST; a++)
        for (size_t b = 0; b < a; b++)
            torn += a != but && b != but && before[a][b] && !after[a][b];
    moved->torn += torn;
    moved->most = torn > moved->most ? torn : moved->most;
}

static void end_one(struct base_rng *rng, struct topology_options *options, const struct home *home, size_t n,
                    size_t open, struct moved *deaths, struct moved *changes)
{
    struct topology_member members[MOST], without[MOST];
    static bool before[MOST][MOST], after[MOST][MOST], closed[MOST][MOST];
    const size_t one = base_rng_below(rng, n);
    options->seed = base_rng_u64(rng);
    draw_homes(rng, members, n, open, home);
    edges_of(options, members, n, before);
    for (size_t i = 0; i + 1 < n; i++)
        without[i] = members[i < one ? i : i + 1];
    edges_of(options, without, n - 1, closed);
    memset(after, 0, sizeof after);
    for (size_t a = 0; a + 1 < n; a++)
        for (size_t b = 0; b + 1 < n; b++)
            after[a < one ? a : a + 1][b < one ? b : b + 1] = closed[a][b];
    compare(before, after, one, deaths);
    members[one].access = (members[one].access + 1 + (enum topology_access)base_rng_below(rng, 2)) % 3;
    edges_of(options, members, n, after);
    compare(before, after, MOST, changes);
}

// Edges that end when one member dies (without hard members: none), or is reached in another way. The limit
// is that of a butterfly, in which a death ends 2 and makes 6.
static void one_member_moves_few_edges(void **state)
{
    (void)state;
    for (size_t n = 12; n <= 64; n += n == 12 ? 4 : 48)
        for (size_t open = 1; open <= n / 2; open += n / 2 - 1)
            for (size_t h = 0; h < sizeof homes / sizeof *homes; h++) {
                struct topology_options options = {.kind = TOPOLOGY_RING};
                struct moved deaths = {0}, changes = {0};
                struct base_rng rng;
                base_rng_seed(&rng, seed);
                for (size_t trial = 0; trial < TRIALS; trial++)
                    end_one(&rng, &options, &homes[h], n, open, &deaths, &changes);
                const double ended = (double)deaths.torn / TRIALS, changed = (double)changes.torn / TRIALS;
                print_message("ring of %zu, %zu public, others %s: a death ends %.1f edges, %zu at most; a "
                              "change %.1f, %zu at most\n",
                              n, open, homes[h].name, ended, deaths.most, changed, changes.most);
                assert_true(ended <= 3.0 + (double)n / 16);
                assert_true(changed <= 5.0 + (double)n / 8);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_order_of_a_ring_has_fewer_relayed_edges),
        cmocka_unit_test(without_hard_or_without_open_members_nothing_moves),
        cmocka_unit_test(every_kind_stays_connected_and_knows_no_order),
        cmocka_unit_test(the_hub_of_a_star_is_open_if_some_are_hard),
        cmocka_unit_test(a_claimed_slot_does_not_depend_on_how_a_member_is_reached),
        cmocka_unit_test(with_half_of_the_members_open_all_edges_are_direct),
        cmocka_unit_test(one_member_moves_few_edges),
    };
    return cmocka_run_group_tests(tests, read_seed, NULL);
}
