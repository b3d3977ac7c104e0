#include "topology/parts.h"

unsigned topology_butterfly_stages(size_t slots)
{
    unsigned m = 0;
    while (slots > 1 && (slots - 1) >> m)
        m++;
    return m;
}

size_t topology_butterfly_pair(const uint32_t *holder, size_t slots, unsigned stage, bool shifted,
                               uint32_t *partner)
{
    uint32_t first = TOPOLOGY_VACANT, waiting = TOPOLOGY_VACANT;
    size_t alone = 0;
    for (size_t at = 0; at < slots; at++) {
        size_t mate = at ^ (size_t)1 << stage;
        uint32_t self = holder[at], other = mate < slots ? holder[mate] : TOPOLOGY_VACANT;
        if (self == TOPOLOGY_VACANT)
            continue;
        partner[self] = other;
        if (other != TOPOLOGY_VACANT)
            continue;
        if (alone++ == 0 && shifted) {
            first = self;
        } else if (waiting == TOPOLOGY_VACANT) {
            waiting = self;
        } else {
            partner[self] = waiting;
            partner[waiting] = self;
            waiting = TOPOLOGY_VACANT;
        }
    }
    if (first != TOPOLOGY_VACANT && waiting != TOPOLOGY_VACANT) {
        partner[first] = waiting;
        partner[waiting] = first;
    }
    return alone;
}
