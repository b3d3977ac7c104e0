// Periodic reports on this node: notes rates and the curve with the ticks of the loop, and logs a line every
// log.progress.
#include "base/log.h"
#include "node/http/glance.h"
#include "node/loop_private.h"
#include "node/queue/clock.h"

#define NOTE_NS    (NODE_SECOND_NS - 1)
#define FIT_NS     (10 * NODE_SECOND_NS)
#define UNFIT_SAID 3u // times in a row, before a setting that does not fit is worth a line

// A number for the process of a member and what it does. When either changes, the counter may jump, which is
// not a rate.
static uint64_t era_of(const struct gossip_record *record)
{
    const uint8_t does = GOSSIP_RECORD_TRAINING | GOSSIP_RECORD_ELIGIBLE;
    return record->version.instance_id * 64 + (record->flags & does);
}

static void note_members(struct node_loop *loop, uint64_t now_ns)
{
    const struct gossip_membership *m = node_cluster_membership(loop->cluster);
    bool trains = gossip_life_state(loop->life) == GOSSIP_LIFE_TRAINING;
    for (size_t i = 0; i < gossip_membership_count(m); i++) {
        struct gossip_member_info info;
        gossip_membership_info(m, i, &info);
        bool told = i > 0 && info.progress_ns > 0;
        if (i == 0 && trains)
            node_rates_note(loop->step_rates, &info.record->id, era_of(info.record), loop->progress.step,
                            now_ns);
        else if (told && (info.state == GOSSIP_MEMBER_ALIVE || info.state == GOSSIP_MEMBER_SUSPECT))
            node_rates_note(loop->step_rates, &info.record->id, era_of(info.record), info.step,
                            info.progress_ns);
    }
    node_rates_sweep(loop->step_rates);
}

static void note_bytes(struct node_loop *loop, uint64_t now_ns)
{
    const struct gossip_id *self = &loop->options.identity->id;
    const struct node_counters *c = loop->options.counters;
    for (size_t i = 0; i < loop->n_edges; i++) {
        const struct gossip_id *peer = &loop->edges[i].peer;
        struct node_link_traffic t = node_peers_traffic(node_cluster_peers(loop->cluster), peer);
        node_rates_note(loop->sent_rates, peer, 0, t.sent, now_ns);
        node_rates_note(loop->received_rates, peer, 0, t.received, now_ns);
    }
    node_rates_note(loop->sent_rates, self, 0, atomic_load(&c->bytes_sent), now_ns);
    node_rates_note(loop->received_rates, self, 0, atomic_load(&c->bytes_received), now_ns);
    node_rates_sweep(loop->sent_rates);
    node_rates_sweep(loop->received_rates);
}

static enum node_meet_edge edge_with(const struct node_loop *loop, const struct gossip_id *peer,
                                     uint64_t *exchanges)
{
    for (size_t i = 0; i < loop->n_edges; i++)
        if (gossip_id_compare(&loop->edges[i].peer, peer) == 0) {
            *exchanges = loop->edges[i].exchanges;
            return loop->edges[i].state == GOSSIP_EDGE_LIVE ? NODE_MEET_LIVE : NODE_MEET_DOWN;
        }
    *exchanges = 0;
    return NODE_MEET_DOWN;
}

static bool could_exchange(const struct node_loop *loop)
{
    return gossip_life_state(loop->life) == GOSSIP_LIFE_TRAINING && gossip_life_pauses(loop->life) == 0 &&
           loop->options.config->average.method != NODE_METHOD_LOCAL;
}

static void note_exchanges(struct node_loop *loop, uint64_t now_ns)
{
    const struct gossip_graph *graph = node_cluster_graph(loop->cluster);
    const bool could = could_exchange(loop);
    for (size_t i = 0; graph && i < gossip_graph_neighbours(graph); i++) {
        const struct gossip_id *peer = gossip_graph_neighbour(graph, i);
        uint64_t exchanges;
        const enum node_meet_edge edge = edge_with(loop, peer, &exchanges);
        node_meets_note(&loop->meets, peer, could ? edge : NODE_MEET_EXCUSED, exchanges, loop->progress.round,
                        now_ns);
    }
    node_meets_sweep(&loop->meets);
}

static void log_line(void *owner, const struct node_status *status)
{
    (void)owner;
    char line[800], fields[512];
    struct node_glance glance;
    node_glance_of(status, &glance);
    node_glance_line(status, &glance, line, sizeof line);
    node_glance_fields(status, &glance, fields, sizeof fields);
    base_log_fields(BASE_LOG_INFO, "progress", fields, "%s", line);
}

// Each setting once: what does not fit for 30 s will not fit by itself.
static void say_unfit(void *owner, const struct node_status *status)
{
    struct node_loop *loop = owner;
    struct node_unfit unfit[NODE_FITS];
    const size_t count = node_fit_of(status, unfit);
    for (size_t i = 0, fit = 0; fit < NODE_FITS; fit++) {
        const bool there = i < count && unfit[i].what == (enum node_fit)fit;
        if (there && ++loop->unfit[fit] == UNFIT_SAID)
            base_log(BASE_LOG_WARN, "setting_does_not_fit", "%s: %s", unfit[i].key, unfit[i].text);
        if (!there && loop->unfit[fit] < UNFIT_SAID)
            loop->unfit[fit] = 0;
        i += there;
    }
}

static void say_end(void *owner, const struct node_status *status)
{
    (void)owner;
    struct node_glance glance;
    node_glance_of(status, &glance);
    if (glance.condition == NODE_APART || glance.condition == NODE_COPIED)
        base_log(BASE_LOG_WARN, node_condition_name(glance.condition), "%s", glance.text);
}

void node_loop_say_end(const struct node_loop *loop)
{
    node_loop_look(loop, say_end, NULL);
}

void node_loop_note_progress(struct node_loop *loop)
{
    const struct node_progress *p = &loop->progress;
    const struct node_history_point now = {.step = p->step,
                                           .at_ns = node_clock_ns(),
                                           .round = p->round,
                                           .bytes_sent = atomic_load(&loop->options.counters->bytes_sent),
                                           .loss = p->loss,
                                           .accuracy = p->accuracy};
    node_history_note(&loop->history, &now);
}

void node_loop_glance(struct node_loop *loop)
{
    const uint64_t every_ns = loop->options.config->log.progress_ns;
    uint64_t now_ns = node_clock_ns();
    BASE_ASSERT(now_ns >= loop->noted_ns && now_ns >= loop->line_ns); // a monotonic clock
    if (now_ns - loop->noted_ns >= NOTE_NS) {
        loop->noted_ns = now_ns;
        note_members(loop, now_ns);
        note_bytes(loop, now_ns);
        note_exchanges(loop, now_ns);
    }
    if (now_ns - loop->fit_ns >= FIT_NS) {
        loop->fit_ns = now_ns;
        node_loop_look(loop, say_unfit, loop);
    }
    if (every_ns == 0 || now_ns - loop->line_ns < every_ns)
        return;
    loop->line_ns = now_ns;
    node_loop_look(loop, log_line, NULL);
}
