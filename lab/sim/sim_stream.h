// Streams of the simulated network; only sim_net.c and sim_stream.c need this.
#ifndef LAB_SIM_STREAM_H
#define LAB_SIM_STREAM_H

#include "lab/sim/sim_net.h"

#define SIM_RESEND_NS (50 * SIM_MS) // retransmission of a lost packet of a stream, without a wire

uint64_t sim_net_due(struct sim_net *net, size_t from, size_t to); // arrival of one packet of a stream
uint64_t sim_net_due_of(struct sim_net *net, size_t from, size_t to, size_t wire_bytes);
// The same for a datagram; false: it is lost.
bool sim_net_datagram_due(struct sim_net *net, size_t from, size_t to, size_t wire_bytes, uint64_t *due_ns);
const struct sim_path *sim_path_of(const struct sim_net *net, size_t from, size_t to);
// Ends all streams of a host whose process ended. `silent`: without informing the other ends.
void sim_streams_orphan(struct sim_net *net, size_t host, bool silent);
void sim_streams_free(struct sim_net *net);

#endif
