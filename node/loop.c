#include "base/log.h"
#include "node/clock.h"
#include "node/gate.h"
#include "node/graph.h"
#include "node/greet.h"
#include "node/loop_private.h"
#include <event2/event.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_NS    (250 * NODE_MILLISECOND_NS)
#define FLUSH_NS   (2 * NODE_SECOND_NS)
#define MAILS_TURN 256 // mails handled before sockets have their turn

static void post(struct node_outbox *to, enum node_mail_kind kind, const struct gossip_id *peer)
{
    struct node_mail *mail = node_mail_new(kind);
    if (peer)
        mail->peer = *peer;
    node_outbox_post(to, mail);
}

// NULL: no memory.
static struct node_mail *bytes_mail(enum node_mail_kind kind, const void *bytes, size_t count)
{
    struct node_mail *mail = node_mail_new(kind);
    mail->bytes = malloc(count ? count : 1);
    if (!mail->bytes) {
        node_mail_free(mail);
        return NULL;
    }
    memcpy(mail->bytes, bytes, count);
    mail->n_bytes = count;
    return mail;
}

static void post_view(struct node_loop *loop)
{
    struct gossip_id ids[2 * LIMIT_PEERS];
    uint64_t revision = node_roster_revision(loop->roster);
    if (revision == loop->view_revision)
        return;
    loop->view_revision = revision;
    size_t count = node_roster_view(loop->roster, ids, sizeof ids / sizeof *ids);
    loop->n_neighbours = node_graph_neighbours((enum topology_kind)loop->options.config->topology.kind, ids,
                                               count, &loop->options.identity->id, loop->neighbours);
    struct node_mail *mail = bytes_mail(NODE_MAIL_VIEW, ids, count * sizeof *ids);
    BASE_ASSERT(mail != NULL); // at most 64 KiB
    node_outbox_post(loop->worker, mail);
}

static void enter(struct node_loop *loop, enum phase phase)
{
    loop->phase = phase;
    loop->phase_ns = node_clock_ns();
}

static bool edge_is_live(const struct node_loop *loop, const struct gossip_id *peer)
{
    for (size_t i = 0; i < loop->n_edges; i++)
        if (gossip_id_compare(&loop->edges[i].peer, peer) == 0)
            return loop->edges[i].state == GOSSIP_EDGE_LIVE;
    return false;
}

// Linked, and with a live edge where there is to be one.
static bool is_ready(const struct node_loop *loop, const struct gossip_id *peer)
{
    for (size_t i = 0; i < loop->n_neighbours; i++)
        if (gossip_id_compare(&loop->neighbours[i], peer) == 0)
            return edge_is_live(loop, peer);
    return true;
}

