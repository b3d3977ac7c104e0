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
    assert_int_equal(gossip_links_accept(node.links, node.now_ns, 1, false, NULL), 0); // they accept nobody
    destroy(&node);
}

// -- over a membership of its own

enum { OTHER = 1, ENDS = 2 };

static struct {
    struct gossip_identity identity[ENDS];
    struct gossip_membership *membership[ENDS]; // of the node under test, and of another one
    uint64_t link;
    struct gossip_links_action closed; // the latest CLOSE
    bool marked;                       // GOSSIP_CONTROL_MEMBER said what became of the other one
    enum gossip_member_state state;
    unsigned stream_pings; // that the node under test has sent
} two;

static void take(struct node *node);

// A packet from one end to the other over their link, and what follows at the other one.
static void deliver(size_t from, const struct gossip_membership_action *action, struct node *node)
{
    const struct gossip_membership_event event = {.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                  .now_ns = node->now_ns,
                                                  .peer = two.identity[from].id,
                                                  .way = GOSSIP_BY_STREAM,
                                                  .bytes = action->bytes,
                                                  .n_bytes = action->n_bytes};
    struct gossip_membership_action answers[8];
    size_t count = 0;
    assert_int_equal(gossip_membership_step(two.membership[1 - from], &event), BASE_OK);
    while (from == 0 && gossip_membership_next(two.membership[OTHER], &answers[count])) {
        struct gossip_membership_action *answer = &answers[count];
        if (answer->kind != GOSSIP_MEMBERSHIP_SEND)
            continue;
        uint8_t *bytes = malloc(answer->n_bytes);
        answer->bytes = memcpy(bytes, answer->bytes, answer->n_bytes);
        assert_true(++count < sizeof answers / sizeof *answers);
    }
    for (size_t i = 0; i < count; i++) {
        take(node); // the actions of an earlier step are taken first
        deliver(OTHER, &answers[i], node);
        free((void *)(uintptr_t)answers[i].bytes);
    }
}

static void take(struct node *node)
{
    struct gossip_control_action action;
    uint8_t bytes[LIMIT_GOSSIP_BYTES];
    while (next(node, GOSSIP_CONTROL_WHOLE, &action)) {
        if (action.kind == GOSSIP_CONTROL_LINK && action.link.kind == GOSSIP_LINKS_CLOSE)
            two.closed = action.link;
        if (action.kind != GOSSIP_CONTROL_MEMBER)
            continue;
        if (action.member.kind == GOSSIP_MEMBERSHIP_CHANGED) {
            two.marked = gossip_id_compare(&action.member.peer, &two.identity[OTHER].id) == 0;
            two.state = action.member.state;
        }
        if (action.member.kind != GOSSIP_MEMBERSHIP_SEND || !two.membership[OTHER])
            continue;
        two.stream_pings += action.member.way == GOSSIP_BY_STREAM && action.member.bytes[0] == 1;
        memcpy(bytes, action.member.bytes, action.member.n_bytes);
        action.member.bytes = bytes;
        deliver(0, &action.member, node);
    }
}

static void create_two(struct node *node)
{
    memset(&two, 0, sizeof two);
    *node = (struct node){.now_ns = SECOND};
    base_rng_seed(&node->rng, 1);
    for (size_t i = 0; i < ENDS; i++) {
        const uint8_t key[32] = {(uint8_t)(i + 1)};
        gossip_identity_from_seed(key, &two.identity[i]);
        const struct gossip_membership_options members = {
            .identity = &two.identity[i],
            .version = {.generation = 1, .instance_id = 10 + i},
            .name = i ? "b" : "a",
            .addresses = {{.family = 4, .ip = {10, 0, 0, (uint8_t)(i + 1)}, .port = 7400}},
            .n_addresses = 1,
            .shard = GOSSIP_NO_SHARD,
            .now_ns = node->now_ns};
        assert_int_equal(gossip_membership_create(&members, &two.membership[i]), BASE_OK);
        const struct gossip_membership_event timer = {.kind = GOSSIP_MEMBERSHIP_TIMER,
                                                      .now_ns = node->now_ns};
        assert_int_equal(gossip_membership_step(two.membership[i], &timer), BASE_OK); // signs its record
    }
    const struct gossip_links_options links = {
        .self = two.identity[0].id, .greeting = &node->greeting, .now_ns = node->now_ns};
    assert_int_equal(gossip_links_create(&links, &node->links), BASE_OK);
    const struct gossip_control_options options = {.self = two.identity[0].id,
                                                   .links = node->links,
                                                   .membership = two.membership[0],
                                                   .owner = node,
                                                   .edges = {.owner = node, .count = no_edges},
                                                   .rng = &node->rng,
                                                   .neighbours_most = MEMBERS,
                                                   .look_every_ns = SECOND};
    assert_int_equal(gossip_control_create(&options, &node->control), BASE_OK);
    begin(node);
    take(node);
}

