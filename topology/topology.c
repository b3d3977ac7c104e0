#include "topology/topology.h"

#include <string.h>

static const char *const kind_names[] = {
    [TOPOLOGY_RING] = "ring",
    [TOPOLOGY_BUTTERFLY] = "butterfly",
    [TOPOLOGY_RANDOM] = "random",
};

enum base_error topology_kind_parse(const char *name, enum topology_kind *kind, struct base_reason *why)
{
    for (size_t i = 0; i < sizeof kind_names / sizeof kind_names[0]; i++) {
        if (strcmp(name, kind_names[i]) == 0) {
            *kind = (enum topology_kind)i;
            return BASE_OK;
        }
    }
    return base_fail(why, BASE_EINVAL, "no topology is called '%.64s'; expected ring, butterfly or random",
                     name);
}

const char *topology_kind_name(enum topology_kind kind)
{
    return kind_names[kind];
}
