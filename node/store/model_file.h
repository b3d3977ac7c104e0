// A trained model as a file of its own, for its users: safetensors with the names and the layout of torch.
// state_dict() of nn.Sequential(nn.Linear(..), nn.ReLU(), nn.Linear(..)) has the tensors "0.weight" [out,
// in], "0.bias" [out], "2.weight", ...; without hidden layers, "0.weight" and "0.bias" only. The metadata
// says what the numbers mean; every value is a text:
//
//   format         "pt", as other programs expect it
//   p2pml          "model 1": this layout
//   model          "mlp 784-256-10"; "mlp 10-16-1, mse"
//   task           "classification", "regression" or "text"
//   data_kind      data.kind of the files that it learned from: "idx"
//   labels         if classes are numbers, their values in the data: "0..9", "1..3", or "-1 1"
//   input_divisor  the first layer takes numbers of the data divided by this: "255" for bytes of images
//   data           of tables, images and scaled data: what the numbers mean, as JSON
//                  (node/store/meaning_text.h): columns and their categories, classes by name, targets, the
//                  size of images, statistics. (value - shift) * factor is what the first layer takes, and
//                  an output of a regression over target_factor, plus target_shift, is in the target's units
//   held_out       which examples of the training file were kept for tests (train/split.h): how many, of how
//                  many, drawn how, and digests of them and of all
//   origin         "the mean of 8 nodes"
//   text           of a model of text, what a token is: "bytes", "characters" or "ids"
//   characters.0   and so on: the characters in the order of their ids
//
// A gpt2 has the names and layouts of Hugging Face's ("wte.weight", "h.0.attn.c_attn.weight" [in, out], ...).
//
// Reading takes these files, checkpoints ("model.layers.0.weight" [in, out]; their other tensors are left
// alone), and files from elsewhere with either set of names, gpt2's with or without "transformer." in front,
// in F32, F64, F16 or BF16, with or without our metadata. Blocking; any thread.
#ifndef NODE_STORE_MODEL_FILE_H
#define NODE_STORE_MODEL_FILE_H

#include "base/error.h"
#include "train/dataset.h"
#include "train/model.h"

#define NODE_MODEL_LAST     "model.safetensors"    // in a node's directory, when it has ended well
#define NODE_MODEL_AVERAGED "averaged.safetensors" // in the directory of a run: the mean of its nodes
#define NODE_MODEL_PATH     4096                   // bytes of a path, terminating zero included
#define NODE_MODEL_KIND     16                     // bytes of a data.kind, likewise

struct node_model_about {
    float input_divisor; // as in struct train_dataset, both
    int32_t first_label;
    char kind[NODE_MODEL_KIND]; // data.kind of the training, or "": not known
    char origin[128];           // UTF-8
    struct train_split split;   // of the training file; tests 0: not divided; examples 0: not known
    // Names and statistics, or NULL. Of a model that was read, its own; of one to be written, borrowed.
    struct train_meaning *meaning;
    // Of a model of text, else TRAIN_TEXT_NONE and "".
    enum train_text text;
    char characters[LIMIT_ALPHABET_BYTES]; // UTF-8, in the order of their ids
};
struct node_model_file {
    struct train_model_spec spec;
    struct node_model_about about;
    float *parameters; // [parameters of the spec], in the order of the model's tensors
};

// Writes atomically (base/file.h). BASE_ESTATE: a number is not finite, and nothing was written. `parameters`
// are borrowed.
enum base_error node_model_write(const char *path, const struct node_model_file *model,
                                 struct base_reason *why) BASE_CHECK;

// `expected`: the model that it must be; NULL: any model. *model is the caller's, to be freed; on error it is
// as it was. BASE_EMISMATCH: names and shapes, found and expected; BASE_EFORMAT: what node_safetensors_read
// says, a number that is not finite, metadata that is not valid.
enum base_error node_model_read(const char *path, const struct train_model_spec *expected,
                                struct node_model_file *model, struct base_reason *why) BASE_CHECK;
struct node_safetensors;
enum base_error node_model_take(const struct node_safetensors *file, const struct train_model_spec *expected,
                                struct node_model_file *model, struct base_reason *why) BASE_CHECK;
void node_model_free(struct node_model_file *model); // leaves {0}

// Finds the file that a user means by `path`: the file itself; in the directory of a run, the averaged model;
// in that of a node, the newest checkpoint, or its last model. BASE_ENOTFOUND says what was looked for.
enum base_error node_model_find(const char *path, char found[NODE_MODEL_PATH],
                                struct base_reason *why) BASE_CHECK;

// The label of a class as in the data: its name if classes have names, else its number.
#define NODE_MODEL_LABEL 16
const char *node_model_label(const struct node_model_about *about, size_t class,
                             char number[NODE_MODEL_LABEL]);

// Writes `about` as pairs[NODE_MODEL_ABOUT_PAIRS] of metadata, for checkpoints, too. *owned is malloc'ed; the
// caller frees it after the last use of the pairs. BASE_EINVAL, as node_meaning_text.
#define NODE_MODEL_TEXT        32
#define NODE_MODEL_SPLIT       160 // bytes of "held_out", terminating zero included
#define NODE_MODEL_PIECE       240 // bytes of characters in one text of the metadata
#define NODE_MODEL_ABOUT_PAIRS (8 + LIMIT_ALPHABET_BYTES / (NODE_MODEL_PIECE - 3))
struct node_text_pair;
enum base_error node_model_about_pairs(const struct node_model_about *about,
                                       const struct train_model_spec *spec, struct node_text_pair *pairs,
                                       size_t *count, char **owned, struct base_reason *why) BASE_CHECK;
// Reads the metadata about the model. The caller releases about->meaning. BASE_EFORMAT.
enum base_error node_model_read_about(const struct node_safetensors *file,
                                      const struct train_model_spec *spec, struct node_model_about *about,
                                      struct base_reason *why) BASE_CHECK;

#endif
