// gossip/host: what leads to what between members, links, graph and life, and in which order.
#include "gossip/host/control.h"
#include "test/support/graph_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 5, SECOND = 1000000000 };

struct node { // number 0, among members that are known without membership
    struct gossip_record record[MEMBERS];
    size_t members;
    struct gossip_greeting greeting;
    struct base_rng rng;
    struct gossip_links *links;
    struct gossip_control *control;
    uint64_t now_ns;
    uint8_t flags; // that the life has set
    size_t leaves;
};

static size_t count(const void *owner)
{
    return ((const struct node *)owner)->members;
}

static void at(const void *owner, size_t index, struct gossip_member_info *info)
{
    *info = (struct gossip_member_info){.record = &((const struct node *)owner)->record[index],
                                        .state = GOSSIP_MEMBER_ALIVE,
                                        .answered = true};
}

static const struct gossip_record *view(const void *owner, size_t *members)
{
    *members = ((const struct node *)owner)->members;
    return ((const struct node *)owner)->record;
}

static void census(const void *owner, struct gossip_life_census *census)
{
    *census = (struct gossip_life_census){0};
    for (size_t i = 1; i < ((const struct node *)owner)->members; i++) {
        struct gossip_member_info info;
        at(owner, i, &info);
        gossip_life_count(census, &info, 0);
    }
}

static void flags(void *owner, uint8_t set, uint8_t clear)
{
    struct node *node = owner;
    node->flags = (uint8_t)((node->flags | set) & ~clear);
    node->record[0].flags = node->flags;
}

static void stop_at(void *owner, uint64_t round)
{
    ((struct node *)owner)->record[0].stop_round = round;
}

static void setting(void *owner, enum gossip_setting_kind kind, const struct gossip_setting *value)
{
    ((struct node *)owner)->record[0].settings[kind] = *value;
}

static void slot(void *owner, uint32_t claimed)
{
    ((struct node *)owner)->record[0].slot = claimed;
}

static void leave(void *owner)
{
    ((struct node *)owner)->leaves++;
}

static size_t no_edges(const void *owner)
{
    (void)owner;
    return 0;
}

static const struct gossip_control_members known = {.count = count,
                                                    .at = at,
                                                    .view = view,
                                                    .census = census,
                                                    .flags = flags,
                                                    .stop_at = stop_at,
                                                    .setting = setting,
                                                    .slot = slot,
                                                    .leave = leave};

static void tell_links(struct node *node, struct gossip_links_event event)
{
    event.now_ns = node->now_ns;
    assert_int_equal(gossip_links_step(node->links, &event), BASE_OK);
}

static void create(struct node *node, size_t members)
{
    *node = (struct node){.members = members, .now_ns = SECOND};
    base_rng_seed(&node->rng, 1);
    graph_view(node->record, MEMBERS);
    const struct gossip_links_options links = {
        .self = graph_id(0), .greeting = &node->greeting, .entries = 1, .now_ns = node->now_ns};
    assert_int_equal(gossip_links_create(&links, &node->links), BASE_OK);
    const struct gossip_control_options options = {.self = graph_id(0),
                                                   .links = node->links,
                                                   .members = &known,
                                                   .owner = node,
                                                   .edges = {.owner = node, .count = no_edges},
                                                   .rng = &node->rng,
                                                   .neighbours_most = MEMBERS,
                                                   .look_every_ns = SECOND};
    assert_int_equal(gossip_control_create(&options, &node->control), BASE_OK);
}

static void destroy(struct node *node)
{
    gossip_control_destroy(node->control);
    gossip_links_destroy(node->links);
}

static bool next(struct node *node, enum gossip_control_depth depth, struct gossip_control_action *action)
{
    return gossip_control_next(node->control, depth, node->now_ns, action);
}

static void take_view(struct node *node)
{
    const struct topology_options options = graph_options(TOPOLOGY_RING);
    struct gossip_graph *graph;
    size_t members;
    const struct gossip_record *records = gossip_control_view(node->control, &members);
    struct gossip_plan *plan = graph_plan(&options, records, members);
    assert_int_equal(gossip_control_plan(node->control, plan, &graph), BASE_OK);
    assert_ptr_equal(graph, gossip_control_graph(node->control));
    gossip_plan_drop(plan);
    gossip_graph_drop(graph);
}

