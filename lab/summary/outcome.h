// Effects of an event, from the nodes' records: which nodes noticed it and when, how long rounds stalled,
// and what it cost in accuracy. Pure functions of the records.
#ifndef LAB_OUTCOME_H
#define LAB_OUTCOME_H

#include "lab/record/history.h"
#include "lab/record/nodes.h"

#define LAB_WINDOW_S 5.0 // the time after an event (after its end, if it has one) in which effects count

// The report of a node that was present. All times in seconds after the event, `recovered` after its end;
// NAN: it did not happen, or is unknown.
struct lab_witness {
    size_t node;
    double
        detected;   // KILL: dead; LEAVE: left; STOP: suspected; START: joined; PARTITION: the others are dead
    double dead;    // STOP and PARTITION: declared dead
    double rewired; // the first view without the node; START: the first that has it as a neighbour
    double recovered;                        // STOP and PARTITION: alive again
    double longest_gap, stalled_rounds;      // between two rounds; in units of its usual gap, less one
    double accuracy_before, accuracy_lowest; // the latest before the event; in the window
    double accuracy_end;
};
struct lab_times { // of the witnesses
    size_t seen, of;
    double median, last; // NAN: none
};
struct lab_outcome {
    struct lab_witness witnesses[LAB_NODES_MAX];
    size_t count;
    struct lab_times detected, rewired, recovered;
    size_t declared_dead;
    double first_round;    // START: until the node's first round
    double stalled_rounds; // of the witness with the longest stall
    double stalled_seconds;
    size_t stalled_node;
    double accuracy_before, accuracy_lowest, accuracy_end; // means of witnesses that measured the first two
};

// `histories` [cluster->count]; NULL: omits the results that need them.
void lab_outcome_of(const struct lab_cluster *cluster, size_t event, const struct lab_history *histories,
                    struct lab_outcome *outcome);
// Seconds from the moment when all nodes trained until the event began; NAN: at a round, and it did not
// happen.
double lab_event_seconds(const struct lab_cluster *cluster, size_t event);
// A living node was declared dead, and no event explains it.
bool lab_death_is_false(const struct lab_cluster *cluster, const struct lab_sign *sign);
size_t lab_false_deaths(const struct lab_cluster *cluster); // by all nodes together
void lab_histories_read(const struct lab_cluster *cluster, struct lab_history histories[LAB_NODES_MAX]);
void lab_histories_free(struct lab_history histories[LAB_NODES_MAX]);

#endif
