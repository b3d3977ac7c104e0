// What the readers and writers of models share. Private to node/store.
#ifndef NODE_STORE_MODEL_PRIVATE_H
#define NODE_STORE_MODEL_PRIVATE_H

#include "node/store/model_file.h"
#include "node/store/safetensors.h"

// How a file names a tensor. A checkpoint: "model." and our name. Other files: the name that other programs
// use (`abroad` in train/layer.h), in Hugging Face's gpt2 with "transformer." in front if the file has the
// head, too.
struct node_model_naming {
    bool ours;
    const char *prefix; // "", "model." or "transformer."
};

// Whether it holds a GPT-2, and which: from the shapes, since a file from elsewhere says nothing more. Heads
// are then 64 wide, as all of GPT-2's are. BASE_EMISMATCH, BASE_EINVAL.
bool node_model_gpt2_there(const struct node_safetensors *file, struct node_model_naming naming);
enum base_error node_model_gpt2_infer(const struct node_safetensors *file, struct node_model_naming naming,
                                      struct train_model_spec *spec, struct base_reason *why) BASE_CHECK;
// True for tensors that such files have besides weights: masks of attention ("h.0.attn.bias",
// "h.0.attn.masked_bias"), which are ignored, and the head.
bool node_model_gpt2_beside(struct node_model_naming naming, const char *name);
// The head, where there is one, is tied: it has the numbers of wte. If the file says how many heads attention
// has, `spec` has as many. BASE_EMISMATCH.
enum base_error node_model_gpt2_check(const struct node_safetensors *file, struct node_model_naming naming,
                                      const struct train_model_spec *spec,
                                      struct base_reason *why) BASE_CHECK;

// The metadata of a model of text: fills pairs[] and returns how many.
size_t node_model_text_pairs(const struct node_model_about *about, struct node_text_pair *pairs);
// Reads about->text and about->characters from the metadata. BASE_EFORMAT.
enum base_error node_model_read_text(const struct node_safetensors *file, size_t classes,
                                     struct node_model_about *about, struct base_reason *why) BASE_CHECK;

#endif
