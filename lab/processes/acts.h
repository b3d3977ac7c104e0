// The effects of events on processes, for lab/record/event_player. Main thread.
#ifndef LAB_PROCESSES_ACTS_H
#define LAB_PROCESSES_ACTS_H

#include "lab/record/event_player.h"

struct lab_acts {
    struct lab_cluster *cluster;
    const char *program;      // p2pml-node
    char *const *environment; // for the nodes
    struct lab_display *display;
};

struct lab_player_acts lab_acts_of(struct lab_acts *acts); // borrows them
void lab_acts_tell_faults(struct lab_acts *acts);          // to the nodes that can handle it by now

#endif
