#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/report/report.h"

#include <stdio.h>
#include <string.h>

int lab_command_report(int argc, char **argv)
{
    struct base_reason why = {""};
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return lab_command_about("report");
    if (argc != 2 || argv[1][0] == '-') {
        fprintf(
            stderr,
            "p2pml report: found %s, expected one directory of a run or of a sweep; try 'p2pml help report'\n",
            argc < 2   ? "nothing"
            : argc > 2 ? "several arguments"
                       : argv[1]);
        return LAB_EXIT_USAGE;
    }
    enum base_error error = lab_report_write(argv[1], &why);
    if (error) {
        fprintf(stderr, "p2pml report: %s\n", why.text);
        return error == BASE_ENOTFOUND || error == BASE_EFORMAT ? LAB_EXIT_USAGE : LAB_EXIT_FAILED;
    }
    printf("%s/report.html\n", argv[1]);
    return LAB_EXIT_DONE;
}
