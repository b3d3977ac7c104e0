#include "topology/topology.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_names[TOPOLOGY_KINDS] = {
    [TOPOLOGY_RING] = "ring",
    [TOPOLOGY_BUTTERFLY] = "butterfly",
    [TOPOLOGY_RANDOM] = "random",
    [TOPOLOGY_TORUS] = "torus",
    [TOPOLOGY_EXPONENTIAL] = "exponential",
    [TOPOLOGY_ONE_PEER] = "one-peer",
    [TOPOLOGY_COMPLETE] = "complete",
    [TOPOLOGY_STAR] = "star",
    [TOPOLOGY_MATCHINGS] = "matchings",
    [TOPOLOGY_BASE] = "base",
    [TOPOLOGY_HIERARCHICAL] = "hierarchical",
    [TOPOLOGY_FILE] = "file",
};

enum base_error topology_kind_parse(const char *name, enum topology_kind *kind, struct base_reason *why)
{
    for (size_t i = 0; i < TOPOLOGY_KINDS; i++) {
        if (strcmp(name, kind_names[i]) == 0) {
            *kind = (enum topology_kind)i;
            return BASE_OK;
        }
    }
    char known[256] = "";
    for (size_t i = 0, used = 0; i < TOPOLOGY_KINDS; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 i == 0                   ? ""
                                 : i + 1 < TOPOLOGY_KINDS ? ", "
                                                          : " or ",
                                 kind_names[i]);
    return base_fail(why, BASE_EINVAL, "no topology is called '%.64s'; expected %s", name, known);
}

const char *topology_kind_name(enum topology_kind kind)
{
    return kind_names[kind];
}
