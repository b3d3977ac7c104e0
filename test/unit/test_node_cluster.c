// Whole clusters in one process, over loopback: nodes that know one address find all others, and all learn of
// a death, a leave and a return.
#include "base/log.h"
#include "node/cluster/cluster.h"
#include "node/net/listener.h"
#include "node/net/stream.h"
#include "node/queue/clock.h"
#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NODES 3u

struct node {
    struct node_config config;
    struct gossip_identity identity;
    struct gossip_greeting greeting;
    struct node_counters counters;
    struct node_cluster *cluster;
    uint64_t generation;
    char listen[32], *peers[2], entry[2][32], name[24];
    size_t ups, downs, gone, views, in_view, enough_probes;
};

static struct event_base *base;
static struct node_streams *streams;
static char fault_path[] = "/tmp/p2pml-cluster-XXXXXX";

static void take_view(struct node *node, struct gossip_graph *graph)
{
    node->views++;
    node->in_view = gossip_graph_members(graph);
    assert_ptr_equal(node_cluster_graph(node->cluster), graph); // one for both threads
    gossip_graph_drop(graph);
}

static void take_event(struct node *node, const struct node_cluster_event *event)
{
    switch (event->kind) {
    case NODE_CLUSTER_LINK:
        assert_in_range(event->link.kind, NODE_PEERS_UP, NODE_PEERS_DOWN); // no node sends anything else
        node->ups += event->link.kind == NODE_PEERS_UP;
        node->downs += event->link.kind == NODE_PEERS_DOWN;
        break;
    case NODE_CLUSTER_MEMBER:
        node->gone += event->state == GOSSIP_MEMBER_DEAD || event->state == GOSSIP_MEMBER_LEFT;
        break;
    case NODE_CLUSTER_VIEW:
        take_view(node, event->graph);
        break;
    case NODE_CLUSTER_CHANGED:
        break;
    default:
        fail_msg("no node is gone for long, or has the identity of another");
    }
}

static void take_events(void *owner)
{
    struct node *node = owner;
    struct node_cluster_event event;
    while (node_cluster_next(node->cluster, &event))
        take_event(node, &event);
}

// Node i knows the address of node `entry`, unless that is itself.
static void make(struct node *node, size_t i)
{
    static char nothing[] = "", cluster[] = "test";
    uint8_t seed[32] = {(uint8_t)(i + 1)};
    memset(node, 0, sizeof *node);
    gossip_identity_from_seed(seed, &node->identity);
    snprintf(node->name, sizeof node->name, "n%zu", i);
    node->greeting = (struct gossip_greeting){.version = "1", .model = "test", .schema = 1, .parameters = 1};
    snprintf(node->greeting.name, sizeof node->greeting.name, "%s", node->name);
    node->config.node.advertise = node->config.node.group = nothing;
    node->config.node.fault_file = i == 0 ? fault_path : nothing;
    node->config.cluster.name = cluster;
    node->config.cluster.profile = GOSSIP_PROFILE_LOCAL;
    node->config.data.shards = NODES;
    node->config.data.shard = i;
    node->config.peers.items = node->peers;
    node->generation = 1;
}

static void know(struct node *node, const char *address)
{
    size_t at = node->config.peers.count++;
    snprintf(node->entry[at], sizeof node->entry[at], "%s", address);
    node->peers[at] = node->entry[at];
}

// On any port that is free for both: other programs of this host have some of them for UDP alone.
static void bind_both(int *listener, int *datagrams)
{
    struct base_reason why = {0};
    for (int left = 20;; left--) {
        assert_int_equal(node_listener_bind("listen", "127.0.0.1:0", listener, &why), BASE_OK);
        if (node_udp_bind(*listener, datagrams, &why) == BASE_OK)
            return;
        assert_true(left > 0);
        close(*listener);
    }
}

