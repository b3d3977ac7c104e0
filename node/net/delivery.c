#include "node/net/delivery.h"

#include "base/error.h"
#include <linux/tcp.h> // its tcp_info has the bytes that were acknowledged
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

bool node_delivery_sample(int socket, struct node_delivery_sample *sample)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    *sample = (struct node_delivery_sample){.waits = info.tcpi_unacked > 0 || info.tcpi_probes > 0,
                                            .acked = info.tcpi_bytes_acked,
                                            .round_ns = info.tcpi_rtt * 1000ull};
    return true;
}

bool node_delivery_look(struct node_delivery *delivery, uint64_t now_ns,
                        const struct node_delivery_sample *sample)
{
    const uint64_t rounds_ns = NODE_DELIVERY_ROUNDS * sample->round_ns,
                   limit_ns = rounds_ns > NODE_DELIVERY_STUCK_NS ? rounds_ns : NODE_DELIVERY_STUCK_NS;
    BASE_ASSERT(limit_ns > 0);
    if (!sample->waits || !delivery->waits || sample->acked != delivery->acked ||
        now_ns < delivery->looked_ns || now_ns - delivery->looked_ns > NODE_DELIVERY_LATE_NS)
        delivery->since_ns = now_ns;
    delivery->waits = sample->waits;
    delivery->acked = sample->acked;
    delivery->looked_ns = now_ns;
    return now_ns - delivery->since_ns >= limit_ns;
}
