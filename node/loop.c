#include "base/log.h"
#include "base/plural.h"
#include "node/config/compatibility.h"
#include "node/loop_private.h"
#include "node/net/listener.h"
#include "node/queue/clock.h"
#include <event2/event.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_NS (250 * NODE_MILLISECOND_NS)

static void worker_congested(void *owner, bool is)
{
    struct node_loop *loop = owner;
    node_peers_pause(node_cluster_peers(loop->cluster), is);
}

static void message_ready(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    node_loop_take_messages(argument);
}

// One line for `systemctl status`.
static void notify_manager(struct node_loop *loop, uint64_t now_ns)
{
    char line[NODE_NOTIFY_STATUS_BYTES];
    if (loop->notify.socket < 0)
        return;
    struct gossip_membership_totals totals;
    gossip_membership_totals(node_cluster_membership(loop->cluster), &totals);
    snprintf(line, sizeof line, "%s: step %llu, %zu member%s alive, page on port %u", loop->progress.state,
             (unsigned long long)loop->progress.step, totals.alive, base_plural(totals.alive),
             (unsigned)loop->http_port);
    node_notify_tick(&loop->notify, now_ns, line);
}

static void tick(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_loop *loop = argument;
    BASE_ASSERT(!loop->acting); // an event of its own, not a consequence of an action
    node_peers_tick(node_cluster_peers(loop->cluster), node_clock_ns());
    notify_manager(loop, node_clock_ns());
    node_loop_consider(loop);
    node_loop_glance(loop);
}

