// What the readers and writers of models share. Private to node/store.
#ifndef NODE_STORE_MODEL_PRIVATE_H
#define NODE_STORE_MODEL_PRIVATE_H

#include "node/store/model_file.h"
#include "node/store/safetensors.h"

// How a file names a tensor. Of a checkpoint: "model." and our name. Else the name abroad (train/layer.h),
// which Hugging Face's gpt2 has with "transformer." in front where the head is there, too.
struct node_model_naming {
    bool ours;
    const char *prefix; // "", "model." or "transformer."
};

// Whether it holds a GPT-2, and which: from the shapes, since a file from elsewhere says nothing more. Heads
// are then 64 wide, as all of GPT-2's are. BASE_EMISMATCH, BASE_EINVAL.
bool node_model_gpt2_there(const struct node_safetensors *file, struct node_model_naming naming);
enum base_error node_model_gpt2_infer(const struct node_safetensors *file, struct node_model_naming naming,
                                      struct train_model_spec *spec, struct base_reason *why) BASE_CHECK;
// What such files have besides weights: masks of attention ("h.0.attn.bias", "h.0.attn.masked_bias"), left
// alone, and the head.
bool node_model_gpt2_beside(struct node_model_naming naming, const char *name);
// The head, where there is one, is tied: it has the numbers of wte. And where the file says how many heads
// attention has, that is what `spec` has. BASE_EMISMATCH.
enum base_error node_model_gpt2_check(const struct node_safetensors *file, struct node_model_naming naming,
                                      const struct train_model_spec *spec,
                                      struct base_reason *why) BASE_CHECK;

// What the metadata says beside the tensors. Its meaning is the caller's, to release. BASE_EFORMAT.
enum base_error node_model_read_about(const struct node_safetensors *file,
                                      const struct train_model_spec *spec, struct node_model_about *about,
                                      struct base_reason *why) BASE_CHECK;

// What a model of text says of it: fills pairs[] from its first on, returns how many.
size_t node_model_text_pairs(const struct node_model_about *about, struct node_text_pair *pairs);
// What a model of text knows of it, from the metadata: about->text and about->characters. BASE_EFORMAT.
enum base_error node_model_read_text(const struct node_safetensors *file, size_t classes,
                                     struct node_model_about *about, struct base_reason *why) BASE_CHECK;

#endif
