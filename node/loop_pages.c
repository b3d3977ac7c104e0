#include "node/clock.h"
#include "node/loop_private.h"
#include "node/page.h"
#include "node/status.h"
#include <stdlib.h>
#include <string.h>

// What the pages are made of, at this moment.
static char *render(struct node_loop *loop, char *(*page)(const struct node_status *))
{
    struct node_status_edge *edges = calloc(loop->n_edges + 1, sizeof *edges);
    if (!edges)
        return NULL;
    for (size_t i = 0; i < loop->n_edges; i++) {
        const struct node_member *m = node_roster_find(loop->roster, &loop->edges[i].peer);
        edges[i] =
            (struct node_status_edge){.edge = loop->edges[i],
                                      .name = m ? m->name : "",
                                      .traffic = node_peers_traffic(loop->peers, &loop->edges[i].peer)};
    }
    const struct gossip_greeting *greeting = &loop->options.greeting;
    struct node_status status = {
        .name = loop->options.name,
        .cluster = loop->options.config->cluster.name,
        .version = greeting->version,
        .model = greeting->model,
        .id = loop->options.identity->id,
        .parameters = greeting->parameters,
        .bytes_sent = atomic_load(&loop->options.counters->bytes_sent),
        .bytes_received = atomic_load(&loop->options.counters->bytes_received),
        .started_ns = loop->started_ns,
        .now_ns = node_clock_ns(),
        .progress = loop->progress,
        .totals = loop->totals,
        .peers = node_peers_counters(loop->peers),
        .roster = loop->roster,
        .edges = edges,
        .n_edges = loop->n_edges,
    };
    char *text = page(&status);
    free(edges);
    return text;
}

void node_loop_answer(void *owner, const char *path, struct node_http_answer *answer)
{
    struct node_loop *loop = owner;
    answer->status = 200;
    answer->type = "text/plain; charset=utf-8";
    if (strcmp(path, "/healthz") == 0) {
        answer->constant = "ok\n";
    } else if (strcmp(path, "/status") == 0) {
        answer->type = "application/json";
        answer->text = render(loop, node_status_json);
    } else if (strcmp(path, "/metrics") == 0) {
        answer->type = "text/plain; version=0.0.4; charset=utf-8";
        answer->text = render(loop, node_status_metrics);
    } else if (strcmp(path, "/") == 0) {
        answer->type = "text/html; charset=utf-8";
        answer->constant = node_page_html;
    } else {
        answer->status = 404;
        answer->constant = "there are /, /status, /metrics and /healthz\n";
    }
}
