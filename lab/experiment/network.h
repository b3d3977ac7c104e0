// The times of messages in a network of hosts under virtual time. There is no queue of events: a message
// books its place on the wires when it is sent, and its time of arrival is known at once.
//
// Each host has one access link, out and in, of sim.bandwidth each way. A message of B bytes waits until the
// sender's way out is free and occupies it for 8 B / bandwidth, and the same for the receiver's way in, at
// the same time where both are free; latency and jitter are added. So a single message takes 8 B / bandwidth
// + latency, and n messages at once to one host take n times the transfer time. A message of one packet does
// not wait for larger ones, as with fair queueing, but they wait for it. A bandwidth of a single link
// (sim.links) is a further limit of that link. A lost packet of a stream costs one round trip, and so does
// each repetition that is lost; a lost datagram is gone.
//
// Pure: seeded, no clock. Calls in the same order give the same times. One owner.
#ifndef LAB_EXPERIMENT_NETWORK_H
#define LAB_EXPERIMENT_NETWORK_H

#include "lab/experiment/experiment.h"
#include "lab/experiment/links.h"

#define LAB_PACKET_BYTES 1460u

enum lab_carrier { LAB_STREAM, LAB_DATAGRAM };

struct lab_network;

// The content of `links` is borrowed for life.
enum base_error lab_network_create(const struct lab_links *links, uint64_t seed, struct lab_network **network,
                                   struct base_reason *why) BASE_CHECK;
void lab_network_destroy(struct lab_network *network); // NULL is fine

// A message from one host to another at now_ns. Calls come in the order of time; an earlier time uses the
// wires as later calls left them. False: it is lost. To keep a stream in order, its owner delays a message
// until the previous one has arrived.
bool lab_network_send(struct lab_network *network, enum lab_carrier carrier, size_t from, size_t to,
                      size_t bytes, uint64_t now_ns, uint64_t *arrival_ns);

// The links of an experiment. The reason names file, line and key.
enum base_error lab_links_of(const struct lab_experiment *experiment, struct lab_links *links,
                             struct base_reason *why) BASE_CHECK;

#endif
