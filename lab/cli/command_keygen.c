#include "gossip/session/identity.h"
#include "lab/cli/command.h"
#include "lab/experiment/options.h"

#include <getopt.h>
#include <stdio.h>

struct wanted {
    const char *identity, *secret;
};

static const struct lab_argument table[] = {
    LAB_ARGUMENT("identity", TEXT, identity),
    LAB_ARGUMENT("secret", TEXT, secret),
};
static const struct lab_arguments arguments = {"keygen", table, sizeof table / sizeof *table};

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
    int status;
    if (!lab_command_begin(&arguments, argc, argv, &wanted, &status))
        return status;
    if (optind < argc) {
        fprintf(stderr, "p2pml keygen: found '%s', expected only options\n", argv[optind]);
        return lab_command_usage("keygen");
    }
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
