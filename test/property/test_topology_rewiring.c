// What deaths and joins cost: rings tear down no edge between survivors, slots stay, the graph stays whole.
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

struct graph { // what the members of one view come to, by their place in the roster
    bool edge[ROSTER][ROSTER];
    uint32_t slot[ROSTER];
    size_t slots; // highest slot + 1
};

struct swarm {
    struct base_rng rng;
    struct topology_options options;
    struct topology_member roster[ROSTER];
    bool alive[ROSTER];
    size_t n;
    struct graph now;
};

// The graph of those alive, given in `order`. Also: it is connected.
static void look(const struct swarm *swarm, const uint32_t *order, struct graph *graph)
{
    struct topology_member view[ROSTER];
    uint32_t who[ROSTER];
    size_t n = 0, peers[64];
    for (size_t i = 0; i < ROSTER; i++)
        if (swarm->alive[order[i]]) {
            who[n] = order[i];
            view[n++] = swarm->roster[order[i]];
        }
    *graph = (struct graph){.slots = 0};
    if (n == 0)
        return;
    struct topology_plan *plan = world_plan(&swarm->options, view, n);
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

// In two orders, which must not matter.
static void look_twice(struct swarm *swarm, struct graph *graph)
{
    uint32_t order[ROSTER];
    struct graph other;
    for (uint32_t i = 0; i < ROSTER; i++)
        order[i] = i;
    look(swarm, order, graph);
    base_rng_shuffle(&swarm->rng, order, ROSTER);
    look(swarm, order, &other);
    assert_memory_equal(graph, &other, sizeof other);
}

// Everybody alive claims what the plan says, and that changes nothing.
static void claim(struct swarm *swarm)
{
    struct graph after;
    for (size_t i = 0; i < ROSTER; i++)
        if (swarm->alive[i])
            swarm->roster[i].slot = swarm->now.slot[i];
    look_twice(swarm, &after);
    assert_memory_equal(&after, &swarm->now, sizeof after);
}

static void begin(struct swarm *swarm, enum topology_kind kind, uint64_t trial, size_t n)
{
    *swarm = (struct swarm){.options = {.kind = kind, .rings = 2 + (unsigned)trial % 2}, .n = n};
    base_rng_seed_stream(&swarm->rng, seed, trial);
    swarm->options.seed = base_rng_u64(&swarm->rng);
    world_members(&swarm->rng, swarm->roster, ROSTER);
    for (size_t i = 0; i < n; i++)
        swarm->alive[i] = true;
    look_twice(swarm, &swarm->now);
    claim(swarm);
}

// Balances around half the roster.
static bool grows(struct swarm *swarm)
{
    return swarm->n < 2 || (swarm->n < ROSTER - 1 && base_rng_below(&swarm->rng, ROSTER) >= swarm->n);
}

// One, and at times up to a quarter at once.
static size_t how_many_die(struct swarm *swarm)
{
    return base_rng_below(&swarm->rng, 8) ? 1 : 1 + base_rng_below(&swarm->rng, swarm->n / 4 + 1);
}

static size_t pick(struct swarm *swarm, bool alive)
{
    size_t at;
    do
        at = base_rng_below(&swarm->rng, ROSTER);
    while (swarm->alive[at] != alive);
    return at;
}

static void kill_one(struct swarm *swarm)
{
    swarm->alive[pick(swarm, true)] = false;
    swarm->n--;
}

// Whoever comes back has forgotten its slot.
static size_t join_one(struct swarm *swarm)
{
    size_t who = pick(swarm, false);
    swarm->alive[who] = true;
    swarm->n++;
    swarm->roster[who].slot = TOPOLOGY_NO_SLOT;
    return who;
}

struct difference {
    size_t torn, fresh; // edges between members that are in both graphs
};

static struct difference compare(const struct swarm *swarm, const bool *was, const struct graph *before,
                                 const struct graph *after)
{
    struct difference difference = {0, 0};
    for (size_t a = 0; a < ROSTER; a++)
        for (size_t b = a + 1; b < ROSTER; b++)
            if (was[a] && was[b] && swarm->alive[a] && swarm->alive[b]) {
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

static void ring_death(struct swarm *swarm, size_t rings, size_t deaths, size_t *fresh_edges)
{
    struct graph before = swarm->now;
    bool was[ROSTER];
    memcpy(was, swarm->alive, sizeof was);
    for (size_t i = 0; i < deaths; i++)
        kill_one(swarm);
    for (size_t i = 0; i < ROSTER; i++)
        assert_true(degree(&before, i) <= 2 * rings);
    look_twice(swarm, &swarm->now);
    struct difference difference = compare(swarm, was, &before, &swarm->now);
    assert_int_equal(difference.torn, 0);
    assert_true(difference.fresh <= deaths * rings);
    if (rings == 1 && deaths == 1)
        assert_int_equal(difference.fresh, swarm->n > 2); // of three, both neighbours know each other already
    *fresh_edges += difference.fresh;
}

static void ring_join(struct swarm *swarm, size_t rings)
{
    struct graph before = swarm->now;
    bool was[ROSTER];
    memcpy(was, swarm->alive, sizeof was);
    size_t who = join_one(swarm);
    look_twice(swarm, &swarm->now);
    struct difference difference = compare(swarm, was, &before, &swarm->now);
    assert_int_equal(difference.fresh, 0);
    assert_true(difference.torn <= rings);
    if (rings == 1)
        assert_int_equal(difference.torn, swarm->n > 3);
    for (size_t a = 0; a < ROSTER; a++)
        for (size_t b = 0; b < ROSTER; b++)
            if (before.edge[a][b] && !swarm->now.edge[a][b]) // split by the joiner
                assert_true(swarm->now.edge[a][who] && swarm->now.edge[b][who]);
}

static void rings_tear_down_only_what_a_joiner_splits(void **state)
{
    struct swarm swarm;
    (void)state;
    for (uint64_t trial = 0; trial < 2 * TRIALS; trial++) {
        enum topology_kind kind = trial % 2 ? TOPOLOGY_RANDOM : TOPOLOGY_RING;
        size_t deaths = 0, fresh = 0;
        begin(&swarm, kind, trial / 2, 1 + trial * 5);
        size_t rings = kind == TOPOLOGY_RING ? 1 : swarm.options.rings;
        for (int step = 0; step < STEPS; step++) {
            size_t dying = grows(&swarm) ? 0 : how_many_die(&swarm);
            deaths += dying;
            if (dying)
                ring_death(&swarm, rings, dying, &fresh);
            else
                ring_join(&swarm, rings);
        }
        print_message("%s, %zu rings: %zu deaths, %zu new edges, none torn\n", topology_kind_name(kind),
                      rings, deaths, fresh);
    }
}

static size_t lowest_vacancy(const struct swarm *swarm, const struct graph *graph, size_t but)
{
    for (size_t slot = 0;; slot++) {
        bool taken = slot == but;
        for (size_t i = 0; i < ROSTER; i++)
            taken |= swarm->alive[i] && graph->slot[i] == slot;
        if (!taken)
            return slot;
    }
}

struct tally {
    size_t compactions, singles; // deaths one at a time, without compaction, and what they cost
    struct difference edges;
};

// Slots of the survivors stay, unless more than a third are vacant: then those from n on move down.
static void butterfly_death(struct swarm *swarm, size_t deaths, struct tally *tally)
{
    struct graph before = swarm->now;
    bool was[ROSTER];
    size_t highest = 0;
    memcpy(was, swarm->alive, sizeof was);
    for (size_t i = 0; i < deaths; i++)
        kill_one(swarm);
    for (size_t i = 0; i < ROSTER; i++)
        if (swarm->alive[i] && before.slot[i] + 1u > highest)
            highest = before.slot[i] + 1u;
    bool due = 3 * (highest - swarm->n) > highest;
    look_twice(swarm, &swarm->now);
    for (size_t i = 0; i < ROSTER; i++)
        if (swarm->alive[i] && (!due || before.slot[i] < swarm->n))
            assert_int_equal(swarm->now.slot[i], before.slot[i]);
    assert_int_equal(swarm->now.slots, due ? swarm->n : highest);
    tally->compactions += due;
    if (deaths == 1 && !due) {
        struct difference cost = compare(swarm, was, &before, &swarm->now);
        tally->singles++;
        tally->edges.torn += cost.torn;
        tally->edges.fresh += cost.fresh;
    }
    claim(swarm);
}

static void only_these_moved(const struct swarm *swarm, const struct graph *before, size_t a, size_t b)
{
    for (size_t i = 0; i < ROSTER; i++)
        if (swarm->alive[i] && i != a && i != b)
            assert_int_equal(swarm->now.slot[i], before->slot[i]);
}

static void butterfly_join(struct swarm *swarm)
{
    struct graph before = swarm->now;
    size_t vacancy = lowest_vacancy(swarm, &before, SIZE_MAX), who = join_one(swarm);
    look_twice(swarm, &swarm->now);
    assert_int_equal(swarm->now.slot[who], vacancy);
    only_these_moved(swarm, &before, who, who);
    claim(swarm);
}

// Two who join at the two ends of a cluster, before each has heard of the other.
static void butterfly_join_twins(struct swarm *swarm)
{
    struct graph before = swarm->now;
    size_t vacancy = lowest_vacancy(swarm, &before, SIZE_MAX), next = lowest_vacancy(swarm, &before, vacancy);
    size_t a = join_one(swarm), b = join_one(swarm);
    swarm->roster[a].slot = swarm->roster[b].slot = (uint32_t)vacancy;
    look_twice(swarm, &swarm->now);
    bool a_first = memcmp(swarm->roster[a].id, swarm->roster[b].id, sizeof swarm->roster[a].id) < 0;
    assert_int_equal(swarm->now.slot[a_first ? a : b], vacancy);
    assert_int_equal(swarm->now.slot[a_first ? b : a], next);
    only_these_moved(swarm, &before, a, b);
    claim(swarm);
}

static void butterfly_slots_stay_and_vacancies_fill(void **state)
{
    struct swarm swarm;
    struct tally tally = {0};
    size_t twins = 0;
    (void)state;
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        begin(&swarm, TOPOLOGY_BUTTERFLY, trial, 1 + trial * 14);
        for (int step = 0; step < STEPS; step++) {
            if (!grows(&swarm))
                butterfly_death(&swarm, step % 32 ? how_many_die(&swarm) : swarm.n - swarm.n / 3, &tally);
            else if (base_rng_below(&swarm.rng, 4) == 0 && ++twins)
                butterfly_join_twins(&swarm);
            else
                butterfly_join(&swarm);
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
    struct swarm swarm;
    struct topology_member view[ROSTER];
    uint32_t order[ROSTER];
    (void)state;
    for (size_t n = 1; n <= ROSTER; n++) {
        begin(&swarm, TOPOLOGY_BUTTERFLY, n, n);
        memcpy(view, swarm.roster, sizeof view);
        assert_int_equal(topology_ring_order(swarm.options.seed, 0, view, n, order), BASE_OK);
        for (size_t at = 0; at < n; at++)
            assert_int_equal(swarm.now.slot[order[at]], at);
    }
}

static void claim_anything(struct swarm *swarm)
{
    for (size_t i = 0; i < ROSTER; i++) {
        static const uint32_t bounds[] = {4, ROSTER / 2, ROSTER, 2 * ROSTER, 5 * LIMIT_MEMBERS};
        uint32_t bound = bounds[base_rng_below(&swarm->rng, sizeof bounds / sizeof bounds[0])];
        swarm->roster[i].slot = (uint32_t)base_rng_below(&swarm->rng, bound);
    }
}

// Whatever is claimed: everybody gets a slot of its own, no more than a third are vacant, and what one member
// after another then claims, each at its own time, comes to rest.
static void any_claims_come_to_rest(void **state)
{
    struct swarm swarm;
    size_t most = 0;
    (void)state;
    for (uint64_t trial = 0; trial < 40; trial++) {
        uint32_t order[ROSTER];
        begin(&swarm, TOPOLOGY_BUTTERFLY, trial, 1 + (size_t)trial * 7 % ROSTER);
        claim_anything(&swarm);
        size_t changes = 0, quiet = 0;
        while (quiet < ROSTER) { // until a whole turn has changed nothing
            for (uint32_t i = 0; i < ROSTER; i++)
                order[i] = i;
            base_rng_shuffle(&swarm.rng, order, ROSTER);
            for (size_t i = 0; i < ROSTER && quiet < ROSTER; i++, quiet++) {
                look_twice(&swarm, &swarm.now);
                assert_true(3 * (swarm.now.slots - swarm.n) <= swarm.now.slots);
                if (!swarm.alive[order[i]] || swarm.roster[order[i]].slot == swarm.now.slot[order[i]])
                    continue;
                swarm.roster[order[i]].slot = swarm.now.slot[order[i]];
                changes++;
                quiet = 0;
            }
        }
        assert_true(changes <= 2 * swarm.n);
        most = changes > most ? changes : most;
        for (size_t i = 0; i < ROSTER; i++)
            for (size_t j = 0; j < i; j++)
                assert_true(!swarm.alive[i] || !swarm.alive[j] || swarm.now.slot[i] != swarm.now.slot[j]);
        claim(&swarm);
    }
    print_message("at most %zu claims until rest\n", most);
}

static void a_claim_beyond_reason_is_none(void **state)
{
    struct swarm swarm;
    struct graph plain;
    (void)state;
    begin(&swarm, TOPOLOGY_BUTTERFLY, 3, 20);
    swarm.roster[7].slot = TOPOLOGY_NO_SLOT;
    look_twice(&swarm, &plain);
    swarm.roster[7].slot = TOPOLOGY_SLOTS_MAX;
    look_twice(&swarm, &swarm.now);
    assert_memory_equal(&plain, &swarm.now, sizeof plain);
    swarm.roster[7].slot = TOPOLOGY_SLOTS_MAX - 1; // counts, and is compacted into what it left
    look_twice(&swarm, &swarm.now);
    assert_memory_equal(&plain, &swarm.now, sizeof plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_tear_down_only_what_a_joiner_splits),
        cmocka_unit_test(butterfly_slots_stay_and_vacancies_fill),
        cmocka_unit_test(a_new_cluster_takes_slots_in_the_order_of_the_ring),
        cmocka_unit_test(any_claims_come_to_rest),
        cmocka_unit_test(a_claim_beyond_reason_is_none),
    };
    return cmocka_run_group_tests(tests, read_seed, NULL);
}
