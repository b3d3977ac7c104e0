// The faults of a simulated cluster, all drawn from the seed: processes are killed and come back with their
// disk as it was, old, torn or lost; they are paused, with or without their clocks; clocks jump; networks are
// cut between two nodes, in one direction, or into parts; paths clog; packets are lost; many nodes restart at
// once; some come late or leave; a second process has the same identity. Everything is over by the time of
// healing, except for the nodes that are gone for good.
#ifndef TEST_SUPPORT_SIM_FAULT_H
#define TEST_SUPPORT_SIM_FAULT_H

#include "lab/sim/sim_node.h"

struct sim_faults {
    struct sim_world *world;
    struct base_rng rng;
    uint64_t heal_ns;  // everything is over
    uint64_t pause_ns; // between two faults, on average
    bool gentle;       // without faults that explain a death or lose memory
    bool gone[64];     // for good
    size_t n_gone, pairs;
    uint64_t last_death_ns; // of the nodes that are gone for good
    struct sim_disk backup[64];
    bool has_backup[64];
};

void sim_faults_create(struct sim_faults *faults, struct sim_world *world, uint64_t heal_ns, bool gentle);
void sim_faults_destroy(struct sim_faults *faults);
void sim_faults_begin(struct sim_faults *faults, uint64_t from_ns);

// One fault each; also for tests of a specific fault. `until_ns` is in virtual time.
void sim_fault_kill(struct sim_faults *faults, size_t host, bool silent, uint64_t until_ns);
void sim_fault_pause(struct sim_faults *faults, size_t host, bool clock_stands, uint64_t until_ns);
void sim_fault_split(struct sim_faults *faults, const uint8_t *part, uint64_t until_ns); // [hosts]
void sim_fault_cut(struct sim_faults *faults, size_t from, size_t to, bool both, uint64_t until_ns);
void sim_fault_start_later(struct sim_faults *faults, size_t host, uint64_t at_ns);

// A member that lies (sim_liar.c): from now on, 100 times a second.
void sim_liar_begin(struct sim_node *node);

#endif
