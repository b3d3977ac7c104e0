// Carries out the events of a run, each at its time or round, on processes and simulated nodes alike: decides
// which are due and records the outcome. struct lab_player_acts has the effects on nodes. Main thread.
#ifndef LAB_RECORD_EVENT_PLAYER_H
#define LAB_RECORD_EVENT_PLAYER_H

#include "lab/record/display.h"
#include "lab/record/nodes.h"

enum lab_act { LAB_ACT_KILL, LAB_ACT_LEAVE, LAB_ACT_STOP, LAB_ACT_RESUME };

struct lab_player_acts {
    void *owner;
    double (*time)(void *owner); // unix seconds
    bool (*runs)(void *owner, size_t node);
    // *round: rounds done by the node. False: it does not run, or has done none since its start.
    bool (*trains)(void *owner, size_t node, uint64_t *round);
    enum base_error (*start)(void *owner, size_t node, struct base_reason *why); // also a restart
    void (*act)(void *owner, size_t node, enum lab_act act);
    void (*cut)(void *owner, const struct lab_event *event, bool apart);
};

struct lab_player {
    struct lab_cluster *cluster;
    struct lab_display *display;
    struct lab_player_acts acts;
    bool open;        // all nodes have trained, so times count
    uint64_t base_ns; // from this moment on
};

// Carries out the events that are due. Called after every round, or after the nodes' files were read.
void lab_player_perform(struct lab_player *player, uint64_t now_ns);
// Only checks the progress of the nodes. True: an event is due.
bool lab_player_look(struct lab_player *player, uint64_t now_ns);
// The time of the next event that has a time; UINT64_MAX: none.
uint64_t lab_player_next(const struct lab_player *player, uint64_t now_ns);
uint64_t lab_player_next_round(const struct lab_player *player); // the same for events at a round
// True: no node runs because events have ended them all, and an event will start one again.
bool lab_player_goes_on(const struct lab_player *player);
// No more events follow: resumes stopped nodes.
void lab_player_close(struct lab_player *player, const char *reason);

#endif
