// Slow links for a simulated cluster: each host has one way out and one way in of so many bits a second, with
// a short queue before each, as a modem has. What is sent occupies the sender's way out and then the
// receiver's way in. What fits into one packet waits at most as long as the queue holds, since larger
// messages of other streams are cut into packets and take turns with it; a datagram that finds the queue
// full may be lost.
#ifndef TEST_SUPPORT_SIM_SLOW_H
#define TEST_SUPPORT_SIM_SLOW_H

#include "base/rng.h"
#include "lab/sim/sim_net.h"

struct sim_slow {
    struct sim_wire wire; // of which it is the owner
    struct base_rng rng;
    uint64_t bits, latency_ns, jitter_ns, queue_ns; // bits a second, each way; one way; a full queue
    uint64_t *out_ns, *in_ns;                       // [hosts] when all that was sent is through
    uint64_t lost, bytes;
};

void sim_slow_create(struct sim_slow *slow, size_t hosts, uint64_t seed);
void sim_slow_destroy(struct sim_slow *slow);

#endif
