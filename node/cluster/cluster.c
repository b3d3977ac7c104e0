#include "node/cluster/cluster.h"
#include "base/hash.h"
#include "base/log.h"
#include "node/cluster/private.h"
#include "node/queue/clock.h"
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

bool node_cluster_is_here(const struct node_cluster *cluster, const struct gossip_id *id)
{
    struct gossip_member_info info;
    return gossip_membership_find(cluster->membership, id, &info) == BASE_OK &&
           (info.state == GOSSIP_MEMBER_ALIVE || info.state == GOSSIP_MEMBER_SUSPECT);
}

// -- membership's actions

static bool reaches(const void *udp, const struct node_address *to)
{
    return node_udp_reaches(udp, to);
}

static void send_datagram(struct node_cluster *cluster, const struct gossip_membership_action *action)
{
    uint8_t sealed[LIMIT_DATAGRAM_BYTES];
    size_t bytes = 0;
    struct gossip_member_info info;
    struct node_address to;
    if (gossip_membership_find(cluster->membership, &action->peer, &info) != BASE_OK ||
        !node_endpoints_pick(cluster->endpoints, info.record, node_clock_ns(), reaches, cluster->udp, &to) ||
        gossip_datagram_seal(cluster->datagrams, &action->peer, action->bytes, action->n_bytes, sealed,
                             &bytes) != BASE_OK)
        return; // as if lost on the way
    (void)node_udp_send(cluster->udp, &to, sealed, bytes);
}

static void send_packet(struct node_cluster *cluster, const struct gossip_membership_action *action)
{
    if (node_faults_has(cluster->faults, &action->peer))
        return;
    if (action->way == GOSSIP_BY_DATAGRAM)
        send_datagram(cluster, action);
    else
        node_peers_packet(cluster->peers, &action->peer, action->bytes, action->n_bytes);
}

static void take_change(struct node_cluster *cluster, const struct gossip_membership_action *action)
{
    bool here = action->state == GOSSIP_MEMBER_ALIVE || action->state == GOSSIP_MEMBER_SUSPECT;
    node_cluster_tell_change(cluster, action);
    node_peers_member(cluster->peers, &action->peer, here);
    cluster->options.handler->member(cluster->options.owner, &action->peer, action->state);
    if (action->state == GOSSIP_MEMBER_DEAD)
        node_peers_part(cluster->peers, &action->peer, GOSSIP_CLOSE_SILENT);
}

static void take_record(struct node_cluster *cluster, const struct gossip_id *id)
{
    struct gossip_member_info info;
    if (gossip_membership_find(cluster->membership, id, &info) != BASE_OK)
        return;
    const struct gossip_record *r = info.record;
    if (gossip_datagrams_peer(cluster->datagrams, id, r->exchange_public, r->version.boot) != BASE_OK)
        base_log(BASE_LOG_WARN, "datagrams", "no key for datagrams to %s; it is spoken to by stream",
                 r->name);
}

static void take_boot(struct node_cluster *cluster, uint64_t boot)
{
    struct base_reason why = {0};
    node_cluster_tell_boot(cluster, boot);
    if (cluster->options.boot_path && node_boot_raise(cluster->options.boot_path, boot, &why) != BASE_OK)
        base_log(BASE_LOG_ERROR, "boot", "the number of starts can't be stored: %s", why.text);
    gossip_datagrams_boot(cluster->datagrams, boot);
}

static void remove_member(struct node_cluster *cluster, const struct gossip_id *id)
{
    node_peers_part(cluster->peers, id, GOSSIP_CLOSE_IDLE);
    node_peers_member(cluster->peers, id, false);
    gossip_datagrams_forget(cluster->datagrams, id);
    node_endpoints_forget(cluster->endpoints, id);
    cluster->options.handler->removed(cluster->options.owner, id);
}

