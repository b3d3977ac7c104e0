// Exact averaging inside and between groups: kinds base and hierarchical.
#include "topology/parts.h"

#include <stdlib.h>

static enum base_error make_base(struct topology_plan *plan, const struct topology_options *options,
                                 const struct topology_member *members)
{
    struct topology_meetings meetings = {0};
    uint32_t *who = malloc((plan->n + 1) * sizeof *who);
    unsigned k = options->base_k ? options->base_k : 1;
    (void)members;
    if (!who)
        return BASE_ENOMEM;
    for (size_t i = 0; i < plan->n; i++)
        who[i] = (uint32_t)i;
    topology_base(&meetings, who, plan->n, k, 0);
    free(who);
    return topology_table_make(plan, &meetings, topology_base_rounds(plan->n, k));
}

const struct topology_family topology_base2 = {.make = make_base, TOPOLOGY_TABLE};

struct place {
    uint32_t group, position;
};

static int compare_places(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

static int compare_leaders(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

// Sorts the members by group and position into who[n]; first[groups + 1] says where each group begins.
// Returns the number of groups.
static size_t group(const struct topology_plan *plan, const struct topology_member *members,
                    struct place *place, uint32_t *who, size_t *first)
{
    size_t groups = 0;
    for (size_t i = 0; i < plan->n; i++)
        place[i] = (struct place){members[plan->order[i]].group, (uint32_t)i};
    qsort(place, plan->n, sizeof *place, compare_places);
    for (size_t i = 0; i < plan->n; i++) {
        if (i == 0 || place[i].group != place[i - 1].group)
            first[groups++] = i;
        who[i] = place[i].position;
    }
    first[groups] = plan->n;
    return groups;
}

static uint32_t longest_of(const size_t *first, size_t groups)
{
    uint32_t longest = 0;
    for (size_t g = 0; g < groups; g++) {
        uint32_t rounds = topology_base_rounds(first[g + 1] - first[g], 1);
        longest = rounds > longest ? rounds : longest;
    }
    return longest;
}

// All groups finish in the same round. Then the leaders average, in the order of the ring; a leader is the
// first member of its group on the ring.
static enum base_error make_hierarchical(struct topology_plan *plan, const struct topology_options *options,
                                         const struct topology_member *members)
{
    struct topology_meetings meetings = {0};
    size_t n = plan->n, *first = calloc(n + 2, sizeof *first);
    struct place *place = calloc(n + 1, sizeof *place);
    uint32_t *who = calloc(n + 1, sizeof *who), *leaders = calloc(n + 1, sizeof *leaders);
    enum base_error error = BASE_ENOMEM;
    (void)options;
    if (!first || !place || !who || !leaders)
        goto out;
    size_t groups = group(plan, members, place, who, first);
    uint32_t inside = longest_of(first, groups);
    for (size_t g = 0; g < groups; g++) {
        size_t size = first[g + 1] - first[g];
        leaders[g] = who[first[g]];
        topology_base(&meetings, who + first[g], size, 1, inside - topology_base_rounds(size, 1));
    }
    qsort(leaders, groups, sizeof *leaders, compare_leaders);
    topology_base(&meetings, leaders, groups, 1, inside);
    error = topology_table_make(plan, &meetings, inside + topology_base_rounds(groups, 1));
out:
    free(first);
    free(place);
    free(who);
    free(leaders);
    return error;
}

const struct topology_family topology_hierarchical = {.make = make_hierarchical, TOPOLOGY_TABLE};
