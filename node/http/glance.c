#include "node/http/glance.h"
#include "base/array.h"
#include "base/plural.h"
#include "node/queue/clock.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STALLED_NS        (30 * NODE_SECOND_NS)
#define ALIKE_MIN         0.9 // of the median rate: a node above it is not slow by its rate
#define SLOW_MIN          2.0 // times the median computing time: from there on a member is slow
#define CHECKPOINT_VALUES 16u // bytes a parameter that a checkpoint may take: model, moments, two edges

const char *node_condition_name(enum node_condition condition)
{
    static const char *const names[NODE_CONDITIONS] = {
        [NODE_FINE] = "fine",           [NODE_FINISHED] = "finished", [NODE_WAITING] = "waiting",
        [NODE_EDGE_DOWN] = "edge_down", [NODE_STALLED] = "stalled",   [NODE_MINORITY] = "minority",
        [NODE_ALONE] = "alone",         [NODE_REFUSED] = "refused",   [NODE_NOT_FINITE] = "not_finite",
        [NODE_COPIED] = "copied",       [NODE_APART] = "apart",       [NODE_DIVERGED] = "diverged",
        [NODE_DISK_FULL] = "disk_full"};
    BASE_ASSERT(condition < NODE_CONDITIONS);
    return names[condition];
}

