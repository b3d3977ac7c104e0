// What reaches the loop: events of links and members, messages of the other threads. They become messages to
// worker and learner, and events of the life of this node.
#include "base/log.h"
#include "node/loop_private.h"
#include "node/queue/clock.h"
#include <stdio.h>
#include <stdlib.h>

#define MESSAGES_TURN 256 // messages handled before sockets have their turn

// -- from the cluster

static void post_received(struct node_loop *loop, const struct node_peers_event *event)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_EXCHANGE);
    BASE_ASSERT(event->bytes && event->count > 0);
    message->peer = event->peer;
    message->as.received = *event->message;
    message->bytes = event->bytes;
    message->n_bytes = event->count;
    node_backlog_charge(loop->backlog, message);
    node_mailbox_put(loop->options.worker, message);
}

static void post_view(struct node_loop *loop, struct gossip_graph *graph)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_VIEW);
    message->as.graph = graph;
    node_mailbox_put(loop->options.worker, message);
    node_loop_weigh(loop); // members may have been removed
}

static void take_member(struct node_loop *loop, const struct node_cluster_event *event)
{
    node_loop_tell_joining(loop);
    node_loop_weigh(loop);
    if (event->state == GOSSIP_MEMBER_ALIVE)
        node_loop_warn_of_duplicate_shard(loop, &event->peer);
}

// `address`: according to a peer; NULL: membership says that the other process was here first. The life hears
// of it next.
static void take_conflict(struct node_loop *loop, const char *address)
{
    BASE_ASSERT(!address || address[0]);
    snprintf(loop->duplicate_at, sizeof loop->duplicate_at, "%s", address ? address : "");
}

static void take_link_event(struct node_loop *loop, const struct node_peers_event *event)
{
    switch (event->kind) {
    case NODE_PEERS_UP:
        node_loop_post_peer(loop, NODE_MESSAGE_LINK_UP, &event->peer);
        node_loop_tell_removed(loop, &event->peer);
        break;
    case NODE_PEERS_DOWN:
        node_loop_post_peer(loop, NODE_MESSAGE_LINK_DOWN, &event->peer);
        break;
    case NODE_PEERS_MESSAGE:
        post_received(loop, event);
        break;
    case NODE_PEERS_STATISTICS:
        if (node_loop_statistics_heard(loop, &event->peer, &event->message->as.statistics))
            node_loop_consider(loop);
        break;
    case NODE_PEERS_REMOVED:
        node_loop_removed_heard(loop, &event->peer, &event->message->as.removed);
        break;
    case NODE_PEERS_CONFLICT:
        take_conflict(loop, event->address);
        break;
    case NODE_PEERS_SETTINGS:
        node_loop_take_settings(loop, event);
        break;
    default:
        BASE_ASSERT(false); // the cluster's
    }
}

static void take_event(struct node_loop *loop, const struct node_cluster_event *event)
{
    switch (event->kind) {
    case NODE_CLUSTER_LINK:
        take_link_event(loop, &event->link);
        break;
    case NODE_CLUSTER_MEMBER:
        take_member(loop, event);
        break;
    case NODE_CLUSTER_VIEW:
        post_view(loop, event->graph);
        break;
    case NODE_CLUSTER_LIFE:
        node_loop_act(loop, &event->life);
        break;
    case NODE_CLUSTER_CONFLICT:
        take_conflict(loop, NULL);
        break;
    case NODE_CLUSTER_CHANGED:
        node_loop_tell_joining(loop);
        node_loop_consider(loop);
        break;
    }
}

void node_loop_take_events(void *owner)
{
    struct node_loop *loop = owner;
    struct node_cluster_event event;
    BASE_ASSERT(!loop->acting && !loop->taking); // no request of the life takes events
    loop->taking = true;
    while (node_cluster_next(loop->cluster, &event))
        take_event(loop, &event);
    loop->taking = false;
    atomic_store(&loop->options.counters->others, gossip_life_others(loop->life));
}

