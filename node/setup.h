// Makes everything of a node that can fail, before its ports open, in this order: directory and lock,
// identity, secret, allow-list, graph, data, model, trainer, resume, exchange, metrics. On error everything
// is undone, except the directory and a new identity. Main thread, before the others start.
#ifndef NODE_SETUP_H
#define NODE_SETUP_H

#include "gossip/exchange/exchange.h"
#include "gossip/session/identity.h"
#include "node/average/worker.h"
#include "node/config/config.h"
#include "node/learn/built_in.h"
#include "node/learn/scaling.h"
#include "node/store/checkpoint_beside.h"
#include "node/store/journal.h"
#include "node/store/keeper.h"
#include "node/store/metrics.h"
#include "node/store/model_file.h"
#include "node/store/place.h"
#include "node/store/rounds.h"
#include "node/store/starts.h"
#include "node/store/tensorboard.h"
#include "topology/topology.h"
#include "train/trainer.h"

struct gossip_rounds_options;

enum node_setup_steps {    // who takes the local steps
    NODE_STEPS_BUILT_IN,   // the built-in trainer
    NODE_STEPS_OF_PROGRAM, // the program around the node, which is never forked: checkpoints are written in
                           // place
    NODE_STEPS_OF_A_JUDGE, // such a program that compares models
};

struct node_setup {
    const struct node_config *config; // borrowed
    int lock;                         // <dir>/lock, held while the process lives
    struct node_keeper *keeper;       // of <dir>
    struct gossip_identity identity;
    char name[LIMIT_NODE_NAME_BYTES];
    struct gossip_secrets secrets;
    struct topology_graph *graph; // of topology.file, or NULL
    struct topology_options topology;
    bool has_allow, has_remover;
    struct gossip_allow_list allow;
    struct gossip_id remover;      // cluster.operator
    const struct kernels *kernels; // of the model
    struct train_dataset train, test;
    struct node_scaling *scaling;  // computed from the examples of all nodes, or NULL
    struct node_model_about about; // what the numbers of the model mean
    struct train_model *model;
    struct train_trainer *trainer;
    uint64_t first_model;             // digest of `start`, not 0
    float *start;                     // [parameters] the initial model; NULL after setup if `seeded`
    bool seeded;                      // it can be made again from model.seed
    float *outer, *round_start;       // [parameters] V and x0, or NULL without outer momentum
    struct node_built_in trainee;     // the trainer as a learner
    float *kept;                      // its last good state
    struct gossip_blob *blob;         // of a program that trains, or of the scaling; borrowed; or NULL
    struct node_program_state *state; // of a program that trains; borrowed; or NULL
    uint64_t round, resumes;          // of a checkpoint that was resumed, as the next five
    uint64_t reached;                 // the round up to which the journal after it leads; 0: there is none
    bool resumed;                     // from a checkpoint
    bool unsettled, open;             // struct node_checkpoint_parts
    float open_scale;
    struct node_starts starts;
    uint64_t instance_id; // random number of this process
    char starts_path[NODE_PATH_BYTES], events_path[NODE_PATH_BYTES];
    struct gossip_exchange *exchange;
    struct gossip_greeting greeting;
    size_t message_limit;
    struct node_metrics *metrics;
    struct node_rounds *rounds;
    struct node_tensorboard *tensorboard; // NULL: none
    struct node_checkpoint_beside beside;
    struct node_journal journal;
    enum node_setup_steps steps;
};

struct node_setup_options {
    const char *version; // of the program, for people
    bool resume;
    // Makes the model and its trainer: fills kernels, model, trainer, start (malloc'ed), and model and schema
    // of the greeting. node_setup_training also fills data and trainee; its context is NULL, or
    // a table of kernels that replaces device.kind.
    enum base_error (*training)(struct node_setup *setup, void *context, struct base_reason *why);
    void *context;
};
enum base_error node_setup_training(struct node_setup *setup, void *context,
                                    struct base_reason *why) BASE_CHECK;
enum base_error node_setup_create(const struct node_config *config, const struct node_setup_options *options,
                                  struct node_setup *setup, struct base_reason *why) BASE_CHECK;
void node_setup_destroy(struct node_setup *setup);
// Callbacks for node_worker_options, with the setup as their context. The last checkpoint is written at once,
// the others beside training. One that is due while the previous one is still being written is skipped, with
// a warning.
enum base_error node_setup_checkpoint(void *setup, const struct node_round *round,
                                      struct base_reason *why) BASE_CHECK;
enum base_error node_setup_checkpoint_ended(void *setup, struct base_reason *why) BASE_CHECK;
bool node_setup_checkpoint_wanted(const void *setup); // soon: no journal is kept, or it is long
void node_setup_journal(void *setup, const uint8_t *records, size_t bytes);

// Where the rounds begin.
struct gossip_rounds_options node_setup_rounds(const struct node_setup *setup);
// Writes model.safetensors into the node's directory: the trainer's model as it stands. Called when the
// threads have ended.
enum base_error node_setup_model_file(struct node_setup *setup, struct base_reason *why) BASE_CHECK;

// Whether the data of the checkpoint are those that are here: the same meaning, and no example that it was
// trained on is held out now. A changed file is a warning. BASE_EMISMATCH.
enum base_error node_setup_check_resumed(const struct node_setup *setup, const struct node_safetensors *file,
                                         struct base_reason *why) BASE_CHECK;

// What model files say about a model that learned from this data; `origin` stays empty.
struct node_model_about node_setup_about(const struct node_config *config, const struct train_dataset *data);
// As kernels_open wants it.
const char *node_setup_device(const struct node_config *config);
// Whether the exchange works in the memory of a device that the model is on.
bool node_setup_lends(const struct node_config *config);
// How many parameters the model has; `host`: a table of kernels of the host, for a model that is not kept.
enum base_error node_setup_parameters(const struct node_config *config, const struct train_dataset *data,
                                      const struct kernels *host, size_t *parameters,
                                      struct base_reason *why) BASE_CHECK;
// The model and the trainer that a configuration asks for; the lab's central and lone runs use them, too.
enum base_error node_setup_model(const struct node_config *config, const struct train_dataset *data,
                                 const struct kernels *kernels, struct train_model **model,
                                 struct base_reason *why) BASE_CHECK;
// Writes the initial weights, from model.init or model.seed, into start[parameters]. BASE_EMISMATCH and the
// others of node_model_read: the reason names the key.
enum base_error node_setup_start(const struct node_config *config, const struct train_model *model,
                                 float *start, struct base_reason *why) BASE_CHECK;
// Checks that model.init fits, before there is a model. BASE_OK if it is empty.
enum base_error node_setup_check_start(const struct node_config *config, const struct train_dataset *data,
                                       struct base_reason *why) BASE_CHECK;
// `self`: what only this node has: its id, or where it has a shard its name. With train.seed it decides the
// order of the examples and how they are augmented.
enum base_error node_setup_trainer(const struct node_config *config, const char *self,
                                   struct train_model *model, const struct train_dataset *data,
                                   const float *start, struct train_trainer **trainer,
                                   struct base_reason *why) BASE_CHECK;

// The options of the exchange that follow from the configuration; identity, kernels and vectors stay empty.
// The simulator uses it, too.
enum base_error node_setup_exchange_options(const struct node_config *config,
                                            struct gossip_exchange_options *options,
                                            struct base_reason *why) BASE_CHECK;

#endif