static void link_up(struct node *node)
{
    two.link = gossip_links_accept(node->links, node->now_ns, 1, false, NULL);
    tell_links(node, (struct gossip_links_event){.kind = GOSSIP_LINKS_AUTHENTICATED,
                                                 .protocol = GOSSIP_PROTOCOL,
                                                 .link = two.link,
                                                 .peer = two.identity[OTHER].id,
                                                 .alive = true});
    take(node);
    struct gossip_greeting theirs = node->greeting;
    theirs.instance_id = 99;
    tell_links(node, (struct gossip_links_event){
                         .kind = GOSSIP_LINKS_GREETING, .link = two.link, .greeting = &theirs});
    take(node);
}

static struct gossip_member_info info_of(size_t at, size_t of)
{
    struct gossip_member_info info;
    assert_int_equal(gossip_membership_find(two.membership[at], &two.identity[of].id, &info), BASE_OK);
    return info;
}

static void destroy_two(struct node *node)
{
    destroy(node);
    for (size_t i = 0; i < ENDS; i++)
        gossip_membership_destroy(two.membership[i]);
}

// Membership hears of a link, and asks over it; links and life hear what becomes of the member.
static void links_and_members_hear_of_each_other(void **state)
{
    struct node node;
    (void)state;
    create_two(&node);
    assert_false(gossip_control_linked(node.control, &two.identity[OTHER].id));
    link_up(&node);
    assert_true(gossip_control_linked(node.control, &two.identity[OTHER].id));
    assert_true(info_of(0, OTHER).state == GOSSIP_MEMBER_ALIVE &&
                info_of(OTHER, 0).state == GOSSIP_MEMBER_ALIVE);
    assert_true(two.marked && two.state == GOSSIP_MEMBER_ALIVE);
    gossip_membership_destroy(two.membership[OTHER]); // it is gone without a word
    two.membership[OTHER] = NULL;
    two.marked = false;
    for (int turn = 0; turn < 4000 && two.state != GOSSIP_MEMBER_DEAD; turn++) {
        const uint64_t due_ns = gossip_membership_deadline(two.membership[0]);
        assert_true(gossip_control_deadline(node.control) <= due_ns);
        node.now_ns = due_ns > node.now_ns ? due_ns : node.now_ns;
        const struct gossip_membership_event timer = {.kind = GOSSIP_MEMBERSHIP_TIMER, .now_ns = node.now_ns};
        assert_int_equal(gossip_membership_step(two.membership[0], &timer), BASE_OK);
        gossip_control_look(node.control, node.now_ns);
        take(&node);
    }
    assert_true(two.marked && two.state == GOSSIP_MEMBER_DEAD);
    assert_int_equal(two.closed.link, two.link);
    assert_int_equal(two.closed.why, GOSSIP_CLOSE_SILENT);
    assert_false(gossip_control_linked(node.control, &two.identity[OTHER].id));
    destroy_two(&node);
}

static void sign(struct node *node, size_t at)
{
    const struct gossip_membership_event timer = {.kind = GOSSIP_MEMBERSHIP_TIMER, .now_ns = node->now_ns};
    assert_int_equal(gossip_membership_step(two.membership[at], &timer), BASE_OK);
}

static const struct gossip_record *own_record(void)
{
    struct gossip_member_info info;
    gossip_membership_info(two.membership[0], 0, &info);
    return info.record;
}

