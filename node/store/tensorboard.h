// Scalars for TensorBoard: DIR/<node>/events.out.tfevents.*, one file a process. A file is a TFRecord stream
// of tensorflow.Event messages (tensorflow/core/lib/io/record_writer.h, core/util/event.proto,
// summary.proto). Owner: the learner thread.
//
// At most one event per second, and later one per thousandth of the time since the start, so that a day has
// about 5,500 events. The last row of a training is always written. A measurement in between goes into the
// next event.
#ifndef NODE_STORE_TENSORBOARD_H
#define NODE_STORE_TENSORBOARD_H

#include "node/store/metrics.h"

struct node_tensorboard;

// Makes directory/node if it is missing. BASE_EIO with the reason.
enum base_error node_tensorboard_open(const char *directory, const char *node,
                                      struct node_tensorboard **tensorboard,
                                      struct base_reason *why) BASE_CHECK;
// A failure, such as a full disk, is logged once; no half record stays in the file.
void node_tensorboard_write(struct node_tensorboard *tensorboard, const struct node_metrics_row *row);
void node_tensorboard_close(struct node_tensorboard *tensorboard); // NULL is fine

#endif
