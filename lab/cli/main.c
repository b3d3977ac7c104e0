// p2pml: the tools around the nodes.
#include "base/process.h"
#include "lab/cli/command.h"
#include "lab/experiment/options.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int print_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return printf("p2pml %s\n", P2PML_VERSION) > 0 ? LAB_EXIT_DONE : LAB_EXIT_FAILED;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", lab_command_run},         {"sim", lab_command_sim},           {"report", lab_command_report},
    {"data", lab_command_data},       {"eval", lab_command_eval},         {"predict", lab_command_predict},
    {"export", lab_command_export},   {"generate", lab_command_generate}, {"plot", lab_command_plot},
    {"keygen", lab_command_keygen},   {"inspect", lab_command_inspect},   {"top", lab_command_top},
    {"collect", lab_command_collect}, {"why", lab_command_why},           {"topology", lab_command_topology},
    {"set", lab_command_set},         {"doctor", lab_command_doctor},     {"help", lab_command_help},
    {"--help", lab_command_help},     {"-h", lab_command_help},           {"version", print_version},
    {"--version", print_version},
};

static const char names[] =
    "run, sim, data, eval, predict, generate, export, report, plot, top, collect, set, why, doctor, topology, "
    "keygen, inspect, help or version; 'p2pml help' explains them";

int main(int argc, char **argv)
{
    base_process_begin();
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        fprintf(stderr, "p2pml: a command is missing: %s\n", names);
        return LAB_EXIT_USAGE;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "p2pml: found the command '%s', expected %s\n", argv[1], names);
    return LAB_EXIT_USAGE;
}
