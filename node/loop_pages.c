#include "node/http/glance.h"
#include "node/http/page.h"
#include "node/http/status.h"
#include "node/loop_private.h"
#include "node/queue/clock.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *via_of(const struct node_loop *loop, const struct gossip_id *peer)
{
    const struct gossip_id *via = node_peers_via(node_cluster_peers(loop->cluster), peer);
    struct gossip_member_info info;
    if (!via)
        return NULL;
    return gossip_membership_find(node_cluster_membership(loop->cluster), via, &info) ? ""
                                                                                      : info.record->name;
}

static void fill_members(const struct node_loop *loop, struct node_status_member *rows, size_t count)
{
    const struct gossip_membership *m = node_cluster_membership(loop->cluster);
    const struct gossip_graph *graph = node_cluster_graph(loop->cluster);
    for (size_t i = 0; i < count; i++) {
        struct gossip_member_info info;
        gossip_membership_info(m, i, &info);
        rows[i] = (struct node_status_member){
            .record = info.record,
            .state = info.state,
            .since_ns = info.since_ns,
            .round = info.round,
            .step = i > 0 ? info.step : loop->progress.step,
            .steps_per_s = node_rates_per_second(loop->step_rates, &info.record->id),
            .linked = i > 0 && node_peers_has(node_cluster_peers(loop->cluster), &info.record->id),
            .via = i > 0 ? via_of(loop, &info.record->id) : NULL,
            .mapped = i > 0 && node_cluster_came_mapped(loop->cluster, &info.record->id),
            .banned_ns =
                i > 0 ? node_peers_banned_ns(node_cluster_peers(loop->cluster), &info.record->id) : 0,
            .neighbour = gossip_graph_meets(graph, &info.record->id),
            .quiet_ns = graph ? node_meets_quiet_ns(&loop->meets, &info.record->id, loop->progress.round,
                                                    gossip_graph_turn(graph), node_clock_ns())
                              : 0};
    }
}

static void fill_paths(const struct node_loop *loop, struct node_status_member *rows, size_t count)
{
    for (size_t i = 1; i < count; i++)
        (void)node_peers_path(node_cluster_peers(loop->cluster), &rows[i].record->id, &rows[i].path);
}

static void fill_edges(const struct node_loop *loop, struct node_status_edge *rows)
{
    for (size_t i = 0; i < loop->n_edges; i++) {
        const struct gossip_id *peer = &loop->edges[i].peer;
        struct gossip_member_info info;
        bool known = !gossip_membership_find(node_cluster_membership(loop->cluster), peer, &info);
        rows[i] =
            (struct node_status_edge){.edge = loop->edges[i],
                                      .name = known ? info.record->name : "",
                                      .traffic = node_peers_traffic(node_cluster_peers(loop->cluster), peer),
                                      .sent_per_s = node_rates_per_second(loop->sent_rates, peer),
                                      .received_per_s = node_rates_per_second(loop->received_rates, peer)};
    }
}

static void fill_entries(const struct node_loop *loop, struct node_status_entry *rows, size_t count)
{
    const struct node_peers *peers = node_cluster_peers(loop->cluster);
    for (size_t i = 0; i < count; i++)
        rows[i] = (struct node_status_entry){.text = node_peers_entry_text(peers, i),
                                             .shown = node_cluster_entry(loop->cluster, i)};
}

// A node of a star meets its hub in one of many rounds. Without neighbours at the end (they have left or
// died) as many as that count.
static double expected_exchanges(const struct node_loop *loop)
{
    const struct gossip_graph *graph = node_cluster_graph(loop->cluster);
    const size_t others = gossip_membership_count(node_cluster_membership(loop->cluster)) - 1;
    const double rounds = (double)loop->progress.own_rounds;
    if (!graph || others == 0 || loop->options.config->average.method == NODE_METHOD_LOCAL)
        return 0;
    const double by_graph =
        rounds * (double)gossip_graph_neighbours(graph) / (double)gossip_graph_turn(graph);
    return fmax(by_graph, rounds / (double)others);
}

