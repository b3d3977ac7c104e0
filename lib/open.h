// Further functions behind p2pml.h, for a daemon that serves a trainer in another process: the node is opened
// with a configuration that is already read, its vectors lie in a file that both processes map, and the steps
// of a trainer that died are undone.
#ifndef LIB_OPEN_H
#define LIB_OPEN_H

#include "lib/p2pml.h"
#include "node/config/config.h"

struct lib_options {
    const struct node_config *config; // borrowed; checked and completed
    const struct p2pml_tensor *tensors;
    size_t n_tensors;
    bool resume, changes;
    uint64_t examples;
    bool judges; // the models of others: lib_asks
    bool shared; // the vectors lie in a memfd of fixed size, and the process runs nothing but the node
};

// The defaults of a node whose local steps another program takes: that program decides when training is over,
// and saves what it holds, so nothing is held back.
enum base_error lib_defaults(struct node_config *config, struct base_reason *why) BASE_CHECK;
// As p2pml_open; BASE_EINVAL for average.outer_momentum, which only the built-in trainer has.
enum base_error lib_open(const struct lib_options *options, p2pml_node **node,
                         struct base_reason *why) BASE_CHECK;
// The memfd of the vectors, in which vector `which` begins at which * lib_stride. It belongs to the node, and
// lib_undo replaces it.
int lib_descriptor(const p2pml_node *node);
size_t lib_stride(const p2pml_node *node);
// Ends the program's turn as if no step had been taken. The model is the last published one again, as
// round_end will report, and the blob is the one with which the turn began. Shared vectors move to other
// memory, so that a process that still writes into the old memory does not reach this node.
int lib_undo(p2pml_node *node);
// The model whose losses the node asks for, [parameters]; NULL: none. p2pml_fd is readable, and start,
// round_end and leave return AGAIN, until lib_losses has answered: as a p2pml_losses does, 0: not known. The
// models of one question come one after another.
const float *lib_asks(const p2pml_node *node);
void lib_losses(p2pml_node *node, const double *losses, size_t count);
void lib_reload(
    p2pml_node *node); // the secrets, the allow-list and node.fault_file are read again, as on SIGHUP
// After ENDED: whether the node left on request.
bool lib_succeeded(const p2pml_node *node);

#endif