static void open_node(struct node *node)
{
    struct base_reason why = {0};
    int listener, datagrams;
    bind_both(&listener, &datagrams);
    snprintf(node->listen, sizeof node->listen, "127.0.0.1:%u", (unsigned)node_listener_port(listener));
    static const struct gossip_secrets no_secret = {.count = 1};
    struct node_cluster_options options = {.links = {.base = base,
                                                     .streams = streams,
                                                     .config = &node->config,
                                                     .identity = &node->identity,
                                                     .secrets = &no_secret,
                                                     .greeting = &node->greeting,
                                                     .message_limit = 1 << 16,
                                                     .counters = &node->counters,
                                                     .listener = listener,
                                                     .ready = take_events,
                                                     .owner = node},
                                           .name = node->name,
                                           .starts = {.number = node->generation},
                                           .instance_id = node_clock_ns(),
                                           .datagrams = datagrams};
    assert_int_equal(node_cluster_create(&options, &node->cluster, &why), BASE_OK);
    gossip_membership_flags((struct gossip_membership *)(uintptr_t)node_cluster_membership(node->cluster),
                            GOSSIP_RECORD_ELIGIBLE, 0);
    node_cluster_start(node->cluster);
}

static void close_node(struct node *node)
{
    node_cluster_destroy(node->cluster);
    node->cluster = NULL;
}

static struct gossip_membership_totals totals(const struct node *node)
{
    struct gossip_membership_totals t;
    gossip_membership_totals(node_cluster_membership(node->cluster), &t);
    return t;
}

struct wish {
    bool (*is)(const struct node *node);
    struct node *nodes[NODES];
    size_t count;
};

static bool fulfilled(const struct wish *wish)
{
    for (size_t i = 0; i < wish->count; i++)
        if (!wish->is(wish->nodes[i]))
            return false;
    return true;
}

static void tick(evutil_socket_t s, short what, void *argument)
{
    const struct wish *wish = argument;
    (void)s;
    (void)what;
    for (size_t i = 0; i < wish->count; i++)
        node_peers_tick(node_cluster_peers(wish->nodes[i]->cluster), node_clock_ns());
}

// Until the condition holds for all; the bound is reached only by a failure.
static void run_until(struct wish wish)
{
    struct timeval every = {.tv_usec = 20000};
    struct event *ticker = event_new(base, -1, EV_PERSIST, tick, &wish);
    uint64_t deadline_ns = node_clock_ns() + 200 * NODE_SECOND_NS;
    event_add(ticker, &every);
    while (!fulfilled(&wish) && node_clock_ns() < deadline_ns)
        event_base_loop(base, EVLOOP_ONCE);
    event_free(ticker);
    assert_true(fulfilled(&wish));
}

static bool sees_all(const struct node *node)
{
    return node->in_view == NODES;
}
static bool sees_one_dead(const struct node *node)
{
    return totals(node).dead == 1;
}
static bool sees_one_left(const struct node *node)
{
    return totals(node).left == 1;
}
static bool sees_two(const struct node *node)
{
    return node->in_view == 2;
}
static bool is_next_to_one(const struct node *node)
{
    return node_peers_counters(node_cluster_peers(node->cluster)).links == 1;
}
static bool is_next_to_all(const struct node *node)
{
    return node_peers_counters(node_cluster_peers(node->cluster)).links == NODES - 1;
}
static bool has_probed_for_long(const struct node *node)
{
    return totals(node).probes >= node->enough_probes;
}

static int make_base(void **state)
{
    struct node *nodes = calloc(NODES, sizeof *nodes);
    base = event_base_new();
    assert_int_equal(node_streams_create(base, &streams), BASE_OK);
    for (size_t i = 0; nodes && i < NODES; i++)
        make(&nodes[i], i);
    *state = nodes;
    return base && nodes ? 0 : -1;
}

static int free_base(void **state)
{
    struct node *nodes = *state;
    for (size_t i = 0; i < NODES; i++) {
        node_cluster_destroy(nodes[i].cluster);
        gossip_identity_wipe(&nodes[i].identity);
    }
    node_streams_destroy(streams);
    event_base_free(base);
    unlink(fault_path);
    free(nodes);
    return 0;
}

