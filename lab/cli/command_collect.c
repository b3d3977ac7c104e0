#include "base/limits.h"
#include "lab/cli/command.h"
#include "lab/collect/collect.h"
#include "lab/experiment/options.h"
#include "node/config/config.h"

#include <getopt.h>
#include <stdio.h>

struct wanted {
    const char *out;
    bool fresh;
};

static const struct lab_argument table[] = {
    LAB_ARGUMENT("out", TEXT, out, .letter = 'o'),
    LAB_ARGUMENT("fresh", FLAG, fresh),
};
static const struct lab_arguments arguments = {"collect", table, sizeof table / sizeof *table};

int lab_command_collect(int argc, char **argv)
{
    struct wanted wanted = {0};
    struct base_reason why = {""};
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    size_t answered = 0;
    int status;
    if (!lab_command_begin(&arguments, argc, argv, &wanted, &status))
        return status;
    if (argc - optind != 1 || !wanted.out) {
        fprintf(stderr, "p2pml collect: found %d addresses and %s directory, expected HOST:PORT -o DIR\n",
                argc - optind, wanted.out ? "one" : "no");
        return lab_command_usage("collect");
    }
    if (node_address_parse(argv[optind], host, &port, &why)) {
        fprintf(stderr, "p2pml collect: %s\n", why.text);
        return LAB_EXIT_USAGE;
    }
    const struct lab_collect_options options = {argv[optind], wanted.out, P2PML_VERSION, wanted.fresh};
    enum base_error error = lab_collect(&options, &answered, &why);
    if (!error)
        printf("%s/report.html: %zu %s\n", wanted.out, answered, answered == 1 ? "node" : "nodes");
    return lab_command_ended("collect", error, &why);
}
