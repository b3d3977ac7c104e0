// Which vectors of a node are in which memory, and how many bytes they take: for people, before a node
// starts.
#ifndef NODE_MEMORY_H
#define NODE_MEMORY_H

#include "node/config/config.h"
#include "train/dataset.h"

#define NODE_MEMORY_TEXT 512u

struct node_memory_side {
    char vectors[NODE_MEMORY_TEXT]; // their names, "" where there are none
    char edge[64];                  // the names of the vectors of each neighbour
    uint64_t bytes, edge_bytes;     // of all of them; of each neighbour
};
struct node_memory {
    struct node_memory_side device, host; // device: all empty where the model is on the host
};

// For a model of so many parameters. `on_device`: its kernels have memory of their own; `lends`:
// node_setup_lends of them.
void node_memory_of(const struct node_config *config, uint64_t parameters, bool on_device, bool lends,
                    struct node_memory *memory);

// For --check: logs it, for the device that the configuration names. If that device does not answer, the log
// says so, and what it would hold. `data`: of the node. BASE_EINVAL: the model cannot be built.
enum base_error node_memory_check(const struct node_config *config, const struct train_dataset *data,
                                  struct base_reason *why) BASE_CHECK;

#endif
