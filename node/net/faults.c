#include "node/net/faults.h"
#include "gossip/session/identity.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct buried {
    struct gossip_id id;
    int socket;
};

struct node_faults {
    const char *path;
    struct gossip_allow_list cut; // the file has the form of an allow-list
    struct buried buried[NODE_FAULTS_BURIED];
    size_t n_buried;
};

enum base_error node_faults_create(const char *path, struct node_faults **out, struct base_reason *why)
{
    struct node_faults *faults = calloc(1, sizeof *faults);
    if (!faults)
        return base_fail(why, BASE_ENOMEM, "no memory for the list of faults");
    faults->path = path;
    enum base_error error = node_faults_reload(faults, why);
    if (!error)
        *out = faults;
    else
        free(faults);
    return error;
}

static void close_all_but(struct node_faults *faults, const struct gossip_allow_list *cut)
{
    size_t kept = 0;
    BASE_ASSERT(faults->n_buried <= NODE_FAULTS_BURIED);
    for (size_t i = 0; i < faults->n_buried; i++) {
        if (cut && gossip_allow_list_has(cut, &faults->buried[i].id))
            faults->buried[kept++] = faults->buried[i];
        else
            close(faults->buried[i].socket);
    }
    faults->n_buried = kept;
}

void node_faults_destroy(struct node_faults *faults)
{
    if (!faults)
        return;
    close_all_but(faults, NULL);
    gossip_allow_list_destroy(&faults->cut);
    free(faults);
}

enum base_error node_faults_reload(struct node_faults *faults, struct base_reason *why)
{
    struct gossip_allow_list fresh = {0};
    enum base_error error = BASE_ENOTFOUND;
    if (faults->path[0] != 0 && access(faults->path, F_OK) == 0)
        error = gossip_allow_list_load(faults->path, &fresh, why);
    if (error && error != BASE_ENOTFOUND)
        return error;
    BASE_ASSERT(!error || fresh.count == 0);
    gossip_allow_list_destroy(&faults->cut);
    faults->cut = fresh;
    close_all_but(faults, &faults->cut);
    return BASE_OK;
}

size_t node_faults_count(const struct node_faults *faults)
{
    return faults->cut.count;
}

bool node_faults_has(const struct node_faults *faults, const struct gossip_id *id)
{
    return faults->cut.count > 0 && gossip_allow_list_has(&faults->cut, id);
}

void node_faults_bury(struct node_faults *faults, const struct gossip_id *id, int socket)
{
    BASE_ASSERT(socket >= 0 && faults->n_buried <= NODE_FAULTS_BURIED);
    if (faults->n_buried == NODE_FAULTS_BURIED) {
        close(faults->buried[0].socket);
        memmove(faults->buried, faults->buried + 1, --faults->n_buried * sizeof *faults->buried);
    }
    faults->buried[faults->n_buried++] = (struct buried){.id = *id, .socket = socket};
}
