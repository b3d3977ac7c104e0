// A whole training on slow links in virtual time: the learner, what is watched, and how the result is judged
// (test_gossip_slow.c has the events).
#ifndef TEST_SUPPORT_SLOW_COURSE_H
#define TEST_SUPPORT_SLOW_COURSE_H

#include "base/hash.h"
#include "lab/sim/sim_node.h"
#include "test/support/cpu_kernels.h"
#include "test/support/sim_slow.h"

enum {

    NODES_MAX = 12,
    PARAMETERS = 4096,
    ROUNDS = 400,
    LOCAL_STEPS = 4,
    TURN_MS = 20,
    DELTA_BITS = 6000
};

#define RATE       0.02f
#define NOISE      0.5f
#define CEILING_NS (5 * SIM_SECOND)
#define LOST_MAX   0.25 // distance from the best model, beyond the undisturbed run's; 1: that of a lone model
#define GONE_LOST  0.1  // and for each node that is gone for good, or held out or apart at the end
#define LEAD_LEAST 32u  // rounds that a node may always be ahead (gossip/exchange/create.c)
#define EDGES_MAX  4u
#define MEET_NS    (2 * SIM_SECOND)  // two that were apart know where the other one is
#define PARTS_NS   (60 * SIM_SECOND) // after healing, nodes are in step
#define ALONE_MAX  4u // rounds in a row that end before a deadline, with others and without an edge

struct course;
struct scenario {
    const char *name;
    void (*plan)(struct course *course, struct base_rng *rng);
};

struct moment {
    uint64_t round; // round of the cluster: the median of the nodes that train
    uint64_t after_ns;
    void (*act)(struct course *course, size_t host, uint64_t ns);
    size_t host;
    uint64_t ns;
};

struct sim_trainer {
    float *x, *correction, *target;
    uint64_t step;
    bool ended;                      // took its last step in its present life
    uint64_t began, began_ns, quick; // its latest round, and when that began
};

struct course {
    struct sim_world world;
    struct sim_slow slow;
    struct sim_learner learner;
    struct sim_watch watch;
    const struct scenario *scenario;
    bool short_rounds; // the training is over before the models of those that were away are near the others
    struct sim_trainer sim_trainer[NODES_MAX];
    float *start, *best;
    struct base_rng rng;
    uint64_t compute_ns;
    struct moment moment[128];
    size_t moments;
    bool gone[NODES_MAX];             // for good
    bool apart[NODES_MAX][NODES_MAX]; // separated now, or a moment ago
    // Parts that train without each other: when the network between them heals; when two nodes were last in
    // different parts; what is left of the lead that one had over the other by then.
    uint64_t healed_ns, parted_ns[NODES_MAX][NODES_MAX], had[NODES_MAX][NODES_MAX];
    bool missed[NODES_MAX]; // was apart or down when the last of the others ended, and has none to follow
    bool faded[NODES_MAX];  // held out until others ended, whose models lack its pull
    uint64_t lead, alone;
    uint64_t overdue; // 0: no deadline of an exchange has passed
    size_t lead_of;
    double worst;  // distance of the worst model from the best one: 1 is that of a lone model
    double over_s; // virtual time when all had ended
    const char *why;
};

void slow_course_create(struct course *course, uint64_t seed, const struct scenario *scenario,
                        bool short_rounds);
void slow_course_destroy(struct course *course);

// Runs from the first step to the end of the last process; `plain`: the same seed undisturbed, or NULL. Sets
// `why` if something is wrong.
void slow_course_run(struct course *course, const struct course *plain);

#endif
