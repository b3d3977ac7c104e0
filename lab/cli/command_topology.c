#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/graph/graph.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum form { TEXT, JSON, DOT, SVG };

struct wanted {
    struct lab_topology topology;
    const char *path;
    enum form form;
    bool help, nodes_given, group_given, rings_given, base_given;
};

static bool refuse(const char *option, const char *found, const char *expected)
{
    fprintf(stderr, "p2pml topology show: --%s: found '%s', expected %s\n", option, found, expected);
    return false;
}

static bool take_count(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text < '0' || *text > '9' || number < least || number > most)
        return false;
    *value = number;
    return true;
}

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

static bool take_parameter(const char *text, struct wanted *wanted)
{
    uint64_t value = 0;
    if (strncmp(text, "rings=", 6) == 0) {
        if (!take_count(text + 6, 1, TOPOLOGY_RINGS_MAX, &value))
            return refuse("param", text, "rings=1 to rings=8");
        wanted->topology.options.rings = (unsigned)value;
        return wanted->rings_given = true;
    }
    if (strncmp(text, "base_k=", 7) == 0) {
        if (!take_count(text + 7, 1, TOPOLOGY_BASE_MAX, &value))
            return refuse("param", text, "base_k=1 to base_k=7");
        wanted->topology.options.base_k = (unsigned)value;
        return wanted->base_given = true;
    }
    return refuse("param", text, "rings=K (of random) or base_k=K (of base)");
}

static bool take_number(int option, struct wanted *wanted)
{
    struct lab_topology *t = &wanted->topology;
    uint64_t value = 0;
    switch (option) {
    case 'n':
        if (!take_count(optarg, 1, TOPOLOGY_MEMBERS_MAX, &value))
            return refuse("nodes", optarg, "a number from 1 to 16384");
        t->n = (size_t)value;
        return wanted->nodes_given = true;
    case 's':
        return take_count(optarg, 0, UINT64_MAX, &t->options.seed) ||
               refuse("seed", optarg, "a whole number");
    case 'g':
        if (!take_count(optarg, 1, TOPOLOGY_MEMBERS_MAX, &value))
            return refuse("group-size", optarg, "a number from 1 to 16384");
        t->group_size = (size_t)value;
        return wanted->group_given = true;
    case 'd':
        if (!take_count(optarg, 1, LIMIT_PARAMETERS, &value))
            return refuse("parameters", optarg, "a number from 1 to 2^30");
        t->parameters = (double)value;
        return true;
    default:
        return take_ratio(optarg, &t->ratio) ||
               refuse("ratio", optarg, "a share above 0, up to 1, as 0.01 or 1/32");
    }
}

static bool take(int option, struct wanted *wanted)
{
    switch (option) {
    case 'p':
        return take_parameter(optarg, wanted);
    case 'f':
        wanted->path = optarg;
        return true;
    case 'J':
    case 'D':
    case 'S':
        if (wanted->form != TEXT)
            fputs("p2pml topology show: expected only one of --json, --dot and --svg\n", stderr);
        else
            wanted->form = option == 'J' ? JSON : option == 'D' ? DOT : SVG;
        return wanted->form == (option == 'J' ? JSON : option == 'D' ? DOT : SVG);
    case 'h':
        return wanted->help = true;
    case '?':
        return false;
    default:
        return take_number(option, wanted);
    }
}

static bool complain(const char *what)
{
    fprintf(stderr, "p2pml topology show: %s\n", what);
    return false;
}

// What goes with which kind.
static bool check(const struct wanted *wanted)
{
    enum topology_kind kind = wanted->topology.options.kind;
    if (kind == TOPOLOGY_FILE && !wanted->path)
        return complain("the kind file needs --file PATH");
    if (kind != TOPOLOGY_FILE && wanted->path)
        return complain("--file goes with the kind file only");
    if (kind != TOPOLOGY_FILE && !wanted->nodes_given)
        return complain("expected --nodes N");
    if (kind != TOPOLOGY_HIERARCHICAL && wanted->group_given)
        return complain("--group-size goes with the kind hierarchical only");
    if (kind == TOPOLOGY_HIERARCHICAL && !wanted->group_given)
        return complain("the kind hierarchical needs --group-size G, the nodes of a host or rack");
    if (kind != TOPOLOGY_RANDOM && wanted->rings_given)
        return complain("--param rings=K goes with the kind random only");
    if (kind != TOPOLOGY_BASE && wanted->base_given)
        return complain("--param base_k=K goes with the kind base only");
    return true;
}

static bool parse(int argc, char **argv, struct wanted *wanted)
{
    static const struct option options[] = {{"nodes", required_argument, NULL, 'n'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"param", required_argument, NULL, 'p'},
                                            {"file", required_argument, NULL, 'f'},
                                            {"group-size", required_argument, NULL, 'g'},
                                            {"parameters", required_argument, NULL, 'd'},
                                            {"ratio", required_argument, NULL, 'r'},
                                            {"json", no_argument, NULL, 'J'},
                                            {"dot", no_argument, NULL, 'D'},
                                            {"svg", no_argument, NULL, 'S'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct base_reason why = {""};
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;)
        if (!take(option, wanted))
            return false;
    if (wanted->help)
        return true;
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

int lab_command_topology(int argc, char **argv)
{
    struct wanted wanted = {
        .topology = {
            .options = {.seed = 1, .rings = 2}, .group_size = 1, .parameters = 203530, .ratio = 1.0 / 32}};
    struct base_reason why = {""};
    if (!parse(argc, argv, &wanted))
        return lab_command_usage("topology");
    if (wanted.help)
        return lab_command_about("topology");
    int status = LAB_EXIT_USAGE;
    enum base_error error = lab_topology_make(&wanted.topology, wanted.path, &why);
    if (!error) {
        error = show(&wanted, &why);
        if (!error && fflush(stdout))
            error = BASE_EIO;
        status = error ? LAB_EXIT_FAILED : LAB_EXIT_DONE;
    }
    if (error)
        fprintf(stderr, "p2pml topology show: %s\n", why.text[0] ? why.text : base_error_name(error));
    lab_topology_drop(&wanted.topology);
    return status;
}
