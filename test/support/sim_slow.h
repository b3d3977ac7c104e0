// Slow links for a simulated cluster: each host has one line out and one line in of a given number of bits
// per second, each with a short queue, as a modem has. What is sent occupies the sender's line out and then
// the receiver's line in. What fits into one packet waits at most as long as the queue holds, since larger
// messages of other streams are cut into packets and take turns with it. A datagram that finds the queue full
// may be lost.
#ifndef TEST_SUPPORT_SIM_SLOW_H
#define TEST_SUPPORT_SIM_SLOW_H

#include "base/rng.h"
#include "lab/sim/sim_net.h"

struct sim_slow {
    struct sim_wire wire; // owned
    struct base_rng rng;
    // bits: per second in each direction; latency, jitter: in one direction; queue: how long a full one takes
    uint64_t bits, latency_ns, jitter_ns, queue_ns;
    uint64_t *out_ns, *in_ns; // [hosts] when everything sent so far is through
    uint64_t lost, bytes;
};

void sim_slow_create(struct sim_slow *slow, size_t hosts, uint64_t seed);
void sim_slow_destroy(struct sim_slow *slow);

#endif