// A node that others cannot call names its relays and wants links to them; one that they can call offers to
// relay, if it may.
static void a_private_node_keeps_a_link_to_its_relays(void **state)
{
    struct node node;
    (void)state;
    create_two(&node);
    gossip_membership_ways(two.membership[OTHER], GOSSIP_WAYS, NULL, 0);
    sign(&node, OTHER);
    link_up(&node);
    assert_int_equal(info_of(0, OTHER).record->ways, GOSSIP_WAYS);
    assert_false(gossip_links_wants(node.links, &two.identity[OTHER].id));

    gossip_control_reach(node.control, GOSSIP_REACH_PRIVATE, true);
    take(&node);
    sign(&node, 0);
    assert_true(gossip_links_wants(node.links, &two.identity[OTHER].id));
    assert_int_equal(own_record()->ways, 0);
    assert_int_equal(own_record()->n_relays, 1);
    assert_true(own_record()->relays[0] == gossip_id_beginning(&two.identity[OTHER].id));

    gossip_control_reach(node.control, GOSSIP_REACH_REACHABLE, false);
    take(&node);
    sign(&node, 0);
    assert_false(gossip_links_wants(node.links, &two.identity[OTHER].id));
    assert_int_equal(own_record()->ways, GOSSIP_WAY_REACHABLE);
    assert_int_equal(own_record()->n_relays, 0);
    gossip_control_reach(node.control, GOSSIP_REACH_REACHABLE, true);
    take(&node);
    sign(&node, 0);
    assert_int_equal(own_record()->ways, GOSSIP_WAYS);
    destroy_two(&node);
}

// What a third node says of itself reaches the node under test.
static void hear_of(struct node *node, struct gossip_membership *third, const struct gossip_id *id)
{
    uint8_t bytes[LIMIT_GOSSIP_BYTES];
    const struct gossip_membership_event timer = {.kind = GOSSIP_MEMBERSHIP_TIMER, .now_ns = node->now_ns};
    assert_int_equal(gossip_membership_step(third, &timer), BASE_OK); // signs its record
    const size_t count = gossip_membership_about(third, id, bytes, sizeof bytes);
    const struct gossip_membership_event packet = {.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                   .now_ns = node->now_ns,
                                                   .peer = *id,
                                                   .way = GOSSIP_BY_STREAM,
                                                   .bytes = bytes,
                                                   .n_bytes = count};
    assert_true(count > 0);
    assert_int_equal(gossip_membership_step(two.membership[0], &packet), BASE_OK);
    take(node);
}

static void meet_on_a_ring(struct node *node, const struct gossip_id *id)
{
    const struct topology_options ring = graph_options(TOPOLOGY_RING);
    struct gossip_record view[2] = {*own_record()};
    struct gossip_member_info info;
    struct gossip_graph *graph;
    assert_int_equal(gossip_membership_find(two.membership[0], id, &info), BASE_OK);
    view[1] = *info.record;
    if (gossip_id_compare(&view[0].id, &view[1].id) > 0) {
        view[0] = *info.record;
        view[1] = *own_record();
    }
    struct gossip_plan *plan = graph_plan(&ring, view, 2);
    assert_int_equal(gossip_control_plan(node->control, plan, &graph), BASE_OK);
    gossip_plan_drop(plan);
    gossip_graph_drop(graph);
    take(node);
}

// A neighbour with IPv6 addresses only: the link to a member that has both families is wanted for as long.
static void a_neighbour_of_another_family_is_met_over_a_relay(void **state)
{
    const uint8_t key[32] = {77};
    const struct gossip_address both[2] = {{.family = 4, .ip = {10, 0, 0, 2}, .port = 7400},
                                           {.family = 6, .ip = {0x20, 1, 2}, .port = 7400}};
    struct gossip_identity identity;
    struct gossip_membership *third;
    struct node node;
    (void)state;
    create_two(&node);
    gossip_membership_ways(two.membership[OTHER], GOSSIP_WAYS, NULL, 0);
    gossip_membership_addresses(two.membership[OTHER], both, 2);
    sign(&node, OTHER);
    link_up(&node);
    gossip_identity_from_seed(key, &identity);
    const struct gossip_membership_options options = {.identity = &identity,
                                                      .version = {.generation = 1, .instance_id = 77},
                                                      .name = "c",
                                                      .addresses = {both[1]},
                                                      .n_addresses = 1,
                                                      .shard = GOSSIP_NO_SHARD,
                                                      .now_ns = node.now_ns};
    assert_int_equal(gossip_membership_create(&options, &third), BASE_OK);
    hear_of(&node, third, &identity.id);
    gossip_control_reach(node.control, GOSSIP_REACH_REACHABLE, true);
    take(&node);
    assert_false(gossip_links_wants(node.links, &two.identity[OTHER].id));
    meet_on_a_ring(&node, &identity.id);
    assert_true(gossip_links_wants(node.links, &identity.id));
    assert_true(gossip_links_wants(node.links, &two.identity[OTHER].id));
    sign(&node, 0);
    assert_int_equal(own_record()->n_relays, 0); // others call it as before

    gossip_membership_addresses(third, both, 2);
    hear_of(&node, third, &identity.id);
    assert_false(gossip_links_wants(node.links, &two.identity[OTHER].id));
    gossip_membership_destroy(third);
    destroy_two(&node);
}