static void act(struct node_cluster *cluster, const struct gossip_membership_action *action)
{
    switch (action->kind) {
    case GOSSIP_MEMBERSHIP_SEND:
        send_packet(cluster, action);
        return; // of no interest to the owner
    case GOSSIP_MEMBERSHIP_CHANGED:
        take_change(cluster, action);
        break;
    case GOSSIP_MEMBERSHIP_RECORD:
        take_record(cluster, &action->peer);
        break;
    case GOSSIP_MEMBERSHIP_VIEW:
        node_cluster_take_view(cluster);
        break;
    case GOSSIP_MEMBERSHIP_ACCUSED:
        node_cluster_tell_accused(cluster, action);
        break;
    case GOSSIP_MEMBERSHIP_BOOT:
        take_boot(cluster, action->boot);
        break;
    case GOSSIP_MEMBERSHIP_CONFLICT:
        cluster->options.handler->conflict(cluster->options.owner, NULL);
        break;
    case GOSSIP_MEMBERSHIP_CUT_OFF: // totals say so
        break;
    case GOSSIP_MEMBERSHIP_REMOVED:
        remove_member(cluster, &action->peer);
        break;
    }
    cluster->changed = true;
}

// -- membership's events

void node_cluster_arm(struct node_cluster *cluster)
{
    uint64_t deadline_ns = gossip_membership_deadline(cluster->membership), now_ns = node_clock_ns();
    if (deadline_ns == UINT64_MAX) {
        event_del(cluster->timer);
        return;
    }
    // Rounded up: a timer that comes too early would only fire again.
    uint64_t wait_ns = deadline_ns > now_ns ? deadline_ns - now_ns + 1000 : 0;
    struct timeval wait = node_clock_timeval(wait_ns);
    event_add(cluster->timer, &wait);
}

static enum base_error step_once(struct node_cluster *cluster, struct gossip_membership_event *event)
{
    struct gossip_membership_action action;
    BASE_ASSERT(!cluster->busy);
    cluster->busy = true;
    event->now_ns = node_clock_ns();
    enum base_error code = gossip_membership_step(cluster->membership, event);
    while (gossip_membership_next(cluster->membership, &action))
        act(cluster, &action);
    cluster->busy = false;
    return code;
}

// Evidence that comes up while an action is carried out is handled as an event of its own afterwards.
enum base_error node_cluster_step(struct node_cluster *cluster, struct gossip_membership_event *event)
{
    enum base_error code = step_once(cluster, event);
    while (cluster->n_pending > 0) {
        struct gossip_membership_event evidence = {.kind = GOSSIP_MEMBERSHIP_UNREACHABLE,
                                                   .peer = cluster->pending[--cluster->n_pending]};
        if (step_once(cluster, &evidence) != BASE_OK)
            break; // an event without bytes can't be malformed
    }
    node_cluster_arm(cluster);
    if (cluster->changed) {
        cluster->changed = false;
        cluster->options.handler->changed(cluster->options.owner);
    }
    return code;
}

void node_cluster_step_plainly(struct node_cluster *cluster, enum gossip_membership_event_kind kind,
                               const struct gossip_id *peer)
{
    struct gossip_membership_event event = {.kind = kind};
    if (peer)
        event.peer = *peer;
    if (node_cluster_step(cluster, &event) != BASE_OK)
        base_log(BASE_LOG_ERROR, "membership", "an event was not taken");
}

void node_cluster_unreachable(struct node_cluster *cluster, const struct gossip_id *id)
{
    if (node_faults_has(cluster->faults, id) || cluster->leaving)
        return;
    if (!cluster->busy)
        node_cluster_step_plainly(cluster, GOSSIP_MEMBERSHIP_UNREACHABLE, id);
    else if (cluster->n_pending < NODE_CLUSTER_PENDING)
        cluster->pending[cluster->n_pending++] = *id;
}