// Listed peers that are not ready; their addresses into text, as many as fit.
static size_t missing(const struct node_loop *loop, char *text, size_t capacity)
{
    size_t count = 0, used = 0;
    text[0] = 0;
    for (size_t i = 0; i < node_roster_count(loop->roster); i++) {
        const struct node_member *m = node_roster_at(loop->roster, i);
        if (!m->listed || m->left_out || (m->linked && is_ready(loop, &m->id)))
            continue;
        count++;
        if (used + strlen(m->address) + 3 < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", m->address);
    }
    return count;
}

static void consider_start(struct node_loop *loop)
{
    char text[600];
    if (loop->phase != PHASE_WAITING || loop->stopping)
        return;
    size_t count = missing(loop, text, sizeof text);
    bool late = node_clock_ns() - loop->phase_ns >= loop->options.config->node.start_timeout_ns;
    if (count > 0 && !late)
        return;
    if (count > 0)
        base_log(BASE_LOG_WARN, "start_without", "training begins without %zu of the listed peers: %s", count,
                 text);
    base_log(BASE_LOG_INFO, "start", "training begins with %zu peers", node_peers_linked(loop->peers));
    post(loop->learner, NODE_MAIL_START, NULL);
    enter(loop, PHASE_TRAINING);
}

static void consider_leave(struct node_loop *loop)
{
    if (loop->phase != PHASE_LINGERING || loop->leave_posted)
        return;
    size_t busy = node_peers_not_done(loop->peers);
    bool late = node_clock_ns() - loop->phase_ns >= loop->options.config->node.linger_ns;
    if (busy > 0 && !late)
        return;
    if (busy > 0)
        base_log(BASE_LOG_WARN, "linger_over", "%zu peers still train; node.linger has passed", busy);
    post(loop->learner, NODE_MAIL_LEAVE, NULL);
    loop->leave_posted = true;
}

static void consider(struct node_loop *loop)
{
    post_view(loop);
    consider_start(loop);
    consider_leave(loop);
    if (loop->phase == PHASE_LEAVING &&
        (node_peers_gone(loop->peers) || node_clock_ns() - loop->phase_ns >= FLUSH_NS))
        event_base_loopbreak(loop->base);
}

static void on_up(void *owner, const struct gossip_id *peer)
{
    struct node_loop *loop = owner;
    post(loop->worker, NODE_MAIL_LINK_UP, peer);
}

static void on_down(void *owner, const struct gossip_id *peer)
{
    struct node_loop *loop = owner;
    post(loop->worker, NODE_MAIL_LINK_DOWN, peer);
}

static void on_forget(void *owner, const struct gossip_id *peer)
{
    struct node_loop *loop = owner;
    post(loop->worker, NODE_MAIL_FORGET, peer);
}

static void on_message(void *owner, const struct gossip_id *peer, const uint8_t *bytes, size_t count)
{
    struct node_loop *loop = owner;
    struct node_mail *mail = bytes_mail(NODE_MAIL_MESSAGE, bytes, count);
    if (!mail) {
        node_peers_close(loop->peers, peer, "no memory for its message");
        return;
    }
    mail->peer = *peer;
    node_backlog_charge(loop->backlog, mail);
    node_outbox_post(loop->worker, mail);
}

static void on_changed(void *owner)
{
    consider(owner);
}

static const struct node_peers_handler peers_handler = {
    .up = on_up, .down = on_down, .message = on_message, .forget = on_forget, .changed = on_changed};

static void worker_congested(void *owner, bool is)
{
    struct node_loop *loop = owner;
    loop->congestions = is ? loop->congestions + 1 : loop->congestions - 1;
    node_peers_pause(loop->peers, loop->congestions > 0);
}

static void learner_congested(void *owner, bool is)
{
    (void)owner;
    (void)is;
}

static void take_edges(struct node_loop *loop, struct node_mail *mail)
{
    free(loop->edges);
    loop->edges = (struct node_edge_status *)(void *)mail->bytes; // malloc'ed, hence aligned
    loop->n_edges = mail->n_bytes / sizeof *loop->edges;
    mail->bytes = NULL;
    loop->totals = mail->totals;
    consider(loop);
}

static void take_finished(struct node_loop *loop)
{
    base_log(BASE_LOG_INFO, "finished", "the last step is done; answering %zu peers that still train",
             node_peers_not_done(loop->peers));
    enter(loop, PHASE_LINGERING);
    node_peers_greet_with(loop->peers, NODE_BYE_DONE);
    consider(loop);
}

static void take_left(struct node_loop *loop, int status)
{
    loop->status = status;
    enter(loop, PHASE_LEAVING);
    node_peers_leave(loop->peers);
    consider(loop);
}

static void handle(struct node_loop *loop, struct node_mail *mail)
{
    switch (mail->kind) {
    case NODE_MAIL_SEND:
        (void)node_peers_send(loop->peers, &mail->peer, mail->bytes,
                              mail->n_bytes); // else the link is down: LINK_DOWN tells
        break;
    case NODE_MAIL_CLOSE:
        node_peers_close(loop->peers, &mail->peer, mail->text);
        break;
    case NODE_MAIL_EDGES:
        take_edges(loop, mail);
        break;
    case NODE_MAIL_PROGRESS:
        loop->progress = mail->progress;
        break;
    case NODE_MAIL_FINISHED:
        take_finished(loop);
        break;
    case NODE_MAIL_LEFT:
        take_left(loop, mail->status);
        break;
    default:
        BASE_ASSERT(false); // a mail that is not for the loop
    }
}

static void mail_ready(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_loop *loop = argument;
    for (int i = 0; i < MAILS_TURN; i++) {
        struct node_mail *mail = node_mailbox_take(loop->options.inbox, 0);
        if (!mail)
            return;
        handle(loop, mail);
        node_mail_free(mail);
    }
}

static void tick(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_loop *loop = argument;
    uint64_t now_ns = node_clock_ns();
    struct gossip_id id;
    node_peers_tick(loop->peers, now_ns);
    while (node_roster_forget(loop->roster, now_ns, loop->options.config->average.forget_after_ns, &id)) {
        char hex[GOSSIP_ID_HEX];
        uint64_t left_out;
        gossip_id_hex(&id, hex);
        if (node_allowance_take(&loop->lines, now_ns, &left_out))
            base_log(BASE_LOG_INFO, "forgotten", "%.16s was away for too long; the graph closes around it",
                     hex);
        on_forget(loop, &id);
    }
    consider(loop);
}

static void reload_allow_list(struct node_loop *loop)
{
    struct base_reason why;
    struct gossip_allow_list fresh = {0};
    if (!loop->options.allow) {
        base_log(BASE_LOG_INFO, "reload", "SIGHUP: no cluster.allow_file is configured, nothing to reload");
        return;
    }
    if (gossip_allow_list_load(loop->options.config->cluster.allow_file, &fresh, &why) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "reload", "the allow-list stays as it was: %s", why.text);
        return;
    }
    gossip_allow_list_destroy(loop->options.allow);
    *loop->options.allow = fresh;
    base_log(BASE_LOG_INFO, "reload", "the allow-list has %zu ids now", fresh.count);
    node_peers_allow_changed(loop->peers);
}

