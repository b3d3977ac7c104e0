#include "node/store/metrics.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct node_metrics {
    struct node_lines *lines;
    char *node, *latest;
};

enum base_error node_metrics_open(const char *path, const char *node, struct node_lines_bounds bounds,
                                  struct node_metrics **metrics, struct base_reason *why)
{
    struct node_metrics *opened = calloc(1, sizeof *opened);
    if (!opened)
        return base_fail(why, BASE_ENOMEM, "no memory to open '%s'", path);
    opened->node = strdup(node);
    enum base_error error = opened->node ? node_lines_open(path, "metrics", bounds, &opened->lines, why)
                                         : base_fail(why, BASE_ENOMEM, "no memory to open '%s'", path);
    if (error)
        node_metrics_close(opened);
    else
        *metrics = opened;
    return error;
}

void node_metrics_close(struct node_metrics *metrics)
{
    if (!metrics)
        return;
    node_lines_close(metrics->lines);
    free(metrics->node);
    free(metrics->latest);
    free(metrics);
}

static bool put(json_t *object, const char *name, json_t *value) // takes the value, also NULL
{
    return json_object_set_new(object, name, value) == 0;
}

static bool put_real(json_t *object, const char *name, double value)
{
    return put(object, name, isfinite(value) ? json_real(value) : json_null());
}

static bool put_integer(json_t *object, const char *name, uint64_t value)
{
    return put(object, name, json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

static json_t *id_json(const struct gossip_id *id)
{
    char name[GOSSIP_TELL_NAME];
    gossip_tell_id(id, name);
    return json_string(name);
}

static bool put_met(json_t *object, const struct gossip_round_account *account)
{
    json_t *list = json_array();
    const size_t listed = account->n_met < GOSSIP_ROUND_MET ? account->n_met : GOSSIP_ROUND_MET;
    bool done = put_integer(object, "met_count", account->n_met) && put(object, "met", list);
    for (size_t i = 0; i < listed && done; i++)
        done = json_array_append_new(list, id_json(&account->met[i])) == 0;
    return done;
}

// Seconds by reason; of the longest wait at the boundary the neighbour, if it was for one.
static bool put_waits(json_t *object, const struct gossip_round_account *account)
{
    const struct gossip_pace_wait *longest = &account->longest;
    json_t *waits = json_object();
    bool done = put(object, "waits", waits);
    for (int reason = GOSSIP_PACE_NO_REASON + 1; reason < GOSSIP_PACE_REASONS && done; reason++)
        done = account->wait_ns[reason] == 0 ||
               put_real(waits, gossip_pace_reason_name((enum gossip_pace_reason)reason),
                        1e-9 * (double)account->wait_ns[reason]);
    if (!done || longest->ns == 0)
        return done;
    return put(object, "waited_for", id_json(&longest->whom)) &&
           put(object, "waited_why", json_string(gossip_pace_reason_name(longest->reason))) &&
           put_real(object, "waited", 1e-9 * (double)longest->ns);
}

static bool put_account(json_t *object, const struct gossip_round_account *account)
{
    return put(object, "partner", account->planned ? id_json(&account->partner) : json_null()) &&
           put(object, "missed",
               account->missed ? json_string(gossip_miss_name(account->missed)) : json_null()) &&
           put_met(object, account) && put_integer(object, "asked", account->done.asked) &&
           put_integer(object, "refused", account->done.refused) &&
           put_integer(object, "answered", account->done.answered) && put_waits(object, account);
}

// One line, malloc'ed; NULL: out of memory, or a name that is not UTF-8.
static char *row_line(const struct node_metrics *metrics, const struct node_metrics_row *row)
{
    char *text = NULL;
    json_t *object = json_object();
    if (object && put_real(object, "time", row->time) && put(object, "node", json_string(metrics->node)) &&
        put_integer(object, "round", row->round) && put_integer(object, "step", row->step) &&
        put_integer(object, "own_steps", row->own_steps) &&
        put(object, "own_examples",
            row->own_examples == UINT64_MAX ? json_null() : json_integer((json_int_t)row->own_examples)) &&
        put_real(object, "loss", row->loss) &&
        put_real(object, "accuracy", row->regression ? (double)NAN : row->accuracy) &&
        put_real(object, "test_loss", row->test_loss) && put_integer(object, "bytes_sent", row->bytes_sent) &&
        put_integer(object, "bytes_received", row->bytes_received) &&
        put_integer(object, "exchanges", row->exchanges) && put_integer(object, "returns", row->returns) &&
        put_real(object, "consensus", row->consensus) && put_real(object, "rate", row->rate) &&
        put_integer(object, "delta_bytes", row->delta_bytes) &&
        put_integer(object, "dense_bytes", row->dense_bytes) &&
        put(object, "state", json_string(row->state)) &&
        (!row->account || put_account(object, row->account)) &&
        (!row->regression ||
         (put_real(object, "r2", row->accuracy) && put_real(object, "rmse", row->rmse))) &&
        (!row->diverged || put(object, "diverged", json_true())) &&
        (!row->merged ||
         (put(object, "merged", json_true()) && put_real(object, "own_accuracy", row->own_accuracy) &&
          put_real(object, "own_test_loss", row->own_test_loss))))
        text = json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15));
    json_decref(object);
    return text;
}

enum base_error node_metrics_write(struct node_metrics *metrics, const struct node_metrics_row *row)
{
    char *line = row_line(metrics, row);
    if (!line)
        return BASE_ENOMEM;
    enum base_error error = node_lines_append(metrics->lines, line);
    free(metrics->latest);
    metrics->latest = line;
    return error;
}

const char *node_metrics_latest(const struct node_metrics *metrics)
{
    return metrics->latest ? metrics->latest : "";
}
