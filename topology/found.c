// Collects the peers of one member: ascending, each once.
#include "topology/parts.h"
#include <string.h>

void topology_find(struct topology_found *found, size_t peer)
{
    size_t at = 0;
    while (at < found->count && found->peers[at] < peer)
        at++;
    if (peer == TOPOLOGY_NOBODY || (at < found->count && found->peers[at] == peer))
        return;
    BASE_ASSERT(found->count < TOPOLOGY_FOUND_MAX);
    memmove(found->peers + at + 1, found->peers + at, (found->count - at) * sizeof *found->peers);
    found->peers[at] = peer;
    found->count++;
}

size_t topology_give(const struct topology_found *found, size_t *peers, size_t capacity)
{
    size_t given = found->count < capacity ? found->count : capacity;
    if (given)
        memcpy(peers, found->peers, given * sizeof *peers);
    return found->count;
}