static struct node_status_settings settings_of(const struct node_config *config)
{
    const bool averages = config->average.method != NODE_METHOD_LOCAL;
    return (struct node_status_settings){
        .profile = gossip_member_profile_name((enum gossip_member_profile)config->cluster.profile),
        .sync = config->average.mode == NODE_MODE_SYNC,
        .local_steps = config->average.local_steps,
        .ceiling_ns = averages ? config->average.deadline_ceiling_ns : 0};
}

static double unix_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fill(const struct node_loop *loop, struct node_status *status)
{
    const struct gossip_greeting *greeting = &loop->options.greeting;
    const struct node_peers *peers = node_cluster_peers(loop->cluster);
    const struct gossip_id *self = &loop->options.identity->id;
    *status = (struct node_status){
        .name = loop->options.name,
        .cluster = loop->options.config->cluster.name,
        .version = greeting->version,
        .model = greeting->model,
        .directory = loop->directory ? loop->directory : loop->options.config->node.dir,
        .id = *self,
        .parameters = greeting->parameters,
        .bytes_sent = atomic_load(&loop->options.counters->bytes_sent),
        .bytes_received = atomic_load(&loop->options.counters->bytes_received),
        .started_ns = loop->started_ns,
        .now_ns = node_clock_ns(),
        .time = unix_time(),
        .settings = settings_of(loop->options.config),
        .progress = loop->progress,
        .steps = loop->options.config->train.steps,
        .still_ns = node_rates_still_ns(loop->step_rates, self),
        .weight = loop->weight,
        .expected_exchanges = expected_exchanges(loop),
        .pauses = gossip_life_pauses(loop->life),
        .sent_per_s = node_rates_per_second(loop->sent_rates, self),
        .received_per_s = node_rates_per_second(loop->received_rates, self),
        .history = &loop->history,
        .totals = loop->totals,
        .peers = node_peers_counters(peers),
        .cluster_counters = node_cluster_counters(loop->cluster),
        .mapping = node_cluster_mapping(loop->cluster),
        .relay = loop->options.config->node.relay,
        .removed = loop->options.remover ? &loop->options.allow->removed : NULL,
        .events = node_cluster_events(loop->cluster),
        .rounds = loop->options.rounds,
    };
    if (gossip_life_isolated(loop->life)) // it trains, but averages with no node
        status->progress.state = "isolated";
    gossip_membership_totals(node_cluster_membership(loop->cluster), &status->membership);
    status->reach = gossip_reach_state_name(node_cluster_reach(loop->cluster, status->outside));
}

void node_loop_look(const struct node_loop *loop, void (*see)(void *owner, const struct node_status *status),
                    void *owner)
{
    size_t count = gossip_membership_count(node_cluster_membership(loop->cluster));
    struct node_status_edge *edges = calloc(loop->n_edges + 1, sizeof *edges);
    struct node_status_member *members = calloc(count, sizeof *members);
    const struct node_peers *peers = node_cluster_peers(loop->cluster);
    size_t n_entries = node_peers_entries(peers);
    struct node_status_entry *entries = calloc(n_entries + 1, sizeof *entries);
    struct gossip_missing missing[LIMIT_NEIGHBOURS];
    if (edges && members && entries) {
        struct node_status status;
        fill_members(loop, members, count);
        fill_paths(loop, members, count);
        fill_edges(loop, edges);
        fill(loop, &status);
        status.members = members;
        status.n_members = count;
        status.edges = edges;
        status.n_edges = loop->n_edges;
        fill_entries(loop, entries, n_entries);
        status.entries = entries;
        status.n_entries = n_entries;
        status.missing = missing;
        status.n_missing = node_peers_missing(peers, missing, LIMIT_NEIGHBOURS);
        if (status.n_missing > LIMIT_NEIGHBOURS)
            status.n_missing = LIMIT_NEIGHBOURS;
        see(owner, &status);
    }
    free(edges);
    free(members);
    free(entries);
}

