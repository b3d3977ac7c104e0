#include "topology/topology.h"

#include <stdio.h>
#include <string.h>

#define NAME(constant, family, name) [TOPOLOGY_##constant] = (name),
static const char *const kind_names[TOPOLOGY_KINDS] = {TOPOLOGY_LIST(NAME)};

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
