// The parts of an experiment in the nodes engine. simulate_nodes.c creates and runs it;
// simulate_learner.c: the learners of lab/sim over lab/compute/shard_trainers and lab/compute/pool;
// simulate_record.c: the files of the nodes; simulate_sample.c: rounds.jsonl;
// simulate_events.c: the key `events`. Only the jobs of the pool run outside the main thread.
#ifndef LAB_VIRTUAL_SIMULATE_PRIVATE_H
#define LAB_VIRTUAL_SIMULATE_PRIVATE_H

#include "lab/attack/attack.h"
#include "lab/experiment/network.h"
#include "lab/experiment/step_times.h"
#include "lab/record/event_player.h"
#include "lab/sim/sim_node.h"
#include "lab/virtual/simulate_nodes.h"
#include "node/learn/built_in.h"
#include "node/store/events.h"
#include "node/store/metrics.h"

#define SIMULATE_NEVER UINT64_MAX

// A job takes the local steps of one round. Where a measurement is due, it first measures the model of the
// last round, so that an evaluation never delays virtual time.
struct sim_trainer {
    struct simulation *simulation;
    size_t node;
    struct node_built_in
        trainee; // the trainer is the shard_trainers', V and x0 of outer momentum are its own
    struct train_model *model;
    struct lab_attack *attack; // NULL: it is honest
    struct gossip_learner_vectors vectors;
    uint64_t announced_ns;  // virtual: when it last told of the members that it makes up
    float *last;            // [parameters] the final model; NULL: not finished
    const float *measuring; // [parameters] the job measures it; NULL: none
    struct lab_job job;
    bool under_way, used;        // a job runs; the trainer has taken steps
    bool living[LAB_NODES_MAX];  // shards that have a living node
    bool shards_wait;            // `living` has changed: the next job applies it
    uint64_t steps, round, step; // to take in the job; done so far
    uint64_t rounds;             // done by this process
    uint64_t steps_ns;           // virtual time of those steps
    double pace;                 // of the node, in the job
    struct lab_score score;      // the latest measurement
    uint64_t scored;             // the round of it; SIMULATE_NEVER: none
    struct node_metrics *metrics;
    struct node_events *events;
    struct node_metrics_row row;
    struct gossip_round_account account;   // of that row
    bool row_waits;                        // for its measurement
    uint64_t sent_before, received_before; // bytes, by processes before this one
};

struct evaluator { // measures every `stride`th item, with its own model
    const struct simulation *simulation;
    struct train_model *model;
    const float *const *models;
    struct lab_score *scores;
    size_t first, stride, count;
};

struct simulation {
    const struct lab_simulate_options *options;
    const struct lab_experiment *experiment;
    const struct lab_workbench *bench;
    struct lab_cluster *cluster;
    struct lab_shard_trainers *shard_trainers;
    struct lab_pool *pool;
    struct lab_step_times step_times;
    struct lab_links links;
    struct lab_network *network;
    struct topology_graph *graph; // of topology.file, or NULL
    uint32_t *group;              // [nodes]
    struct sim_world world;
    struct sim_learner learner;
    struct sim_watch watch;
    struct sim_wire wire;
    struct sim_trainer *sim_trainers; // [nodes]
    struct evaluator *evaluators;
    struct lab_recorder recorder;
    struct lab_sample latest;    // not written yet: the final sample may be of the same round
    bool holds;                  // `latest` is filled
    uint64_t next_round;         // of the mean node at the next point
    uint64_t begin_ns, round_ns; // virtual: first local step; latest round. 0: none yet
    struct lab_player player;
    uint64_t steps;        // by all nodes
    bool asked;            // to stop
    enum base_error error; // the first of a callback
    struct base_reason why;
};

// -- simulate_learner.c
enum base_error simulate_trainers_create(struct simulation *simulation, struct base_reason *why) BASE_CHECK;
void simulate_trainers_destroy(struct simulation *simulation);

// -- simulate_attack.c
enum base_error simulate_attackers_create(struct simulation *simulation, struct base_reason *why) BASE_CHECK;
void simulate_attackers_arm(
    struct simulation *simulation); // those that lie in messages; before any node starts
// The learner's `give`: the vectors of an attacker are falsified.
void simulate_give(void *owner, size_t host);

// -- simulate_job.c. `measuring`: a model to be measured first, NULL: none.
void simulate_trainer_submit(struct sim_trainer *sim_trainer, uint64_t steps, const float *measuring);
void simulate_trainer_finish(struct sim_trainer *sim_trainer); // waits for its job and writes its row

// -- simulate_record.c
double simulate_unix(uint64_t virtual_ns); // seconds
uint64_t simulate_unix_us(uint64_t virtual_ns);
enum base_error simulate_files_open(struct simulation *simulation, struct base_reason *why) BASE_CHECK;
void simulate_files_close(struct simulation *simulation);
void simulate_watch(struct simulation *simulation, struct sim_watch *watch);
// Of the round that is done; `meets`: it ended with a boundary just now.
void simulate_row_make(struct sim_trainer *sim_trainer, const char *state, bool meets);
void simulate_row_write(struct sim_trainer *sim_trainer);
void simulate_tell_alone(
    const struct sim_trainer *sim_trainer); // an event ends its training before train.steps
uint64_t simulate_bytes_sent(const struct simulation *simulation);

// -- simulate_sample.c
enum base_error simulate_points_create(struct simulation *simulation, struct base_reason *why) BASE_CHECK;
void simulate_points_destroy(struct simulation *simulation);
// An honest node with a published model.
bool simulate_is_there(const struct simulation *simulation, size_t node);
void simulate_point_begin(struct simulation *simulation); // the first local step begins
void simulate_point_look(struct simulation *simulation);  // a round was done: a point, where one is due
// The final sample, over the models of the nodes when they finished; *average: their average.
void simulate_point_end(struct simulation *simulation, struct lab_average *average);

// -- simulate_events.c
void simulate_node_start(struct simulation *simulation, size_t node);
void simulate_events_open(struct simulation *simulation);
void simulate_events_look(struct simulation *simulation,
                          const struct sim_trainer *sim_trainer); // after a round of it
void simulate_events_perform(struct simulation *simulation);      // carries out the events that are due

#endif
