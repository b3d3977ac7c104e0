#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "node/store/checkpoint.h"

#include <stdio.h>
#include <string.h>

int lab_command_inspect(int argc, char **argv)
{
    struct base_reason why = {""};
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return lab_command_about("inspect");
    if (argc != 2 || argv[1][0] == '-') {
        fputs("p2pml inspect: expected one file: p2pml inspect FILE\n", stderr);
        return LAB_EXIT_USAGE;
    }
    return lab_command_ended("inspect", node_checkpoint_inspect(argv[1], &why), &why);
}
