// What deaths and joins change: rings remove no edge between survivors, slots stay, and the graph stays
// connected.
#include "topology_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ROSTER = 72, TRIALS = 6, STEPS = 250 };

static uint64_t seed;

static int read_seed(void **state)
{
    (void)state;
    seed = world_seed(20260131);
    return 0;
}

struct graph { // of the members of one view, by their place in the roster
    bool edge[ROSTER][ROSTER];
    uint32_t slot[ROSTER];
    size_t slots; // highest slot + 1
};

struct members {
    struct base_rng rng;
    struct topology_options options;
    struct topology_member roster[ROSTER];
    bool alive[ROSTER];
    size_t n;
    struct graph now;
};

// The graph of the living members, given in `order`; checks that it is connected.
static void look(const struct members *members, const uint32_t *order, struct graph *graph)
{
    struct topology_member view[ROSTER];
    uint32_t who[ROSTER];
    size_t n = 0, peers[64];
    for (size_t i = 0; i < ROSTER; i++)
        if (members->alive[order[i]]) {
            who[n] = order[i];
            view[n++] = members->roster[order[i]];
        }
    *graph = (struct graph){.slots = 0};
    if (n == 0)
        return;
    struct topology_plan *plan = world_plan(&members->options, view, n);
    assert_int_equal(world_reach(plan), n);
    for (size_t i = 0; i < n; i++) {
        size_t count = topology_plan_neighbours(plan, i, peers, 64);
        for (size_t p = 0; p < count; p++)
            graph->edge[who[i]][who[peers[p]]] = true;
        uint32_t slot = topology_plan_slot(plan, i);
        graph->slot[who[i]] = slot;
        if (slot != TOPOLOGY_NO_SLOT && slot >= graph->slots)
            graph->slots = slot + 1u;
    }
    topology_plan_destroy(plan);
}

// Looks in two orders, which must give the same graph.
static void look_twice(struct members *members, struct graph *graph)
{
    uint32_t order[ROSTER];
    struct graph other;
    for (uint32_t i = 0; i < ROSTER; i++)
        order[i] = i;
    look(members, order, graph);
    base_rng_shuffle(&members->rng, order, ROSTER);
    look(members, order, &other);
    assert_memory_equal(graph, &other, sizeof other);
}

// Every living member claims the slot of the plan, and that changes nothing.
static void claim(struct members *members)
{
    struct graph after;
    for (size_t i = 0; i < ROSTER; i++)
        if (members->alive[i])
            members->roster[i].slot = members->now.slot[i];
    look_twice(members, &after);
    assert_memory_equal(&after, &members->now, sizeof after);
}

static void begin(struct members *members, enum topology_kind kind, uint64_t trial, size_t n)
{
    *members = (struct members){.options = {.kind = kind, .rings = 2 + (unsigned)trial % 2}, .n = n};
    base_rng_seed_stream(&members->rng, seed, trial);
    members->options.seed = base_rng_u64(&members->rng);
    world_members(&members->rng, members->roster, ROSTER);
    for (size_t i = 0; i < n; i++)
        members->alive[i] = true;
    look_twice(members, &members->now);
    claim(members);
}

// Keeps about half the roster alive.
static bool grows(struct members *members)
{
    return members->n < 2 || (members->n < ROSTER - 1 && base_rng_below(&members->rng, ROSTER) >= members->n);
}

// Usually one, sometimes up to a quarter at once.
static size_t how_many_die(struct members *members)
{
    return base_rng_below(&members->rng, 8) ? 1 : 1 + base_rng_below(&members->rng, members->n / 4 + 1);
}

static size_t pick(struct members *members, bool alive)
{
    size_t at;
    do
        at = base_rng_below(&members->rng, ROSTER);
    while (members->alive[at] != alive);
    return at;
}

static void kill_one(struct members *members)
{
    members->alive[pick(members, true)] = false;
    members->n--;
}

// A member that comes back has forgotten its slot.
static size_t join_one(struct members *members)
{
    size_t who = pick(members, false);
    members->alive[who] = true;
    members->n++;
    members->roster[who].slot = TOPOLOGY_NO_SLOT;
    return who;
}

struct difference {
    size_t torn, fresh; // edges between members that are in both graphs
};

static struct difference compare(const struct members *members, const bool *was, const struct graph *before,
                                 const struct graph *after)
{
    struct difference difference = {0, 0};
    for (size_t a = 0; a < ROSTER; a++)
        for (size_t b = a + 1; b < ROSTER; b++)
            if (was[a] && was[b] && members->alive[a] && members->alive[b]) {
                difference.torn += before->edge[a][b] && !after->edge[a][b];
                difference.fresh += !before->edge[a][b] && after->edge[a][b];
            }
    return difference;
}

static size_t degree(const struct graph *graph, size_t member)
{
    size_t count = 0;
    for (size_t i = 0; i < ROSTER; i++)
        count += graph->edge[member][i];
    return count;
}

