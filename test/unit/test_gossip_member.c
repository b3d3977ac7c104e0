// The rules of membership, one by one, in small networks under virtual time: what all members know of each
// other, faults of the network, leaving, flapping, and load. Whole clusters under random faults: test/sim.
#include "base/limits.h"
#include "gossip/member/state.h"
#include "test/support/member_net.h"
#include "test/support/member_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void one_living_entry_of_the_peer_list_is_enough(void **s)
{
    (void)s;
    begin(9);
    assert_true(net.now_ns < 8 * SECOND);
    for (size_t i = 1; i < 9; i++)
        assert_true(totals(i).view_hash == totals(0).view_hash);
    member_net_destroy(&net);
}

// In calm one member a period is asked, and every question is answered.
static void each_node_asks_one_member_a_period(void **s)
{
    (void)s;
    begin(6);
    const uint64_t before = totals(0).probes;
    member_net_run(&net, 20 * SECOND);
    assert_in_range(totals(0).probes - before, 36, 42);
    assert_int_equal(totals(0).probes_failed, 0);
    member_net_kill(&net, 3, true);
    member_net_run(&net, 20 * SECOND);
    assert_true(totals(0).probes_failed > 0);
    member_net_destroy(&net);
}

// Routers forget the way of datagrams after 30 s.
static void a_node_pings_its_relays_in_time(void **s)
{
    const struct gossip_id *relay[2];
    uint64_t named[2];
    (void)s;
    begin(MEMBER_NET_MAX);
    for (size_t i = 0; i < 2; i++) {
        relay[i] = &net.nodes[7 * i + 1].identity.id;
        named[i] = gossip_id_beginning(relay[i]);
    }
    gossip_membership_ways(net.nodes[0].membership, 0, named, 2);
    member_net_run(&net, 30 * SECOND);
    for (int second = 0; second < 90; second++) {
        member_net_run(&net, SECOND);
        for (size_t i = 0; i < 2; i++)
            assert_in_range(net.now_ns - member_find(net.nodes[0].membership, relay[i])->ping_ns, 0,
                            22 * SECOND);
    }
    member_net_destroy(&net);
}

static void all_members_know_the_group_of_each(void **s)
{
    (void)s;
    begin(6);
    for (size_t i = 0; i < net.count; i++)
        for (size_t j = 0; j < net.count; j++) {
            struct gossip_member_info info;
            assert_int_equal(
                gossip_membership_find(net.nodes[i].membership, &net.nodes[j].identity.id, &info), BASE_OK);
            assert_int_equal(info.record->group, MEMBER_NET_GROUP + j);
        }
    member_net_destroy(&net);
}

// A member that claims one group here and another there is detected by the hash of the view.
static void the_hash_covers_the_group(void **s)
{
    (void)s;
    uint64_t hash[2];
    begin(1);
    for (uint32_t i = 0; i < 2; i++) {
        struct gossip_membership *membership;
        struct gossip_membership_totals t;
        struct gossip_membership_options options = net.nodes[0].options;
        options.name = "n00";
        options.group += i;
        assert_int_equal(gossip_membership_create(&options, &membership), BASE_OK);
        gossip_membership_totals(membership, &t);
        hash[i] = t.view_hash;
        gossip_membership_destroy(membership);
    }
    assert_true(hash[0] != hash[1]);
    member_net_destroy(&net);
}

