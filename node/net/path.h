// What the kernel has measured on the path of a TCP socket (TCP_INFO). Any thread.
#ifndef NODE_NET_PATH_H
#define NODE_NET_PATH_H

#include <stdbool.h>
#include <stdint.h>

struct node_path {
    uint64_t round_trip_ns; // smoothed; 0: not known
    uint64_t rate;    // bytes per second at which the latest burst was delivered, at least; 0: not known
    uint32_t mtu;     // of the path, as the kernel believes it
    uint32_t segment; // bytes of data in a full packet to the other end
    uint32_t unacked; // packets on the way
};

bool node_path_of(int socket, struct node_path *path); // false: no TCP socket, or not connected

#endif