const char *node_span_text(double seconds, char text[NODE_SPAN_TEXT])
{
    uint64_t s = isfinite(seconds) && seconds < 1e12 ? (uint64_t)llround(seconds) : 0;
    if (!isfinite(seconds) || seconds >= 1e12)
        snprintf(text, NODE_SPAN_TEXT, "unknown");
    else if (s < 120)
        snprintf(text, NODE_SPAN_TEXT, "%" PRIu64 " s", s);
    else if (s < 7200)
        snprintf(text, NODE_SPAN_TEXT, "%" PRIu64 " min %" PRIu64 " s", s / 60, s % 60);
    else if (s < 2 * 86400)
        snprintf(text, NODE_SPAN_TEXT, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
    else
        snprintf(text, NODE_SPAN_TEXT, "%" PRIu64 " d %" PRIu64 " h", s / 86400, s / 3600 % 24);
    return text;
}

// -- which members are there, and which are slow

static bool is_here(const struct node_status_member *m)
{
    return m->state == GOSSIP_MEMBER_ALIVE || m->state == GOSSIP_MEMBER_SUSPECT;
}

static bool trains(const struct node_status_member *m)
{
    return is_here(m) && (m->record->flags & GOSSIP_RECORD_TRAINING) &&
           !(m->record->flags & (GOSSIP_RECORD_FINISHED | GOSSIP_RECORD_LEFT));
}

static const struct gossip_edge_info *edge_of(const struct node_status *s, const struct node_status_member *m)
{
    for (size_t i = 0; i < s->n_edges; i++)
        if (gossip_id_compare(&s->edges[i].edge.peer, &m->record->id) == 0)
            return &s->edges[i].edge;
    return NULL;
}

static bool is_live(const struct node_status *s, const struct node_status_member *m)
{
    const struct gossip_edge_info *edge = edge_of(s, m);
    return edge && edge->state == GOSSIP_EDGE_LIVE;
}

static void count_members(const struct node_status *s, struct node_glance *g)
{
    for (size_t i = 0; i < s->n_members; i++) {
        const struct node_status_member *m = &s->members[i];
        g->here += is_here(m);
        g->known += m->state != GOSSIP_MEMBER_LEFT;
        g->neighbours += m->neighbour;
        g->linked += m->neighbour && m->linked;
        g->live += m->neighbour && is_live(s, m);
        g->quiet += m->neighbour && m->quiet_ns > 0;
    }
    BASE_ASSERT(g->here <= g->known && g->linked <= g->neighbours && g->live <= g->neighbours);
}

// False: the rates of the training members are alike, as those of nodes that wait for each other are.
static bool find_lowest_rate(const struct node_status *s, struct node_glance *g)
{
    double *rates = calloc(s->n_members + 1, sizeof *rates);
    size_t count = 0;
    for (size_t i = 0; i < s->n_members && rates; i++) {
        const struct node_status_member *m = &s->members[i];
        if (!trains(m) || isnan(m->steps_per_s))
            continue;
        rates[count++] = m->steps_per_s;
        if (!g->slowest || m->steps_per_s < g->slowest_steps_per_s) {
            g->slowest = m->record->name;
            g->slowest_steps_per_s = m->steps_per_s;
        }
    }
    if (count < 2) {
        g->slowest = NULL;
        g->slowest_steps_per_s = NAN;
    }
    bool apart = count >= 2 && g->slowest_steps_per_s < ALIKE_MIN * base_median(rates, count);
    free(rates);
    return apart;
}

static const struct node_status_member *member_of(const struct node_status *s, const struct gossip_id *id)
{
    for (size_t i = 0; i < s->n_members; i++)
        if (gossip_id_compare(&s->members[i].record->id, id) == 0)
            return &s->members[i];
    return NULL;
}

// Nodes that wait for each other have one rate, whichever of them is slow. The computing times that
// neighbours report show more.
static void find_longest_step(const struct node_status *s, struct node_glance *g)
{
    double times[LIMIT_NEIGHBOURS + 1];
    size_t count = 0;
    const char *longest = s->name;
    double most_s = (double)s->progress.step_ns / (double)NODE_SECOND_NS;
    if (s->progress.step_ns > 0)
        times[count++] = most_s;
    for (size_t i = 0; i < s->n_edges && count < sizeof times / sizeof *times; i++) {
        const struct node_status_member *m = member_of(s, &s->edges[i].edge.peer);
        double step_s = (double)s->edges[i].edge.pace_ns / (double)NODE_SECOND_NS;
        if (!m || !trains(m) || !m->neighbour || step_s <= 0)
            continue;
        times[count++] = step_s;
        if (step_s > most_s) {
            most_s = step_s;
            longest = m->record->name;
        }
    }
    if (count < 2)
        return;
    double median = base_median(times, count);
    if (count == 2) // of two, the faster one is the reference
        median = times[0];
    BASE_ASSERT(median <= most_s);
    if (most_s < SLOW_MIN * median)
        return;
    g->slowest = longest;
    g->slowest_step_s = most_s;
    g->step_s = median;
    g->slowest_steps_per_s = NAN;
    for (size_t i = 0; i < s->n_members; i++)
        if (strcmp(s->members[i].record->name, longest) == 0)
            g->slowest_steps_per_s = s->members[i].steps_per_s;
}

// -- what is wrong

static bool is(const struct node_status *s, const char *state)
{
    return strcmp(s->progress.state, state) == 0;
}

static bool conclude(struct node_glance *g, enum node_condition condition, const char *format, ...)
    BASE_PRINTF(3, 4);

static bool conclude(struct node_glance *g, enum node_condition condition, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(g->text, sizeof g->text, format, arguments);
    va_end(arguments);
    g->condition = condition;
    return true;
}

static bool cannot_write(const struct node_status *s, struct node_glance *g)
{
    uint64_t need = CHECKPOINT_VALUES * s->parameters + (1u << 20);
    double free_mb = (double)s->progress.disk_free / 1e6;
    bool known = s->progress.disk_free != UINT64_MAX;
    if (known && s->progress.disk_free < need)
        return conclude(g, NODE_DISK_FULL,
                        "The disk of %s is full: %.1f MB are free, a checkpoint may need %.1f MB. Training "
                        "continues, but is lost if this process ends.",
                        s->directory, free_mb, (double)need / 1e6);
    if (s->progress.unwritten)
        return conclude(g, NODE_DISK_FULL,
                        "Files in %s cannot be written; the log says why. Training continues, but is lost "
                        "if this process ends.",
                        s->directory);
    return false;
}

static bool is_not_finite(const struct node_status *s, struct node_glance *g)
{
    unsigned rounds = s->progress.rollbacks_in_row;
    return rounds > 0 && conclude(g, NODE_NOT_FINITE,
                                  "Loss or model was not a finite number in the latest %u round%s; the last "
                                  "good model was restored each time. After %u such rounds the node ends. A "
                                  "smaller train.rate may help.",
                                  rounds, base_plural(rounds), GOSSIP_ROUNDS_UNUSABLE_MAX);
}

static bool is_diverged(const struct node_status *s, struct node_glance *g)
{
    const struct node_progress *p = &s->progress;
    if (p->losses.program)
        return (p->losses.recovers || p->losses.far > 1 || p->losses.risen) &&
               conclude(
                   g, NODE_DIVERGED,
                   "The loss that the program reports, %.4g, is far above its best, %.4g: a rate that is too "
                   "high, or a neighbour that sends bad models. The program trains by itself: an earlier "
                   "checkpoint or a smaller rate may help.",
                   p->losses.latest, p->losses.best);
    if (p->losses.recovers)
        return conclude(
            g, NODE_DIVERGED,
            "The loss had risen far above its best, %.4g, and the node returned to its last good "
            "model, %u of at most %u times soon after each other. A smaller train.rate may help, or "
            "a neighbour sends bad models.",
            p->losses.best, p->returns_in_row, GOSSIP_ROUNDS_RETURNS_MAX);
    return (p->losses.far > 1 || p->losses.risen) &&
           conclude(
               g, NODE_DIVERGED,
               "The loss, %.4g, is far above its best, %.4g: a train.rate that is too high, or a neighbour "
               "that sends bad models. If it stays so, the node returns to its last good model.",
               p->losses.latest, p->losses.best);
}

static bool is_refused(const struct node_status *s, struct node_glance *g)
{
    for (size_t i = 0; i < s->n_entries; i++)
        if (s->entries[i].shown.state == GOSSIP_ENTRY_REFUSED)
            return conclude(g, NODE_REFUSED,
                            "%s and this node cannot train together: it trains something else, speaks other "
                            "protocols, or one does not allow the other. The log line peer_refused or "
                            "refused_by_peer says what differs.",
                            s->entries[i].text);
    return false;
}

static bool is_minority(const struct node_status *s, struct node_glance *g)
{
    const char *then = is(s, "paused")      ? "It waits until they are back."
                       : is(s, "lingering") ? "Training is done."
                                            : "It continues to train without them.";
    if (s->membership.cut_off)
        return conclude(
            g, NODE_MINORITY,
            "This node hears no other node, though others should be there: its network may be down. %s",
            then);
    if (s->membership.minority)
        return conclude(g, NODE_MINORITY,
                        "Half of the members that take part, or more, do not answer: %zu of %zu are here. %s",
                        s->membership.here, s->membership.here + s->membership.gone, then);
    return false;
}

// Counts the listed peers that have led to no node yet, and writes as many of them as fit into text.
static size_t list_absent(const struct node_status *s, char *text, size_t capacity)
{
    size_t count = 0, used = 0;
    text[0] = 0;
    for (size_t i = 0; i < s->n_entries; i++) {
        if (s->entries[i].shown.state != GOSSIP_ENTRY_UNKNOWN)
            continue;
        count++;
        if (used + strlen(s->entries[i].text) + 3 < capacity)
            used +=
                (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", s->entries[i].text);
    }
    return count;
}

// The shortest of them: for so long nothing has come from any of them.
static uint64_t shortest_quiet_ns(const struct node_status *s)
{
    uint64_t least_ns = UINT64_MAX;
    for (size_t i = 0; i < s->n_members; i++)
        if (s->members[i].neighbour && s->members[i].quiet_ns < least_ns)
            least_ns = s->members[i].quiet_ns;
    return least_ns;
}

// Others are there, and none of the neighbours averages with this node.
static bool averages_with_none(const struct node_status *s, struct node_glance *g)
{
    char span[NODE_SPAN_TEXT];
    if (is(s, "isolated"))
        return conclude(g, NODE_ALONE,
                        "This node trains, but averages with no other node: no exchange with any of its %zu "
                        "neighbours works. Can they reach each other's peer port?",
                        g->neighbours);
    if (g->neighbours == 0 || g->quiet < g->neighbours)
        return false;
    node_span_text((double)shortest_quiet_ns(s) / (double)NODE_SECOND_NS, span);
    if (g->linked == 0)
        return conclude(g, NODE_ALONE,
                        "This node has completed no exchange for %s, and has no link to any of its %zu "
                        "neighbours. Can they reach each other's peer port (NAT, firewall, IPv4 and IPv6)?",
                        span, g->neighbours);
    return conclude(g, NODE_ALONE,
                    "This node has completed no exchange for %s, though %zu of %zu neighbours are linked. "
                    "Does the path to them lose large packets (MTU), or is it too slow?",
                    span, g->linked, g->neighbours);
}

static bool is_alone(const struct node_status *s, struct node_glance *g)
{
    char absent[160];
    bool steps = is(s, "training") || is(s, "isolated");
    if (!steps || s->membership.cut_off)
        return false;
    if (averages_with_none(s, g))
        return true;
    if (g->here > 1)
        return false;
    if (g->known > 1)
        return conclude(
            g, NODE_ALONE,
            "None of %zu other node%s answers any more: this node continues alone until one is back.",
            g->known - 1, g->known == 2 ? "" : "s");
    if (list_absent(s, absent, sizeof absent) > 0)
        return conclude(g, NODE_ALONE, "This node trains alone: no node has answered at %s.", absent);
    for (size_t i = 0; i < s->n_entries; i++)
        if (s->entries[i].shown.state == GOSSIP_ENTRY_MEMBER)
            return conclude(g, NODE_ALONE, "This node trains alone: all other nodes have left.");
    return false;
}

static bool is_stalled(const struct node_status *s, struct node_glance *g)
{
    char span[NODE_SPAN_TEXT];
    double still_s = (double)s->still_ns / (double)NODE_SECOND_NS;
    return is(s, "training") && s->still_ns > STALLED_NS &&
           conclude(g, NODE_STALLED, "No step for %s, though this node should train.",
                    node_span_text(still_s, span));
}

static bool is_waiting(const struct node_status *s, struct node_glance *g)
{
    char absent[160];
    if (is(s, "fetching"))
        return conclude(g, NODE_WAITING, "This node fetches the model from another one, then it trains.");
    if (is(s, "paused") && (s->pauses & GOSSIP_LIFE_HELD_OUT))
        return conclude(g, NODE_WAITING,
                        "This node was restarted often: it waits some seconds before it takes part again.");
    if (is(s, "paused"))
        return conclude(g, NODE_WAITING, "This node waits for the exchanges with its neighbours to begin.");
    if (!is(s, "waiting"))
        return false;
    if (list_absent(s, absent, sizeof absent) > 0)
        return conclude(g, NODE_WAITING, "Training has not begun: no node has answered at %s yet.", absent);
    return conclude(g, NODE_WAITING, "Training has not begun: this node waits for the others.");
}

// Why nothing is averaged with this neighbour, and what helps.
static const char *cause_of(const struct node_status *s, const struct node_status_member *m)
{
    const struct gossip_edge_info *edge = edge_of(s, m);
    if (!m->linked)
        return "there is no link to it. One of the two must be able to call the other's peer port: look at NAT, "
               "firewalls, and whether both have IPv4 or both IPv6";
    if (edge && edge->barred)
        return "it sent numbers that no honest node sends, and is not met for a while. Its page says whether it "
               "has diverged";
    if (edge && edge->state == GOSSIP_EDGE_RESYNC)
        return "the two send each other their whole models, to begin anew. On a slow link that takes long";
    if (edge && edge->state == GOSSIP_EDGE_LIVE)
        return "its edge is live, but no exchange ends. Does the path lose large packets (MTU), or is it too "
               "slow? A smaller average.ratio needs less";
    return "the two are linked, but have not compared their states. The logs of both say why";
}

static size_t list_quiet(const struct node_status *s, char *text, size_t capacity)
{
    size_t used = 0, first = s->n_members;
    text[0] = 0;
    for (size_t i = 0; i < s->n_members; i++) {
        const struct node_status_member *m = &s->members[i];
        if (!m->neighbour || m->quiet_ns == 0)
            continue;
        if (first == s->n_members)
            first = i;
        if (used + strlen(m->record->name) + 3 < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", m->record->name);
    }
    return first;
}

static bool misses_edges(const struct node_status *s, struct node_glance *g)
{
    char names[96], span[NODE_SPAN_TEXT];
    if (!is(s, "training") || g->quiet == 0)
        return false;
    const struct node_status_member *first = &s->members[list_quiet(s, names, sizeof names)];
    node_span_text((double)first->quiet_ns / (double)NODE_SECOND_NS, span);
    return conclude(g, NODE_EDGE_DOWN, "%zu of %zu neighbours (%s) ha%s had no exchange for %s: %s.",
                    g->quiet, g->neighbours, names, g->quiet == 1 ? "s" : "ve", span, cause_of(s, first));
}

#define FEW_EXCHANGES 0.1  // of those that its rounds should have had
#define FEW_ROUNDS    20.0 // expected exchanges, before few are too few
#define LATE_MISSED   0.5  // of the last quarter of the training
#define CONSENSUS_FAR 5.0  // times the usual one
#define CONSENSUS_MIN 0.02 // of the model's norm: a smaller distance changes no answer
#define COPIED_FROM   0.9  // of the steps: what follows a model taken there changes little

// Of `rounds` own ones; in all, or in the last quarter of the training.
static bool are_few(const struct node_status *s, uint64_t exchanges, uint64_t rounds)
{
    const double part = s->progress.own_rounds > 0 ? (double)rounds / (double)s->progress.own_rounds : 0;
    const double expected = s->expected_exchanges * part;
    return expected >= FEW_ROUNDS && (double)exchanges < FEW_EXCHANGES * expected;
}

static bool was_averaged_little(const struct node_status *s, struct node_glance *g)
{
    const struct node_progress *p = &s->progress;
    const bool all = are_few(s, p->exchanges, p->own_rounds);
    return (all || are_few(s, p->late_exchanges, p->late_rounds)) &&
           conclude(
               g, NODE_APART,
               "Training is done, but this node made %" PRIu64 " exchanges in its %s%" PRIu64
               " rounds: its model has hardly been averaged. Use another node's model, and let the hosts "
               "reach each other's peer port.",
               all ? p->exchanges : p->late_exchanges, all ? "" : "last ",
               all ? p->own_rounds : p->late_rounds);
}

static bool was_away_late(const struct node_status *s, struct node_glance *g)
{
    const struct node_progress *p = &s->progress;
    const double quarter = (double)p->round / 4.0;
    return (double)p->late_missed > LATE_MISSED * quarter && p->adopted_step < s->steps &&
           conclude(g, NODE_APART,
                    "Training is done, but this node was away for %" PRIu64
                    " of its last %.0f rounds: its model "
                    "may be behind those of the others. Compare it with theirs.",
                    p->late_missed, quarter);
}

static bool is_far_from_neighbours(const struct node_status *s, struct node_glance *g)
{
    const double distance = s->totals.consensus, usual = s->progress.usual_consensus;
    return distance > CONSENSUS_MIN && distance > CONSENSUS_FAR * usual &&
           conclude(g, NODE_APART,
                    "Training is done, but this node's model is %.2g of its norm away from its neighbours' "
                    "(usually %.2g). Compare it with theirs.",
                    distance, usual);
}

static bool has_copied(const struct node_status *s, struct node_glance *g)
{
    const struct node_progress *p = &s->progress;
    return s->steps > 0 && (double)p->adopted_step >= COPIED_FROM * (double)s->steps &&
           conclude(g, NODE_COPIED,
                    "Training is done with another node's model, taken at step %" PRIu64 " of %" PRIu64
                    "; this process computed %" PRIu64 " steps.",
                    p->adopted_step, s->steps, p->own_steps);
}

// At the end: is the model of this node its own work, and the one that all have agreed on?
static bool ends_apart(const struct node_status *s, struct node_glance *g)
{
    return is(s, "lingering") && !s->progress.merged &&
           (has_copied(s, g) || was_averaged_little(s, g) || was_away_late(s, g) ||
            is_far_from_neighbours(s, g));
}

static bool is_finished(const struct node_status *s, struct node_glance *g)
{
    if (is(s, "lingering") && s->progress.merged)
        return conclude(g, NODE_FINISHED,
                        "Training is done; this node's model is the mean of the final models of all nodes.");
    if (is(s, "lingering"))
        return conclude(g, NODE_FINISHED,
                        "Training is done; this node still answers others that are not done yet.");
    return is(s, "stopping") && conclude(g, NODE_FINISHED, "This node was told to stop and is about to end.");
}

static void say_fine(struct node_glance *g)
{
    if (g->here < 2)
        (void)conclude(g, NODE_FINE, "This node trains by itself, as configured: no peers are listed.");
    else
        (void)conclude(g, NODE_FINE,
                       "Training with %zu other node%s; models are averaged with %zu of %zu neighbour%s%s.",
                       g->here - 1, base_plural(g->here - 1), g->live, g->neighbours,
                       base_plural(g->neighbours),
                       g->live < g->neighbours ? ", which has been so for less than 30 s" : "");
}

static void judge(const struct node_status *s, struct node_glance *g)
{
    if (!cannot_write(s, g) && !is_not_finite(s, g) && !is_diverged(s, g) && !is_refused(s, g) &&
        !is_alone(s, g) && !is_minority(s, g) && !is_stalled(s, g) && !misses_edges(s, g) &&
        !is_waiting(s, g) && !ends_apart(s, g) && !is_finished(s, g))
        say_fine(g);
}

bool node_glance_ready(const struct node_status *s, const struct node_glance *g)
{
    switch (g->condition) {
    case NODE_STALLED:
    case NODE_ALONE:
    case NODE_REFUSED:
    case NODE_DIVERGED:
        return false;
    case NODE_MINORITY:
        return !s->membership.cut_off;
    case NODE_NOT_FINITE:
        return s->progress.rollbacks_in_row < 2; // once may be an outlier of the data
    default:
        return true;
    }
}

void node_glance_of(const struct node_status *s, struct node_glance *g)
{
    *g = (struct node_glance){
        .steps_per_s = NAN, .left_s = NAN, .slowest_steps_per_s = NAN, .slowest_step_s = NAN, .step_s = NAN};
    bool steps = is(s, "training") || is(s, "isolated");
    if (steps && s->n_members > 0)
        g->steps_per_s = s->members[0].steps_per_s;
    if (s->steps > 0 && s->progress.step >= s->steps)
        g->left_s = 0;
    else if (s->steps > 0 && g->steps_per_s > 0)
        g->left_s = (double)(s->steps - s->progress.step) / g->steps_per_s;
    count_members(s, g);
    if (!find_lowest_rate(s, g))
        find_longest_step(s, g);
    judge(s, g);
}

// -- the line of the log

struct out { // text that is cut off where it does not fit
    char *text;
    size_t used, capacity;
};

static void put(struct out *out, const char *format, ...) BASE_PRINTF(2, 3);

static void put(struct out *out, const char *format, ...)
{
    va_list arguments;
    BASE_ASSERT(out->used < out->capacity);
    va_start(arguments, format);
    int more = vsnprintf(out->text + out->used, out->capacity - out->used, format, arguments);
    va_end(arguments);
    if (more > 0 && out->used + (size_t)more < out->capacity)
        out->used += (size_t)more;
    else
        out->text[out->used] = 0;
}

static void put_slowest(struct out *out, const struct node_glance *g)
{
    if (!g->slowest)
        return;
    if (!isnan(g->slowest_step_s))
        put(out, ", slowest %s (%.3g ms a step, others %.3g)", g->slowest, 1e3 * g->slowest_step_s,
            1e3 * g->step_s);
    else
        put(out, ", slowest %s (%.1f steps/s)", g->slowest, g->slowest_steps_per_s);
}

void node_glance_line(const struct node_status *s, const struct node_glance *g, char *text, size_t capacity)
{
    struct out out = {text, 0, capacity};
    char span[NODE_SPAN_TEXT];
    text[0] = 0;
    put(&out, "step %" PRIu64, s->progress.step);
    if (s->steps > 0)
        put(&out, " of %" PRIu64 " (%.1f%%)", s->steps, 100.0 * (double)s->progress.step / (double)s->steps);
    if (isfinite(s->progress.loss))
        put(&out, ", loss %.4f", s->progress.loss);
    if (isfinite(s->progress.accuracy) && s->progress.regression)
        put(&out, ", test R2 %.4f, RMSE %.4g", s->progress.accuracy, s->progress.rmse);
    else if (isfinite(s->progress.accuracy))
        put(&out, ", test accuracy %.2f%%", 100 * s->progress.accuracy);
    if (isfinite(g->steps_per_s))
        put(&out, ", %.1f steps/s", g->steps_per_s);
    if (isfinite(g->left_s))
        put(&out, ", %s left", node_span_text(g->left_s, span));
    put(&out, ", %zu of %zu members", g->here, g->known);
    put_slowest(&out, g);
    if (g->condition != NODE_FINE && g->condition != NODE_FINISHED)
        put(&out, "; %s: %s", node_condition_name(g->condition), g->text);
}

static void put_number(struct out *out, const char *key, double value)
{
    if (isfinite(value))
        put(out, ",\"%s\":%.6g", key, value);
    else
        put(out, ",\"%s\":null", key);
}

void node_glance_fields(const struct node_status *s, const struct node_glance *g, char *fields,
                        size_t capacity)
{
    struct out out = {fields, 0, capacity};
    fields[0] = 0;
    put(&out, ",\"step\":%" PRIu64, s->progress.step);
    if (s->steps > 0)
        put(&out, ",\"steps\":%" PRIu64, s->steps);
    put_number(&out, "loss", s->progress.loss);
    put_number(&out, s->progress.regression ? "r2" : "accuracy", s->progress.accuracy);
    put_number(&out, "steps_per_s", g->steps_per_s);
    put_number(&out, "left_s", g->left_s);
    put(&out, ",\"members\":%zu,\"members_known\":%zu", g->here, g->known);
    if (g->slowest) // letters, digits, '.', '_' and '-'
        put(&out, ",\"slowest\":\"%s\"", g->slowest);
    put(&out, ",\"condition\":\"%s\"", node_condition_name(g->condition));
}
