#include "lab/cli/command.h"
#include "lab/experiment/options.h"

#include <stdio.h>

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
