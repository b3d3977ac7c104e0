// All that a node needs to continue after a restart, in one safetensors file: model, optimiser, outer
// momentum, the references and corrections of its edges with their open transactions, and the place in the
// data. The latest three (config) are kept: <dir>/checkpoint-<step>.safetensors; the newest intact one is
// resumed.
//
// Tensors: "model.<tensor>" [shape]; "state.<vector>" [parameters]; "outer.momentum", and "outer.start" (x0)
// of a round that is not in the momentum yet; "edge.<id>.reference" and ".correction" [parameters], in bf16
// with average.reference: bf16 and none before the first exchange, ".transactions" (U8, if there are any),
// <id> in 64 hex digits; "program.blob" (U8, if it is not empty); "program.state" (likewise);
// "kept.<id>.correction" of neighbours that died (average.on_death). Metadata: format, version, model,
// schema, node, id, round, step, epoch, position, seed, model_seed, boot (resumes so far), journal (the key
// of the file where the journal of the edges continues, in hex; node/store/journal.h); task, labels,
// input_divisor and data as in node/store/model_file.h; "open" = the step scale, as a hex float, if the local
// steps of round + 1 are done and its exchange is not; "unsettled" if the model still lacks the latest
// proximal step (train_trainer_unsettle); and for each edge "edge.<id>" = "epoch sequence resync_offset
// clock".
#ifndef NODE_STORE_CHECKPOINT_H
#define NODE_STORE_CHECKPOINT_H

#include "base/error.h"
#include "gossip/blob.h"
#include "gossip/exchange/exchange.h"
#include "node/store/model_file.h"
#include "node/store/safetensors.h"
#include "train/model.h"
#include "train/trainer.h"

// What a program that trains needs to continue, besides the vectors: its optimiser, its schedule. In
// checkpoints only.
struct node_program_state {
    uint8_t *data; // [bytes], malloc'ed; NULL: none
    size_t bytes;  // at most node_program_state_most()
};
size_t node_program_state_most(size_t parameters);

struct node_checkpoint_parts {
    const struct train_model *model;
    struct train_trainer *trainer;
    struct gossip_exchange *exchange; // NULL: model and optimiser only, and when resuming (see below)
    float *outer;                     // or NULL
    float *round_start;               // x0 of outer momentum, if that is on; written if `unsettled` or `open`
    bool unsettled;   // the exchange of `round` is in the model; outer momentum or the proximal step is
                      // to come
    bool open;        // the local steps of round + 1 are done, its exchange is still to come;
    float open_scale; // their step scale
    struct gossip_blob *blob;         // of a program that trains, or NULL; resuming fills it
    struct node_program_state *state; // likewise; resuming replaces its data
    uint64_t round;
    uint64_t model_seed, resumes; // recorded; resuming sets `resumes` to the file's
    uint64_t journal;             // key of the journal that continues this state; 0: none
    const char *node;             // name
    struct gossip_id id;
    const struct node_model_about *about; // written, so that the model can be used; NULL: left out
};

// BASE_ESTATE: a number is not finite, and the reason names its tensor; a state that can't be resumed is not
// written. Writes a new checkpoint and removes those beyond `keep` (at least 1). On error all older ones are
// still there. A file there with a later step (training started again, or continued from an older checkpoint)
// is renamed to superseded-<step>.safetensors, with a warning in the log: it is not what this training would
// resume from. The directory is made if it is missing. Only one node may use a directory.
enum base_error node_checkpoint_write(const char *directory, size_t keep,
                                      const struct node_checkpoint_parts *parts,
                                      struct base_reason *why) BASE_CHECK;

// The same while another process writes a checkpoint there: its unfinished file stays.
enum base_error node_checkpoint_add(const char *directory, size_t keep,
                                    const struct node_checkpoint_parts *parts,
                                    struct base_reason *why) BASE_CHECK;

// Loads the newest whole checkpoint into the parts (their `round`, `resumes`, `unsettled`, `open` and
// `open_scale` are set; `outer` becomes zero where the file has none, `round_start` the model). A checkpoint
// that holds NaN or infinity counts as damaged. The exchange object needs the resumed model at its creation,
// so resume is called with exchange = NULL and *file kept, then node_checkpoint_resume_edges(file, exchange).
// A damaged one is named in the log and the next older is tried. BASE_ENOTFOUND: none there. BASE_EMISMATCH:
// another model (with both shapes), optimiser, shard or version. BASE_EFORMAT: all are damaged. On error
// nothing has changed. A file of another `id` is resumed with a warning: its edges will RESYNC.
enum base_error node_checkpoint_resume(const char *directory, struct node_checkpoint_parts *parts,
                                       struct node_safetensors **file, struct base_reason *why) BASE_CHECK;
// Imports every edge of the file, and the corrections of dead neighbours. A damaged one is left out with a
// warning in the log (an edge will RESYNC).
void node_checkpoint_resume_edges(const struct node_safetensors *file, struct gossip_exchange *exchange);

// The newest checkpoint's path into path[capacity]; BASE_ENOTFOUND.
enum base_error node_checkpoint_newest(const char *directory, char *path, size_t capacity,
                                       struct base_reason *why) BASE_CHECK;
// `p2pml inspect`: prints to stdout, for people, what is in a file. To read only the model: node_model_read.
// BASE_EFORMAT, after everything is printed, if a tensor of a checkpoint holds NaN or infinity, with its
// name.
enum base_error node_checkpoint_inspect(const char *path, struct base_reason *why) BASE_CHECK;

#endif
