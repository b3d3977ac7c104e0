#include "lab/cli/command.h"
#include "lab/run/run.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct wanted {
    struct lab_texts settings; // of --set
    const char *out;
    bool fresh, check;
};

static const struct lab_argument table[] = {
    LAB_ARGUMENT("set", TEXTS, settings),
    LAB_ARGUMENT("out", TEXT, out),
    LAB_ARGUMENT("fresh", FLAG, fresh),
    LAB_ARGUMENT("check", FLAG, check),
};

static int command(int argc, char **argv, int (*perform)(const struct lab_run_options *options))
{
    const struct lab_arguments arguments = {argv[0], table, sizeof table / sizeof *table};
    struct wanted wanted = {0};
    int status;
    if (!lab_command_begin(&arguments, argc, argv, &wanted, &status))
        goto out;
    if (argc - optind != 1) {
        fprintf(stderr, "p2pml %s: found %d files, expected one experiment\n", argv[0], argc - optind);
        status = lab_command_usage(argv[0]);
        goto out;
    }
    const struct lab_run_options options = {.source = {.path = argv[optind],
                                                       .settings = wanted.settings.items,
                                                       .n_settings = wanted.settings.count,
                                                       .out = wanted.out,
                                                       .environment = environ},
                                            .version = P2PML_VERSION,
                                            .fresh = wanted.fresh,
                                            .check = wanted.check};
    status = perform(&options);
out:
    free(wanted.settings.items);
    return status;
}

int lab_command_run(int argc, char **argv)
{
    return command(argc, argv, lab_run);
}

int lab_command_sim(int argc, char **argv)
{
    return command(argc, argv, lab_simulate);
}
