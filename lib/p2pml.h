/* libp2pml: a node of a p2pml cluster inside a program that trains a model of its own.
 *
 *     open -> vector -> start -> { local steps, round_begin, round_end }* -> leave -> close
 *
 * The model is one flat vector of floats. In its turn the program takes `steps` local steps on the model and
 * follows each of them with model += learning rate * correction, outside its optimiser. Then the program
 * lends the vectors to the node (round_begin), which averages with its neighbours, and takes them back
 * (round_end). From start to the first OK of start, and from round_begin to the OK of round_end, the vectors
 * belong to the node: the program neither reads nor writes them. In the meantime a program whose model is on
 * a GPU may continue its steps there, and add the changes afterwards (`changes`).
 *
 * Functions return P2PML_OK, P2PML_AGAIN (not yet: the time is up), P2PML_ENDED (the node has left; the
 * vectors are the program's) or a negative error, whose text is p2pml_reason; on an error nothing has
 * changed. A call at the wrong time returns P2PML_EORDER. No call waits longer than its timeout
 * (milliseconds; 0: not at all, negative: as long as it takes), except for `judge`.
 *
 * Threads: a node has four of its own (more while it resolves host names), which block all signals and call
 * no function of the program. (`judge` is called by the program's own calls.) The program calls one function
 * of a node at a time. Nodes are independent; a process may hold any number. Signals: none is handled or
 * changed. fork: the child may only call p2pml_close on its copy, which does not end the node; any other call
 * returns P2PML_EFORK there. exec inherits nothing. Log lines go to standard error (log.level). */
#ifndef P2PML_H
#define P2PML_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    P2PML_OK = 0,
    P2PML_AGAIN = 1,
    P2PML_ENDED = 2,
    P2PML_ENOMEM = -1,
    P2PML_EINVAL = -2,
    P2PML_EFORMAT = -3,
    P2PML_ELIMIT = -4,
    P2PML_EIO = -5,
    P2PML_EAUTH = -6,
    P2PML_EMISMATCH = -7,
    P2PML_ENOTFOUND = -8,
    P2PML_EORDER = -9,
    P2PML_EFORK = -20
};
enum { P2PML_MODEL, P2PML_SECOND_MOMENT, P2PML_CORRECTION, P2PML_HELD };
enum { P2PML_TAKEN = 1, P2PML_RESTORED = 2 }; /* p2pml_round.another */

typedef struct p2pml_node p2pml_node;

struct p2pml_tensor {
    const char *name;    /* unique, at most 95 bytes; all nodes need the same tensors in the same order */
    const size_t *shape; /* [dims] */
    size_t dims;         /* 0 (a number) to 8 */
};
/* Writes the losses of `model` [parameters] on up to `most` examples of the program's own, the same examples
 * in the same order each time, and returns how many; one that has only their mean writes that. 0: not known.
 * Negative: not now; the call returns P2PML_AGAIN, and the next one asks again. start, round_end or leave
 * calls this for the model that the program began with, for its own, and for another one: before a model of
 * others replaces the program's (a donor's; the merged one at the end), which is refused if it is clearly
 * worse; and with average.robust clip+probe, the default, round_end for what a neighbour pulls to, at most
 * in 1/25 of the time: a neighbour that is again and again clearly worse moves this model no more.
 * Meanwhile the program may read its vectors. p2pml_close does not call it. */
typedef int (*p2pml_losses)(void *context, const float *model, double *losses, int most);
struct p2pml_options {           /* unused members are zero */
    size_t size;                 /* sizeof(struct p2pml_options) */
    const char *config_file;     /* YAML, keys as `p2pml-node --help` lists them; or NULL */
    const char *config_text;     /* the same as text, read after it; or NULL */
    const char *const *settings; /* "key=value", read last; NULL-terminated; or NULL */
    const struct p2pml_tensor *tensors;
    size_t n_tensors;
    int resume;  /* continue from the newest checkpoint in node.dir, if there is one */
    int changes; /* round_end lists the changed entries; costs two vectors of memory */
    uint64_t
        examples; /* on which this program trains, and no other node; 0: not told, all nodes count alike */
    p2pml_losses judge; /* or NULL: the models of others are taken as they come; costs two vectors */
    void *judge_context;
};
struct p2pml_round {     /* result of start and round_end; lists are valid until the next round_begin */
    uint64_t steps;      /* local steps to take now (average.local_steps, fewer at the end) */
    uint64_t steps_done; /* before these, in the cluster's count */
    double pace;         /* this node's time per step over its neighbours' median; 1: not known */
    double weight;       /* of this node's gradient, by which the program multiplies it: train.weight, or its
                          * examples over the mean of all nodes that tell theirs; else 1 */
    int another;         /* the model is now a member's (P2PML_TAKEN), or a checkpoint's (P2PML_RESTORED) */
    int rolled_back;     /* NaN or infinity was given: the model is the last published one again, and the
                          * program sets what is not finite in its optimiser to zero */
    int saves;           /* the next round_begin writes a checkpoint: p2pml_state is expected before it */
    int dense;           /* no lists: look at the whole vectors */
    size_t changed;      /* entries in the lists */
    const uint32_t *index;   /* ascending */
    const float *model;      /* to be added to the model as it was given */
    const float *correction; /* new values */
};

