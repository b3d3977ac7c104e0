#include "base/limits.h"
#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/top/set.h"
#include "node/config/change.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

struct wanted {
    const char *dir;
};

static const struct lab_argument table[] = {LAB_ARGUMENT("dir", TEXT, dir)};
static const struct lab_arguments arguments = {"set", table, sizeof table / sizeof *table};

static enum base_error perform(const struct wanted *wanted, char **argv, struct base_reason *why)
{
    enum gossip_setting_kind kind;
    double value;
    char *assignment = NULL, *answer = NULL;
    if (asprintf(&assignment, "%s=%s", argv[0], argv[1]) < 0)
        return base_fail(why, BASE_ENOMEM, "out of memory");
    enum base_error error = node_change_parse(assignment, &kind, &value, why);
    if (!error)
        error = lab_set(argv[2], wanted->dir, assignment, &answer, why);
    if (!error)
        puts(answer);
    free(assignment);
    free(answer);
    return error;
}

int lab_command_set(int argc, char **argv)
{
    struct wanted wanted = {0};
    struct base_reason why = {""};
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    int status;
    if (!lab_command_begin(&arguments, argc, argv, &wanted, &status))
        return status;
    if (argc - optind != 3) {
        fprintf(stderr, "p2pml set: found %d arguments, expected KEY VALUE HOST:PORT\n", argc - optind);
        return lab_command_usage("set");
    }
    if (node_address_parse(argv[optind + 2], host, &port, &why)) {
        fprintf(stderr, "p2pml set: %s\n", why.text);
        return LAB_EXIT_USAGE;
    }
    return lab_command_ended("set", perform(&wanted, argv + optind, &why), &why);
}