// A member that is reached in another way has another place in the graph: one new view on each node, the same
// on all. How it is reached at the moment, and over whom, is no part of the view.
static void another_access_makes_a_new_view(void **s)
{
    (void)s;
    uint64_t changes[4];
    size_t n;
    const uint64_t relay = 7;
    begin(4);
    for (size_t i = 0; i < net.count; i++)
        gossip_membership_flags(net.nodes[i].membership, GOSSIP_RECORD_ELIGIBLE, 0);
    member_net_run(&net, 6 * SECOND);
    for (size_t i = 0; i < net.count; i++)
        changes[i] = totals(i).view_changes;
    gossip_membership_ways(net.nodes[1].membership, 0, &relay, 1);
    member_net_run(&net, 3 * SECOND);
    for (size_t i = 0; i < net.count; i++)
        assert_int_equal(totals(i).view_changes, changes[i]);
    gossip_membership_access(net.nodes[1].membership, GOSSIP_ACCESS_HARD);
    member_net_run(&net, 3 * SECOND);
    for (size_t i = 0; i < net.count; i++) {
        const struct gossip_record *view = gossip_membership_view(net.nodes[i].membership, &n);
        size_t hard = 0;
        assert_int_equal(totals(i).view_changes, changes[i] + 1);
        assert_int_equal(n, 4);
        for (size_t j = 0; j < n; j++)
            hard += view[j].access == GOSSIP_ACCESS_HARD;
        assert_int_equal(hard, 1);
    }
    member_net_destroy(&net);
}

// Progress is carried by packets that are sent anyway, and is dropped with the process that reported it.
static void all_members_know_the_progress_of_each(void **s)
{
    (void)s;
    begin(6);
    for (size_t i = 0; i < net.count; i++)
        gossip_membership_progress(net.nodes[i].membership, 100 + i, (uint64_t)1 << (40 + i));
    member_net_run(&net, 12 * SECOND); // meanwhile every member probes every other
    for (size_t i = 0; i < net.count; i++)
        for (size_t j = 0; j < net.count; j++) {
            assert_int_equal(info_of(i, j).round, 100 + j);
            assert_true(info_of(i, j).step == (uint64_t)1 << (40 + j));
            assert_true(i == j || net.now_ns - info_of(i, j).progress_ns < 6 * SECOND);
        }
    member_net_kill(&net, 2, false);
    member_net_run(&net, 3 * SECOND);
    assert_int_equal(info_of(0, 2).round, 102);
    member_net_start(&net, 2, 2);
    member_net_join(&net, 2, 5);
    assert_true(agree_within(3 * SECOND));
    assert_int_equal(info_of(0, 2).round, 0);
    member_net_destroy(&net);
}

static void a_stop_is_announced_with_its_round(void **s)
{
    (void)s;
    begin(4);
    gossip_membership_stop_at(net.nodes[1].membership, 77);
    gossip_membership_flags(net.nodes[2].membership, GOSSIP_RECORD_STOPPING, 0); // invalid without its round
    member_net_run(&net, 2 * SECOND);
    for (size_t i = 0; i < net.count; i++) {
        assert_true(info_of(i, 1).record->flags & GOSSIP_RECORD_STOPPING);
        assert_int_equal(info_of(i, 1).record->stop_round, 77);
        assert_false(info_of(i, 2).record->flags & GOSSIP_RECORD_STOPPING);
    }
    gossip_membership_stop_at(net.nodes[1].membership, 0);
    member_net_run(&net, 2 * SECOND);
    assert_false(info_of(0, 1).record->flags & GOSSIP_RECORD_STOPPING);
    assert_true(member_net_agrees(&net));
    member_net_destroy(&net);
}

// Whoever hears nothing of it by gossip sees it in the hash of the view.
static void a_setting_reaches_all_and_late_joiners(void **s)
{
    const struct gossip_setting setting = {.round = 900, .by = 7, .value = 0.5, .before = (double)NAN};
    (void)s;
    begin(4);
    member_net_kill(&net, 3, false);
    member_net_run(&net, 10 * SECOND);
    const uint64_t before = totals(0).view_hash;
    gossip_membership_setting(net.nodes[1].membership, GOSSIP_SETTING_DECAY, &setting);
    member_net_run(&net, 2 * SECOND);
    assert_true(totals(0).view_hash != before);
    member_net_start(&net, 3, 2);
    member_net_join(&net, 3, 0);
    assert_true(agree_within(3 * SECOND));
    for (size_t i = 0; i < net.count; i++)
        assert_int_equal(
            gossip_setting_compare(&info_of(i, 1).record->settings[GOSSIP_SETTING_DECAY], &setting), 0);
    member_net_destroy(&net);
}

