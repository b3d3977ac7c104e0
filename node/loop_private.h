// What node/loop.c (making, running, signals), node/loop_events.c (events, messages), node/loop_life.c (what
// the life of this node decides, carried out), node/loop_words.c (log
// lines about it), node/loop_bind.c, node/loop_glance.c and node/loop_pages.c share: the loop's state.
// Included nowhere else.
#ifndef NODE_LOOP_PRIVATE_H
#define NODE_LOOP_PRIVATE_H

#include "base/stop.h"
#include "gossip/life/life.h"
#include "gossip/statistics/statistics.h"
#include "node/cluster/cluster.h"
#include "node/http/fit.h"
#include "node/http/history.h"
#include "node/http/http.h"
#include "node/http/rates.h"
#include "node/http/status.h"
#include "node/loop.h"
#include "node/net/stream.h"
#include "node/notify.h"
#include "node/queue/backlog.h"
#include "node/queue/message.h"

#define N_SIGNALS        3
#define NODE_TOKEN_BYTES 64u

struct node_loop {
    struct node_loop_options options;
    struct event_base *base;
    struct node_streams *streams;
    struct node_cluster *cluster;
    struct node_http *http;
    struct node_backlog *backlog;
    struct event *message, *tick, *signals[N_SIGNALS];
    uint16_t port, http_port;
    uint64_t started_ns;
    struct node_notify notify;
    struct gossip_life *life;
    struct gossip_statistics *statistics; // NULL: the scaling is known, or does not depend on other nodes
    bool acting;                          // an action of the life is being carried out
    bool taking;                          // events of links, members and life are being taken
    char duplicate_at[NODE_ADDRESS_TEXT]; // another process with this identity, according to a peer; ""
    struct base_stop stop;                // by signals
    int status;
    struct base_reason cause;         // why this node did not end normally; ""
    char *taken;                      // settings of the cluster with which this node starts again; NULL: none
    struct gossip_id duplicate_shard; // the member that was last reported to have this node's shard, too
    char taken_why[NODE_ADDRESS_TEXT + LIMIT_NODE_NAME_BYTES + 80];
    struct node_progress progress;
    struct gossip_exchange_totals totals;
    struct gossip_edge_info *edges;
    size_t n_edges;
    struct gossip_address pages;                                 // of the HTTP port, for the record
    struct node_rates *step_rates, *sent_rates, *received_rates; // of members; of edges, and in all
    struct node_history history;
    struct node_meets meets;
    uint64_t noted_ns, line_ns;       // rates; the latest line of log.progress
    uint64_t fit_ns;                  // settings were compared with what is measured
    unsigned unfit[NODE_FITS];        // how often in a row each did not fit
    char token[NODE_TOKEN_BYTES + 1]; // of node_loop_set; "": none
    char *directory;                  // node.dir with its full path; NULL: not known
    double weight;                    // as last told to the learner; 0: never
};

// loop_events.c
void node_loop_take_events(void *loop);                                      // all of links and members
void node_loop_live(struct node_loop *loop, struct gossip_life_event event); // now_ns is filled in
// Lets the life decide what is due. Called after every change that may matter, and with every tick.
void node_loop_consider(struct node_loop *loop);
void node_loop_take_messages(struct node_loop *loop);
void node_loop_reload(struct node_loop *loop); // the allow-list and the list of faults

// loop_weight.c
// How many examples of its own this node has, by which it is weighed; 0: it has a shard, or a weight is
// configured.
uint32_t node_loop_own_examples(const struct node_loop_options *options);
// Tells the learner how much this node counts now. Called when members come, go or change.
void node_loop_weigh(struct node_loop *loop);

// loop_life.c
enum base_error node_loop_make_life(struct node_loop *loop, struct base_reason *why) BASE_CHECK;
void node_loop_act(struct node_loop *loop, const struct gossip_life_action *action);
// Posts the worker a message of this kind about `peer`.
void node_loop_post_peer(struct node_loop *loop, enum node_message_kind kind, const struct gossip_id *peer);

