// The cost of plans: making one and looking up a partner, for every kind.
#include "test/support/bench.h"
#include "topology/topology.h"

#include <stdio.h>
#include <stdlib.h>

static struct topology_member *members_of(size_t n)
{
    struct topology_member *members = calloc(n, sizeof *members);
    BASE_ASSERT(members);
    for (size_t i = 0; i < n; i++) {
        snprintf(members[i].name, sizeof members[i].name, "node-%02zu", i);
        members[i].id[0] = (uint8_t)i;
        members[i].id[1] = (uint8_t)(i >> 8);
        members[i].slot = TOPOLOGY_NO_SLOT;
        members[i].group = (uint32_t)(i / 8);
    }
    return members;
}

static double best_making(const struct topology_options *options, const struct topology_member *members,
                          size_t n)
{
    double best = 1e9;
    for (double begin = bench_now_s(); bench_now_s() < begin + 0.3;) {
        struct topology_plan *plan;
        double start = bench_now_s();
        BASE_ASSERT(!topology_plan_create(options, members, n, &plan));
        double took = bench_now_s() - start;
        best = took < best ? took : best;
        topology_plan_destroy(plan);
    }
    return best;
}

static double best_partner(const struct topology_options *options, const struct topology_member *members,
                           size_t n)
{
    struct topology_plan *plan;
    double best = 1e9;
    size_t sum = 0;
    BASE_ASSERT(!topology_plan_create(options, members, n, &plan));
    for (uint64_t round = 0; round < 50; round++) {
        double start = bench_now_s();
        for (size_t i = 0; i < n; i++)
            sum += topology_plan_partner(plan, i, round);
        double took = (bench_now_s() - start) / (double)n;
        best = took < best ? took : best;
    }
    topology_plan_destroy(plan);
    return sum == 1 ? 0 : best; // so that the sum counts as used
}

int main(void)
{
    static const size_t sizes[] = {32, 1024, 10000};
    printf("%-14s %8s %14s %14s\n", "kind", "members", "plan us", "partner ns");
    for (int kind = 0; kind < TOPOLOGY_FILE; kind++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct topology_options options = {.kind = (enum topology_kind)kind, .seed = 1, .rings = 2};
            struct topology_member *members = members_of(sizes[s]);
            printf("%-14s %8zu %14.1f %14.1f\n", topology_kind_name(options.kind), sizes[s],
                   1e6 * best_making(&options, members, sizes[s]),
                   1e9 * best_partner(&options, members, sizes[s]));
            free(members);
        }
    return 0;
}