void node_loop_live(struct node_loop *loop, struct gossip_life_event event)
{
    BASE_ASSERT(!loop->acting); // no action begins an event
    event.now_ns = node_clock_ns();
    gossip_control_live(node_cluster_control(loop->cluster), &event);
    if (!loop->taking)
        node_loop_take_events(loop);
}

void node_loop_consider(struct node_loop *loop)
{
    node_loop_live(loop, (struct gossip_life_event){.kind = GOSSIP_LIFE_LOOK});
}

// -- from the other threads

static float rates_before(const struct node_loop *loop, const struct gossip_id *peer)
{
    for (size_t i = 0; i < loop->n_edges; i++)
        if (gossip_id_compare(&loop->edges[i].peer, peer) == 0)
            return loop->edges[i].rates;
    return 0;
}

static void take_edges(struct node_loop *loop, struct node_message *message)
{
    BASE_ASSERT(message->n_bytes % sizeof *loop->edges == 0);
    const struct gossip_edge_info *fresh = (const struct gossip_edge_info *)(const void *)message->bytes;
    for (size_t i = 0; i < message->n_bytes / sizeof *fresh; i++)
        if (fresh[i].rates > 0 && rates_before(loop, &fresh[i].peer) <= 0)
            node_loop_say_rates(loop, &fresh[i]);
    free(loop->edges);
    loop->edges = (struct gossip_edge_info *)(void *)message->bytes; // malloc'ed, hence aligned
    loop->n_edges = message->n_bytes / sizeof *loop->edges;
    message->bytes = NULL;
    loop->totals = message->totals;
    node_loop_consider(loop);
}

static void take_progress(struct node_loop *loop, const struct node_progress *progress)
{
    BASE_ASSERT(progress->rollbacks_in_row <= progress->rollbacks);
    const bool apart = progress->apart > 0 && loop->progress.apart <= 0;
    loop->progress = *progress;
    node_loop_note_progress(loop);
    if (apart)
        node_loop_say_apart(loop);
    node_loop_live(loop, (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS,
                                                    .round = progress->round,
                                                    .step = progress->step,
                                                    .least = progress->least_stop,
                                                    .ok = progress->stands});
}

static void take_live(struct node_loop *loop, const struct gossip_life_event *event)
{
    if (event->kind == GOSSIP_LIFE_FETCHED && event->ok)
        node_loop_drop_statistics(loop);
    node_loop_live(loop, *event);
}

static void reload_allow_list(struct node_loop *loop)
{
    struct base_reason why;
    struct gossip_allow_list fresh = {0};
    if (!loop->options.config->cluster.allow_file[0]) {
        if (loop->options.config->node.fault_file[0] != 0 ||
            loop->options.config->cluster.secret_file[0] != 0)
            return;
        base_log(
            BASE_LOG_INFO, "reload",
            "SIGHUP: neither cluster.allow_file nor cluster.secret_file is configured, nothing to reload");
        return;
    }
    BASE_ASSERT(loop->options.allow); // made of this file
    if (gossip_allow_list_load(loop->options.config->cluster.allow_file, &fresh, &why)) {
        base_log(BASE_LOG_ERROR, "reload", "the allow-list stays as it was: %s", why.text);
        return;
    }
    fresh.removed = loop->options.allow->removed;
    gossip_allow_list_destroy(loop->options.allow);
    *loop->options.allow = fresh;
    base_log(BASE_LOG_INFO, "reload", "the allow-list has %zu ids now", fresh.count);
    node_peers_allow_changed(node_cluster_peers(loop->cluster));
}

// How many secrets of `these` are not among the others.
static size_t missing_in(const struct gossip_secrets *others, const struct gossip_secrets *these)
{
    size_t count = 0;
    for (size_t i = 0; i < these->count; i++)
        count += !gossip_secrets_have(others, these->psk[i]);
    return count;
}

