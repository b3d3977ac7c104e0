#include "gossip/session/identity.h"
#include "lab/cli/command.h"
#include "lab/experiment/options.h"

#include <getopt.h>
#include <stdio.h>

struct wanted {
    const char *identity, *secret;
    bool help;
};

static bool parse(int argc, char **argv, struct wanted *wanted)
{
    static const struct option options[] = {{"identity", required_argument, NULL, 'i'},
                                            {"secret", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'i')
            wanted->identity = optarg;
        else if (option == 's')
            wanted->secret = optarg;
        else if (option == 'h')
            wanted->help = true;
        else
            return false;
    }
    if (optind < argc)
        fprintf(stderr, "p2pml keygen: found '%s', expected only options\n", argv[optind]);
    return optind == argc;
}

static enum base_error make_identity(const char *path, struct base_reason *why)
{
    struct gossip_identity identity;
    char hex[GOSSIP_ID_HEX];
    enum base_error error = gossip_identity_create(path, &identity, why);
    if (error)
        return error;
    gossip_id_hex(&identity.id, hex);
    gossip_identity_wipe(&identity);
    printf("%s\n", hex);
    return BASE_OK;
}

int lab_command_keygen(int argc, char **argv)
{
    struct wanted wanted = {0};
    struct base_reason why = {""};
    if (!parse(argc, argv, &wanted))
        return lab_command_usage("keygen");
    if (wanted.help)
        return lab_command_about("keygen");
    if (!wanted.identity && !wanted.secret) {
        fputs("p2pml keygen: expected --identity FILE or --secret FILE or both; try 'p2pml help keygen'\n",
              stderr);
        return LAB_EXIT_USAGE;
    }
    enum base_error error = wanted.identity ? make_identity(wanted.identity, &why) : BASE_OK;
    if (!error && wanted.secret)
        error = gossip_secret_create(wanted.secret, &why);
    return lab_command_ended("keygen", error, &why);
}
