// The key `events` of an experiment: actions on the nodes of a run at given moments. Pure functions.
#ifndef LAB_EXPERIMENT_EVENTS_H
#define LAB_EXPERIMENT_EVENTS_H

#include "base/error.h"
#include "lab/experiment/set.h"
#include "node/schema/tree.h"

#define LAB_EVENTS_MAX 1024u // a list of nodes counts as one for each

enum lab_event_kind { LAB_KILL, LAB_STOP, LAB_START, LAB_LEAVE, LAB_PARTITION, LAB_EVENT_KINDS };
const char *lab_event_name(enum lab_event_kind kind); // as in the file: "kill"

struct lab_event {
    enum lab_event_kind kind;
    bool by_round;                 // true: at rounds of the cluster; false: at times
    uint64_t at_ns;                // from the moment when all nodes train
    uint64_t for_ns;               // STOP and PARTITION; else 0
    uint64_t at_round, for_rounds; // the same, by_round
    size_t node;                   // unused in a PARTITION
    uint16_t group[LAB_NODES_MAX]; // in a PARTITION: from 1; 0: in no group, cut from no node
    const struct node_tree *part;  // its place in the file: borrowed
};
struct lab_schedule {
    struct lab_event *items; // malloc'ed, by time, then in the order of the file
    size_t count;
    struct lab_set late; // nodes absent at the beginning: their first event starts them
};

struct lab_moment {    // progress of a run
    uint64_t since_ns; // since all nodes trained
    uint64_t round;    // of the cluster
};

// Reads and checks `events` for `nodes` nodes that train for `rounds` rounds; the schedule borrows the tree.
// BASE_EINVAL: the reason does not name the place in the file; *where does, and *schedule is empty.
enum base_error lab_schedule_read(const struct node_tree *events, size_t nodes, uint64_t rounds,
                                  struct lab_schedule *schedule, const struct node_tree **where,
                                  struct base_reason *why) BASE_CHECK;
// Inserts an event after those of the same moment.
enum base_error lab_schedule_add(struct lab_schedule *schedule, const struct lab_event *event,
                                 struct base_reason *why) BASE_CHECK;
// The highest round that more than half of the nodes have done; 0 without nodes. Sorts `rounds`.
uint64_t lab_cluster_round(uint64_t *rounds, size_t count);
// True: the event is due to begin, or with `end` to end. An event without a length ends when it begins.
bool lab_event_due(const struct lab_event *event, const struct lab_moment *moment, bool end);
bool lab_event_lasts(const struct lab_event *event); // STOP and PARTITION
#define LAB_EVENT_WHEN_BYTES 40u
// Its moment: "2.5 s", "round 300". Returns `text`.
const char *lab_event_when(const struct lab_event *event, char text[LAB_EVENT_WHEN_BYTES]);
// Whether the partition puts the two nodes into different groups.
bool lab_event_cuts(const struct lab_event *event, size_t one, size_t other);
void lab_schedule_free(struct lab_schedule *schedule);

#endif