struct rendering {
    char *(*page)(const struct node_status *);
    uint64_t round;
    char *text;
};

static void see_page(void *owner, const struct node_status *status)
{
    struct rendering *rendering = owner;
    rendering->text = rendering->page(status);
}

static char *render(struct node_loop *loop, char *(*page)(const struct node_status *))
{
    struct rendering rendering = {.page = page};
    node_loop_look(loop, see_page, &rendering);
    return rendering.text;
}

static void see_round(void *owner, const struct node_status *status)
{
    struct rendering *rendering = owner;
    rendering->text = node_status_round(status, rendering->round);
}

// "/rounds" or "/rounds/7".
static bool names_a_round(const char *path, uint64_t *round)
{
    static const char rounds[] = "/rounds";
    const char *digits = path + sizeof rounds;
    char *end = NULL;
    *round = 0;
    if (strncmp(path, rounds, strlen(rounds)) != 0 ||
        (path[strlen(rounds)] != 0 && path[strlen(rounds)] != '/'))
        return false;
    if (path[strlen(rounds)] == 0)
        return true;
    errno = 0;
    *round = strtoull(digits, &end, 10);
    return *digits >= '0' && *digits <= '9' && *end == 0 && errno == 0 && *round > 0;
}

void node_loop_post_status(struct node_loop *loop)
{
    char *text = render(loop, node_status_json);
    if (text && node_mailbox_post(loop->options.answers, text))
        free(text);
}

// NULL: it is ready.
static char *complain(const struct node_status *status)
{
    struct node_glance glance;
    char *text = NULL;
    node_glance_of(status, &glance);
    if (!node_glance_ready(status, &glance) &&
        asprintf(&text, "%s: %s\n", node_condition_name(glance.condition), glance.text) < 0)
        text = NULL;
    return text;
}

// Ready: it takes part in the training as it should. That it lives, an answer of /livez shows.
static void answer_health(struct node_loop *loop, struct node_http_answer *answer)
{
    answer->text = render(loop, complain);
    if (answer->text)
        answer->status = 503;
    else
        answer->constant = "ok\n";
}

static const struct {
    const char *path, *type, *text;
    char *(*page)(const struct node_status *); // where text is NULL
} pages[] = {{"/livez", "text/plain; charset=utf-8", "ok\n", NULL},
             {"/status", "application/json", NULL, node_status_json},
             {"/history", "application/json", NULL, node_status_history},
             {"/metrics", "text/plain; version=0.0.4; charset=utf-8", NULL, node_status_metrics},
             {"/", "text/html; charset=utf-8", node_page_html, NULL},
             {"/page.css", "text/css; charset=utf-8", node_page_css, NULL},
             {"/page.js", "text/javascript; charset=utf-8", node_page_js, NULL}};

void node_loop_answer(void *owner, const char *path, struct node_http_answer *answer)
{
    struct node_loop *loop = owner;
    answer->status = 200;
    answer->type = "text/plain; charset=utf-8";
    if (strcmp(path, "/healthz") == 0) {
        answer_health(loop, answer);
        return;
    }
    struct rendering rendering = {0};
    if (loop->options.rounds && names_a_round(path, &rendering.round)) {
        node_loop_look(loop, see_round, &rendering);
        answer->type = "application/json";
        answer->text = rendering.text;
        return;
    }
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (strcmp(path, pages[i].path) == 0) {
            answer->type = pages[i].type;
            answer->constant = pages[i].text;
            answer->text = pages[i].page ? render(loop, pages[i].page) : NULL;
            return;
        }
    answer->status = 404;
    answer->constant =
        "there are /, /status, /history, /rounds, /rounds/ROUND, /metrics, /healthz and /livez\n";
}
