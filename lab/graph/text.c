#include "base/plural.h"
#include "lab/graph/graph.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>

static void print_amount(FILE *out, double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB"};
    size_t unit = 0;
    for (; bytes >= 9999.5 && unit < 3; unit++)
        bytes /= 1000;
    fprintf(out, bytes < 99.95 && unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

// `format` takes one double.
static void print_known(FILE *out, const char *format, double value) BASE_PRINTF(2, 0);
static void print_known(FILE *out, const char *format, double value)
{
    if (isnan(value))
        fputs("unknown: too many nodes", out);
    else
        fprintf(out, format, value);
}

static void print_schedule(const struct lab_topology *t, const struct lab_topology_facts *facts, FILE *out)
{
    if (facts->period)
        fprintf(out, "  period      %" PRIu64 " round%s\n", facts->period, base_plural(facts->period));
    else
        fputs("  period      none: drawn again in each round\n", out);
    fprintf(out, "  weights     %s\n",
            facts->halves ? "1/2 in every meeting"
                          : "not always 1/2: for p2pml sim; real nodes meet with weight 1/2 only");
    if (facts->rounds_known)
        fprintf(out, "  consensus   %" PRIu64 " round%s until |P - J| < 0.01\n", facts->rounds,
                base_plural(facts->rounds));
    else
        fprintf(out, "  consensus   more than %" PRIu64 " rounds; the number is unknown: too many nodes\n",
                facts->rounds);
    fprintf(out, "  meetings    %.2f per node and round; the busiest node %.2f\n", facts->meetings,
            facts->meetings_max);
    fputs("  sent        ", out);
    print_amount(out, facts->meetings * facts->packet_bytes);
    fputs(" per node and round; the busiest node ", out);
    print_amount(out, facts->meetings_max * facts->packet_bytes);
    fprintf(
        out,
        "\n              (a meeting: %.0f entries, %g of %.0f parameters, of 8 + %.2f bits; dense in fp32 ",
        ceil(t->ratio * t->parameters), t->ratio, t->parameters, facts->index_bits);
    print_amount(out, facts->dense_bytes);
    fputs(")\n", out);
}

static void print_death(const struct lab_topology *t, const struct lab_topology_facts *facts, FILE *out)
{
    if (facts->death.victims == 0)
        return;
    if (facts->death.victims == t->n)
        fputs("  one death   of each node in turn\n", out);
    else
        fprintf(out, "  one death   of each of %zu nodes in turn, picked evenly\n", facts->death.victims);
    fprintf(out, "    torn      %.1f edges between survivors, at worst %.0f\n", facts->death.torn.mean,
            facts->death.torn.worst);
    fprintf(out, "    new       %.1f edges, at worst %.0f\n", facts->death.fresh.mean,
            facts->death.fresh.worst);
    fputs("    gap       ", out);
    print_known(out, "%.4g", facts->death.gap.mean);
    if (!isnan(facts->death.gap.mean))
        fprintf(out, ", at worst %.4g", facts->death.gap.worst);
    fprintf(out, "\n    diameter  %.1f, at worst %.0f\n", facts->death.diameter.mean,
            facts->death.diameter.worst);
    if (facts->death.disconnected)
        fprintf(out, "    connected no: %zu of %zu deaths cut the graph\n", facts->death.disconnected,
                facts->death.victims);
    else
        fputs("    connected always\n", out);
}

enum base_error lab_topology_text(const struct lab_topology *t, const struct lab_topology_facts *facts,
                                  FILE *out)
{
    const struct topology_shape *shape = &facts->shape;
    fprintf(out, "%s of %zu node%s, seed %" PRIu64 "\n\n", topology_kind_name(t->options.kind), t->n,
            base_plural(t->n), t->options.seed);
    fprintf(out, "  edges       %zu\n", shape->edges);
    fprintf(out, "  degree      %.2f; from %zu to %zu\n", shape->degree_mean, shape->degree_min,
            shape->degree_max);
    fprintf(out, "  diameter    %zu%s\n", shape->diameter,
            shape->connected ? "" : " in a part; it is not connected");
    fputs("  gap         ", out);
    print_known(out, "%.4g", facts->gap_static);
    fputs(" with all edges at once (Metropolis-Hastings weights)\n              ", out);
    print_known(out, "%.4g", facts->gap_mean);
    fputs(" of the mean round\n", out);
    print_schedule(t, facts, out);
    print_death(t, facts, out);
    return ferror(out) ? BASE_EIO : BASE_OK;
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *spread(struct lab_topology_spread values)
{
    return json_pack("{so so}", "mean", number(values.mean), "worst", number(values.worst));
}

static void add_edge(const struct lab_topology *t, size_t a, size_t b, void *edges)
{
    json_array_append_new(edges, json_pack("[ss]", t->members[a].name, t->members[b].name));
}

// The meetings of each round: [lower, higher, weight].
static json_t *schedule_of(const struct lab_topology *t)
{
    json_t *rounds = json_array();
    for (uint64_t round = 1; round <= t->rounds; round++) {
        json_t *meetings = json_array();
        for (size_t a = 0; a < t->n; a++) {
            size_t b = topology_plan_partner(t->plan, a, round);
            if (b != TOPOLOGY_NOBODY && a < b)
                json_array_append_new(meetings, json_pack("[ssf]", t->members[a].name, t->members[b].name,
                                                          topology_plan_weight(t->plan, a, round)));
        }
        json_array_append_new(rounds, meetings);
    }
    return rounds;
}

static json_t *death_of(const struct lab_topology_facts *facts)
{
    return json_pack("{sI so so so so sI}", "victims", (json_int_t)facts->death.victims, "torn",
                     spread(facts->death.torn), "new", spread(facts->death.fresh), "gap",
                     spread(facts->death.gap), "diameter", spread(facts->death.diameter), "disconnected",
                     (json_int_t)facts->death.disconnected);
}

enum base_error lab_topology_json(const struct lab_topology *t, const struct lab_topology_facts *facts,
                                  FILE *out)
{
    const struct topology_shape *shape = &facts->shape;
    json_t *edges = json_array();
    if (lab_topology_each_edge(t, add_edge, edges)) {
        json_decref(edges);
        return BASE_ENOMEM;
    }
    json_t *root = json_pack(
        "{ss sI sI s{sf sI sI} sI sb so so so so sb so so so sf so so so}", "kind",
        topology_kind_name(t->options.kind), "nodes", (json_int_t)t->n, "seed", (json_int_t)t->options.seed,
        "degree", "mean", shape->degree_mean, "min", (json_int_t)shape->degree_min, "max",
        (json_int_t)shape->degree_max, "diameter", (json_int_t)shape->diameter, "connected",
        (int)shape->connected, "gap", number(facts->gap_static), "gap_mean_round", number(facts->gap_mean),
        "period", facts->period ? json_integer((json_int_t)facts->period) : json_null(),
        "rounds_to_consensus", facts->rounds_known ? json_integer((json_int_t)facts->rounds) : json_null(),
        "halves", (int)facts->halves, "meetings", number(facts->meetings), "meetings_busiest",
        number(facts->meetings_max), "bytes_a_meeting", number(facts->packet_bytes), "bytes_a_round",
        facts->meetings * facts->packet_bytes, "one_death", death_of(facts), "edges", edges, "rounds",
        schedule_of(t));
    if (!root)
        return BASE_ENOMEM;
    int failed = json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(root);
    fputc('\n', out);
    return failed || ferror(out) ? BASE_EIO : BASE_OK;
}
