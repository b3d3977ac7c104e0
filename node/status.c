#include "node/status.h"
#include "node/clock.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *id_text(const struct gossip_id *id)
{
    char hex[GOSSIP_ID_HEX];
    gossip_id_hex(id, hex);
    return json_string(hex);
}

static double seconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / (double)NODE_SECOND_NS : 0;
}

static json_t *members_json(const struct node_status *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < node_roster_count(s->roster); i++) {
        const struct node_member *m = node_roster_at(s->roster, i);
        if (m->left_out)
            continue;
        json_t *row = json_object();
        json_object_set_new(row, "name", m->name[0] ? json_string(m->name) : json_null());
        json_object_set_new(row, "id", m->known ? id_text(&m->id) : json_null());
        json_object_set_new(row, "address", json_string(m->address));
        json_object_set_new(row, "state", json_string(node_member_state_name(m->state)));
        json_object_set_new(row, "since_s", number(seconds(m->since_ns, s->now_ns)));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *edges_json(const struct node_status *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_edges; i++) {
        const struct node_edge_status *e = &s->edges[i].edge;
        json_t *row = json_object();
        json_object_set_new(row, "peer", id_text(&e->peer));
        json_object_set_new(row, "name", json_string(s->edges[i].name));
        json_object_set_new(row, "state",
                            json_string(gossip_edge_state_name((enum gossip_edge_state)e->state)));
        json_object_set_new(row, "seq", count(e->sequence));
        json_object_set_new(row, "epoch", count(e->epoch));
        json_object_set_new(row, "bytes_sent", count(s->edges[i].traffic.sent));
        json_object_set_new(row, "bytes_received", count(s->edges[i].traffic.received));
        json_object_set_new(row, "exchanges", count(e->exchanges));
        json_object_set_new(row, "boots", count(e->boots));
        json_object_set_new(row, "replays", count(e->replays));
        json_object_set_new(row, "busy", count(e->busy));
        json_object_set_new(row, "timeouts", count(e->timeouts));
        json_object_set_new(row, "mismatches", count(e->mismatches));
        json_object_set_new(row, "answer_ms",
                            number((double)e->answer_median_ns / (double)NODE_MILLISECOND_NS));
        json_array_append_new(list, row);
    }
    return list;
}

char *node_status_json(const struct node_status *s)
{
    json_t *root = json_object();
    json_object_set_new(root, "name", json_string(s->name));
    json_object_set_new(root, "id", id_text(&s->id));
    json_object_set_new(root, "cluster", json_string(s->cluster));
    json_object_set_new(root, "version", json_string(s->version));
    json_object_set_new(root, "state", json_string(s->progress.state));
    json_object_set_new(root, "round", count(s->progress.round));
    json_object_set_new(root, "step", count(s->progress.step));
    json_object_set_new(root, "loss", number(s->progress.loss));
    json_object_set_new(root, "accuracy", number(s->progress.accuracy));
    json_object_set_new(root, "rate", number(s->progress.rate));
    json_object_set_new(root, "parameters", count(s->parameters));
    json_object_set_new(root, "model", json_string(s->model));
    json_object_set_new(root, "consensus", number(s->totals.consensus));
    json_object_set_new(root, "exchanges", count(s->totals.exchanges));
    json_object_set_new(root, "bytes_sent", count(s->bytes_sent));
    json_object_set_new(root, "bytes_received", count(s->bytes_received));
    json_object_set_new(root, "uptime_s", number(seconds(s->started_ns, s->now_ns)));
    json_object_set_new(root, "members", members_json(s));
    json_object_set_new(root, "edges", edges_json(s));
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(root);
    return text;
}

static void head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP p2pml_%s %s\n# TYPE p2pml_%s %s\n", name, help, name, type);
}

static void metric(FILE *out, const char *name, const char *type, const char *help, double value)
{
    if (isnan(value))
        return;
    head(out, name, type, help);
    fprintf(out, "p2pml_%s %.17g\n", name, value);
}

// A label's value: backslash, quote and line end are the three that the format escapes.
static void label(FILE *out, const char *key, const char *value)
{
    fprintf(out, "%s=\"", key);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            fputc('\\', out);
        if (*value == '\n')
            fputs("\\n", out);
        else
            fputc(*value, out);
    }
    fputc('"', out);
}

static void info_metric(FILE *out, const struct node_status *s)
{
    char hex[GOSSIP_ID_HEX];
    gossip_id_hex(&s->id, hex);
    head(out, "node_info", "gauge", "Who this node is; always 1.");
    fputs("p2pml_node_info{", out);
    label(out, "name", s->name);
    fputc(',', out);
    label(out, "id", hex);
    fputc(',', out);
    label(out, "cluster", s->cluster);
    fputc(',', out);
    label(out, "version", s->version);
    fputc(',', out);
    label(out, "model", s->model);
    fputs("} 1\n", out);
}

static void member_metrics(FILE *out, const struct node_status *s)
{
    uint64_t of[NODE_MEMBER_SELF + 1] = {0};
    for (size_t i = 0; i < node_roster_count(s->roster); i++) {
        const struct node_member *m = node_roster_at(s->roster, i);
        if (!m->left_out)
            of[m->state]++;
    }
    head(out, "members", "gauge", "Members of the cluster as this node sees them, by state.");
    for (int state = 0; state <= NODE_MEMBER_SELF; state++)
        fprintf(out, "p2pml_members{state=\"%s\"} %" PRIu64 "\n",
                node_member_state_name((enum node_member_state)state), of[state]);
}

struct edge_metric {
    const char *name, *type, *help;
    double (*value)(const struct node_status_edge *edge);
};

