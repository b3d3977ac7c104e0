#include "base/limits.h"
#include "lab/cli/command.h"
#include "lab/doctor/doctor.h"
#include "lab/experiment/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE "127.0.0.1:7480" // node.http, unless set

extern char **environ;

struct wanted {
    const char *config, *peers, *node;
    struct lab_texts settings; // of --set
    bool json;
};

static const struct lab_argument table[] = {
    LAB_ARGUMENT("peers", TEXT, peers),
    LAB_ARGUMENT("node", TEXT, node),
    LAB_ARGUMENT("set", TEXTS, settings),
    LAB_ARGUMENT("json", FLAG, json),
};
static const struct lab_arguments arguments = {"doctor", table, sizeof table / sizeof *table};

// As p2pml-node reads it; --peers stands above --set.
static enum base_error read_config(const struct wanted *wanted, struct node_config *config,
                                   struct base_reason *why)
{
    static const char *const others[] = {"P2PML_DATA", "P2PML_SEED", "P2PML_CPU", "P2PML_NODE", NULL};
    const struct node_schema_sources sources = {.path = wanted->config,
                                                .environment = environ,
                                                .others = others,
                                                .settings = wanted->settings.items,
                                                .n_settings = wanted->settings.count};
    char *peers = NULL;
    enum base_error error = node_schema_defaults(&node_config_schema, config, why);
    if (!error)
        error = node_schema_read_all(&node_config_schema, &sources, config, why);
    if (!error && wanted->peers) {
        if (asprintf(&peers, "peers=%s", wanted->peers) < 0)
            return base_fail(why, BASE_ENOMEM, "out of memory");
        error = node_schema_set(&node_config_schema, peers, config, why);
        free(peers);
    }
    return error ? error : node_config_check(config, why);
}

static enum base_error look_at_host(const struct wanted *wanted, struct lab_findings *findings,
                                    struct base_reason *why)
{
    struct node_config config = {0};
    enum base_error error = read_config(wanted, &config, why);
    if (error && error != BASE_ENOMEM)
        error = BASE_EINVAL;
    if (!error)
        error = lab_doctor_host(&config, findings, why);
    node_schema_free(&node_config_schema, &config);
    return error;
}

static enum base_error look(const struct wanted *wanted, struct lab_findings *findings,
                            struct base_reason *why)
{
    const bool host = wanted->config || wanted->peers || wanted->settings.count > 0;
    enum base_error error = BASE_OK;
    if (wanted->node || !host)
        error = lab_doctor_node(wanted->node ? wanted->node : PAGE, NULL, findings, why);
    return !error && host ? look_at_host(wanted, findings, why) : error;
}

static int perform(const struct wanted *wanted)
{
    struct lab_findings findings = {0};
    struct base_reason why = {""};
    const enum base_error error = look(wanted, &findings, &why);
    int status = error == BASE_EINVAL ? LAB_EXIT_USAGE : LAB_EXIT_FAILED;
    if (error)
        fprintf(stderr, "p2pml doctor: %s\n", why.text);
    else if (lab_findings_print(&findings, wanted->json, stdout) && findings.problems == 0)
        status = LAB_EXIT_DONE;
    lab_findings_free(&findings);
    return status;
}

int lab_command_doctor(int argc, char **argv)
{
    struct wanted wanted = {0};
    struct base_reason why;
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    int status = LAB_EXIT_USAGE;
    if (!lab_command_begin(&arguments, argc, argv, &wanted, &status))
        goto out;
    if (argc - optind > 1)
        fprintf(stderr, "p2pml doctor: found %d arguments, expected at most one configuration\n",
                argc - optind);
    else if (wanted.node && node_address_parse(wanted.node, host, &port, &why))
        fprintf(stderr, "p2pml doctor: --node: %s\n", why.text);
    else {
        wanted.config = argc > optind ? argv[optind] : NULL;
        status = perform(&wanted);
        goto out;
    }
    status = lab_command_usage("doctor");
out:
    free(wanted.settings.items);
    return status;
}