// A record may be sent between two signatures, and a refutation is signed at once: neither may contain one
// half of a stop.
static void a_stop_is_announced_as_a_whole_or_not_at_all(void **s)
{
    (void)s;
    begin(4);
    struct gossip_version old = info_of(3, 3).record->version;
    old.incarnation = 0;
    gossip_membership_stop_at(net.nodes[1].membership, 77);
    tell_lie(2, 1, 1); // it refutes
    gossip_membership_stop_at(net.nodes[3].membership, 88);
    tell_lie_of(2, 3, 3, &old); // it corrects
    member_net_run(&net, SECOND);
    for (size_t i = 0; i < net.count; i++) {
        assert_true(info_of(i, 1).record->flags & GOSSIP_RECORD_STOPPING);
        assert_int_equal(info_of(i, 1).record->stop_round, 77);
        assert_int_equal(info_of(i, 3).record->stop_round, 88);
        assert_int_equal(totals(i).rejected, 0);
    }
    member_net_destroy(&net);
}

// A node that hears of the others through one member has an answer from each as soon as it has probed them.
static void a_member_known_only_from_others_has_not_answered(void **s)
{
    (void)s;
    member_net_create(&net, 5, seed());
    member_net_start_first(&net, 4);
    member_net_run(&net, 5 * SECOND);
    member_net_start(&net, 4, 1);
    net.cut[4][3] = true; // node 3 sends to it, but gets no question
    member_net_join(&net, 4, 0);
    member_net_run(&net, 4 * SECOND);
    assert_true(info_of(4, 0).answered && info_of(4, 1).answered && info_of(4, 2).answered);
    assert_false(info_of(4, 3).answered);
    assert_true(info_of(4, 3).heard_ns > 0);
    net.cut[4][3] = false;
    member_net_run(&net, 4 * SECOND);
    assert_true(info_of(4, 3).answered);
    member_net_destroy(&net);
}

static void packet_loss_makes_no_member_dead(void **s)
{
    (void)s;
    begin(8);
    net.loss = 0.3;
    member_net_run(&net, 600 * SECOND);
    assert_int_equal(deaths(), 0);
    member_net_destroy(&net);
}

static void membership_works_over_streams_without_datagrams(void **s)
{
    (void)s;
    member_net_create(&net, 6, seed());
    net.no_datagrams = true;
    member_net_start_all(&net);
    assert_true(member_net_agrees(&net));
    member_net_run(&net, 60 * SECOND);
    assert_int_equal(deaths(), 0);
    uint64_t at_ns = net.now_ns;
    member_net_kill(&net, 2, false);
    member_net_run(&net, 5 * SECOND);
    assert_true(last_detection_s(2, at_ns) <= 3);
    member_net_destroy(&net);
}

static void after_a_pause_a_node_suspects_no_other_and_is_not_dead(void **s)
{
    (void)s;
    begin(8);
    uint64_t before = totals(3).suspicions;
    for (int i = 0; i < 4; i++) { // six seconds each
        net.nodes[3].running = false;
        net.nodes[3].silent = true; // datagrams to a stopped process wait; here they are lost
        member_net_run(&net, 6 * SECOND);
        net.nodes[3].running = true;
        member_net_run(&net, 4 * SECOND);
    }
    assert_int_equal(deaths(), 0);
    assert_true(totals(3).pauses >= 4);
    assert_int_equal(totals(3).suspicions, before);
    assert_true(agree_within(10 * SECOND));
    member_net_destroy(&net);
}

static void a_long_pause_counts_as_a_death_and_heals(void **s)
{
    (void)s;
    begin(8);
    net.nodes[3].running = false;
    net.nodes[3].silent = true;
    member_net_run(&net, 30 * SECOND);
    assert_int_equal(state_of(0, 3), GOSSIP_MEMBER_DEAD);
    net.nodes[3].running = true;
    assert_true(agree_within(3 * SECOND));
    member_net_destroy(&net);
}

