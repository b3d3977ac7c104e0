#include "lab/cli/command.h"
#include "lab/run/run.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct wanted {
    struct lab_run_options options;
    const char **settings; // [n_settings] of --set
    bool help;
};

static bool take(int option, struct wanted *wanted)
{
    switch (option) {
    case 's':
        wanted->settings[wanted->options.source.n_settings++] = optarg;
        return true;
    case 'o':
        wanted->options.source.out = optarg;
        return true;
    case 'f':
        return wanted->options.fresh = true;
    case 'c':
        return wanted->options.check = true;
    case 'h':
        return wanted->help = true;
    default:
        return false;
    }
}

static bool parse(int argc, char **argv, struct wanted *wanted)
{
    static const struct option options[] = {
        {"set", required_argument, NULL, 's'}, {"out", required_argument, NULL, 'o'},
        {"fresh", no_argument, NULL, 'f'},     {"check", no_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},      {0}};
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;)
        if (!take(option, wanted))
            return false;
    if (wanted->help)
        return true;
    if (argc - optind != 1) {
        fprintf(stderr, "p2pml %s: found %d files, expected one experiment\n", argv[0], argc - optind);
        return false;
    }
    wanted->options.source.path = argv[optind];
    return true;
}

int lab_command_experiment(int argc, char **argv, int (*perform)(const struct lab_run_options *options))
{
    struct wanted wanted = {.options = {.source = {.environment = environ}, .version = P2PML_VERSION}};
    int status;
    wanted.settings = calloc((size_t)argc, sizeof *wanted.settings);
    if (!wanted.settings)
        return LAB_EXIT_FAILED;
    wanted.options.source.settings = wanted.settings;
    if (!parse(argc, argv, &wanted))
        status = lab_command_usage(argv[0]);
    else
        status = wanted.help ? lab_command_about(argv[0]) : perform(&wanted.options);
    free(wanted.settings);
    return status;
}

int lab_command_run(int argc, char **argv)
{
    return lab_command_experiment(argc, argv, lab_run);
}
