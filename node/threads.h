// The threads of one node, which work on what node_setup_create made: loop, worker and learner start and end
// together. Used by daemon/main.c, and by lib/ with another learner.
#ifndef NODE_THREADS_H
#define NODE_THREADS_H

#include "node/learn/hosted.h"
#include "node/setup.h"

struct node_threads;

struct node_threads_options {
    struct node_setup *setup;   // borrowed
    bool signals;               // this node handles SIGTERM, SIGINT and SIGHUP
    bool manager;               // the process is this node's: it reports to a service manager (notify.h)
    bool joins;                 // node_threads_run may return NODE_LOOP_JOINS, and only an exec may follow
    bool told_shard;            // likewise: node_loop_options.told_shard
    struct node_hosted *hosted; // the learner in the place of setup->trainee, borrowed; or NULL
    uint64_t examples;          // of its own data, by which it is weighed; 0: not told
};

// Opens the ports. Errors as node_loop_create.
enum base_error node_threads_open(const struct node_threads_options *options, struct node_threads **threads,
                                  struct base_reason *why) BASE_CHECK;
// Starts worker and learner and runs the loop on the calling thread until the node has left. Returns an exit
// status, 0 or 1; with 1, *why has the cause ("": not known). Returns NODE_THREADS_UNSTARTED, with *why, if
// the threads cannot be started. With `signals`, a second SIGINT (base/stop.h; or another process with this
// identity) makes it return NODE_LOOP_ABANDONED at once: worker and learner still work, and only _exit may
// follow. A hosted node instead writes its checkpoint, without telling the other nodes.
#define NODE_THREADS_UNSTARTED (-2)
int node_threads_run(struct node_threads *threads, struct base_reason *why);
void node_threads_destroy(struct node_threads *threads); // after run, or instead of it

// Any thread, from open to destroy. The node leaves as on SIGTERM: at a round boundary, with a checkpoint.
void node_threads_leave(struct node_threads *threads);
void node_threads_save(struct node_threads *threads); // a checkpoint, at the next boundary with an exchange
void node_threads_accuracy(struct node_threads *threads,
                           double accuracy); // of a hosted program's model, 0 to 1
// In the turn of a hosted program: node_learner_saves.
bool node_threads_saves(const struct node_threads *threads);
void node_threads_reload(struct node_threads *threads); // as on SIGHUP
// The text of /status, malloc'ed; NULL if the loop does not run, or does not answer within two seconds. One
// caller at a time.
char *node_threads_status(struct node_threads *threads);
struct node_loop;
const struct node_loop *node_threads_loop(const struct node_threads *threads);

#endif
