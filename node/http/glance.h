// The overview of a node: is it connected, does it learn, how much time is left, which member is slow, what
// is wrong. The log's line, /status, /metrics and the page show the same. Pure.
#ifndef NODE_HTTP_GLANCE_H
#define NODE_HTTP_GLANCE_H

#include "node/http/status.h"

enum node_condition { // if several apply, the last of them
    NODE_FINE,
    NODE_FINISHED,   // its last step is done, or it was told to stop
    NODE_COPIED,     // it is done, with a model that is another node's for the most part
    NODE_APART,      // it is done, and its model is not the one that the others agreed on
    NODE_WAITING,    // it takes no step: it waits for others or for a model, or is held back
    NODE_EDGE_DOWN,  // it trains, but with some neighbours of the plan nothing is averaged
    NODE_STALLED,    // it should take steps and takes none, or far fewer than it did
    NODE_MINORITY,   // half of the members or more are dead, or it is cut off
    NODE_ALONE,      // it trains, but averages with no node though others are or were there
    NODE_REFUSED,    // listed peers train something else or do not allow this node
    NODE_DIVERGED,   // the loss is far above what it was, or the node has returned to its last good model
    NODE_NOT_FINITE, // loss or model was not finite in the latest rounds
    NODE_DISK_FULL,  // its files can't be written, or the next checkpoint would not fit
    NODE_CONDITIONS
};
const char *node_condition_name(enum node_condition condition); // "disk_full"

struct node_glance {
    enum node_condition condition;
    char text[384];     // the same as a sentence
    size_t here, known; // members alive or suspected, this one included; the same and those that died
    size_t neighbours, linked, live; // in the graph; those of them with a link; with a live edge
    size_t quiet;                    // of them without an exchange for unusually long
    double steps_per_s, left_s;      // NAN: not known; left_s: also if training has no end
    const char *slowest;             // of the members that train; NULL: fewer than two are known. Borrowed
    double slowest_steps_per_s;      // NAN: not known
    double slowest_step_s, step_s;   // computing time of a step: of the slowest, the median; NAN: not known
};
void node_glance_of(const struct node_status *status, struct node_glance *glance);
// Whether the node takes part as it should: /healthz. A node that waits for others, has lost some of its
// edges or cannot write is ready.
bool node_glance_ready(const struct node_status *status, const struct node_glance *glance);

// The line of the log: text, and for JSON logs its fields: ,"step":1,... Cut at capacity.
void node_glance_line(const struct node_status *status, const struct node_glance *glance, char *text,
                      size_t capacity);
void node_glance_fields(const struct node_status *status, const struct node_glance *glance, char *fields,
                        size_t capacity);
// "19 min 44 s"
#define NODE_SPAN_TEXT 48
const char *node_span_text(double seconds, char text[NODE_SPAN_TEXT]);

#endif
