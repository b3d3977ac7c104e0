// p2pml doctor: what stands between this host and its peers, and what to change.
#ifndef LAB_DOCTOR_DOCTOR_H
#define LAB_DOCTOR_DOCTOR_H

#include "lab/doctor/findings.h"
#include "node/config/config.h"

// Asks the page of a running node. `cluster`: the one that it must be of; NULL: any. BASE_EIO: no answer;
// BASE_EMISMATCH: a node of another cluster.
enum base_error lab_doctor_node(const char *address, const char *cluster, struct lab_findings *findings,
                                struct base_reason *why) BASE_CHECK;
// Tries on this host what the node with this configuration would do: its ports, its address, a call to each
// peer. Asks the page of the node, too, if it runs. Takes seconds for each peer that does not answer.
// BASE_ENOMEM, BASE_EIO: no entropy.
enum base_error lab_doctor_host(const struct node_config *config, struct lab_findings *findings,
                                struct base_reason *why) BASE_CHECK;

#endif
