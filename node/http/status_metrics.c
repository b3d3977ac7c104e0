// /metrics: the Prometheus text format.
#include "base/file.h"
#include "node/http/glance.h"
#include "node/http/status.h"
#include "node/queue/clock.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static void label(FILE *out, char before, const char *key, const char *value)
{
    fprintf(out, "%c%s=\"", before, key);
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
    head(out, "node_info", "gauge", "Name, id, cluster, version and model of this node; always 1.");
    fputs("p2pml_node_info", out);
    label(out, '{', "name", s->name);
    label(out, ',', "id", hex);
    label(out, ',', "cluster", s->cluster);
    label(out, ',', "version", s->version);
    label(out, ',', "model", s->model);
    fputs("} 1\n", out);
}

static void wait_metrics(FILE *out, const struct gossip_pace_waits *waits)
{
    head(out, "wait_seconds_total", "counter", "Time that boundaries waited, by what they waited for.");
    for (int reason = GOSSIP_PACE_NO_REASON + 1; reason < GOSSIP_PACE_REASONS; reason++)
        fprintf(out, "p2pml_wait_seconds_total{reason=\"%s\"} %.9g\n",
                gossip_pace_reason_name((enum gossip_pace_reason)reason), 1e-9 * (double)waits->ns[reason]);
}

static void member_metrics(FILE *out, const struct node_status *s)
{
    const struct gossip_membership_totals *t = &s->membership;
    const struct node_udp_counters *d = &s->cluster_counters.datagrams;
    const size_t of[GOSSIP_MEMBER_STATES] = {t->alive, t->suspect, t->dead, t->left, t->unproven};
    head(out, "members", "gauge", "Members of the cluster as this node sees them, by state.");
    for (int state = 0; state < GOSSIP_MEMBER_STATES; state++)
        fprintf(out, "p2pml_members{state=\"%s\"} %zu\n",
                gossip_member_state_name((enum gossip_member_state)state), of[state]);
    head(out, "datagrams_total", "counter", "Membership datagrams.");
    fprintf(out, "p2pml_datagrams_total{direction=\"sent\"} %" PRIu64 "\n", d->sent);
    fprintf(out, "p2pml_datagrams_total{direction=\"received\"} %" PRIu64 "\n", d->received);
    head(out, "datagram_bytes_total", "counter", "Bytes of membership datagrams, sealing included.");
    fprintf(out, "p2pml_datagram_bytes_total{direction=\"sent\"} %" PRIu64 "\n", d->bytes_sent);
    fprintf(out, "p2pml_datagram_bytes_total{direction=\"received\"} %" PRIu64 "\n", d->bytes_received);
}

struct row {
    const char *name, *type, *help;
    double value;
};

