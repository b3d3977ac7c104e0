#include "lab/graph/graph.h"
#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Up to VICTIMS_ALL members, the death of each is measured; up to VICTIMS_MANY, that of VICTIMS_SOME, evenly
// spread; above, that of VICTIMS_FEW.
#define VICTIMS_ALL  64u
#define VICTIMS_SOME 32u
#define VICTIMS_MANY 1000u
#define VICTIMS_FEW  4u

// Member i with the name that p2pml run gives it, so that the graph shown is the graph of a run.
static struct topology_member numbered(size_t i, size_t group_size)
{
    struct topology_member member = {.slot = TOPOLOGY_NO_SLOT, .group = (uint32_t)(i / group_size)};
    snprintf(member.name, sizeof member.name, "node-%02zu", i);
    for (size_t byte = 0; byte < 8; byte++)
        member.id[byte] = (uint8_t)((uint64_t)i >> (56 - 8 * byte));
    return member;
}

static enum base_error read_graph(struct lab_topology *t, const char *path, struct base_reason *why)
{
    uint8_t *text = NULL;
    size_t bytes;
    enum base_error error = base_file_read(path, TOPOLOGY_FILE_BYTES_MAX, &text, &bytes, why);
    if (!error)
        error = topology_graph_read(path, (const char *)text, bytes, t->n ? t->members : NULL, t->n,
                                    &t->graph, why);
    free(text);
    return error;
}

// Without a number of nodes, the file names them.
static enum base_error take_names(struct lab_topology *t)
{
    size_t n = topology_graph_nodes(t->graph);
    struct topology_member *members = calloc(n + 1, sizeof *members);
    if (!members)
        return BASE_ENOMEM;
    free(t->members);
    t->members = members;
    t->n = n;
    for (size_t i = 0; i < n; i++) {
        members[i] = numbered(i, t->group_size);
        snprintf(members[i].name, sizeof members[i].name, "%s", topology_graph_name(t->graph, i));
    }
    return BASE_OK;
}

enum base_error lab_topology_make(struct lab_topology *t, const char *path, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    t->members = calloc(t->n + 1, sizeof *t->members);
    if (!t->members)
        return base_fail(why, BASE_ENOMEM, "out of memory");
    for (size_t i = 0; i < t->n; i++)
        t->members[i] = numbered(i, t->group_size);
    if (path)
        error = read_graph(t, path, why);
    if (!error && path && t->n == 0)
        error = take_names(t);
    if (error)
        return error;
    t->options.graph = t->graph;
    error = topology_plan_create(&t->options, t->members, t->n, &t->plan);
    if (error)
        return base_fail(why, error, "no plan: %s", base_error_name(error));
    for (size_t i = 0; i < t->n; i++) // kept when another member dies
        t->members[i].slot = topology_plan_slot(t->plan, i);
    return BASE_OK;
}

void lab_topology_drop(struct lab_topology *t)
{
    topology_plan_destroy(t->plan);
    topology_graph_destroy(t->graph);
    free(t->members);
}

// Rice code of geometric gaps with the best parameter, or a bitmap, whichever is shorter: bits per entry.
static double index_bits(double ratio)
{
    double best = 1 / ratio;
    if (ratio >= 1)
        return 0;
    for (int p = 0; p <= 30; p++) {
        double q = pow(1 - ratio, (double)(1u << p));
        best = fmin(best, p + 1 + q / (1 - q));
    }
    return best;
}

static void count_bytes(const struct lab_topology *t, struct lab_topology_facts *facts)
{
    facts->index_bits = index_bits(t->ratio);
    facts->packet_bytes = ceil(t->ratio * t->parameters) * (8 + facts->index_bits) / 8;
    facts->dense_bytes = 4 * t->parameters;
}

// Counts over a period, or over a part of a long one.
static enum base_error count_meetings(const struct lab_topology *t, struct lab_topology_facts *facts)
{
    uint64_t most = 20000000 / (t->n + 1) + 1;
    const uint64_t rounds = facts->period && facts->period < most ? facts->period : most < 1000 ? most : 1000;
    uint64_t *count = calloc(t->n + 1, sizeof *count), total = 0, busiest = 0;
    if (!count)
        return BASE_ENOMEM;
    facts->halves = true;
    for (uint64_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < t->n; i++)
            if (topology_plan_partner(t->plan, i, round) != TOPOLOGY_NOBODY) {
                count[i]++;
                facts->halves = facts->halves && topology_plan_weight(t->plan, i, round) == 0.5;
            }
    for (size_t i = 0; i < t->n; i++) {
        total += count[i];
        busiest = count[i] > busiest ? count[i] : busiest;
    }
    free(count);
    facts->meetings = (double)total / (double)rounds / (double)(t->n ? t->n : 1);
    facts->meetings_max = (double)busiest / (double)rounds;
    return BASE_OK;
}

