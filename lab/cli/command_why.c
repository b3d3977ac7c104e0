#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/why/why.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_round(const char *text, uint64_t *round)
{
    char *end = NULL;
    errno = 0;
    *round = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && errno == 0 && *round > 0;
}

int lab_command_why(int argc, char **argv)
{
    struct base_reason why = {""};
    struct lab_why_options options = {.latest = argc < 3};
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return lab_command_about("why");
    if (argc < 2 || argc > 3 || argv[1][0] == '-') {
        fputs("p2pml why: expected a node, and perhaps a round: p2pml why DIR|HOST:PORT [ROUND]\n", stderr);
        return LAB_EXIT_USAGE;
    }
    options.source = argv[1];
    if (argc == 3 && !read_round(argv[2], &options.round)) {
        fprintf(stderr, "p2pml why: found the round '%s', expected a number from 1\n", argv[2]);
        return LAB_EXIT_USAGE;
    }
    return lab_command_ended("why", lab_why(&options, stdout, &why), &why);
}
