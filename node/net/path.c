#include "node/net/path.h"

#include "node/queue/clock.h"
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

bool node_path_of(int socket, struct node_path *path)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    *path = (struct node_path){0};
    if (socket < 0 || getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || info.tcpi_pmtu == 0)
        return false;
    *path = (struct node_path){.round_trip_ns = info.tcpi_rtt * NODE_MILLISECOND_NS / 1000,
                               .rate = info.tcpi_delivery_rate,
                               .mtu = info.tcpi_pmtu,
                               .segment = info.tcpi_snd_mss,
                               .unacked = info.tcpi_unacked};
    return true;
}