static void stop(struct node_loop *loop, int number)
{
    node_notify_stopping(&loop->notify);
    base_log(
        BASE_LOG_INFO, "stopping",
        "%s: writing the last checkpoint (SIGINT, Ctrl-C, after more than a second ends the process at once, "
        "without it)",
        number == SIGTERM ? "SIGTERM" : "SIGINT");
    if (!gossip_life_stopping(loop->life))
        node_loop_live(loop, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
}

static void on_signal(evutil_socket_t number, short what, void *argument)
{
    (void)what;
    struct node_loop *loop = argument;
    BASE_ASSERT(!loop->acting); // an event of its own, not a consequence of an action
    if (number == SIGHUP) {
        node_loop_reload(loop);
        return;
    }
    switch (base_stop_take(&loop->stop, (int)number, node_clock_ns())) {
    case BASE_STOP_ASKED:
        stop(loop, (int)number);
        break;
    case BASE_STOP_AT_ONCE:
        loop->status = NODE_LOOP_ABANDONED;
        event_base_loopbreak(loop->base);
        break;
    case BASE_STOP_NOTHING:
        break;
    }
}

// -- making

static size_t edges(const void *owner)
{
    return ((const struct node_loop *)owner)->n_edges;
}

static void edge(const void *owner, size_t index, struct gossip_edge_info *info)
{
    *info = ((const struct node_loop *)owner)->edges[index];
}

static enum base_error make_cluster(struct node_loop *loop, struct node_ports *ports, struct base_reason *why)
{
    const struct node_loop_options *o = &loop->options;
    BASE_ASSERT(!loop->cluster && ports->peers >= 0 && ports->datagrams >= 0);
    struct node_cluster_options cluster = {.links = {.base = loop->base,
                                                     .streams = loop->streams,
                                                     .config = o->config,
                                                     .identity = o->identity,
                                                     .secrets = o->secrets,
                                                     .allow = o->allow,
                                                     .greeting = &o->greeting,
                                                     .message_limit = o->message_limit,
                                                     .counters = o->counters,
                                                     .listener = ports->peers,
                                                     .joins = o->joins,
                                                     .ready = node_loop_take_events,
                                                     .owner = loop},
                                           .topology = o->topology,
                                           .name = o->name,
                                           .starts = o->starts,
                                           .first_model = o->first_model,
                                           .examples = node_loop_own_examples(o),
                                           .instance_id = o->instance_id,
                                           .starts_path = o->starts_path,
                                           .events_path = o->events_path,
                                           .pages = loop->pages,
                                           .edges = {.owner = loop, .count = edges, .at = edge},
                                           .gathered = node_loop_gathered,
                                           .datagrams = ports->datagrams};
    enum base_error error = node_cluster_create(&cluster, &loop->cluster, why);
    if (!error)
        ports->peers = ports->datagrams = -1;
    return error;
}

static enum base_error make_http(struct node_loop *loop, int *listener)
{
    if (*listener < 0)
        return BASE_OK;
    struct node_http_options options = {.base = loop->base,
                                        .listener = *listener,
                                        .answer = node_loop_answer,
                                        .set = node_loop_set,
                                        .owner = loop};
    node_loop_make_token(loop);
    enum base_error error = node_http_create(&options, &loop->http);
    if (!error)
        *listener = -1;
    return error;
}

static bool make_events(struct node_loop *loop)
{
    BASE_ASSERT(loop->base && !loop->message && !loop->tick);
    static const int numbers[N_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    struct timeval every = node_clock_timeval(TICK_NS);
    loop->message = event_new(loop->base, node_mailbox_descriptor(loop->options.inbox), EV_READ | EV_PERSIST,
                              message_ready, loop);
    loop->tick = event_new(loop->base, -1, EV_PERSIST, tick, loop);
    if (!loop->message || !loop->tick || event_add(loop->message, NULL) != 0 ||
        event_add(loop->tick, &every) != 0)
        return false;
    for (size_t i = 0; loop->options.signals && i < N_SIGNALS; i++) {
        loop->signals[i] = evsignal_new(loop->base, numbers[i], on_signal, loop);
        if (!loop->signals[i] || event_add(loop->signals[i], NULL) != 0)
            return false;
    }
    return true;
}

static enum base_error make_rates(struct node_loop *loop)
{
    BASE_ASSERT(!loop->step_rates && !loop->sent_rates && !loop->received_rates);
    loop->step_rates = node_rates_create();
    loop->sent_rates = node_rates_create();
    loop->received_rates = node_rates_create();
    return loop->step_rates && loop->sent_rates && loop->received_rates ? BASE_OK : BASE_ENOMEM;
}

static enum base_error make_parts(struct node_loop *loop, struct node_ports *ports, struct base_reason *why)
{
    BASE_ASSERT(!loop->base && !loop->cluster && !loop->backlog);
    loop->base = event_base_new();
    enum base_error error = loop->base
                                ? node_backlog_create(loop->base, &loop->options.counters->backlog_bytes,
                                                      NODE_BACKLOG_BYTES + 2 * loop->options.message_limit,
                                                      worker_congested, loop, &loop->backlog)
                                : BASE_ENOMEM;
    if (!error)
        error = node_loop_make_statistics(loop);
    if (!error)
        error = make_rates(loop);
    if (!error)
        error = node_streams_create(loop->base, &loop->streams);
    if (!error)
        error = make_http(loop, &ports->http);
    if (!error && !make_events(loop))
        error = BASE_ENOMEM;
    if (error)
        return base_fail(why, error, "out of memory, threads or descriptors for the event loop");
    error = make_cluster(loop, ports, why);
    if (!error)
        error = node_loop_make_life(loop, why);
    return error;
}

enum base_error node_loop_create(const struct node_loop_options *options, struct node_loop **out,
                                 struct base_reason *why)
{
    struct node_ports ports;
    enum base_error error = node_loop_bind(options, &ports, why);
    if (error)
        return error;
    struct node_loop *loop = calloc(1, sizeof *loop);
    if (!loop) {
        error = base_fail(why, BASE_ENOMEM, "no memory for the event loop");
        goto out;
    }
    loop->options = *options;
    loop->notify.socket = -1;
    loop->started_ns = node_clock_ns();
    loop->progress = (struct node_progress){.loss = NAN,
                                            .accuracy = NAN,
                                            .rmse = NAN,
                                            .consensus = NAN,
                                            .rate = NAN,
                                            .disk_free = UINT64_MAX,
                                            .state = "waiting"};
    loop->totals.consensus = NAN;
    loop->options.greeting.begun = options->resumed && !node_config_has_earlier(options->config);
    if (!options->joins) // it takes no settings at all
        memset(loop->options.greeting.own, 0xff, sizeof loop->options.greeting.own);
    loop->port = node_listener_port(ports.peers);
    loop->http_port = ports.http >= 0 ? node_listener_port(ports.http) : 0;
    loop->pages = node_loop_pages_address(ports.http);
    loop->history.lasts_ns = TICK_NS;
    loop->line_ns = loop->started_ns;
    loop->fit_ns = loop->started_ns;
    error = make_parts(loop, &ports, why);
    if (!error) {
        *out = loop;
        return BASE_OK;
    }
out:
    node_loop_destroy(loop);
    const int left[] = {ports.peers, ports.datagrams, ports.http};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (left[i] >= 0)
            close(left[i]);
    return error;
}

const char *node_loop_cause(const struct node_loop *loop)
{
    return loop->cause.text;
}

int node_loop_run(struct node_loop *loop)
{
    node_cluster_start(loop->cluster);
    node_loop_consider(loop);
    if (loop->options.manager)
        node_notify_open(&loop->notify);
    node_notify_ready(&loop->notify);
    event_base_dispatch(loop->base);
    if (loop->status != NODE_LOOP_JOINS)
        node_notify_stopping(&loop->notify);
    if (loop->status == NODE_LOOP_ABANDONED || loop->status == NODE_LOOP_JOINS)
        return loop->status;
    node_mailbox_put(loop->options.worker, node_message_new(NODE_MESSAGE_STOP));
    return loop->status;
}

void node_loop_destroy(struct node_loop *loop)
{
    if (!loop)
        return;
    struct event *events[] = {loop->message, loop->tick, loop->signals[0], loop->signals[1],
                              loop->signals[2]};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            event_free(events[i]);
    node_notify_close(&loop->notify);
    node_http_destroy(loop->http);
    node_cluster_destroy(loop->cluster);
    node_streams_destroy(loop->streams);
    node_backlog_destroy(loop->backlog);
    if (loop->base)
        event_base_free(loop->base);
    free(loop->directory);
    free(loop->taken);
    free(loop->edges);
    node_rates_destroy(loop->step_rates);
    node_rates_destroy(loop->sent_rates);
    node_rates_destroy(loop->received_rates);
    gossip_statistics_destroy(loop->statistics);
    free(loop);
}

uint16_t node_loop_port(const struct node_loop *loop)
{
    return loop->port;
}

uint16_t node_loop_http_port(const struct node_loop *loop)
{
    return loop->http_port;
}