// As a socket delivers it to a process that was suspended: old, but read only now.
static void deliver(size_t to, size_t from, uint64_t round)
{
    uint8_t bytes[31] = {6}; // gossip
    struct base_writer writer = base_writer_of(bytes + 15, 16);
    base_write_u64(&writer, round);
    base_write_u64(&writer, round);
    const struct gossip_membership_event event = {.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                  .now_ns = net.now_ns,
                                                  .peer = net.nodes[from].identity.id,
                                                  .bytes = bytes,
                                                  .n_bytes = sizeof bytes};
    member_net_step(&net, to, &event);
}

static void after_a_pause_only_new_reports_count(void **s)
{
    (void)s;
    begin(8);
    for (size_t i = 0; i < 8; i++)
        gossip_membership_progress(net.nodes[i].membership, 100, 400);
    member_net_run(&net, 10 * SECOND);
    net.nodes[3].running = false;
    member_net_run(&net, 6 * SECOND);
    for (size_t i = 0; i < 8; i++)
        gossip_membership_progress(net.nodes[i].membership, 5000, 20000);
    const uint64_t woke_ns = net.now_ns;
    net.nodes[3].running = true;
    for (size_t i = 0; i < 8; i++)
        if (i != 3)
            deliver(3, i, 101);
    for (size_t i = 0; i < 8; i++)
        assert_true(i == 3 || info_of(3, i).progress_ns < woke_ns);
    member_net_run(&net, SECOND / 10); // all have been asked, and answer
    for (size_t i = 0; i < 8; i++)
        assert_true(i == 3 || (info_of(3, i).progress_ns > woke_ns && info_of(3, i).round == 5000));
    member_net_destroy(&net);
}

static void a_partition_heals_by_itself(void **s)
{
    (void)s;
    begin(10);
    member_net_partition(&net, 4, true);
    member_net_run(&net, 14 * SECOND);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(totals(i).alive, i < 4 ? 4 : 6);
        assert_int_equal(totals(i).minority, i < 4);
        assert_int_equal(totals(i).here, i < 4 ? 4 : 6);
        assert_int_equal(totals(i).here + totals(i).gone, 10);
    }
    member_net_run(&net, 300 * SECOND);
    member_net_partition(&net, 4, false);
    assert_true(agree_within(3 * SECOND));
    assert_false(totals(0).minority);
    member_net_destroy(&net);
}

static void of_two_equal_halves_one_is_the_majority(void **s)
{
    (void)s;
    begin(6);
    member_net_partition(&net, 3, true);
    member_net_run(&net, 20 * SECOND);
    for (size_t i = 1; i < 6; i++)
        assert_int_equal(totals(i).minority, i < 3 ? totals(0).minority : !totals(0).minority);
    member_net_destroy(&net);
}

static void a_member_that_leaves_is_not_dead(void **s)
{
    (void)s;
    begin(8);
    member_net_step(&net, 2, &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_LEAVE});
    member_net_run(&net, 300 * MILLISECOND);
    member_net_kill(&net, 2, false);
    member_net_run(&net, 20 * SECOND);
    assert_int_equal(deaths(), 0);
    for (size_t i = 0; i < 8; i++)
        if (i != 2)
            assert_int_equal(state_of(i, 2), GOSSIP_MEMBER_LEFT);
    assert_true(member_net_agrees(&net));
    member_net_destroy(&net);
}

// A member that considers all others dead gossips with none; its questions carry its record.
static void dead_members_are_told_of_a_change(void **s)
{
    (void)s;
    begin(5);
    member_net_cut(&net, 0, true, true, true);
    member_net_run(&net, 20 * SECOND);
    assert_int_equal(totals(0).dead, 4);
    member_net_cut(&net, 0, false, true, false); // it still hears nothing
    gossip_membership_flags(net.nodes[0].membership, GOSSIP_RECORD_TRAINING, 0);
    member_net_run(&net, 3 * SECOND);
    assert_true(info_of(3, 0).record->flags & GOSSIP_RECORD_TRAINING);
    member_net_destroy(&net);
}

