// What a node of libp2pml is made of. open.c makes it from a configuration and tensors, p2pml.c starts its
// threads and takes turns with them.
#ifndef LIB_NODE_H
#define LIB_NODE_H

#include "gossip/life/learner.h"
#include "lib/judge.h"
#include "lib/p2pml.h"
#include "lib/vectors.h"
#include "node/config/config.h"
#include "node/learn/hosted.h"
#include "node/setup.h"
#include "node/threads.h"
#include <pthread.h>
#include <sys/types.h>

//     OPEN --start--> STARTING --OK--> TURN <==> LENT            any --> ENDED
//                                        |         |
//                                        +--leave--+--> LEAVING
enum lib_state { LIB_OPEN, LIB_STARTING, LIB_TURN, LIB_LENT, LIB_LEAVING, LIB_ENDED };

struct p2pml_node {
    pid_t process; // opened the node, and is the only one that may use its threads
    enum lib_state state;
    const struct node_config *config; // &own, or the caller's
    struct node_config own;
    bool resume, changes;
    uint64_t examples;      // of the program's own; 0: not told
    struct lib_judge judge; // `seed` is NULL: the program does not judge
    struct train_tensor *tensors;
    size_t n_tensors;
    struct lib_vectors vectors;
    struct gossip_blob blob, blob_before; // blob_before: from the beginning of the turn, kept
    bool blob_set;                        // if the program has replaced the blob (blob_set)
    struct node_program_state program;    // for the next checkpoint; at first, of the one that was resumed
    bool turned, gives;                   // the program has had a turn; it gave a state in this one
    bool has_setup, running;              // running: `thread` must be joined
    struct node_setup setup;
    struct node_hosted *hosted;
    struct node_threads *threads;
    pthread_t thread;
    int status;             // `thread` writes these
    struct base_reason why; // two before it ends
    struct base_reason reason;
};

// The model that the tensors describe. Its kernels run on the CPU: the averaged vectors lie in the program's
// memory.
enum base_error lib_make_model(const p2pml_node *node, const struct kernels **kernels,
                               struct train_model **model, struct base_reason *why) BASE_CHECK;
void lib_free(p2pml_node *node); // a node without threads here: none run, or they run in the parent process

#endif