// Datagrams and the next links use the new secrets at once. A link that began with one that is gone ends: its
// two ends call each other again, if both have another.
static void reload_secrets(struct node_loop *loop)
{
    struct base_reason why = {""};
    struct gossip_secrets fresh, *now = loop->options.secrets;
    const char *path = loop->options.config->cluster.secret_file;
    if (!path[0])
        return;
    enum base_error error = gossip_secrets_load(path, &fresh, &why);
    if (!error && node_cluster_secrets(loop->cluster, &fresh))
        error = base_fail(&why, BASE_ENOMEM, "out of memory");
    if (error) {
        base_log(BASE_LOG_ERROR, "reload", "cluster.secret_file: the secrets stay as they were: %s",
                 why.text);
    } else {
        base_log(BASE_LOG_INFO, "reload",
                 "cluster.secret_file: %zu secret%s, %zu new, %zu gone; the first %s", fresh.count,
                 fresh.count == 1 ? "" : "s", missing_in(now, &fresh), missing_in(&fresh, now),
                 memcmp(now->psk[0], fresh.psk[0], sizeof fresh.psk[0]) == 0 ? "stays" : "is another one");
        *now = fresh;
        node_peers_secrets_changed(node_cluster_peers(loop->cluster));
    }
    explicit_bzero(&fresh, sizeof fresh);
}

void node_loop_reload(struct node_loop *loop)
{
    reload_secrets(loop);
    reload_allow_list(loop);
    node_cluster_reload_faults(loop->cluster);
}

static void handle(struct node_loop *loop, struct node_message *message)
{
    struct node_peers *peers = node_cluster_peers(loop->cluster);
    switch (message->kind) {
    case NODE_MESSAGE_SEND:
        (void)node_peers_send(peers, &message->peer, message->bytes,
                              message->n_bytes); // if it fails, the link is down, and LINK_DOWN follows
        message->bytes = NULL;
        break;
    case NODE_MESSAGE_CLOSE:
        node_peers_close(peers, &message->peer, message->as.reason);
        break;
    case NODE_MESSAGE_IMPLAUSIBLE:
        node_peers_part(peers, &message->peer, GOSSIP_CLOSE_IMPLAUSIBLE);
        break;
    case NODE_MESSAGE_OTHER_SCALING:
        node_peers_part(peers, &message->peer, GOSSIP_CLOSE_OTHER_SCALING);
        break;
    case NODE_MESSAGE_EDGES:
        take_edges(loop, message);
        break;
    case NODE_MESSAGE_PROGRESS:
        take_progress(loop, &message->progress);
        break;
    case NODE_MESSAGE_LIVE:
        take_live(loop, &message->as.live);
        break;
    case NODE_MESSAGE_FINISHED:
        node_loop_say_end(loop);
        node_loop_live(loop, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
        break;
    case NODE_MESSAGE_LEFT:
        if (message->as.left.exit_status != 0 && message->as.left.cause[0])
            snprintf(loop->cause.text, sizeof loop->cause.text, "%s", message->as.left.cause);
        node_loop_live(loop, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN,
                                                        .status = message->as.left.exit_status});
        break;
    case NODE_MESSAGE_LEAVE_CLUSTER:
        if (!gossip_life_stopping(loop->life))
            node_loop_live(loop, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
        break;
    case NODE_MESSAGE_RELOAD:
        node_loop_reload(loop);
        break;
    case NODE_MESSAGE_ASK_STATUS:
        node_loop_post_status(loop);
        break;
    default:
        BASE_ASSERT(false); // a message that is not for the loop
    }
}

void node_loop_take_messages(struct node_loop *loop)
{
    for (int i = 0; i < MESSAGES_TURN; i++) {
        struct node_message *message = node_mailbox_take(loop->options.inbox, 0);
        if (!message)
            return;
        handle(loop, message);
        node_message_free(message);
    }
}