// What others have sent while this process did not run must be heard before time is judged.
static void timer(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_cluster *cluster = argument;
    struct timeval again = {0};
    if (node_udp_drain(cluster->udp))
        node_cluster_step_plainly(cluster, GOSSIP_MEMBERSHIP_TIMER, NULL);
    else
        event_add(cluster->timer, &again);
}

// -- making

// Without a name a group of its own, by its id.
static uint32_t group_of(const char *name, const struct gossip_id *id)
{
    return (uint32_t)(name[0] ? base_hash_bytes(1, name, strlen(name))
                              : base_hash_bytes(2, id->bytes, sizeof id->bytes));
}

static enum base_error make_membership(struct node_cluster *cluster, struct base_reason *why)
{
    const struct node_cluster_options *o = &cluster->options;
    struct gossip_membership_options options = {
        .identity = o->identity,
        .version = {.boot = o->boot.number, .life = o->life},
        .name = o->name,
        .n_addresses = (uint8_t)cluster->n_addresses,
        .pages = o->pages,
        .shard = o->config->data.shards > 1 ? (uint32_t)o->config->data.shard : GOSSIP_NO_SHARD,
        .group = group_of(o->config->node.group, &o->identity->id),
        .profile = (enum gossip_member_profile)o->config->cluster.profile,
        .now_ns = node_clock_ns(),
        .recent_boots = o->boot.recent,
        .allow = o->allow};
    struct gossip_datagrams_options sealing = {
        .identity = o->identity, .cluster = o->config->cluster.name, .boot = o->boot.number};
    memcpy(options.addresses, cluster->addresses, sizeof options.addresses);
    memcpy(sealing.psk, o->psk, sizeof sealing.psk);
    enum base_error code = BASE_EIO;
    if (getrandom(&options.seed, sizeof options.seed, 0) == (ssize_t)sizeof options.seed &&
        getrandom(sealing.entropy, sizeof sealing.entropy, 0) == (ssize_t)sizeof sealing.entropy)
        code = gossip_datagrams_create(&sealing, &cluster->datagrams);
    explicit_bzero(&sealing, sizeof sealing);
    if (code == BASE_OK)
        code = gossip_membership_create(&options, &cluster->membership);
    return code == BASE_OK ? code : base_fail(why, code, "membership: %s", base_error_name(code));
}

static enum base_error make_sockets(struct node_cluster *cluster, struct base_reason *why)
{
    struct node_cluster_options *o = &cluster->options;
    struct node_udp_options udp = {
        .base = o->base, .socket = o->datagrams, .handler = &node_cluster_udp_handler, .owner = cluster};
    struct node_peers_options peers = {.base = o->base,
                                       .streams = o->streams,
                                       .config = o->config,
                                       .identity = o->identity,
                                       .allow = o->allow,
                                       .faults = cluster->faults,
                                       .greeting = o->greeting,
                                       .message_limit = o->message_limit,
                                       .counters = o->counters,
                                       .listener = o->listener,
                                       .handler = &node_cluster_peers_handler,
                                       .owner = cluster};
    memcpy(peers.psk, o->psk, sizeof peers.psk);
    cluster->timer = event_new(o->base, -1, 0, timer, cluster);
    enum base_error code = cluster->timer ? node_endpoints_create(&cluster->endpoints) : BASE_ENOMEM;
    if (code == BASE_OK)
        code = node_udp_create(&udp, &cluster->udp);
    if (code == BASE_OK)
        code = node_peers_create(&peers, &cluster->peers);
    explicit_bzero(peers.psk, sizeof peers.psk);
    return code == BASE_OK ? code : base_fail(why, code, "links: %s", base_error_name(code));
}

