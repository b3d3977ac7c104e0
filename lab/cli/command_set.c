#include "base/limits.h"
#include "gossip/session/removed.h"
#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/top/set.h"
#include "node/config/change.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REMOVED "cluster.removed"

struct wanted {
    const char *dir, *key, *cluster;
};

static const struct lab_argument table[] = {LAB_ARGUMENT("dir", TEXT, dir), LAB_ARGUMENT("key", TEXT, key),
                                            LAB_ARGUMENT("cluster", TEXT, cluster)};
static const struct lab_arguments arguments = {"set", table, sizeof table / sizeof *table};

static enum base_error change_of(char **argv, char **assignment, struct base_reason *why)
{
    enum gossip_setting_kind kind;
    double value;
    if (asprintf(assignment, "%s=%s", argv[0], argv[1]) < 0)
        return base_fail(why, BASE_ENOMEM, "out of memory");
    return node_change_parse(*assignment, &kind, &value, why);
}

static enum base_error take_ids(const char *text, struct gossip_removed *list, struct base_reason *why)
{
    char id[GOSSIP_ID_HEX];
    for (const char *at = text; *at; at += *at == ',') {
        const size_t length = strcspn(at, ",");
        snprintf(id, sizeof id, "%.*s", (int)length, at);
        if (list->count == LIMIT_REMOVED)
            return base_fail(why, BASE_ELIMIT, "found more than %u ids", LIMIT_REMOVED);
        if (length != GOSSIP_ID_HEX - 1 || gossip_id_parse(id, &list->ids[list->count]))
            return base_fail(why, BASE_EINVAL,
                             "found \"%.*s\", expected ids of %d hex digits, separated by commas, or none",
                             (int)(length < 80 ? length : 80), at, GOSSIP_ID_HEX - 1);
        list->count++;
        at += length;
    }
    return BASE_OK;
}

// A later list has a higher number than an earlier one: than the newest one that the asked node knows,
// whatever clock that was made with; the time, for a node that has not heard of it yet.
static enum base_error number_of(const char *address, uint64_t *number, struct base_reason *why)
{
    const uint64_t now = (uint64_t)time(NULL);
    const enum base_error error = lab_set_removed(address, number, why);
    if (error)
        return error;
    if (*number >= INT64_MAX)
        return base_fail(why, BASE_ELIMIT, "%s knows a list with the highest number: no later one can follow",
                         address);
    *number = *number < now ? now : *number + 1;
    return BASE_OK;
}

static enum base_error removal_of(const struct wanted *wanted, const char *ids, const char *address,
                                  char **assignment, struct base_reason *why)
{
    struct gossip_identity by;
    struct gossip_removed list = {0};
    char hex[GOSSIP_REMOVED_HEX];
    enum base_error error = strcmp(ids, "none") == 0 ? BASE_OK : take_ids(ids, &list, why);
    if (!error && !wanted->key)
        error = base_fail(why, BASE_EINVAL, "%s needs --key FILE, the identity of the operator", REMOVED);
    if (!error)
        error = number_of(address, &list.number, why);
    if (!error)
        error = gossip_identity_load(wanted->key, &by, why);
    if (error)
        return error;
    gossip_removed_sign(&list, wanted->cluster ? wanted->cluster : "p2pml", &by);
    gossip_identity_wipe(&by);
    gossip_removed_hex(&list, hex);
    if (asprintf(assignment, "%s=%s", REMOVED, hex) < 0)
        return base_fail(why, BASE_ENOMEM, "out of memory");
    return BASE_OK;
}

static enum base_error perform(const struct wanted *wanted, char **argv, struct base_reason *why)
{
    char *assignment = NULL, *answer = NULL;
    const bool removes = strcmp(argv[0], REMOVED) == 0;
    enum base_error error =
        removes ? removal_of(wanted, argv[1], argv[2], &assignment, why) : change_of(argv, &assignment, why);
    if (!error)
        error = lab_set(argv[2], wanted->dir, assignment, &answer, why);
    if (!error)
        puts(answer);
    free(assignment);
    free(answer);
    return error;
}

int lab_command_set(int argc, char **argv)
{
    struct wanted wanted = {0};
    struct base_reason why = {""};
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    int status;
    if (!lab_command_begin(&arguments, argc, argv, &wanted, &status))
        return status;
    if (argc - optind != 3) {
        fprintf(stderr, "p2pml set: found %d arguments, expected KEY VALUE HOST:PORT\n", argc - optind);
        return lab_command_usage("set");
    }
    if (node_address_parse(argv[optind + 2], host, &port, &why)) {
        fprintf(stderr, "p2pml set: %s\n", why.text);
        return LAB_EXIT_USAGE;
    }
    return lab_command_ended("set", perform(&wanted, argv + optind, &why), &why);
}