// Links first, then the view, then the edges, and only then the links that the view wants.
static void a_view_is_followed_once_the_links_are_at_rest(void **state)
{
    struct gossip_control_action action;
    struct node node;
    (void)state;
    create(&node, MEMBERS);
    gossip_control_viewed(node.control);
    tell_links(&node, (struct gossip_links_event){.kind = GOSSIP_LINKS_START});
    assert_false(next(&node, GOSSIP_CONTROL_LIFE_ONLY, &action));
    assert_false(next(&node, GOSSIP_CONTROL_MEMBERS_TOO, &action));
    assert_true(next(&node, GOSSIP_CONTROL_LINKS_TOO, &action));
    assert_int_equal(action.kind, GOSSIP_CONTROL_LINK);
    assert_int_equal(action.link.kind, GOSSIP_LINKS_RESOLVE); // the entry of the peer list
    assert_false(next(&node, GOSSIP_CONTROL_LINKS_TOO, &action));
    assert_true(next(&node, GOSSIP_CONTROL_WHOLE, &action));
    assert_int_equal(action.kind, GOSSIP_CONTROL_VIEW);
    take_view(&node);
    assert_true(next(&node, GOSSIP_CONTROL_WHOLE, &action));
    assert_int_equal(action.kind, GOSSIP_CONTROL_EDGES);
    for (size_t i = 0; i < 2; i++) { // the two neighbours on the ring
        assert_true(next(&node, GOSSIP_CONTROL_WHOLE, &action));
        assert_int_equal(action.link.kind, GOSSIP_LINKS_RESOLVE);
        assert_true(gossip_graph_meets(gossip_control_graph(node.control), &action.link.target.peer));
    }
    assert_false(next(&node, GOSSIP_CONTROL_WHOLE, &action));
    destroy(&node);
}

static void wanted_links_are_told_only_if_they_have_changed(void **state)
{
    struct gossip_control_action action;
    struct node node;
    (void)state;
    create(&node, MEMBERS);
    for (int turn = 0; turn < 3; turn++) {
        const struct base_rng before = node.rng;
        node.members = turn < 2 ? MEMBERS : 3;
        gossip_control_viewed(node.control);
        while (next(&node, GOSSIP_CONTROL_WHOLE, &action))
            if (action.kind == GOSSIP_CONTROL_VIEW)
                take_view(&node);
        assert_int_equal(memcmp(&before, &node.rng, sizeof before) == 0,
                         turn == 1); // an event draws its jitter
    }
    destroy(&node);
}

static void begin(struct node *node)
{
    const struct gossip_life_options life = {.self = graph_id(0),
                                             .trains = true,
                                             .local_steps = 1,
                                             .steps = 100,
                                             .start_members = 1,
                                             .linger_ns = SECOND,
                                             .start_timeout_ns = SECOND,
                                             .takeover_after_ns = UINT64_MAX,
                                             .now_ns = node->now_ns};
    assert_int_equal(gossip_control_begin(node->control, &life), BASE_OK);
}

// The life of a node alone: it counts, and starts. Flags never reach the owner.
static bool starts(struct node *node)
{
    struct gossip_control_action action;
    bool started = false;
    for (int turn = 0; turn < 20; turn++, node->now_ns += SECOND) {
        gossip_control_viewed(node->control);
        gossip_control_look(node->control, node->now_ns);
        while (next(node, GOSSIP_CONTROL_WHOLE, &action)) {
            if (action.kind == GOSSIP_CONTROL_VIEW)
                take_view(node);
            if (action.kind != GOSSIP_CONTROL_LIFE)
                continue;
            assert_true(action.life.kind != GOSSIP_LIFE_FLAGS && action.life.kind != GOSSIP_LIFE_LINKS &&
                        action.life.kind != GOSSIP_LIFE_ANNOUNCE);
            started |= action.life.kind == GOSSIP_LIFE_START;
        }
    }
    return started;
}

static void the_record_says_what_the_life_decides(void **state)
{
    struct node node;
    (void)state;
    create(&node, 1);
    begin(&node);
    assert_true(starts(&node));
    assert_true(node.flags & GOSSIP_RECORD_ELIGIBLE);
    assert_true(node.flags & GOSSIP_RECORD_TRAINING);
    destroy(&node);
}

static void a_node_that_departs_tells_members_then_links(void **state)
{
    struct gossip_control_action action;
    struct node node;
    (void)state;
    create(&node, MEMBERS);
    gossip_control_depart(node.control);
    assert_false(next(&node, GOSSIP_CONTROL_MEMBERS_TOO, &action));
    assert_int_equal(node.leaves, 0); // while actions of members may wait
    while (next(&node, GOSSIP_CONTROL_LINKS_TOO, &action))
        continue;
    assert_int_equal(node.leaves, 1);
    assert_int_equal(gossip_links_accept(node.links, node.now_ns, 1, NULL), 0); // they accept nobody
    destroy(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_is_followed_once_the_links_are_at_rest),
        cmocka_unit_test(wanted_links_are_told_only_if_they_have_changed),
        cmocka_unit_test(the_record_says_what_the_life_decides),
        cmocka_unit_test(a_node_that_departs_tells_members_then_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