static double edge_live(const struct node_status_edge *e)
{
    return e->edge.state == GOSSIP_EDGE_LIVE;
}
static double edge_exchanges(const struct node_status_edge *e)
{
    return (double)e->edge.exchanges;
}
static double edge_boots(const struct node_status_edge *e)
{
    return (double)e->edge.boots;
}
static double edge_replays(const struct node_status_edge *e)
{
    return (double)e->edge.replays;
}
static double edge_busy(const struct node_status_edge *e)
{
    return (double)e->edge.busy;
}
static double edge_timeouts(const struct node_status_edge *e)
{
    return (double)e->edge.timeouts;
}
static double edge_mismatches(const struct node_status_edge *e)
{
    return (double)e->edge.mismatches;
}
static double edge_answer(const struct node_status_edge *e)
{
    return (double)e->edge.answer_median_ns / (double)NODE_SECOND_NS;
}
static double edge_sent(const struct node_status_edge *e)
{
    return (double)e->traffic.sent;
}
static double edge_received(const struct node_status_edge *e)
{
    return (double)e->traffic.received;
}

static const struct edge_metric edge_metrics[] = {
    {"edge_live", "gauge", "1 when exchanges can run over the edge.", edge_live},
    {"edge_exchanges_total", "counter", "Sparse exchanges committed over the edge.", edge_exchanges},
    {"edge_boots_total", "counter", "Dense restarts of the edge's reference.", edge_boots},
    {"edge_replays_total", "counter", "Answers that were lost and replayed.", edge_replays},
    {"edge_busy_total", "counter", "Exchanges that the peer put off.", edge_busy},
    {"edge_timeouts_total", "counter", "Exchanges without an answer in time.", edge_timeouts},
    {"edge_mismatches_total", "counter", "References that differed on the two ends.", edge_mismatches},
    {"edge_answer_seconds", "gauge", "Median time of the peer's answers.", edge_answer},
    {"edge_sent_bytes_total", "counter", "Bytes sent to the peer, framing included.", edge_sent},
    {"edge_received_bytes_total", "counter", "Bytes received from the peer, framing included.",
     edge_received},
};

static void write_edges(FILE *out, const struct node_status *s)
{
    for (size_t m = 0; m < sizeof edge_metrics / sizeof *edge_metrics && s->n_edges > 0; m++) {
        const struct edge_metric *metric_of = &edge_metrics[m];
        head(out, metric_of->name, metric_of->type, metric_of->help);
        for (size_t i = 0; i < s->n_edges; i++) {
            char hex[GOSSIP_ID_HEX];
            gossip_id_hex(&s->edges[i].edge.peer, hex);
            fprintf(out, "p2pml_%s{", metric_of->name);
            label(out, "peer", hex);
            fputc(',', out);
            label(out, "name", s->edges[i].name);
            fprintf(out, "} %.17g\n", metric_of->value(&s->edges[i]));
        }
    }
}

static void write_metrics(FILE *out, const struct node_status *s)
{
    info_metric(out, s);
    metric(out, "uptime_seconds", "gauge", "Time since this process started.",
           seconds(s->started_ns, s->now_ns));
    metric(out, "training", "gauge", "1 while local steps are done.",
           strcmp(s->progress.state, "training") == 0);
    metric(out, "rounds_total", "counter", "Rounds done, those before a resume included.",
           (double)s->progress.round);
    metric(out, "steps_total", "counter", "Local steps done, those before a resume included.",
           (double)s->progress.step);
    metric(out, "training_loss", "gauge", "Mean training loss of the latest round, natural logarithm.",
           s->progress.loss);
    metric(out, "test_accuracy_ratio", "gauge", "Latest measured accuracy on the test set, 0 to 1.",
           s->progress.accuracy);
    metric(out, "learning_rate", "gauge", "Learning rate of the next step.", s->progress.rate);
    metric(out, "model_parameters", "gauge", "Length of the model vector.", (double)s->parameters);
    metric(out, "consensus_distance_ratio", "gauge",
           "Distance to the latest edge's reference relative to the model's norm.", s->totals.consensus);
    metric(out, "exchanges_total", "counter", "Sparse exchanges committed.", (double)s->totals.exchanges);
    metric(out, "delta_sent_bytes_total", "counter", "Compressed deltas sent.",
           (double)s->totals.delta_bytes_out);
    metric(out, "dense_equivalent_bytes_total", "counter",
           "What the same exchanges would have sent as dense fp32.", (double)s->totals.dense_bytes_out);
    metric(out, "network_sent_bytes_total", "counter", "Bytes sent to peers, framing included.",
           (double)s->bytes_sent);
    metric(out, "network_received_bytes_total", "counter", "Bytes received from peers, framing included.",
           (double)s->bytes_received);
    metric(out, "links", "gauge", "Links in use.", (double)s->peers.links);
    metric(out, "half_open_connections", "gauge", "Accepted connections that are not in use yet.",
           (double)s->peers.half_open);
    metric(out, "connections_accepted_total", "counter", "Connections accepted on the peer port.",
           (double)s->peers.accepted);
    metric(out, "strangers_total", "counter",
           "Connections closed without an answer: no or a wrong handshake.", (double)s->peers.strangers);
    metric(out, "turned_away_total", "counter", "Connections closed over the limits of those not in use yet.",
           (double)s->peers.turned_away);
    metric(out, "refused_total", "counter", "Proven nodes that train something else or are not allowed.",
           (double)s->peers.refused);
    member_metrics(out, s);
    write_edges(out, s);
}

char *node_status_metrics(const struct node_status *status)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    write_metrics(out, status);
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