static unsigned stream_pings_in(struct node *node, uint64_t for_ns)
{
    const uint64_t end_ns = node->now_ns + for_ns;
    two.stream_pings = 0;
    while (node->now_ns < end_ns) {
        node->now_ns += SECOND / 100;
        const struct gossip_membership_event timer = {.kind = GOSSIP_MEMBERSHIP_TIMER,
                                                      .now_ns = node->now_ns};
        assert_int_equal(gossip_membership_step(two.membership[0], &timer), BASE_OK);
        take(node);
    }
    return two.stream_pings;
}

// A member behind a router is asked over its link, for as long as there is one.
static void members_hear_of_the_end_of_a_link(void **state)
{
    struct node node;
    const uint64_t relay = 7;
    (void)state;
    create_two(&node);
    gossip_membership_ways(two.membership[OTHER], 0, &relay, 1);
    const struct gossip_membership_event timer = {.kind = GOSSIP_MEMBERSHIP_TIMER, .now_ns = node.now_ns};
    assert_int_equal(gossip_membership_step(two.membership[OTHER], &timer), BASE_OK); // signs its record
    for (struct gossip_membership_action sent; gossip_membership_next(two.membership[OTHER], &sent);)
        ;
    link_up(&node);
    assert_int_equal(info_of(0, OTHER).record->n_relays, 1);
    assert_true(stream_pings_in(&node, 4ull * SECOND) > 0);
    tell_links(&node, (struct gossip_links_event){
                          .kind = GOSSIP_LINKS_ENDED, .link = two.link, .end = GOSSIP_END_OTHER});
    take(&node);
    assert_false(gossip_control_linked(node.control, &two.identity[OTHER].id));
    assert_true(stream_pings_in(&node, SECOND) <= 1); // the last resort of a probe
    destroy_two(&node);
}

// What the learner and the life say of this node is in its record, and goes out with it.
static void the_own_record_follows_the_life(void **state)
{
    struct node node;
    (void)state;
    create_two(&node);
    link_up(&node);
    const struct gossip_life_event moved[] = {
        {.kind = GOSSIP_LIFE_PROGRESS, .now_ns = node.now_ns, .round = 7, .step = 56, .ok = true},
        {.kind = GOSSIP_LIFE_FETCHED, .now_ns = node.now_ns, .round = 8, .step = 64, .ok = false},
        {.kind = GOSSIP_LIFE_LOOK, .now_ns = node.now_ns, .round = 9}};
    for (size_t i = 0; i < 3; i++) {
        gossip_control_live(node.control, &moved[i]);
        assert_true(info_of(0, 0).round == 7 && info_of(0, 0).step == 56);
        take(&node);
    }
    gossip_control_depart(node.control);
    take(&node);
    assert_true(info_of(0, 0).record->flags & GOSSIP_RECORD_LEFT);
    assert_int_equal(info_of(OTHER, 0).state, GOSSIP_MEMBER_LEFT);
    assert_int_equal(gossip_links_accept(node.links, node.now_ns, 1, false, NULL), 0);
    destroy_two(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_is_followed_once_the_links_are_at_rest),
        cmocka_unit_test(wanted_links_are_told_only_if_they_have_changed),
        cmocka_unit_test(the_record_says_what_the_life_decides),
        cmocka_unit_test(a_node_that_departs_tells_members_then_links),
        cmocka_unit_test(links_and_members_hear_of_each_other),
        cmocka_unit_test(a_private_node_keeps_a_link_to_its_relays),
        cmocka_unit_test(a_neighbour_of_another_family_is_met_over_a_relay),
        cmocka_unit_test(members_hear_of_the_end_of_a_link),
        cmocka_unit_test(the_own_record_follows_the_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
