#include "node/http/history.h"
#include "base/error.h"
#include <jansson.h>
#include <math.h>

static double mean(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : 0.5 * (a + b);
}

// Merges pairs of points; the result stands at the place of the second.
static void halve(struct node_history *h)
{
    BASE_ASSERT(h->count % 2 == 0); // or the latest point would be lost
    for (size_t i = 0; i < h->count / 2; i++) {
        double loss = mean(h->points[2 * i].loss, h->points[2 * i + 1].loss);
        h->points[i] = h->points[2 * i + 1];
        h->points[i].loss = loss;
    }
    h->count /= 2;
    h->lasts_ns *= 2;
}

void node_history_note(struct node_history *h, const struct node_history_point *now)
{
    const struct node_history_point *latest = h->count > 0 ? &h->points[h->count - 1] : NULL;
    BASE_ASSERT(!latest || latest->at_ns <= now->at_ns);
    if (isfinite(now->loss)) {
        h->losses += now->loss;
        h->n_losses++;
    }
    if (latest && (now->step == latest->step || now->at_ns - latest->at_ns < h->lasts_ns))
        return;
    if (h->count == NODE_HISTORY_POINTS)
        halve(h);
    h->points[h->count] = *now;
    h->points[h->count++].loss = h->n_losses > 0 ? h->losses / h->n_losses : (double)NAN;
    h->losses = 0;
    h->n_losses = 0;
}

static void append(json_t *list, double value)
{
    json_array_append_new(list, isfinite(value) ? json_real(value) : json_null());
}

char *node_history_json(const struct node_history *h, bool regression, uint64_t now_ns)
{
    json_t *at = json_array(), *step = json_array(), *rounds = json_array(), *sent = json_array(),
           *loss = json_array(), *accuracy = json_array();
    for (size_t i = 0; i < h->count; i++) {
        const struct node_history_point *p = &h->points[i];
        append(at, round((double)(now_ns - p->at_ns) / 1e8) / 10);
        json_array_append_new(step, json_integer((json_int_t)p->step));
        json_array_append_new(rounds, json_integer((json_int_t)p->round));
        json_array_append_new(sent, json_integer((json_int_t)p->bytes_sent));
        append(loss, p->loss);
        append(accuracy, p->accuracy);
    }
    json_t *root = json_object();
    json_object_set_new(root, "at", at);
    json_object_set_new(root, "step", step);
    json_object_set_new(root, "round", rounds);
    json_object_set_new(root, "bytes_sent", sent);
    json_object_set_new(root, "loss", loss);
    json_object_set_new(root, regression ? "r2" : "accuracy", accuracy);
    char *text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(root);
    return text;
}