enum base_error node_cluster_create(const struct node_cluster_options *options, struct node_cluster **out,
                                    struct base_reason *why)
{
    struct node_cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return base_fail(why, BASE_ENOMEM, "no memory for the cluster");
    cluster->options = *options;
    enum base_error code = node_cluster_find_addresses(cluster, why);
    if (code == BASE_OK)
        code = node_faults_create(options->config->node.fault_file, &cluster->faults, why);
    if (code == BASE_OK)
        code = node_events_open(options->events_path,
                                (struct node_lines_bounds){options->config->metrics.file_bytes,
                                                           (unsigned)options->config->metrics.files},
                                &cluster->events, why);
    if (code == BASE_OK)
        code = make_membership(cluster, why);
    if (code == BASE_OK)
        code = make_sockets(cluster, why);
    if (code == BASE_OK) {
        *out = cluster;
        return BASE_OK;
    }
    if (cluster->udp)
        node_udp_release(cluster->udp); // the caller's still
    node_cluster_destroy(cluster);
    return code;
}

void node_cluster_destroy(struct node_cluster *cluster)
{
    if (!cluster)
        return;
    if (cluster->timer)
        event_free(cluster->timer);
    node_peers_destroy(cluster->peers);
    node_udp_destroy(cluster->udp);
    node_endpoints_destroy(cluster->endpoints);
    gossip_graph_drop(cluster->graph);
    gossip_membership_destroy(cluster->membership);
    gossip_datagrams_destroy(cluster->datagrams);
    node_events_close(cluster->events);
    node_faults_destroy(cluster->faults);
    explicit_bzero(cluster->options.psk, sizeof cluster->options.psk);
    free(cluster);
}

void node_cluster_start(struct node_cluster *cluster)
{
    node_cluster_arm(cluster);
    node_peers_start(cluster->peers);
}

void node_cluster_tick(struct node_cluster *cluster, uint64_t now_ns)
{
    node_peers_tick(cluster->peers, now_ns);
}

void node_cluster_leave(struct node_cluster *cluster)
{
    cluster->leaving = true;
    node_cluster_step_plainly(cluster, GOSSIP_MEMBERSHIP_LEAVE, NULL);
    node_peers_leave(cluster->peers);
}

void node_cluster_flags(struct node_cluster *cluster, uint8_t set, uint8_t clear)
{
    gossip_membership_flags(cluster->membership, set, clear);
    if ((set | clear) & GOSSIP_RECORD_TRAINING) {
        cluster->trains = set & GOSSIP_RECORD_TRAINING;
        node_cluster_claim_slot(cluster);
    }
    if (!cluster->busy)
        node_cluster_arm(cluster);
}

void node_cluster_progress(struct node_cluster *cluster, uint64_t round, uint64_t step)
{
    gossip_membership_progress(cluster->membership, round, step);
}

void node_cluster_stop_at(struct node_cluster *cluster, uint64_t round)
{
    gossip_membership_stop_at(cluster->membership, round);
    if (!cluster->busy)
        node_cluster_arm(cluster);
}

void node_cluster_allow_changed(struct node_cluster *cluster)
{
    node_peers_allow_changed(cluster->peers);
}

void node_cluster_reload_faults(struct node_cluster *cluster)
{
    struct base_reason why = {0};
    if (cluster->options.config->node.fault_file[0] == 0)
        return;
    if (node_faults_reload(cluster->faults, &why) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "faults", "the list of faults stays as it was: %s", why.text);
        return;
    }
    base_log(BASE_LOG_WARN, "faults", "%zu nodes are cut off by node.fault_file",
             node_faults_count(cluster->faults));
    node_peers_faults_changed(cluster->peers);
}

struct node_peers *node_cluster_peers(struct node_cluster *cluster)
{
    return cluster->peers;
}

const struct gossip_membership *node_cluster_membership(const struct node_cluster *cluster)
{
    return cluster->membership;
}

const struct node_events *node_cluster_events(const struct node_cluster *cluster)
{
    return cluster->events;
}

struct node_cluster_counters node_cluster_counters(const struct node_cluster *cluster)
{
    struct node_cluster_counters counters = cluster->counters;
    counters.datagrams = node_udp_counters(cluster->udp);
    return counters;
}
