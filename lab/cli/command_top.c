#include "base/limits.h"
#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/top/top.h"
#include "node/config/config.h"

#include <stdio.h>
#include <string.h>

int lab_command_top(int argc, char **argv)
{
    struct lab_top_options options = {0};
    struct base_reason why = {""};
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return lab_command_about("top");
        if (strcmp(argv[i], "--once") == 0) {
            options.once = true;
        } else if (argv[i][0] == '-' || options.address) {
            fprintf(stderr, "p2pml top: found '%s', expected p2pml top [--once] HOST:PORT\n", argv[i]);
            return LAB_EXIT_USAGE;
        } else {
            options.address = argv[i];
        }
    }
    if (!options.address)
        options.address = "127.0.0.1:7480";
    if (node_address_parse(options.address, host, &port, &why)) {
        fprintf(stderr, "p2pml top: %s\n", why.text);
        return LAB_EXIT_USAGE;
    }
    return lab_command_ended("top", lab_top(&options, &why), &why);
}