static enum base_error or_unknown(enum base_error error, double *value)
{
    if (error == BASE_ELIMIT) {
        *value = NAN;
        return BASE_OK;
    }
    return error;
}

// The peers of `member`, numbered as in the whole graph, in a plan without `victim` (t->n: all nodes).
static size_t peers_without(const struct topology_plan *plan, size_t victim, size_t member, size_t capacity,
                            size_t *peers)
{
    size_t count = topology_plan_neighbours(plan, member > victim ? member - 1 : member, peers, capacity);
    for (size_t i = 0; i < count; i++)
        peers[i] += peers[i] >= victim;
    return count;
}

// The number of entries of a[n_a], except `but`, that are not in b[n_b]; both ascending.
static size_t missing(const size_t *a, size_t n_a, const size_t *b, size_t n_b, size_t but)
{
    size_t count = 0;
    for (size_t i = 0, j = 0; i < n_a; i++) {
        while (j < n_b && b[j] < a[i])
            j++;
        count += a[i] != but && (j == n_b || b[j] != a[i]);
    }
    return count;
}

static void note(struct lab_topology_spread *spread, double value, bool more_is_worse, size_t victims)
{
    bool worse = more_is_worse ? value > spread->worst : value < spread->worst;
    spread->mean += value / (double)victims;
    if (worse || isnan(value))
        spread->worst = value;
}

static enum base_error count_edges(const struct lab_topology *t, const struct topology_plan *rest,
                                   size_t victim, size_t *torn, size_t *fresh)
{
    size_t *before = malloc(2 * (t->n + 1) * sizeof *before), *after = before + t->n + 1;
    *torn = *fresh = 0;
    if (!before)
        return BASE_ENOMEM;
    for (size_t i = 0; i < t->n; i++) {
        if (i == victim)
            continue;
        size_t n_before = peers_without(t->plan, t->n, i, t->n, before);
        size_t n_after = peers_without(rest, victim, i, t->n, after);
        *torn += missing(before, n_before, after, n_after, victim);
        *fresh += missing(after, n_after, before, n_before, victim);
    }
    *torn /= 2;
    *fresh /= 2;
    free(before);
    return BASE_OK;
}

static enum base_error measure_death(const struct lab_topology *t, size_t victim,
                                     struct lab_topology_facts *facts)
{
    struct topology_plan *rest = NULL;
    struct topology_shape shape = {0};
    double gap = NAN;
    size_t torn = 0, fresh = 0, victims = facts->death.victims;
    struct topology_member *members = malloc((t->n + 1) * sizeof *members);
    if (!members)
        return BASE_ENOMEM;
    memcpy(members, t->members, victim * sizeof *members);
    memcpy(members + victim, t->members + victim + 1, (t->n - victim - 1) * sizeof *members);
    enum base_error error = topology_plan_create(&t->options, members, t->n - 1, &rest);
    if (!error)
        error = count_edges(t, rest, victim, &torn, &fresh);
    if (!error)
        error = topology_shape_of(rest, &shape);
    if (!error && !isnan(facts->gap_static)) // otherwise this is too large, too
        error = or_unknown(topology_gap_static(rest, &gap), &gap);
    topology_plan_destroy(rest);
    free(members);
    if (error)
        return error;
    note(&facts->death.torn, (double)torn, true, victims);
    note(&facts->death.fresh, (double)fresh, true, victims);
    note(&facts->death.gap, gap, false, victims);
    note(&facts->death.diameter, (double)shape.diameter, true, victims);
    facts->death.disconnected += !shape.connected;
    return BASE_OK;
}

static enum base_error measure_deaths(const struct lab_topology *t, struct lab_topology_facts *facts)
{
    size_t victims = t->n < 2               ? 0
                     : t->n <= VICTIMS_ALL  ? t->n
                     : t->n <= VICTIMS_MANY ? VICTIMS_SOME
                                            : VICTIMS_FEW;
    enum base_error error = BASE_OK;
    facts->death.victims = victims;
    facts->death.gap.worst = INFINITY;
    for (size_t i = 0; !error && i < victims; i++)
        error = measure_death(t, i * t->n / victims, facts);
    return error;
}

enum base_error lab_topology_measure(const struct lab_topology *t, struct lab_topology_facts *facts)
{
    *facts = (struct lab_topology_facts){.period = topology_plan_period(t->plan)};
    count_bytes(t, facts);
    enum base_error error = topology_shape_of(t->plan, &facts->shape);
    if (!error)
        error = count_meetings(t, facts);
    if (!error)
        error = or_unknown(topology_gap_static(t->plan, &facts->gap_static), &facts->gap_static);
    if (!error)
        error = or_unknown(topology_gap_mean(t->plan, &facts->gap_mean), &facts->gap_mean);
    if (error)
        return error;
    error = topology_rounds_to(t->plan, 1e-2, &facts->rounds);
    facts->rounds_known = !error;
    if (error && error != BASE_ELIMIT)
        return error;
    return measure_deaths(t, facts);
}
