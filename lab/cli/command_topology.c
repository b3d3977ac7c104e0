#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/graph/graph.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum form { TEXT, JSON, DOT, SVG };

struct wanted {
    struct lab_topology topology;
    const char *path, *ratio;
    struct lab_texts parameters; // of --param
    uint64_t nodes, group_size, model, rounds;
    bool json, dot, svg;
    enum form form;
    bool rings_given, base_given;
};

static const struct lab_argument table[] = {
    LAB_ARGUMENT("nodes", COUNT, nodes, .expected = "a number from 1 to 16384", .least = 1,
                 .most = TOPOLOGY_MEMBERS_MAX),
    LAB_ARGUMENT("seed", COUNT, topology.options.seed, .expected = "a whole number", .most = UINT64_MAX),
    LAB_ARGUMENT("param", TEXTS, parameters),
    LAB_ARGUMENT("file", TEXT, path),
    LAB_ARGUMENT("group-size", COUNT, group_size, .expected = "a number from 1 to 16384", .least = 1,
                 .most = TOPOLOGY_MEMBERS_MAX),
    LAB_ARGUMENT("parameters", COUNT, model, .expected = "a number from 1 to 2^30", .least = 1,
                 .most = LIMIT_PARAMETERS),
    LAB_ARGUMENT("ratio", TEXT, ratio),
    LAB_ARGUMENT("rounds", COUNT, rounds, .expected = "a number from 1 to 1000000", .least = 1,
                 .most = 1000000),
    LAB_ARGUMENT("json", FLAG, json),
    LAB_ARGUMENT("dot", FLAG, dot),
    LAB_ARGUMENT("svg", FLAG, svg),
};
static const struct lab_arguments arguments = {"topology show", table, sizeof table / sizeof *table};

// "0.01" or "1/32".
static bool take_ratio(const char *text, double *ratio)
{
    char *end;
    double value = strtod(text, &end);
    if (end != text && *end == '/') {
        const char *below = end + 1;
        value /= strtod(below, &end);
        if (end == below)
            return false;
    }
    if (end == text || *end || !(value > 0 && value <= 1))
        return false;
    *ratio = value;
    return true;
}

// Reads "KEY=N", where N is one digit from 1 to `most`.
static bool take_digit(const char *text, const char *key, unsigned most, unsigned *value)
{
    const size_t bytes = strlen(key);
    if (strncmp(text, key, bytes) != 0 || text[bytes] != '=' || text[bytes + 1] < '1' ||
        text[bytes + 1] > (char)('0' + most) || text[bytes + 2])
        return false;
    *value = (unsigned)(text[bytes + 1] - '0');
    return true;
}
_Static_assert(TOPOLOGY_RINGS_MAX == 8 && TOPOLOGY_BASE_MAX == 7, "one digit, and the text below");

static bool take_parameter(const char *text, struct wanted *wanted)
{
    struct topology_options *o = &wanted->topology.options;
    if (take_digit(text, "rings", TOPOLOGY_RINGS_MAX, &o->rings))
        return wanted->rings_given = true;
    if (take_digit(text, "base_k", TOPOLOGY_BASE_MAX, &o->base_k))
        return wanted->base_given = true;
    return lab_arguments_refuse(&arguments, "param", text,
                                "rings=1 to rings=8 (of random) or base_k=1 to base_k=7 (of base)");
}

static bool complain(const char *what)
{
    fprintf(stderr, "p2pml topology show: %s\n", what);
    return false;
}