static void ring_death(struct members *members, size_t rings, size_t deaths, size_t *fresh_edges)
{
    struct graph before = members->now;
    bool was[ROSTER];
    memcpy(was, members->alive, sizeof was);
    for (size_t i = 0; i < deaths; i++)
        kill_one(members);
    for (size_t i = 0; i < ROSTER; i++)
        assert_true(degree(&before, i) <= 2 * rings);
    look_twice(members, &members->now);
    struct difference difference = compare(members, was, &before, &members->now);
    assert_int_equal(difference.torn, 0);
    assert_true(difference.fresh <= deaths * rings);
    if (rings == 1 && deaths == 1)
        assert_int_equal(difference.fresh,
                         members->n > 2); // of three members, both neighbours already know each other
    *fresh_edges += difference.fresh;
}

static void ring_join(struct members *members, size_t rings)
{
    struct graph before = members->now;
    bool was[ROSTER];
    memcpy(was, members->alive, sizeof was);
    size_t who = join_one(members);
    look_twice(members, &members->now);
    struct difference difference = compare(members, was, &before, &members->now);
    assert_int_equal(difference.fresh, 0);
    assert_true(difference.torn <= rings);
    if (rings == 1)
        assert_int_equal(difference.torn, members->n > 3);
    for (size_t a = 0; a < ROSTER; a++)
        for (size_t b = 0; b < ROSTER; b++)
            if (before.edge[a][b] && !members->now.edge[a][b]) // split by the joiner
                assert_true(members->now.edge[a][who] && members->now.edge[b][who]);
}

static void rings_remove_only_the_edge_that_a_joiner_splits(void **state)
{
    struct members members;
    (void)state;
    for (uint64_t trial = 0; trial < 2 * TRIALS; trial++) {
        enum topology_kind kind = trial % 2 ? TOPOLOGY_RANDOM : TOPOLOGY_RING;
        size_t deaths = 0, fresh = 0;
        begin(&members, kind, trial / 2, 1 + trial * 5);
        size_t rings = kind == TOPOLOGY_RING ? 1 : members.options.rings;
        for (int step = 0; step < STEPS; step++) {
            size_t dying = grows(&members) ? 0 : how_many_die(&members);
            deaths += dying;
            if (dying)
                ring_death(&members, rings, dying, &fresh);
            else
                ring_join(&members, rings);
        }
        print_message("%s, %zu rings: %zu deaths, %zu new edges, none torn\n", topology_kind_name(kind),
                      rings, deaths, fresh);
    }
}

static size_t lowest_vacancy(const struct members *members, const struct graph *graph, size_t but)
{
    for (size_t slot = 0;; slot++) {
        bool taken = slot == but;
        for (size_t i = 0; i < ROSTER; i++)
            taken |= members->alive[i] && graph->slot[i] == slot;
        if (!taken)
            return slot;
    }
}

struct tally {
    size_t compactions, singles; // deaths one at a time, without compaction, and what they cost
    struct difference edges;
};

// The survivors keep their slots unless more than a third are vacant: then members in slots from n on move
// down.
static void butterfly_death(struct members *members, size_t deaths, struct tally *tally)
{
    struct graph before = members->now;
    bool was[ROSTER];
    size_t highest = 0;
    memcpy(was, members->alive, sizeof was);
    for (size_t i = 0; i < deaths; i++)
        kill_one(members);
    for (size_t i = 0; i < ROSTER; i++)
        if (members->alive[i] && before.slot[i] + 1u > highest)
            highest = before.slot[i] + 1u;
    bool due = 3 * (highest - members->n) > highest;
    look_twice(members, &members->now);
    for (size_t i = 0; i < ROSTER; i++)
        if (members->alive[i] && (!due || before.slot[i] < members->n))
            assert_int_equal(members->now.slot[i], before.slot[i]);
    assert_int_equal(members->now.slots, due ? members->n : highest);
    tally->compactions += due;
    if (deaths == 1 && !due) {
        struct difference cost = compare(members, was, &before, &members->now);
        tally->singles++;
        tally->edges.torn += cost.torn;
        tally->edges.fresh += cost.fresh;
    }
    claim(members);
}

static void only_these_moved(const struct members *members, const struct graph *before, size_t a, size_t b)
{
    for (size_t i = 0; i < ROSTER; i++)
        if (members->alive[i] && i != a && i != b)
            assert_int_equal(members->now.slot[i], before->slot[i]);
}

static void butterfly_join(struct members *members)
{
    struct graph before = members->now;
    size_t vacancy = lowest_vacancy(members, &before, SIZE_MAX), who = join_one(members);
    look_twice(members, &members->now);
    assert_int_equal(members->now.slot[who], vacancy);
    only_these_moved(members, &before, who, who);
    claim(members);
}

// Two members join at two ends of a cluster, before each has heard of the other.
static void butterfly_join_twins(struct members *members)
{
    struct graph before = members->now;
    size_t vacancy = lowest_vacancy(members, &before, SIZE_MAX),
           next = lowest_vacancy(members, &before, vacancy);
    size_t a = join_one(members), b = join_one(members);
    members->roster[a].slot = members->roster[b].slot = (uint32_t)vacancy;
    look_twice(members, &members->now);
    bool a_first = memcmp(members->roster[a].id, members->roster[b].id, sizeof members->roster[a].id) < 0;
    assert_int_equal(members->now.slot[a_first ? a : b], vacancy);
    assert_int_equal(members->now.slot[a_first ? b : a], next);
    only_these_moved(members, &before, a, b);
    claim(members);
}

