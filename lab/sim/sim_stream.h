// Streams of the simulated network; only test/support/sim_net.c and sim_stream.c need this.
#ifndef LAB_SIM_STREAM_H
#define LAB_SIM_STREAM_H

#include "lab/sim/sim_net.h"

uint64_t sim_net_delay(struct sim_net *net, size_t from, size_t to); // of one packet sent now
bool sim_net_open(struct sim_net *net, size_t from, size_t to);      // neither cut nor gone
// All streams of a host whose process ended. Silent: nobody tells the other ends.
void sim_streams_orphan(struct sim_net *net, size_t host, bool silent);
void sim_streams_free(struct sim_net *net);

#endif