static void restart(size_t node, unsigned recent_starts)
{
    member_net_kill(&net, node, false);
    member_net_start(&net, node, net.nodes[node].options.version.generation + 1);
    gossip_membership_destroy(net.nodes[node].membership);
    net.nodes[node].options.recent_starts = recent_starts;
    net.nodes[node].options.name = "again";
    assert_int_equal(gossip_membership_create(&net.nodes[node].options, &net.nodes[node].membership),
                     BASE_OK);
    gossip_membership_flags(net.nodes[node].membership, GOSSIP_RECORD_ELIGIBLE, 0);
}

static size_t view_of(size_t node)
{
    size_t count;
    (void)gossip_membership_view(net.nodes[node].membership, &count);
    return count;
}

static void a_flapping_node_keeps_itself_out(void **s)
{
    (void)s;
    begin(6);
    restart(2, 7);
    member_net_join(&net, 2, 0);
    member_net_run(&net, 12 * SECOND);
    assert_int_equal(totals(0).alive, 6);
    assert_int_equal(totals(0).eligible, 5);
    assert_int_equal(view_of(0), 5);
    assert_false(totals(2).counts);
    assert_true(info_of(0, 2).record->flags & GOSSIP_RECORD_HELD);
    member_net_run(&net, 8 * SECOND);
    assert_int_equal(view_of(0), 6);
    assert_true(totals(2).counts);
    assert_false(info_of(0, 2).record->flags & GOSSIP_RECORD_HELD);
    member_net_destroy(&net);
}

static void holding_out_never_empties_a_graph(void **s)
{
    (void)s;
    begin(6);
    for (size_t held = 2; held <= 6; held++) { // of six members
        for (size_t i = 0; i < held; i++)
            restart(i, 9);
        for (size_t i = 0; i < 6; i++)
            member_net_join(&net, i, (i + 1) % 6);
        member_net_run(&net, 5 * SECOND);
        for (size_t i = 0; i < 6; i++) {
            assert_int_equal(totals(i).alive, 6);
            assert_int_equal(view_of(i), held < 3 ? 6 - held : 6);
        }
        assert_int_equal(totals(0).counts, held >= 3);
        assert_true(totals(0).held_until_ns > net.now_ns);
        member_net_run(&net, 60 * SECOND);
        assert_true(member_net_agrees(&net));
    }
    member_net_destroy(&net);
}

// However long the outage lasts and however often the node is told of it.
static void one_outage_is_one_flap(void **s)
{
    (void)s;
    begin(8);
    for (uint64_t seconds = 15; seconds <= 60; seconds += 15)
        for (unsigned deaf = 0; deaf < 2; deaf++) {
            member_net_cut(&net, 5, deaf, true, true);
            member_net_run(&net, seconds * SECOND);
            assert_int_equal(view_of(0), 7);
            member_net_cut(&net, 5, true, true, false);
            uint64_t healed_ns = net.now_ns;
            bool back = agree_within(20 * SECOND);
            print_message("%s for %llu s: back in the graph after %.2f s\n", deaf ? "cut off" : "mute",
                          (unsigned long long)seconds, (double)(net.now_ns - healed_ns) * 1e-9);
            assert_true(back && net.now_ns - healed_ns <= 8 * SECOND);
            member_net_run(&net, 700 * SECOND); // all flaps are forgotten by then
        }
    // The fourth outage within ten minutes holds it out, once.
    for (unsigned outage = 0; outage < 4; outage++) {
        member_net_cut(&net, 5, false, true, true);
        member_net_run(&net, 15 * SECOND);
        assert_int_equal(totals(5).held_until_ns > 0, outage == 3);
        member_net_cut(&net, 5, false, true, false);
        member_net_run(&net, 20 * SECOND);
        assert_true(member_net_agrees(&net));
    }
    member_net_destroy(&net);
}