static void butterfly_slots_stay_and_vacancies_are_filled(void **state)
{
    struct members members;
    struct tally tally = {0};
    size_t twins = 0;
    (void)state;
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        begin(&members, TOPOLOGY_BUTTERFLY, trial, 1 + trial * 14);
        for (int step = 0; step < STEPS; step++) {
            if (!grows(&members))
                butterfly_death(&members, step % 32 ? how_many_die(&members) : members.n - members.n / 3,
                                &tally);
            else if (base_rng_below(&members.rng, 4) == 0 && ++twins)
                butterfly_join_twins(&members);
            else
                butterfly_join(&members);
        }
    }
    print_message("%zu compactions, %zu pairs of joiners for one slot; a single death without compaction: "
                  "%.1f edges torn, %.1f new ones\n",
                  tally.compactions, twins, (double)tally.edges.torn / (double)tally.singles,
                  (double)tally.edges.fresh / (double)tally.singles);
    assert_true(tally.compactions > 0 && tally.singles > 0 && twins > 0);
}

static void a_new_cluster_takes_slots_in_the_order_of_the_ring(void **state)
{
    struct members members;
    struct topology_member view[ROSTER];
    uint32_t order[ROSTER];
    (void)state;
    for (size_t n = 1; n <= ROSTER; n++) {
        begin(&members, TOPOLOGY_BUTTERFLY, n, n);
        memcpy(view, members.roster, sizeof view);
        assert_int_equal(topology_ring_order(members.options.seed, 0, view, n, order), BASE_OK);
        for (size_t at = 0; at < n; at++)
            assert_int_equal(members.now.slot[order[at]], at);
    }
}

static void claim_anything(struct members *members)
{
    for (size_t i = 0; i < ROSTER; i++) {
        static const uint32_t bounds[] = {4, ROSTER / 2, ROSTER, 2 * ROSTER, 5 * LIMIT_MEMBERS};
        uint32_t bound = bounds[base_rng_below(&members->rng, sizeof bounds / sizeof bounds[0])];
        members->roster[i].slot = (uint32_t)base_rng_below(&members->rng, bound);
    }
}

// Whatever is claimed, every member gets its own slot and no more than a third are vacant. If the members
// then claim their slots one after another, the slots settle.
static void any_claims_settle(void **state)
{
    struct members members;
    size_t most = 0;
    (void)state;
    for (uint64_t trial = 0; trial < 40; trial++) {
        uint32_t order[ROSTER];
        begin(&members, TOPOLOGY_BUTTERFLY, trial, 1 + (size_t)trial * 7 % ROSTER);
        claim_anything(&members);
        size_t changes = 0, quiet = 0;
        while (quiet < ROSTER) { // until a whole turn has changed nothing
            for (uint32_t i = 0; i < ROSTER; i++)
                order[i] = i;
            base_rng_shuffle(&members.rng, order, ROSTER);
            for (size_t i = 0; i < ROSTER && quiet < ROSTER; i++, quiet++) {
                look_twice(&members, &members.now);
                assert_true(3 * (members.now.slots - members.n) <= members.now.slots);
                if (!members.alive[order[i]] || members.roster[order[i]].slot == members.now.slot[order[i]])
                    continue;
                members.roster[order[i]].slot = members.now.slot[order[i]];
                changes++;
                quiet = 0;
            }
        }
        assert_true(changes <= 2 * members.n);
        most = changes > most ? changes : most;
        for (size_t i = 0; i < ROSTER; i++)
            for (size_t j = 0; j < i; j++)
                assert_true(!members.alive[i] || !members.alive[j] ||
                            members.now.slot[i] != members.now.slot[j]);
        claim(&members);
    }
    print_message("at most %zu claims until the slots settled\n", most);
}

static void an_implausible_claim_is_ignored(void **state)
{
    struct members members;
    struct graph plain;
    (void)state;
    begin(&members, TOPOLOGY_BUTTERFLY, 3, 20);
    members.roster[7].slot = TOPOLOGY_NO_SLOT;
    look_twice(&members, &plain);
    members.roster[7].slot = TOPOLOGY_SLOTS_MAX;
    look_twice(&members, &members.now);
    assert_memory_equal(&plain, &members.now, sizeof plain);
    members.roster[7].slot = TOPOLOGY_SLOTS_MAX - 1; // it counts, and is compacted into the slot that it left
    look_twice(&members, &members.now);
    assert_memory_equal(&plain, &members.now, sizeof plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_remove_only_the_edge_that_a_joiner_splits),
        cmocka_unit_test(butterfly_slots_stay_and_vacancies_are_filled),
        cmocka_unit_test(a_new_cluster_takes_slots_in_the_order_of_the_ring),
        cmocka_unit_test(any_claims_settle),
        cmocka_unit_test(an_implausible_claim_is_ignored),
    };
    return cmocka_run_group_tests(tests, read_seed, NULL);
}
