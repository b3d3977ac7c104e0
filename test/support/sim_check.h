// Invariants, checked at every step of every process. A death is false unless something explains it: the
// process was down; or a fault separated it (or the observer) from the others for about as long as a
// suspicion lasts; or observer and subject had no way to each other for as long (sim_apart.c). No deadline of
// an exchange passes without a fault between its two ends, or of one of them, shortly before. Loss, slow
// nodes, jumping clocks, liars, and a cut between two nodes where a third one can confirm explain nothing.
#ifndef TEST_SUPPORT_SIM_CHECK_H
#define TEST_SUPPORT_SIM_CHECK_H

#include "lab/sim/sim_node.h"
#include "lab/sim/sim_world.h"
#include <stdio.h>

struct sim_harm {
    uint64_t since_ns, until_ns; // one stretch of faults with hardly a pause between them
    uint64_t excused_until_ns;   // it was down, or cut off for long
};

struct sim_apart {
    uint64_t since_ns, until_ns; // one stretch without a way between two processes
};

struct sim_seen { // what one process has seen of one identity
    bool known;
    enum gossip_member_state state;
    struct gossip_version version;
};

struct sim_check {
    struct sim_watch watch; // of which it is the owner
    struct sim_world *world;
    struct sim_harm *harm;   // [hosts] what explains a death
    struct sim_seen *seen;   // [hosts * nodes]
    struct sim_apart *apart; // [hosts * hosts] by observer and subject
    uint64_t look_ns;        // when the ways between processes are looked at next
    unsigned *stuck;         // [hosts] turns in which a timer stayed in the past
    uint64_t *overdue;       // [hosts] deadlines of the exchange that have passed in this process
    uint64_t *broken_ns;     // [hosts * hosts] when the way from one to the other was last found cut
    bool gentle;             // no process may lose state: the ends of edges match
    bool may_lose;           // a process lost its memory, or an edge was forgotten: sums may change
    bool lenient;            // false deaths are only counted
    uint64_t deaths, deaths_evidence, false_deaths, suspects;
    uint64_t excused;      // deadlines that passed because of a fault
    uint64_t false_deltas; // that a liar has sent
    // Called for every change of a member at an observer; may be NULL.
    void (*changed)(struct sim_world *world, size_t host, const struct gossip_membership_action *action);
};

// Call this before the world is created: the world takes &check->watch.
void sim_check_create(struct sim_check *check, struct sim_world *world, size_t nodes, size_t hosts);
void sim_check_destroy(struct sim_check *check);
struct sim_check *sim_check_of(const struct sim_world *world);

// A fault separates `host` from the others until then. Short faults with little time between them add up.
void sim_check_harm(struct sim_world *world, size_t host, uint64_t until_ns);
void sim_check_excuse(struct sim_world *world, size_t host, uint64_t until_ns);
bool sim_check_excused(const struct sim_world *world, size_t host);

void sim_apart_look(struct sim_check *check);
// There was no way for at least that long, until a moment ago.
bool sim_apart_for(const struct sim_check *check, size_t observer, size_t subject, uint64_t least_ns);

// -- after everything has healed
bool sim_check_agree(struct sim_world *world,
                     const char **what);                 // all living nodes have the same view of the living
bool sim_check_connected(const struct sim_world *world); // the graph of live edges
bool sim_check_edges_match(struct sim_world *world);     // r the same and c opposite at live edges at rest
void sim_check_describe(const struct sim_world *world, FILE *file); // the views of all processes
double sim_check_distance(const struct sim_world *world);           // largest |x_i - mean|, any element
double sim_check_sum_error(const struct sim_world *world);          // of the mean of all models, any element
double sim_check_pull(const struct sim_world *world); // sum of all drift corrections: 0 except for dead nodes
double sim_check_excess_loss(const struct sim_world *world); // of the mean, over the best of the living
bool sim_check_counts(const struct sim_world *world, size_t identity); // runs, and is eligible
struct sim_node *sim_check_process(const struct sim_world *world,
                                   size_t identity); // the running one, or NULL

#endif