static struct member *add_numbered(struct gossip_membership *m, uint32_t number)
{
    struct gossip_record record = m->self->record;
    memset(&record.id, 0, sizeof record.id);
    memcpy(&record.id, &number, sizeof number);
    m->now_ns += MILLISECOND;
    struct member *x = member_add(m, &record);
    if (x)
        member_set_state(m, x, GOSSIP_MEMBER_ALIVE, false, false);
    return x;
}

// The records in the packets that wait to be sent; `packets` counts these.
static size_t take_records(struct gossip_membership *m, size_t *packets)
{
    struct gossip_membership_action action;
    struct gossip_record record;
    struct gossip_suspicion suspicion;
    size_t records = 0;
    for (*packets = 0; gossip_membership_next(m, &action); ++*packets) {
        struct base_reader reader = base_reader_of(action.bytes + HEADER, action.n_bytes - HEADER);
        assert_int_equal(action.kind, GOSSIP_MEMBERSHIP_SEND);
        while (base_reader_left(&reader) > 0)
            if (base_read_u8(&reader) == PACKET_ITEM_RECORD) {
                assert_int_equal(gossip_record_read(&reader, &record), BASE_OK);
                records++;
            } else {
                assert_int_equal(gossip_suspicion_read(&reader, &suspicion), BASE_OK);
            }
    }
    return records;
}

// A view that fits into no single packet is told in several, and no member is left out.
static void a_full_sync_names_every_member(void **s)
{
    enum { MEMBERS = 200 };
    (void)s;
    begin(2);
    struct gossip_membership *m = net.nodes[0].membership;
    struct member *peer = member_find(m, &net.nodes[1].identity.id);
    for (uint32_t number = 1; m->count < MEMBERS; number++) {
        size_t packets;
        assert_non_null(add_numbered(m, number));
        m->n_actions = m->actions_taken = 0;
        member_sync_ask(m, peer);
        assert_int_equal(take_records(m, &packets), m->count);
        assert_true(packets >= 2); // what it knows, and the question
    }
    member_net_destroy(&net);
}

// A table of members that are all here takes no other; else the one that has been gone for longest goes.
static void a_full_table_forgets_who_has_been_gone_for_longest(void **s)
{
    (void)s;
    begin(2);
    struct gossip_membership *m = net.nodes[0].membership;
    uint32_t number = 0;
    while (m->count < LIMIT_MEMBERS)
        assert_non_null(add_numbered(m, ++number));
    assert_null(add_numbered(m, ++number));
    for (uint32_t gone = 3; gone > 0; gone--) { // 3 first
        struct gossip_id id = {0};
        memcpy(&id, &gone, sizeof gone);
        m->now_ns += MILLISECOND;
        member_set_state(m, member_find(m, &id), GOSSIP_MEMBER_DEAD, false, true);
    }
    for (uint32_t gone = 3; gone > 0; gone--) {
        struct gossip_id id = {0};
        memcpy(&id, &gone, sizeof gone);
        assert_non_null(member_find(m, &id));
        assert_non_null(add_numbered(m, ++number));
        assert_null(member_find(m, &id));
        assert_int_equal(m->count, LIMIT_MEMBERS);
    }
    assert_null(add_numbered(m, ++number));
    member_net_destroy(&net);
}

static void a_member_that_is_not_allowed_is_unknown(void **s)
{
    (void)s;
    member_net_create(&net, 4, seed());
    struct gossip_id ids[3] = {net.nodes[0].identity.id, net.nodes[1].identity.id, net.nodes[2].identity.id};
    struct gossip_allow_list list = {.ids = ids, .count = 3};
    for (size_t i = 0; i < 3; i++)
        net.nodes[i].options.allow = &list;
    member_net_start_first(&net, 4);
    member_net_run(&net, 5 * SECOND);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(totals(i).alive, 3);
    list.count = 2; // removed from the list at run time
    member_net_run(&net, 6 * SECOND);
    assert_int_equal(totals(0).alive, 2);
    member_net_destroy(&net);
}

