// Whether what is sent on a TCP connection arrives, as the kernel sees it. A path may swallow large packets
// without a word, or a router may have forgotten the connection: both ends then keep it, and nothing arrives.
#ifndef NODE_NET_DELIVERY_H
#define NODE_NET_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#define NODE_DELIVERY_STUCK_NS 2000000000ull // and at least NODE_DELIVERY_ROUNDS round trips
#define NODE_DELIVERY_ROUNDS   4u
#define NODE_DELIVERY_LATE_NS  1000000000ull // between two looks: the process was suspended in between

struct node_delivery_sample {
    bool waits;     // sent bytes, or a probe of an idle connection, wait for an answer
    uint64_t acked; // bytes so far
    uint64_t round_ns;
};
bool node_delivery_sample(int socket, struct node_delivery_sample *sample); // false: it is not TCP

struct node_delivery { // zeros: no look yet
    uint64_t acked, since_ns, looked_ns;
    bool waits;
};
// A look, several times a second. True: nothing has been acknowledged for so long that it is stuck.
bool node_delivery_look(struct node_delivery *delivery, uint64_t now_ns,
                        const struct node_delivery_sample *sample);

#endif