// Nodes 1 and 2 know node 0 and one address where no node is.
static void open_all(struct node *nodes)
{
    open_node(&nodes[0]);
    for (size_t i = 1; i < NODES; i++) {
        know(&nodes[i], "127.0.0.1:1");
        know(&nodes[i], nodes[0].listen);
        open_node(&nodes[i]);
    }
    run_until((struct wish){sees_all, {&nodes[0], &nodes[1], &nodes[2]}, 3});
    run_until((struct wish){is_next_to_all, {&nodes[0], &nodes[1], &nodes[2]}, 3});
}

static bool has_event(const struct node *node, const char *part, const char *more)
{
    const struct node_events *events = node_cluster_events(node->cluster);
    for (size_t i = 0; i < node_events_count(events); i++)
        if (strstr(node_events_line(events, i), part) && strstr(node_events_line(events, i), more))
            return true;
    return false;
}

static void a_death_is_reported_and_the_graph_closes(void **state)
{
    struct node *nodes = *state;
    open_all(nodes);
    close_node(&nodes[1]); // its sockets are closed, as after kill -9
    struct wish two = {sees_one_dead, {&nodes[0], &nodes[2]}, 2};
    run_until(two);
    two.is = sees_two;
    run_until(two);
    two.is = is_next_to_one;
    run_until(two);
    assert_true(nodes[0].gone == 1 && nodes[2].gone == 1); // reported to the owner once each
    for (size_t i = 0; i < NODES; i += 2) {
        assert_true(has_event(&nodes[i], "\"event\":\"join\"", "\"member\":\"n1\""));
        assert_true(has_event(&nodes[i], "\"event\":\"dead\"",
                              "\"evidence\":true")); // not through silence, which takes longer
        assert_true(has_event(&nodes[i], "\"event\":\"view\"", "\"members\":2"));
    }
    nodes[1].generation++;
    nodes[1].in_view = 0;
    open_node(&nodes[1]);
    run_until((struct wish){sees_all, {&nodes[0], &nodes[1], &nodes[2]}, 3});
    assert_true(has_event(&nodes[0], "\"event\":\"alive\"", "\"before\":\"dead\""));
}

static void a_node_that_leaves_is_not_dead(void **state)
{
    struct node *nodes = *state;
    open_all(nodes);
    node_cluster_leave(nodes[2].cluster);
    run_until((struct wish){sees_one_left, {&nodes[0], &nodes[1]}, 2});
    close_node(&nodes[2]);
    run_until((struct wish){sees_two, {&nodes[0], &nodes[1]}, 2});
    for (size_t i = 0; i < 2; i++) {
        assert_true(has_event(&nodes[i], "\"event\":\"left\"", "\"member\":\"n2\""));
        assert_false(has_event(&nodes[i], "\"event\":\"dead\"", ""));
        assert_int_equal(totals(&nodes[i]).dead, 0);
    }
}

// Node 0 drops everything from and to node 1, and nothing else is wrong: other nodes confirm that it is
// alive.
static void a_cut_between_two_nodes_makes_none_dead(void **state)
{
    struct node *nodes = *state;
    char hex[GOSSIP_ID_HEX];
    open_all(nodes);
    gossip_id_hex(&nodes[1].identity.id, hex);
    FILE *file = fopen(fault_path, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", hex);
    fclose(file);
    node_cluster_reload_faults(nodes[0].cluster);
    for (size_t i = 0; i < NODES; i++) // longer than a silent node takes to be found dead
        nodes[i].enough_probes = totals(&nodes[i]).probes + 20;
    run_until((struct wish){has_probed_for_long, {&nodes[0], &nodes[1], &nodes[2]}, 3});
    for (size_t i = 0; i < NODES; i++)
        assert_int_equal(totals(&nodes[i]).dead, 0);
    unlink(fault_path);
    node_cluster_reload_faults(nodes[0].cluster);
    run_until((struct wish){is_next_to_all, {&nodes[0], &nodes[1], &nodes[2]}, 3});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_death_is_reported_and_the_graph_closes, make_base, free_base),
        cmocka_unit_test_setup_teardown(a_node_that_leaves_is_not_dead, make_base, free_base),
        cmocka_unit_test_setup_teardown(a_cut_between_two_nodes_makes_none_dead, make_base, free_base),
    };
    int file = mkstemp(fault_path);
    if (file < 0)
        return 1;
    close(file);
    unlink(fault_path);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