static void on_signal(evutil_socket_t number, short what, void *argument)
{
    (void)what;
    struct node_loop *loop = argument;
    if (number == SIGHUP) {
        reload_allow_list(loop);
        return;
    }
    if (loop->stopping) {
        loop->status = NODE_LOOP_ABANDONED;
        event_base_loopbreak(loop->base);
        return;
    }
    loop->stopping = true;
    base_log(BASE_LOG_INFO, "stopping", "%s: writing the last checkpoint (again: end at once)",
             number == SIGTERM ? "SIGTERM" : "SIGINT");
    atomic_store(&loop->options.counters->stop, true);
    post(loop->learner, NODE_MAIL_LEAVE, NULL); // wakes it where it waits
}

static enum base_error fail_open_bind(const struct node_config *config, struct base_reason *why)
{
    return base_fail(
        why, BASE_EAUTH,
        "node.listen: %s can be reached from other machines, and nothing keeps strangers out; set "
        "cluster.secret_file or cluster.allow_file, or listen on 127.0.0.1",
        config->node.listen);
}

// Both ports, or none.
static enum base_error bind_ports(const struct node_loop_options *options, int *peers, int *http,
                                  struct base_reason *why)
{
    const struct node_config *config = options->config;
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    enum base_error code = node_address_parse(config->node.listen, host, &port, why);
    if (code != BASE_OK)
        return base_fail_context(why, code, "node.listen");
    bool open = !options->has_secret && !options->allow;
    if (open && !node_address_is_loopback(host))
        return fail_open_bind(config, why);
    code = node_gate_bind("node.listen", config->node.listen, peers, why);
    if (code != BASE_OK)
        return code;
    if (open && !node_gate_is_loopback(*peers)) // "localhost", but not to this machine's resolver
        code = fail_open_bind(config, why);
    else if (config->node.http[0] != 0)
        code = node_gate_bind("node.http", config->node.http, http, why);
    if (code != BASE_OK) {
        close(*peers);
        *peers = -1;
    }
    return code;
}

static enum base_error make_peers(struct node_loop *loop, int *listener)
{
    const struct node_loop_options *o = &loop->options;
    struct node_roster_options roster = {.self = o->identity->id,
                                         .name = o->name,
                                         .address = o->config->node.listen,
                                         .peers = &o->config->peers,
                                         .topology_seed = o->config->topology.seed,
                                         .now_ns = loop->started_ns};
    enum base_error code = node_roster_create(&roster, &loop->roster);
    if (code != BASE_OK)
        return code;
    struct node_peers_options peers = {.base = loop->base,
                                       .config = o->config,
                                       .identity = o->identity,
                                       .allow = o->allow,
                                       .greeting = &o->greeting,
                                       .message_limit = o->message_limit,
                                       .counters = o->counters,
                                       .roster = loop->roster,
                                       .listener = *listener,
                                       .handler = &peers_handler,
                                       .owner = loop};
    memcpy(peers.psk, o->psk, sizeof peers.psk);
    code = node_peers_create(&peers, &loop->peers);
    explicit_bzero(peers.psk, sizeof peers.psk);
    if (code == BASE_OK)
        *listener = -1;
    return code;
}

