// Any messages about statistics, from any of a few nodes: what is accepted combines to numbers that rows can
// have.
#include "gossip/statistics/statistics.h"

#include <math.h>
#include <stdlib.h>

enum { COLUMNS = 300, NODES = 5 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gossip_spread own[COLUMNS], all[COLUMNS];
    const struct gossip_statistics_options options = {
        .self = {{1}}, .generation = 1, .rows = 1, .columns = COLUMNS, .spreads = own};
    struct gossip_statistics *statistics = NULL;
    if (gossip_statistics_create(&options, &statistics))
        abort();
    for (size_t at = 0; at + 3 <= size;) { // a sender, a length, a message
        const struct gossip_id from = {{(uint8_t)(1 + data[at] % NODES)}};
        const size_t wanted = (size_t)(data[at + 1] | data[at + 2] << 8), left = size - at - 3,
                     bytes = wanted < left ? wanted : left;
        struct gossip_message message;
        if (!gossip_message_decode(data + at + 3, bytes, &message) && message.kind == GOSSIP_STATISTICS)
            (void)!gossip_statistics_take(statistics, &from, &message.as.statistics);
        at += 3 + bytes;
    }
    const size_t nodes = gossip_statistics_join(statistics, all);
    BASE_ASSERT(nodes >= 1 && nodes <= NODES);
    for (size_t i = 0; i < COLUMNS; i++)
        BASE_ASSERT(isfinite(all[i].mean) && isfinite(all[i].deviation) && all[i].deviation >= 0 &&
                    all[i].least <= all[i].most);
    gossip_statistics_destroy(statistics);
    return 0;
}
