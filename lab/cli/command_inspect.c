#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "node/store/checkpoint.h"

#include <stdio.h>
#include <string.h>

int lab_command_inspect(int argc, char **argv)
{
    struct base_reason why = {""};
    char inspect[] = "inspect";
    char *help[] = {argv[0], inspect};
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return lab_command_help(2, help);
    if (argc != 2 || argv[1][0] == '-') {
        fputs("p2pml inspect: expected one file: p2pml inspect FILE\n", stderr);
        return LAB_EXIT_USAGE;
    }
    if (node_checkpoint_inspect(argv[1], &why) == BASE_OK)
        return LAB_EXIT_DONE;
    fprintf(stderr, "p2pml inspect: %s\n", why.text);
    return LAB_EXIT_FAILED;
}