static enum base_error make_http(struct node_loop *loop, int *listener)
{
    if (*listener < 0)
        return BASE_OK;
    struct node_http_options options = {
        .base = loop->base, .listener = *listener, .answer = node_loop_answer, .owner = loop};
    enum base_error code = node_http_create(&options, &loop->http);
    if (code == BASE_OK)
        *listener = -1;
    return code;
}

static bool make_events(struct node_loop *loop)
{
    static const int numbers[N_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    struct timeval every = node_clock_timeval(TICK_NS);
    loop->mail = event_new(loop->base, node_mailbox_descriptor(loop->options.inbox), EV_READ | EV_PERSIST,
                           mail_ready, loop);
    loop->tick = event_new(loop->base, -1, EV_PERSIST, tick, loop);
    if (!loop->mail || !loop->tick || event_add(loop->mail, NULL) != 0 || event_add(loop->tick, &every) != 0)
        return false;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        loop->signals[i] = evsignal_new(loop->base, numbers[i], on_signal, loop);
        if (!loop->signals[i] || event_add(loop->signals[i], NULL) != 0)
            return false;
    }
    return true;
}

enum base_error node_loop_create(const struct node_loop_options *options, struct node_loop **out,
                                 struct base_reason *why)
{
    int listener = -1, http = -1;
    struct node_loop *loop = NULL;
    enum base_error code = bind_ports(options, &listener, &http, why);
    if (code != BASE_OK)
        return code;
    code = BASE_ENOMEM;
    loop = calloc(1, sizeof *loop);
    if (!loop)
        goto out;
    loop->options = *options;
    loop->started_ns = node_clock_ns();
    loop->progress = (struct node_progress){
        .loss = NAN, .accuracy = NAN, .consensus = NAN, .rate = NAN, .state = "waiting"};
    loop->totals.consensus = NAN;
    loop->port = node_gate_port(listener);
    loop->http_port = http >= 0 ? node_gate_port(http) : 0;
    loop->base = event_base_new();
    if (!loop->base || make_peers(loop, &listener) != BASE_OK || make_http(loop, &http) != BASE_OK ||
        node_outbox_create(loop->base, options->worker, worker_congested, loop, &loop->worker) != BASE_OK ||
        node_outbox_create(loop->base, options->learner, learner_congested, loop, &loop->learner) !=
            BASE_OK ||
        node_backlog_create(loop->base, &options->counters->backlog_bytes,
                            NODE_BACKLOG_BYTES + 2 * options->message_limit, worker_congested, loop,
                            &loop->backlog) != BASE_OK ||
        !make_events(loop))
        goto out;
    *out = loop;
    loop = NULL;
    code = BASE_OK;
out:
    if (code != BASE_OK)
        (void)base_fail(why, code, "out of memory or descriptors for the event loop");
    node_loop_destroy(loop);
    if (listener >= 0)
        close(listener);
    if (http >= 0)
        close(http);
    return code;
}

int node_loop_run(struct node_loop *loop)
{
    enter(loop, PHASE_WAITING);
    node_peers_start(loop->peers);
    consider(loop);
    event_base_dispatch(loop->base);
    if (loop->status == NODE_LOOP_ABANDONED)
        return loop->status;
    post(loop->worker, NODE_MAIL_STOP, NULL);
    node_outbox_drain(loop->worker);
    return loop->status;
}

void node_loop_destroy(struct node_loop *loop)
{
    if (!loop)
        return;
    struct event *events[] = {loop->mail, loop->tick, loop->signals[0], loop->signals[1], loop->signals[2]};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            event_free(events[i]);
    node_http_destroy(loop->http);
    node_peers_destroy(loop->peers);
    node_roster_destroy(loop->roster);
    node_outbox_destroy(loop->worker);
    node_outbox_destroy(loop->learner);
    node_backlog_destroy(loop->backlog);
    if (loop->base)
        event_base_free(loop->base);
    explicit_bzero(loop->options.psk, sizeof loop->options.psk);
    free(loop->edges);
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
