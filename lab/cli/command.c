#include "lab/cli/command.h"
#include "lab/experiment/options.h"

#include <stdio.h>

bool lab_command_begin(const struct lab_arguments *arguments, int argc, char **argv, void *into, int *status)
{
    const enum lab_arguments_end end = lab_arguments_read(arguments, argc, argv, into);
    if (end != LAB_ARGUMENTS_READ)
        *status = end == LAB_ARGUMENTS_HELP ? lab_command_about(argv[0]) : lab_command_usage(argv[0]);
    return end == LAB_ARGUMENTS_READ;
}

int lab_command_usage(const char *name)
{
    fprintf(stderr, "p2pml %s: try 'p2pml help %s'\n", name, name);
    return LAB_EXIT_USAGE;
}

int lab_command_ended(const char *name, enum base_error error, const struct base_reason *why)
{
    if (error)
        fprintf(stderr, "p2pml %s: %s\n", name, why->text);
    return error ? LAB_EXIT_FAILED : LAB_EXIT_DONE;
}