// Checks that the options match the kind.
static bool check(const struct wanted *wanted)
{
    enum topology_kind kind = wanted->topology.options.kind;
    if (kind == TOPOLOGY_FILE && !wanted->path)
        return complain("the kind file needs --file PATH");
    if (kind != TOPOLOGY_FILE && wanted->path)
        return complain("--file goes with the kind file only");
    if (kind != TOPOLOGY_FILE && !wanted->nodes)
        return complain("expected --nodes N");
    if (kind != TOPOLOGY_HIERARCHICAL && wanted->group_size)
        return complain("--group-size goes with the kind hierarchical only");
    if (kind == TOPOLOGY_HIERARCHICAL && !wanted->group_size)
        return complain("the kind hierarchical needs --group-size G, the nodes of a host or rack");
    if (kind != TOPOLOGY_RANDOM && wanted->rings_given)
        return complain("--param rings=K goes with the kind random only");
    if (kind != TOPOLOGY_BASE && wanted->base_given)
        return complain("--param base_k=K goes with the kind base only");
    return true;
}

// Checks and converts what the table of options cannot.
static bool take(struct wanted *wanted)
{
    struct lab_topology *t = &wanted->topology;
    if (wanted->json + wanted->dot + wanted->svg > 1)
        return complain("expected only one of --json, --dot and --svg");
    if (wanted->rounds && !wanted->json)
        return complain("--rounds goes with --json only");
    wanted->form = wanted->json ? JSON : wanted->dot ? DOT : wanted->svg ? SVG : TEXT;
    for (size_t i = 0; i < wanted->parameters.count; i++)
        if (!take_parameter(wanted->parameters.items[i], wanted))
            return false;
    if (wanted->ratio && !take_ratio(wanted->ratio, &t->ratio))
        return lab_arguments_refuse(&arguments, "ratio", wanted->ratio,
                                    "a share above 0 and at most 1, such as 0.01 or 1/32");
    t->n = (size_t)wanted->nodes;
    t->group_size = wanted->group_size ? (size_t)wanted->group_size : 1;
    t->parameters = (double)wanted->model;
    t->rounds = wanted->rounds;
    return true;
}

static bool parse_kind(int argc, char **argv, struct wanted *wanted)
{
    struct base_reason why = {""};
    if (argc - optind < 1 || strcmp(argv[optind], "show") != 0) {
        fprintf(stderr, "p2pml topology: found '%s', expected 'show KIND'\n",
                argc > optind ? argv[optind] : "nothing");
        return false;
    }
    if (argc - optind != 2)
        return complain(argc - optind < 2 ? "expected a kind, as in 'p2pml topology show ring --nodes 16'"
                                          : "expected one kind only");
    if (topology_kind_parse(argv[optind + 1], &wanted->topology.options.kind, &why))
        return complain(why.text);
    return check(wanted);
}

static enum base_error show(const struct wanted *wanted, struct base_reason *why)
{
    const struct lab_topology *t = &wanted->topology;
    struct lab_topology_facts facts;
    if (wanted->form == SVG)
        return lab_topology_svg(t, why);
    if (wanted->form == DOT)
        return lab_topology_dot(t, stdout);
    enum base_error error = lab_topology_measure(t, &facts);
    if (error)
        return error;
    return wanted->form == JSON ? lab_topology_json(t, &facts, stdout) : lab_topology_text(t, &facts, stdout);
}

static int perform(struct wanted *wanted)
{
    struct base_reason why = {""};
    int status = LAB_EXIT_USAGE;
    enum base_error error = lab_topology_make(&wanted->topology, wanted->path, &why);
    if (!error) {
        error = show(wanted, &why);
        if (!error && fflush(stdout))
            error = BASE_EIO;
        status = error ? LAB_EXIT_FAILED : LAB_EXIT_DONE;
    }
    if (error)
        fprintf(stderr, "p2pml topology show: %s\n", why.text[0] ? why.text : base_error_name(error));
    lab_topology_drop(&wanted->topology);
    return status;
}

int lab_command_topology(int argc, char **argv)
{
    struct wanted wanted = {.topology = {.options = {.seed = 1, .rings = 2}, .ratio = 1.0 / 32},
                            .model = 203530};
    int status;
    if (lab_command_begin(&arguments, argc, argv, &wanted, &status))
        status = take(&wanted) && parse_kind(argc, argv, &wanted) ? perform(&wanted)
                                                                  : lab_command_usage("topology");
    free(wanted.parameters.items);
    return status;
}
