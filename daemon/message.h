// Messages between a trainer in another process and the daemon; README.md has their bytes. Reads a request of
// the trainer into a struct and writes an answer. Pure. One packet of the socket is one message.
#ifndef DAEMON_MESSAGE_H
#define DAEMON_MESSAGE_H

#include "base/error.h"
#include "lib/p2pml.h"
#include "train/model.h"
#include "train/probe.h"

#define DAEMON_PROTOCOL    2u      // 1 is spoken, too: such a trainer is asked nothing
#define DAEMON_MESSAGE_MAX 131072u // bytes of one message, either way

enum daemon_kind {
    DAEMON_OPEN = 1, // the names and shapes of the tensors; the answer has the vectors
    DAEMON_START,    // answered when the first turn of this trainer begins
    DAEMON_ROUND,    // ends its turn; answered when the next one begins
    DAEMON_STATUS,
    DAEMON_SAVE,
    DAEMON_BLOB,
    DAEMON_LEAVE, // ends the node; answered when it has left
    DAEMON_JUDGE, // the daemon asks for the losses of a model, and the trainer tells them
    DAEMON_KINDS
};

struct daemon_tensors { // of an OPEN: owned by the request, freed with it
    size_t count;
    struct p2pml_tensor *list; // points into the next two
    char (*names)[sizeof((struct train_tensor *)0)->name];
    size_t (*shapes)[TRAIN_DIMS];
};

struct daemon_request {
    enum daemon_kind kind;
    uint32_t protocol;             // OPEN
    struct daemon_tensors tensors; // OPEN
    uint64_t steps;                // ROUND
    double step_scale, loss;
    bool sets;           // BLOB: `blob` replaces the node's
    const uint8_t *blob; // borrowed from the message
    size_t blob_bytes;
    size_t n_losses; // JUDGE; 0: not known
    double losses[TRAIN_PROBE_EXAMPLES];
};

// BASE_EFORMAT with a reason for people, BASE_ENOMEM; after an error there is nothing to free. `kind` is set
// if the message names one, else 0.
enum base_error daemon_request_read(const uint8_t *bytes, size_t count, struct daemon_request *request,
                                    struct base_reason *why) BASE_CHECK;
void daemon_request_free(struct daemon_request *request);

bool daemon_tensors_equal(const struct daemon_tensors *a, const struct daemon_tensors *b);

struct daemon_opened { // the answer to OPEN
    bool started;      // the node already trains: the model vector holds its model and must not be written
    uint32_t vectors;  // bit i: vector i of p2pml_vector exists
    uint64_t parameters, stride;
};
// Each returns the bytes written into `message`.
size_t daemon_answer_opened(const struct daemon_opened *opened, uint8_t message[DAEMON_MESSAGE_MAX]);
size_t daemon_answer_round(enum daemon_kind kind, const struct p2pml_round *round,
                           uint8_t message[DAEMON_MESSAGE_MAX]);
// The model of a JUDGE goes with it, in a memfd.
size_t daemon_question(uint64_t parameters, uint8_t message[DAEMON_MESSAGE_MAX]);
// P2PML_OK with the bytes of this kind, or another code with a reason. Cut off if it does not fit.
size_t daemon_answer(enum daemon_kind kind, int code, const void *bytes, size_t count,
                     uint8_t message[DAEMON_MESSAGE_MAX]);

#endif
