// What turns.c (whose turn it is, and what a trainer is told of it), requests.c (the messages of a trainer)
// and trainer.c (descriptors and time) share, lowest first. Included nowhere else.
#ifndef DAEMON_PRIVATE_H
#define DAEMON_PRIVATE_H

#include "base/stop.h"
#include "daemon/address.h"
#include "daemon/message.h"
#include "daemon/trainer.h"
#include "node/notify.h"
#include "node/queue/clock.h"

#define SERVER_IDLE_NS NODE_SECOND_NS // between two rounds of a node without a trainer

enum server_state {
    SERVER_CLOSED,   // no node, or one that was not started
    SERVER_NODES,    // the node joins, or a round is under way
    SERVER_IDLE,     // a turn that no trainer has taken
    SERVER_TRAINERS, // the trainer takes steps
    SERVER_LEAVING,
    SERVER_OVER,
};

enum server_judge {   // of the models of others
    SERVER_TAKES_ALL, // the peer does not judge, or there is none
    SERVER_JUDGES,
    SERVER_JUDGING, // it was asked, and has not answered
};

struct server {
    const struct daemon_trainer_options *options;
    struct daemon_address address;
    struct node_notify notify; // until the node reports by itself
    int signals, peer;         // descriptors; -1: none
    int refused;               // was told that there is another trainer; closed when it has sent something
    enum server_state state;
    p2pml_node *node;              // from the first OPEN on
    struct daemon_tensors tensors; // of the node
    bool begun;                    // the node has joined
    bool fresh;                    // the peer has had no turn
    bool undone;                   // the round under way undoes a trainer's steps
    enum daemon_kind asked;        // the peer waits for this answer; 0: for none
    enum server_judge judge;       // the peer
    struct p2pml_round round;      // as last told
    uint64_t idle_ns;              // since when SERVER_IDLE
    uint64_t heard_ns;             // when the peer sent something, or was answered
    uint64_t rests_ns;             // no trainer is accepted until then
    struct base_stop stop;
    bool succeeded;
    uint8_t in[DAEMON_MESSAGE_MAX + 1], out[DAEMON_MESSAGE_MAX];
};

// turns.c. Without a reason where `code` is P2PML_OK. `bytes` of s->out; `descriptor`: goes with them, -1:
// none.
void server_send(struct server *s, size_t bytes, int descriptor);
void server_answer(struct server *s, enum daemon_kind kind, int code, const char *reason);
void server_answer_node(struct server *s, enum daemon_kind kind, int code); // with the node's reason
void server_enter(struct server *s, enum server_state state);
void server_give_turn(struct server *s);
void server_take_round(struct server *s, const struct p2pml_round *round);
void server_end(struct server *s);          // the node has ended
void server_look_at_node(struct server *s); // its descriptor is readable
void server_judge(struct server *s);        // asks the peer about the model that the node asks about
void server_step_idle(struct server *s);
void server_undo(struct server *s); // the steps of the turn
void server_leave(struct server *s);
void server_forget_node(struct server *s);
void server_drop(struct server *s, const char *why); // the trainer

// requests.c. The trainer's descriptor is readable.
void server_read_trainer(struct server *s);

#endif