/* Reads and checks the configuration and allocates the vectors. On error returns NULL and writes the reason
 * to reason[bytes]. */
p2pml_node *p2pml_open(const struct p2pml_options *options, char *reason, size_t bytes);
/* [parameters], page-aligned; *parameters may be NULL. Tensors lie in it one after another, row-major. Fill
 * in the model before start. Returns NULL for SECOND_MOMENT (Adam's v) if train.optimizer is neither adamw
 * nor muon, for CORRECTION without average.drift_correction, and for HELD without average.hold. With it, the
 * program takes its steps at a model that is less by HELD than the one that neighbours and checkpoints get:
 * whenever the vectors are the program's, MODEL + HELD is that one. So save and evaluate the sum, and only
 * read HELD. Once the node has ended, HELD is zero. */
float *p2pml_vector(p2pml_node *node, int which, size_t *parameters);
/* Joins: opens the ports, meets the peers, takes the cluster's model if others already train. OK: the
 * first round begins. AGAIN: call again. round may be NULL. */
int p2pml_start(p2pml_node *node, int timeout_ms, struct p2pml_round *round);
/* Lends the vectors. steps: local steps taken since the last OK (0 to 1,000,000,000; those beyond train.steps
 * do not count); step_scale: the sum of their learning rates; loss: their mean loss (NaN: not known), for
 * people, and for the condition "diverged": far above what it was. Never waits. */
int p2pml_round_begin(p2pml_node *node, uint64_t steps, double step_scale, double loss);
/* Takes the vectors back. AGAIN: call again. */
int p2pml_round_end(p2pml_node *node, int timeout_ms, struct p2pml_round *round);
/* A descriptor that becomes readable when start or round_end has a result, so that it would not return AGAIN,
 * or calls `judge`. It belongs to the node; only poll it. */
int p2pml_fd(const p2pml_node *node);
/* The node and its cluster as JSON, as GET /status of a daemon; free() it. NULL: not started, or ended. */
char *p2pml_status(p2pml_node *node);
/* The accuracy of the model, 0 to 1, as the program has measured it: for the page, /status, /metrics and
 * metrics.jsonl. P2PML_EINVAL: another number. */
int p2pml_accuracy(p2pml_node *node, double accuracy);
/* Writes a checkpoint with the next round_begin. */
int p2pml_save(p2pml_node *node);
/* Bytes of the program that travel with the model, such as the state of a schedule or the hash of a
 * tokenizer; at most 65,536 (P2PML_ELIMIT). data replaces the node's bytes; NULL: nothing changes. *now,
 * *now_bytes (or NULL): the node's bytes, valid until the vectors are lent. From the first OK of start on, a
 * late joiner has the bytes of a member, and a resumed node those of its checkpoint. Call it in the program's
 * turn or before start.
 */
int p2pml_blob(p2pml_node *node, const void *data, size_t bytes, const void **now, size_t *now_bytes);
/* What this program needs to continue from a checkpoint, besides the vectors and the blob: its optimiser, its
 * schedule, its place in the data. It is part of checkpoints and is never sent. data (copied): belongs to the
 * checkpoint that the next round_begin or leave writes, and to no later one; at most 64 models and 64 KiB
 * (P2PML_ELIMIT). NULL: nothing changes. *now, *now_bytes (or NULL): what was given, or the bytes of the
 * checkpoint that was resumed; valid until the vectors are lent. Call it in the program's turn. */
int p2pml_state(p2pml_node *node, const void *data, size_t bytes, const void **now, size_t *now_bytes);
/* Leaves the cluster: lends the vectors for the last time, tells the others, writes a checkpoint. ENDED:
 * done; the model vector is as in the checkpoint. AGAIN: call again. */
int p2pml_leave(p2pml_node *node, int timeout_ms);
/* If the node has not left yet, makes it leave and waits for that; then frees everything, including the
 * vectors. NULL: does nothing. */
void p2pml_close(p2pml_node *node);
/* The reason of the latest call that failed, or why the node ended; "": none. */
const char *p2pml_reason(const p2pml_node *node);

#ifdef __cplusplus
}
#endif
#endif
