// metrics.jsonl: one JSON object per line, one line per round. Owner: the learner thread.
#ifndef NODE_STORE_METRICS_H
#define NODE_STORE_METRICS_H

#include "base/error.h"
#include "gossip/exchange/tell.h"
#include "node/store/lines.h"
#include <stdbool.h>
#include <stdint.h>

struct node_metrics;

struct node_metrics_row {
    double time;           // unix seconds
    uint64_t round, step;  // progress: the cluster's, which this node has reached, also with another's model
    uint64_t own_steps;    // own work, as all counters below: of this process
    uint64_t own_examples; // UINT64_MAX becomes null: not known
    uint64_t bytes_sent, bytes_received, exchanges;
    uint64_t returns;                  // to the last good model, because the loss had diverged
    uint64_t delta_bytes, dense_bytes; // packets sent, and what they would have been as dense fp32
    double loss, accuracy, test_loss, consensus, rate; // NAN becomes null
    bool regression; // accuracy is R2: written as "r2", with "rmse" beside it, and "accuracy" null
    double rmse;
    bool diverged; // the loss is far above what it was (train/watch.h)
    bool merged;   // the model is that of all nodes; these two were the figures of this node's own
    double own_accuracy, own_test_loss;
    const struct gossip_round_account *account; // of the round: whom it met, what it waited for; NULL: none
    const char *state;
};

enum base_error node_metrics_open(const char *path, const char *node, struct node_lines_bounds bounds,
                                  struct node_metrics **metrics, struct base_reason *why) BASE_CHECK;
// BASE_EIO (such as a full disk) is logged by node_lines_append(); training continues.
enum base_error node_metrics_write(struct node_metrics *metrics,
                                   const struct node_metrics_row *row) BASE_CHECK;
// The latest line, without its newline; "" before the first. Valid until the next one.
const char *node_metrics_latest(const struct node_metrics *metrics);
void node_metrics_close(struct node_metrics *metrics);

#endif