// loop_statistics.c
enum base_error node_loop_make_statistics(struct node_loop *loop) BASE_CHECK;
bool node_loop_gathered(const void *loop, const struct gossip_id *peer);      // struct gossip_life_world
void node_loop_gather(struct node_loop *loop, const struct gossip_id *first); // sends it this node's
// True: they were taken, and a decision may depend on them.
bool node_loop_statistics_heard(struct node_loop *loop, const struct gossip_id *peer,
                                const struct gossip_statistics_message *message);
// Sends the combined statistics to the learner, which begins with them; once. False: no memory.
bool node_loop_join_statistics(struct node_loop *loop);
void node_loop_drop_statistics(struct node_loop *loop); // a model has arrived, with its scaling

// loop_words.c
// Logs why this node is about to end; node_loop_cause.
void node_loop_fail(struct node_loop *loop, const char *event, const char *format, ...) BASE_PRINTF(3, 4);
void node_loop_say(struct node_loop *loop, const struct gossip_life_action *notice);
void node_loop_say_apart(struct node_loop *loop); // the models stay apart
void node_loop_say_rates(struct node_loop *loop, const struct gossip_edge_info *edge); // so do learning rates

// loop_glance.c
void node_loop_note_progress(struct node_loop *loop); // it has changed
void node_loop_glance(struct node_loop *loop);        // with every tick
void node_loop_say_end(const struct node_loop *loop); // the last step is done: warns if that is not all well

// loop_join.c. NODE_PEERS_SETTINGS: this node starts again with the settings of the cluster.
void node_loop_take_settings(struct node_loop *loop, const struct node_peers_event *event);
// `peer` took this node's shard, too, and has precedence: this node starts again with another one.
void node_loop_move(struct node_loop *loop, const struct gossip_id *peer, uint32_t shard);
// Warns in the log if `peer` has this node's shard.
void node_loop_warn_of_duplicate_shard(struct node_loop *loop, const struct gossip_id *peer);
// Keeps the greeting's `shard` true: called when members have changed.
void node_loop_tell_joining(struct node_loop *loop);

// loop_removed.c
void node_loop_tell_removed(struct node_loop *loop, const struct gossip_id *peer); // a link is in use now
void node_loop_removed_heard(struct node_loop *loop, const struct gossip_id *peer,
                             const struct gossip_removed_message *message);
enum node_removed_answer {
    NODE_REMOVED_TAKEN,
    NODE_REMOVED_NO_OPERATOR,
    NODE_REMOVED_NOT_SIGNED, // by the operator, for this cluster
    NODE_REMOVED_OLD,        // this node has a list with a higher number
};
// A signed list as hex digits: from now on all nodes refuse its ids.
enum node_removed_answer node_loop_remove(struct node_loop *loop, const char *hex);

// loop_set.c
void node_loop_make_token(struct node_loop *loop); // a fresh one, into node.dir
// A POST of "key=value"; `owner` is the loop.
void node_loop_set(void *owner, const char *token, const char *assignment, struct node_http_answer *answer);

// loop_settings.c
void node_loop_take_setting(struct node_loop *loop, const struct gossip_life_action *action);
// Those of the process that is resumed.
enum base_error node_loop_read_settings(const struct node_loop *loop, struct gossip_life_options *options,
                                        struct base_reason *why) BASE_CHECK;

// A value for people; NAN: as this node is configured.
void node_loop_value_text(const struct node_loop *loop, enum gossip_setting_kind kind, double value,
                          char out[32]);

// loop_bind.c: all ports, or none.
struct node_ports {
    int peers, datagrams, http; // -1: none
};
enum base_error node_loop_bind(const struct node_loop_options *options, struct node_ports *ports,
                               struct base_reason *why) BASE_CHECK;
struct gossip_address node_loop_pages_address(int listener); // as a record has it; -1: none

// loop_pages.c. Calls `see` with the current state of this node; not if out of memory.
void node_loop_look(const struct node_loop *loop, void (*see)(void *owner, const struct node_status *status),
                    void *owner);
// The answer to one HTTP request; `owner` is the loop.
void node_loop_answer(void *owner, const char *path, struct node_http_answer *answer);
void node_loop_post_status(struct node_loop *loop); // to options.answers

#endif
