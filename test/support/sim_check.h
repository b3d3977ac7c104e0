// What may never happen, held against every step of every process. A death is false unless something explains
// it: the process was down, or a fault kept it (or the observer) from the others for about as long as a
// suspicion lasts. Loss, slow nodes, jumping clocks, cuts between two nodes and liars explain nothing.
#ifndef TEST_SUPPORT_SIM_CHECK_H
#define TEST_SUPPORT_SIM_CHECK_H

#include "test/support/sim_node.h"

struct sim_harm {
    uint64_t since_ns, until_ns; // one stretch of faults with hardly a pause between them
    uint64_t excused_until_ns;   // it was down, or cut off for long
};

struct sim_seen { // of one identity by one process
    bool known;
    enum gossip_member_state state;
    struct gossip_version version;
};

// A fault keeps `host` from others until then. Short ones next to each other add up.
void sim_check_harm(struct sim_world *world, size_t host, uint64_t until_ns);
void sim_check_excuse(struct sim_world *world, size_t host, uint64_t until_ns);
bool sim_check_excused(const struct sim_world *world, size_t host);

void sim_check_started(struct sim_node *node);
void sim_check_step(struct sim_node *node);
void sim_check_actions(struct sim_node *node, size_t taken);
void sim_check_changed(struct sim_node *node, size_t peer, const struct gossip_membership_action *action);
void sim_check_record(struct sim_node *node, size_t peer);
void sim_check_view(struct sim_node *node);
void sim_check_datagram(struct sim_node *node, size_t bytes);
void sim_check_stream_packet(struct sim_node *node, size_t bytes);
void sim_check_refused(struct sim_node *node, size_t peer); // what an honest peer said was refused
void sim_check_boot(struct sim_node *node, uint64_t boot);
void sim_check_conflict(struct sim_node *node);
void sim_check_deadline(struct sim_node *node, uint64_t deadline_ns, const char *what);
void sim_check_edges(struct sim_node *node);
void sim_check_round_done(struct sim_node *node);

// -- after everything has healed
bool sim_check_agree(struct sim_world *world,
                     const char **what);                 // all that live hold the same view of the living
bool sim_check_connected(const struct sim_world *world); // the graph of live edges
bool sim_check_edges_match(struct sim_world *world);     // r the same, c opposite at live edges at rest
void sim_check_describe(const struct sim_world *world, FILE *file); // who sees what
double sim_check_distance(const struct sim_world *world);           // largest |x_i - mean|, any element
double sim_check_sum_error(const struct sim_world *world);          // of the mean of all models, any element
double sim_check_pull(
    const struct sim_world *world); // sum of all drift corrections, any element: 0 but for the dead
double sim_check_excess_loss(const struct sim_world *world); // of the mean, over the best for the living
bool sim_check_counts(const struct sim_world *world, size_t identity); // runs, and is eligible
struct sim_node *sim_check_process(const struct sim_world *world,
                                   size_t identity); // the one that runs, or NULL

#endif