static void malformed_packets_change_nothing(void **s)
{
    (void)s;
    begin(4);
    struct base_rng rng;
    base_rng_seed(&rng, seed());
    uint64_t hash = totals(0).view_hash;
    for (int i = 0; i < 2000; i++) {
        uint8_t bytes[200];
        size_t count = (size_t)base_rng_below(&rng, sizeof bytes);
        for (size_t k = 0; k < count; k++)
            bytes[k] = (uint8_t)base_rng_u64(&rng);
        if (count > HEADER && i % 2) { // a valid header with malformed items
            memset(bytes, 0, HEADER);
            bytes[0] = 6;
        }
        member_net_step(&net, 0,
                        &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                          .peer = net.nodes[1].identity.id,
                                                          .bytes = bytes,
                                                          .n_bytes = count});
    }
    assert_int_equal(totals(0).view_hash, hash);
    assert_int_equal(gossip_membership_count(net.nodes[0].membership), 4);
    assert_true(totals(0).rejected > 0);
    member_net_destroy(&net);
}

// SWIM's promise: what a member sends does not grow with the size of the cluster.
static void the_load_of_a_member_does_not_grow_with_the_cluster(void **s)
{
    (void)s;
    double each[2] = {0};
    for (int large = 0; large < 2; large++) {
        size_t count = large ? 64 : 8;
        begin(count);
        member_net_run(&net, 10 * SECOND);
        uint64_t before = 0, after = 0;
        for (size_t i = 0; i < count; i++)
            before += net.nodes[i].datagram_bytes;
        member_net_run(&net, 20 * SECOND);
        for (size_t i = 0; i < count; i++)
            after += net.nodes[i].datagram_bytes;
        each[large] = (double)(after - before) / 20.0 / (double)count;
        member_net_destroy(&net);
    }
    print_message("idle: %.0f B/s with 8, %.0f B/s with 64, sealed\n", each[0], each[1]);
    assert_true(each[1] <= 1.1 * each[0]);
    assert_true(each[1] <= 430);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_living_entry_of_the_peer_list_is_enough),
        cmocka_unit_test(each_node_asks_one_member_a_period),
        cmocka_unit_test(a_node_pings_its_relays_in_time),
        cmocka_unit_test(all_members_know_the_group_of_each),
        cmocka_unit_test(the_hash_covers_the_group),
        cmocka_unit_test(another_access_makes_a_new_view),
        cmocka_unit_test(all_members_know_the_progress_of_each),
        cmocka_unit_test(a_stop_is_announced_with_its_round),
        cmocka_unit_test(a_setting_reaches_all_and_late_joiners),
        cmocka_unit_test(a_stop_is_announced_as_a_whole_or_not_at_all),
        cmocka_unit_test(a_member_known_only_from_others_has_not_answered),
        cmocka_unit_test(packet_loss_makes_no_member_dead),
        cmocka_unit_test(membership_works_over_streams_without_datagrams),
        cmocka_unit_test(after_a_pause_a_node_suspects_no_other_and_is_not_dead),
        cmocka_unit_test(after_a_pause_only_new_reports_count),
        cmocka_unit_test(a_long_pause_counts_as_a_death_and_heals),
        cmocka_unit_test(a_partition_heals_by_itself),
        cmocka_unit_test(of_two_equal_halves_one_is_the_majority),
        cmocka_unit_test(a_member_that_leaves_is_not_dead),
        cmocka_unit_test(dead_members_are_told_of_a_change),
        cmocka_unit_test(a_flapping_node_keeps_itself_out),
        cmocka_unit_test(holding_out_never_empties_a_graph),
        cmocka_unit_test(one_outage_is_one_flap),
        cmocka_unit_test(a_full_sync_names_every_member),
        cmocka_unit_test(a_full_table_forgets_who_has_been_gone_for_longest),
        cmocka_unit_test(a_member_that_is_not_allowed_is_unknown),
        cmocka_unit_test(malformed_packets_change_nothing),
        cmocka_unit_test(the_load_of_a_member_does_not_grow_with_the_cluster),
    };
    print_message("seed %llu\n", (unsigned long long)seed());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
