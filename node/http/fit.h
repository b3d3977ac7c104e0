// Settings that do not fit what the node measures: which value, what was found, what to do. Nothing is
// changed. Pure.
#ifndef NODE_HTTP_FIT_H
#define NODE_HTTP_FIT_H

#include "node/http/status.h"

enum node_fit {
    NODE_FIT_PROFILE, // members answer later than cluster.profile expects
    NODE_FIT_CEILING, // exchanges take longer than a boundary may wait for one neighbour
    NODE_FIT_MODE, // in sync boundaries wait for one neighbour, whose link is slow or which waits for another
    NODE_FIT_ROUND, // exchanges take far longer than the steps between them
    NODE_FITS
};

struct node_unfit {
    enum node_fit what;
    const char *key; // "average.deadline_ceiling"
    char text[384];
};
// The settings that do not fit now, in the order of the enum; none while the node does not train.
size_t node_fit_of(const struct node_status *status, struct node_unfit unfit[NODE_FITS]);

#endif