static void membership_metrics(FILE *out, const struct node_status *s)
{
    const struct gossip_membership_totals *t = &s->membership;
    const struct row list[] = {
        {"member_health", "gauge", "Local health multiplier: 0 is healthy, 8 is worst.", t->health},
        {"member_minority", "gauge", "1 when half or more of the members are dead.", t->minority},
        {"view_changes_total", "counter", "Changes of the view that the graph is made of.",
         (double)t->view_changes},
        {"probes_total", "counter", "Members probed.", (double)t->probes},
        {"probes_failed_total", "counter", "Probes without any answer.", (double)t->probes_failed},
        {"suspicions_total", "counter", "Members that came under suspicion.",
         (double)s->cluster_counters.suspicions},
        {"deaths_total", "counter", "Members that were found dead.", (double)s->cluster_counters.deaths},
        {"refutations_total", "counter", "Times that this node was suspected and refuted the suspicion.",
         (double)t->refutations},
        {"syncs_total", "counter", "Full synchronisations of member lists with another node.",
         (double)t->syncs},
        {"pauses_total", "counter", "Times that this process was paused: stopped, or starved of CPU time.",
         (double)t->pauses},
        {"datagrams_refused_total", "counter", "Datagrams and packets that were not authentic or malformed.",
         (double)s->cluster_counters.refused},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        metric(out, list[i].name, list[i].type, list[i].help, list[i].value);
}

#define EDGE_ROWS 17u

static void rows_of_edge(const struct node_status *s, const struct node_status_edge *edge,
                         struct row rows[EDGE_ROWS])
{
    const struct gossip_edge_info *e = &edge->edge;
    const struct node_status_member *m = node_status_member_of(s, &e->peer);
    const double seconds = m ? (double)m->path.round_trip_ns / (double)NODE_SECOND_NS : 0;
    const struct row list[EDGE_ROWS] = {
        {"edge_live", "gauge", "1 when exchanges can run over the edge.", e->state == GOSSIP_EDGE_LIVE},
        {"edge_exchanges_total", "counter", "Sparse exchanges committed over the edge.",
         (double)e->exchanges},
        {"edge_resyncs_total", "counter", "Dense restarts of the edge's reference.", (double)e->resyncs},
        {"edge_replays_total", "counter", "Answers that were lost and replayed.", (double)e->replays},
        {"edge_busy_total", "counter", "Exchanges that the peer postponed.", (double)e->busy},
        {"edge_timeouts_total", "counter", "Exchanges without an answer in time.", (double)e->timeouts},
        {"edge_mismatches_total", "counter", "References that differed on the two ends.",
         (double)e->mismatches},
        {"edge_implausible_total", "counter", "Messages refused because no honest peer could have sent them.",
         (double)e->implausible},
        {"edge_barred", "gauge", "1 while the peer is not met because of such a message.", e->barred},
        {"edge_distrusted", "gauge",
         "1 while nothing is taken from the peer, because its model is bad for this node's examples.",
         e->trust.state == GOSSIP_DISTRUSTED},
        {"edge_lost_ratio", "gauge",
         "What this node's model knows of its examples and the mean of both models does not, at the latest "
         "look.",
         e->trust.looked ? e->trust.lost : (double)NAN},
        {"edge_away", "gauge", "1 while the peer says that it was away and is behind.",
         e->standing == GOSSIP_AWAY},
        {"edge_answer_seconds", "gauge", "Median time of the peer's answers.",
         (double)e->answer_median_ns / (double)NODE_SECOND_NS},
        {"edge_sent_bytes_total", "counter", "Bytes sent to the peer, framing included.",
         (double)edge->traffic.sent},
        {"edge_received_bytes_total", "counter", "Bytes received from the peer, framing included.",
         (double)edge->traffic.received},
        {"edge_relayed", "gauge", "1 while the link to the peer goes over another member.", m && m->via},
        {"edge_round_trip_seconds", "gauge", "Round trip of TCP on a direct link to the peer; 0: not known.",
         seconds},
    };
    memcpy(rows, list, sizeof list);
}

// All samples of a metric must stand together.
static void edge_metrics(FILE *out, const struct node_status *s)
{
    struct row rows[EDGE_ROWS];
    for (size_t m = 0; m < EDGE_ROWS; m++)
        for (size_t i = 0; i < s->n_edges; i++) {
            char hex[GOSSIP_ID_HEX];
            rows_of_edge(s, &s->edges[i], rows);
            if (i == 0)
                head(out, rows[m].name, rows[m].type, rows[m].help);
            gossip_id_hex(&s->edges[i].edge.peer, hex);
            fprintf(out, "p2pml_%s", rows[m].name);
            label(out, '{', "peer", hex);
            label(out, ',', "name", s->edges[i].name);
            fprintf(out, "} %.17g\n", rows[m].value);
        }
}

// The same facts as in the progress line of the log.
static void glance_metrics(FILE *out, const struct node_status *s)
{
    struct node_glance g;
    node_glance_of(s, &g);
    head(out, "condition", "gauge", "1 for the condition that this node is in, 0 for the others.");
    for (int i = 0; i < NODE_CONDITIONS; i++)
        fprintf(out, "p2pml_condition{condition=\"%s\"} %d\n", node_condition_name((enum node_condition)i),
                g.condition == (enum node_condition)i);
    metric(out, "steps_planned", "gauge", "Local steps at which training ends; 0: when it is stopped.",
           (double)s->steps);
    metric(out, "steps_per_second", "gauge", "Local steps per second, over about the last ten seconds.",
           g.steps_per_s);
    metric(out, "time_left_seconds", "gauge", "Time until the last step at that rate.", g.left_s);
    metric(out, "step_compute_seconds", "gauge", "Computing time of one local step.",
           s->progress.step_ns > 0 ? (double)s->progress.step_ns / (double)NODE_SECOND_NS : (double)NAN);
    if (g.slowest && !isnan(g.slowest_steps_per_s)) {
        head(out, "slowest_member_steps_per_second", "gauge",
             "Local steps per second of the slowest member that this node knows of.");
        fputs("p2pml_slowest_member_steps_per_second", out);
        label(out, '{', "name", g.slowest);
        fprintf(out, "} %.17g\n", g.slowest_steps_per_s);
    }
    if (s->progress.disk_free != UINT64_MAX)
        metric(out, "disk_free_bytes", "gauge", "Free bytes on the file system of node.dir.",
               (double)s->progress.disk_free);
}

// The relays of this node to which it has a direct link.
static size_t relays_linked(const struct node_status *s)
{
    const struct gossip_record *self = s->n_members > 0 ? s->members[0].record : NULL;
    size_t count = 0;
    for (size_t i = 1; i < s->n_members && self->n_relays > 0; i++) {
        const struct node_status_member *m = &s->members[i];
        bool named = false;
        for (size_t k = 0; k < self->n_relays; k++)
            named |= gossip_id_beginning(&m->record->id) == self->relays[k];
        count += named && m->linked && !m->via;
    }
    return count;
}

static void reach_metrics(FILE *out, const struct node_status *s)
{
    metric(out, "reachable", "gauge", "1: members can call this node.", strcmp(s->reach, "reachable") == 0);
    metric(out, "private", "gauge", "1: no member could call this node.", strcmp(s->reach, "private") == 0);
    metric(out, "relays", "gauge", "Linked members that relay for this node.", (double)relays_linked(s));
    metric(out, "forwarded_streams", "gauge", "Links of other members that go over this node.",
           (double)s->peers.forwarded);
    metric(out, "forwarded_bytes_total", "counter", "Bytes forwarded between other members.",
           (double)s->peers.forwarded_bytes);
}

static void learning_metrics(FILE *out, const struct node_status *s)
{
    metric(out, "training", "gauge", "1 while local steps are done.",
           strcmp(s->progress.state, "training") == 0);
    metric(out, "round", "gauge",
           "Round of the cluster that this node has reached, also with another's model.",
           (double)s->progress.round);
    metric(out, "step", "gauge", "Step of the schedule at that round.", (double)s->progress.step);
    metric(out, "own_steps_total", "counter", "Local steps that this process has computed.",
           (double)s->progress.own_steps);
    if (s->progress.own_examples != NODE_NOT_COUNTED)
        metric(out, "own_examples_total", "counter", "Examples in those steps.",
               (double)s->progress.own_examples);
    metric(out, "training_loss", "gauge", "Mean training loss of the latest round, natural logarithm.",
           s->progress.loss);
    if (!s->progress.regression) {
        metric(out, "test_accuracy_ratio", "gauge", "Latest measured accuracy on the test set, 0 to 1.",
               s->progress.accuracy);
    } else {
        metric(out, "test_r2", "gauge",
               "Part of the variance of the test targets that is explained, up to 1.", s->progress.accuracy);
        metric(out, "test_rmse", "gauge",
               "Root of the mean squared error on the test set, in units of the target.", s->progress.rmse);
    }
    metric(out, "learning_rate", "gauge", "Learning rate of the next step.", s->progress.rate);
    metric(out, "rollbacks_total", "counter",
           "Rounds whose loss or model was not finite: the last published model was restored.",
           (double)s->progress.rollbacks);
    metric(out, "returns_total", "counter",
           "Times that the loss had diverged and the node returned to its last good model.",
           (double)s->progress.returns);
}

static void write_metrics(FILE *out, const struct node_status *s)
{
    info_metric(out, s);
    metric(out, "uptime_seconds", "gauge", "Time since this process started.",
           node_clock_seconds(s->started_ns, s->now_ns));
    glance_metrics(out, s);
    learning_metrics(out, s);
    metric(out, "model_parameters", "gauge", "Length of the model vector.", (double)s->parameters);
    metric(out, "trainer_memory_bytes", "gauge", "Vectors of the trainer.", (double)s->progress.memory);
    metric(out, "exchange_memory_bytes", "gauge", "Vectors and packets of the exchange.",
           (double)s->totals.memory);
    metric(out, "consensus_distance_ratio", "gauge",
           "Distance to the latest edge's reference relative to the model's norm.", s->totals.consensus);
    metric(out, "exchanges_total", "counter", "Sparse exchanges that this process has made.",
           (double)s->totals.exchanges);
    metric(out, "delta_sent_bytes_total", "counter", "Compressed deltas sent.",
           (double)s->totals.delta_bytes_out);
    metric(out, "dense_equivalent_bytes_total", "counter",
           "Bytes that the same exchanges would have sent as dense fp32.", (double)s->totals.dense_bytes_out);
    metric(out, "clipped_total", "counter", "Received updates that average.robust clipped.",
           (double)s->totals.clipped);
    metric(out, "corrections_dropped_total", "counter",
           "Drift corrections of former neighbours that were given up because there were too many.",
           (double)s->totals.orphans_dropped);
    metric(out, "implausible_total", "counter",
           "Messages refused because no honest member could have sent them; their senders are not met for "
           "a while.",
           (double)s->totals.implausible);
    metric(out, "overdue_total", "counter",
           "Requests without a sign of life from a linked neighbour until their deadline.",
           (double)s->totals.waits.overdue);
    wait_metrics(out, &s->totals.waits);
    metric(out, "network_sent_bytes_total", "counter", "Bytes sent to peers, framing included.",
           (double)s->bytes_sent);
    metric(out, "network_received_bytes_total", "counter", "Bytes received from peers, framing included.",
           (double)s->bytes_received);
    metric(out, "links", "gauge", "Links in use.", (double)s->peers.links);
    metric(out, "missing_links", "gauge",
           "Neighbours without a link for long: neither end can call the other.", (double)s->peers.missing);
    reach_metrics(out, s);
    metric(out, "half_open_connections", "gauge", "Accepted connections that are not in use yet.",
           (double)s->peers.half_open);
    metric(out, "connections_accepted_total", "counter", "Connections accepted on the peer port.",
           (double)s->peers.accepted);
    metric(out, "strangers_total", "counter",
           "Connections closed without an answer: no or a wrong handshake.", (double)s->peers.strangers);
    metric(out, "turned_away_total", "counter", "Connections closed because too many were not in use yet.",
           (double)s->peers.turned_away);
    metric(out, "refused_total", "counter",
           "Authenticated nodes that train something else or are not allowed.", (double)s->peers.refused);
    member_metrics(out, s);
    membership_metrics(out, s);
    edge_metrics(out, s);
}

char *node_status_metrics(const struct node_status *status)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    write_metrics(out, status);
    return base_text_close(out, &text);
}
