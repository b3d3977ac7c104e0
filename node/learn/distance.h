// Whether the models of the nodes stay apart: the consensus distance |x - r| / |x| of each exchange, in means
// over windows. Pure; the learner's thread.
#ifndef NODE_LEARN_DISTANCE_H
#define NODE_LEARN_DISTANCE_H

#include <stdint.h>

// From 70 trainings that ended near one with all data, where it is never said, and 33 that ended far below
// (README.md).
#define NODE_DISTANCE_WINDOW  24u  // exchanges
#define NODE_DISTANCE_BOUND   0.15 // apart, if a window's mean is above it
#define NODE_DISTANCE_FALLS   0.9  // coming closer, if the mean is below this part of the one before
#define NODE_DISTANCE_WINDOWS 4u   // in a row

struct node_distance { // zeroed: nothing noted
    double sum, before;
    uint64_t exchanges; // at the latest note
    unsigned noted;     // in the open window
    unsigned apart;     // windows in a row
    double stays;       // the mean at which they first stayed apart; 0: they have not
};

// The distance after the latest of so many exchanges. The same exchange counts once, a NAN not at all.
void node_distance_note(struct node_distance *distance, uint64_t exchanges, double consensus);

#endif
