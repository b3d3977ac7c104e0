// A model as ONNX (https://onnx.ai, "onnx.proto"): opset 13, IR version 7. Its input [N, inputs] has rows as
// for `p2pml predict`, so division and scaling are in the graph; for a table they are its features, one per
// category. Its outputs are "logits" and "probabilities" [N, classes], or for a regression "values" [N,
// targets] in the units of the targets. The metadata of the model file is in metadata_props. Pure; one owner.
#ifndef LAB_MODEL_ONNX_H
#define LAB_MODEL_ONNX_H

#include "base/protobuf.h"
#include "node/store/model_file.h"

// Appends the whole ModelProto; p->error holds the result of writing. `version`: of the program, as the
// producer's. BASE_EINVAL: a name in its meaning is not UTF-8, or there is no memory.
enum base_error lab_onnx_encode(const struct node_model_file *model, const char *version,
                                struct base_protobuf *p, struct base_reason *why) BASE_CHECK;
// Atomically. BASE_ELIMIT: over 2 GiB, the maximum of the format.
enum base_error lab_onnx_write(const char *path, const struct node_model_file *model, const char *version,
                               struct base_reason *why) BASE_CHECK;

#endif
