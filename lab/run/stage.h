// Lets the events of a run happen: kills, stops and starts its nodes and cuts their network, at its time.
// Main thread.
#ifndef LAB_STAGE_H
#define LAB_STAGE_H

#include "lab/display.h"
#include "lab/run/nodes.h"

struct lab_stage {
    struct lab_swarm *swarm;
    const char *program;      // p2pml-node
    char *const *environment; // for the nodes
    struct lab_display *display;
    uint64_t base_ns; // when all nodes trained; 0: not yet
};

// What is due now. Call after the nodes' files were read.
void lab_stage_perform(struct lab_stage *stage, uint64_t now_ns);
// From now to the next event, at most `most_ns`.
uint64_t lab_stage_wait(const struct lab_stage *stage, uint64_t now_ns, uint64_t most_ns);
// No node runs, but only because events ended them, and one is still to be started.
bool lab_stage_goes_on(const struct lab_stage *stage);
// Nothing more will happen: lets stopped nodes go on.
void lab_stage_close(struct lab_stage *stage, const char *reason);

#endif
