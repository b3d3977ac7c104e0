// Rules of membership one by one, in small networks under virtual time. Whole clusters under random faults:
// test/sim.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/support/member_net.h"

#define MILLISECOND 1000000ull
#define SECOND      1000000000ull
#define HEADER      31 // bytes of a packet without target

enum { PING = 1, ACK = 2, RELAYED = 4 };

static bool tell_silent; // lies are of silence, not of evidence
static void tell_lie(size_t liar, size_t to, size_t about);
static void tell_lie_of(size_t liar, size_t to, size_t about, const struct gossip_version *version);

static uint64_t seed(void)
{
    const char *text = getenv("P2PML_SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

static struct member_net net;

static void begin(size_t count)
{
    member_net_create(&net, count, seed());
    member_net_start_all(&net);
    assert_true(member_net_agrees(&net));
}

static struct gossip_membership_totals totals(size_t node)
{
    struct gossip_membership_totals t;
    gossip_membership_totals(net.nodes[node].membership, &t);
    return t;
}

static enum gossip_member_state state_of(size_t observer, size_t node)
{
    struct gossip_member_info info;
    assert_int_equal(
        gossip_membership_find(net.nodes[observer].membership, &net.nodes[node].identity.id, &info), BASE_OK);
    return info.state;
}

static struct gossip_member_info info_of(size_t observer, size_t node)
{
    struct gossip_member_info info;
    assert_int_equal(
        gossip_membership_find(net.nodes[observer].membership, &net.nodes[node].identity.id, &info), BASE_OK);
    return info;
}

static unsigned deaths(void)
{
    unsigned sum = 0;
    for (size_t i = 0; i < net.count; i++)
        sum += net.nodes[i].deaths;
    return sum;
}

static uint64_t refutations(size_t except)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < net.count; i++)
        sum += i == except ? 0 : totals(i).refutations;
    return sum;
}

static double last_detection_s(size_t victim, uint64_t since_ns)
{
    double last = 0;
    for (size_t i = 0; i < net.count; i++) {
        if (!net.nodes[i].running)
            continue;
        assert_int_equal(net.nodes[i].state[victim], GOSSIP_MEMBER_DEAD);
        double took = (double)(net.nodes[i].changed_ns[victim] - since_ns) / (double)SECOND;
        last = took > last ? took : last;
    }
    return last;
}

static bool agree_within(uint64_t ns)
{
    for (uint64_t waited = 0; waited < ns && !member_net_agrees(&net); waited += 50 * MILLISECOND)
        member_net_run(&net, 50 * MILLISECOND);
    return member_net_agrees(&net);
}

static void one_living_name_is_enough(void **s)
{
    (void)s;
    begin(9);
    assert_true(net.now_ns < 8 * SECOND);
    for (size_t i = 1; i < 9; i++)
        assert_true(totals(i).view_hash == totals(0).view_hash);
    member_net_destroy(&net);
}

static void all_know_the_group_of_each(void **s)
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

// Who tells one group here and another there is found out by the hash of the view.
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

// Progress rides on packets that go anyway, and is gone with the life that told it.
static void all_know_how_far_each_is(void **s)
{
    (void)s;
    begin(6);
    for (size_t i = 0; i < net.count; i++)
        gossip_membership_progress(net.nodes[i].membership, 100 + i, (uint64_t)1 << (40 + i));
    member_net_run(&net, 12 * SECOND); // everybody asks everybody meanwhile
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

static void a_stop_is_told_with_its_round(void **s)
{
    (void)s;
    begin(4);
    gossip_membership_stop_at(net.nodes[1].membership, 77);
    gossip_membership_flags(net.nodes[2].membership, GOSSIP_RECORD_STOPPING, 0); // only with its round
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

// A record may be told between two signatures, and one that refutes is signed at once: neither is half of
// what it says.
static void a_stop_is_told_whole_or_not_at_all(void **s)
{
    (void)s;
    begin(4);
    struct gossip_version old = info_of(3, 3).record->version;
    old.incarnation = 0;
    gossip_membership_stop_at(net.nodes[1].membership, 77);
    tell_lie(2, 1, 1); // refutes
    gossip_membership_stop_at(net.nodes[3].membership, 88);
    tell_lie_of(2, 3, 3, &old); // corrects
    member_net_run(&net, SECOND);
    for (size_t i = 0; i < net.count; i++) {
        assert_true(info_of(i, 1).record->flags & GOSSIP_RECORD_STOPPING);
        assert_int_equal(info_of(i, 1).record->stop_round, 77);
        assert_int_equal(info_of(i, 3).record->stop_round, 88);
        assert_int_equal(totals(i).rejected, 0);
    }
    member_net_destroy(&net);
}

// Who hears of others through one member has answers of them all as soon as it has asked.
static void who_is_only_talked_of_has_not_answered(void **s)
{
    (void)s;
    member_net_create(&net, 5, seed());
    for (size_t i = 0; i < 4; i++)
        member_net_start(&net, i, 1);
    for (size_t i = 1; i < 4; i++)
        member_net_join(&net, i, 0);
    member_net_run(&net, 5 * SECOND);
    member_net_start(&net, 4, 1);
    net.cut[4][3] = true; // node 3 talks to it, and hears no question
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

static void a_killed_process_is_known_to_all_in_a_second(void **s)
{
    (void)s;
    begin(16);
    member_net_run(&net,
                   2 * SECOND); // the end of a stream so soon after a start may be that of an earlier life
    uint64_t at_ns = net.now_ns;
    member_net_kill(&net, 5, false);
    member_net_run(&net, 3 * SECOND);
    assert_true(last_detection_s(5, at_ns) <= 1.5);
    assert_true(agree_within(2 * SECOND));
    member_net_destroy(&net);
}

// A datagram to a closed port brings UNREACHABLE, which must not bring another datagram for ever.
static void a_closed_port_makes_no_storm(void **s)
{
    (void)s;
    begin(16);
    for (size_t i = 0; i < 16; i++)
        member_net_join(&net, i, 5);
    member_net_run(&net, SECOND);
    uint64_t before = 0, after = 0;
    for (size_t i = 0; i < 16; i++)
        before += net.nodes[i].datagrams;
    member_net_kill(&net, 5, false);
    member_net_run(&net, 500 * MILLISECOND);
    for (size_t i = 0; i < 16; i++)
        after += net.nodes[i].datagrams;
    print_message("datagrams of a node in the half second after a kill: %llu\n",
                  (unsigned long long)(after - before) / 15);
    assert_true((after - before) / 15 < 100);
    member_net_destroy(&net);
}

static void a_silent_host_is_given_time(void **s)
{
    (void)s;
    begin(16);
    uint64_t at_ns = net.now_ns;
    member_net_kill(&net, 5, true);
    member_net_run(&net, 6 * SECOND);
    assert_int_equal(deaths(), 0);
    member_net_run(&net, 4 * SECOND);
    assert_true(last_detection_s(5, at_ns) <= 9.5);
    member_net_destroy(&net);
}

// A host that sends but hears nothing, one that hears but sends nothing, and one that does neither.
static void a_host_of_which_one_way_works_is_found(void **s)
{
    (void)s;
    for (unsigned which = 1; which < 4; which++) {
        begin(16);
        uint64_t at_ns = net.now_ns;
        member_net_cut(&net, 5, which & 1, which & 2, true);
        net.nodes[5].running = true;
        member_net_run(&net, 6 * SECOND);
        for (size_t i = 0; i < 16; i++)
            assert_true(i == 5 || state_of(i, 5) != GOSSIP_MEMBER_DEAD);
        member_net_run(&net, 4 * SECOND);
        double last = 0;
        for (size_t i = 0; i < 16; i++) {
            if (i == 5)
                continue;
            assert_int_equal(state_of(i, 5), GOSSIP_MEMBER_DEAD);
            assert_int_equal(totals(i).dead, 1);
            double took = (double)(net.nodes[i].changed_ns[5] - at_ns) / (double)SECOND;
            last = took > last ? took : last;
        }
        print_message("%s%s: known by all after %.1f s\n", which & 1 ? "deaf " : "", which & 2 ? "mute" : "",
                      last);
        assert_true(last <= 9.5);
        member_net_run(&net, 20 * SECOND);
        member_net_cut(&net, 5, true, true, false);
        assert_true(agree_within(5 * SECOND));
        member_net_destroy(&net);
    }
}

static void who_hears_nobody_knows_it_soon_and_accuses_nobody_aloud(void **s)
{
    (void)s;
    begin(12);
    for (unsigned which = 1; which < 4; which++) {
        uint64_t before = refutations(5);
        member_net_cut(&net, 5, which & 1, which & 2, true);
        member_net_run(&net, 2500 * MILLISECOND);
        assert_true(totals(5).cut_off && totals(5).minority);
        for (size_t i = 0; i < 12; i++)
            assert_true(i == 5 || (!totals(i).cut_off && !totals(i).minority));
        assert_int_equal(deaths(), 0);
        assert_true(refutations(5) - before <= 6); // of what it said before it knew
        member_net_cut(&net, 5, true, true, false);
        assert_true(agree_within(5 * SECOND));
        assert_false(totals(5).cut_off);
        assert_int_equal(deaths(), 0);
    }
    member_net_cut(&net, 5, true, true, true);
    member_net_run(&net, 9500 * MILLISECOND);
    assert_int_equal(totals(5).dead, 11); // known as soon here as at the others
    assert_true(totals(5).minority && !totals(5).cut_off);
    member_net_cut(&net, 5, true, true, false);
    assert_true(agree_within(5 * SECOND));
    member_net_destroy(&net);
}

static void say(size_t from, size_t to, uint8_t kind, uint32_t number)
{
    uint8_t bytes[HEADER] = {kind};
    memcpy(bytes + 2, &number, sizeof number);
    member_net_step(&net, to,
                    &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                      .peer = net.nodes[from].identity.id,
                                                      .bytes = bytes,
                                                      .n_bytes = HEADER});
}

// What the dead had still under way speaks of the time before.
static void a_late_datagram_of_the_dead_acquits_nobody(void **s)
{
    (void)s;
    begin(8);
    member_net_run(&net, 4 * SECOND);
    uint64_t at_ns = net.now_ns;
    uint32_t asked[8];
    for (size_t i = 0; i < 8; i++)
        asked[i] = net.nodes[i].asked[5];
    for (size_t i = 0; i < 8; i++)
        member_net_join(&net, i, 5);
    member_net_run(&net, 10 * MILLISECOND);
    member_net_kill(&net, 5, false);
    for (int late = 0; late < 20; late++) {
        member_net_run(&net, 50 * MILLISECOND);
        for (size_t i = 0; i < 8; i++) {
            if (i == 5)
                continue;
            say(5, i, ACK, asked[i]);
            say(5, i, PING, 1);
        }
    }
    assert_true(last_detection_s(5, at_ns) <= 1.5);
    member_net_destroy(&net);
}

static unsigned accusers_of(size_t observer, size_t node)
{
    return info_of(observer, node).accusers;
}

static void an_answer_to_a_later_question_acquits(void **s)
{
    (void)s;
    begin(5);
    member_net_run(&net, 2 * SECOND);
    net.nodes[1].running = false; // and does not answer by itself
    net.nodes[1].silent = true;
    // Our own accusation is taken back.
    member_net_step(&net, 0,
                    &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_UNREACHABLE,
                                                      .peer = net.nodes[1].identity.id});
    assert_int_equal(accusers_of(0, 1), 1);
    say(1, 0, ACK, net.nodes[0].asked[1] - 1); // asked before
    assert_int_equal(accusers_of(0, 1), 1);
    say(1, 0, ACK, net.nodes[0].asked[1] + 1); // never asked
    assert_int_equal(accusers_of(0, 1), 1);
    say(1, 0, ACK, net.nodes[0].asked[1]);
    assert_int_equal(accusers_of(0, 1), 0);
    assert_int_equal(state_of(0, 1), GOSSIP_MEMBER_ALIVE);
    // The evidence of others is void.
    tell_lie(2, 0, 1);
    tell_lie(3, 0, 1);
    assert_int_equal(accusers_of(0, 1), 2);
    say(1, 0, ACK, net.nodes[0].asked[1]);
    member_net_run(&net, 2 * SECOND);
    assert_int_equal(state_of(0, 1), GOSSIP_MEMBER_SUSPECT);
    member_net_destroy(&net);
    // Without the answer it is not.
    begin(5);
    member_net_run(&net, 2 * SECOND);
    net.nodes[1].running = false;
    net.nodes[1].silent = true;
    tell_lie(2, 0, 1);
    tell_lie(3, 0, 1);
    member_net_run(&net, 2 * SECOND);
    assert_int_equal(state_of(0, 1), GOSSIP_MEMBER_DEAD);
    member_net_destroy(&net);
}

// Who has missed a record, which the hash of the view does not cover, learns it from whoever accuses it.
static void an_accusation_of_a_record_that_was_missed_brings_it(void **s)
{
    (void)s;
    begin(6);
    member_net_run(&net, 2 * SECOND);
    for (size_t i = 0; i < 6; i++)
        net.cut[i][0] = true;
    tell_lie(2, 1, 1); // refutes
    member_net_run(&net, 400 * MILLISECOND);
    for (size_t i = 0; i < 6; i++)
        net.cut[i][0] = false;
    uint32_t incarnation = info_of(1, 1).record->version.incarnation;
    if (info_of(0, 1).record->version.incarnation < incarnation) {
        tell_lie_of(3, 0, 1, &info_of(1, 1).record->version);
        member_net_run(&net, 100 * MILLISECOND);
    }
    assert_true(info_of(0, 1).record->version.incarnation >= incarnation);
    member_net_destroy(&net);
}

// Where nobody else is alive, what we saw ourselves is enough; what another said is not.
static bool knows_of_training(size_t observer, size_t node)
{
    return info_of(observer, node).record->flags & GOSSIP_RECORD_TRAINING;
}

// Views that differ for a period are compared, and what one of them lacks is sent.
static void a_record_that_was_missed_comes_within_two_periods(void **s)
{
    const uint64_t period_ns = 500 * MILLISECOND, told_ns = 400 * MILLISECOND;
    (void)s;
    for (size_t deaf = 1; deaf < 6; deaf++) {
        begin(6);
        member_net_cut(&net, deaf, true, false, true);
        gossip_membership_flags(net.nodes[0].membership, GOSSIP_RECORD_TRAINING, 0);
        member_net_run(&net, told_ns);
        for (size_t i = 0; i < 6; i++)
            assert_int_equal(knows_of_training(i, 0), i != deaf);
        member_net_cut(&net, deaf, true, false, false);
        member_net_run(&net, 2 * period_ns - told_ns);
        assert_true(knows_of_training(deaf, 0));
        member_net_destroy(&net);
    }
}

static void the_evidence_of_one_other_kills_nobody(void **s)
{
    (void)s;
    for (int ours = 0; ours < 2; ours++) {
        begin(3);
        member_net_kill(&net, 1, true);
        member_net_run(&net, 40 * SECOND);
        assert_int_equal(state_of(0, 1), GOSSIP_MEMBER_DEAD);
        net.nodes[2].running = false;
        net.nodes[2].silent = true;
        tell_lie(1, 0, 2);
        if (ours)
            member_net_step(&net, 0,
                            &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_UNREACHABLE,
                                                              .peer = net.nodes[2].identity.id});
        member_net_run(&net, 1500 * MILLISECOND);
        assert_int_equal(state_of(0, 2), ours ? GOSSIP_MEMBER_DEAD : GOSSIP_MEMBER_SUSPECT);
        member_net_destroy(&net);
    }
}

static void say_relayed(size_t from, size_t to, size_t target, uint32_t number)
{
    uint8_t bytes[HEADER + GOSSIP_ID_BYTES] = {RELAYED};
    memcpy(bytes + 2, &number, sizeof number);
    memcpy(bytes + HEADER, net.nodes[target].identity.id.bytes, GOSSIP_ID_BYTES);
    member_net_step(&net, to,
                    &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                      .peer = net.nodes[from].identity.id,
                                                      .bytes = bytes,
                                                      .n_bytes = sizeof bytes});
}

// Node 0 runs alone; all it asks is answered by hand, and that node 1 lives by a helper.
static void answer_by_hand(uint64_t ns)
{
    for (uint64_t end_ns = net.now_ns + ns; net.now_ns < end_ns;) {
        member_net_run(&net, 50 * MILLISECOND);
        for (size_t i = 2; i < net.count; i++)
            say(i, 0, ACK, net.nodes[0].asked[i]);
        say_relayed(2, 0, 1, net.nodes[0].asked[1]);
    }
}

// A liar that was there first does not shorten the time that the honest leave to whom they accuse.
static void silence_counts_from_the_second_accuser(void **s)
{
    (void)s;
    begin(8);
    member_net_run(&net, 2 * SECOND);
    for (size_t i = 1; i < 8; i++) {
        net.nodes[i].running = false;
        net.nodes[i].silent = true;
    }
    answer_by_hand(SECOND);
    tell_silent = true;
    tell_lie(7, 0, 1);
    answer_by_hand(4 * SECOND);
    for (size_t i = 3; i < 6; i++)
        tell_lie(i, 0, 1);
    tell_silent = false;
    assert_int_equal(accusers_of(0, 1), 4);
    answer_by_hand(4 * SECOND);
    assert_int_equal(state_of(0, 1), GOSSIP_MEMBER_SUSPECT);
    answer_by_hand(2 * SECOND);
    assert_int_equal(state_of(0, 1), GOSSIP_MEMBER_DEAD);
    member_net_destroy(&net);
}

static void who_was_refuted_often_is_not_believed(void **s)
{
    (void)s;
    begin(6);
    uint64_t believed = 0;
    for (int i = 0; i < 70; i++) {
        uint64_t before = totals(0).accusations;
        tell_lie(2, 0, 1);
        believed += totals(0).accusations - before;
        member_net_run(&net, 600 * MILLISECOND); // refuted meanwhile, and it has credit for the next one
    }
    print_message("believed %llu of 70 accusations that were refuted\n", (unsigned long long)believed);
    assert_true(believed >= 16 && believed <= 22); // and one more every ten seconds
    assert_int_equal(deaths(), 0);
    member_net_destroy(&net);
}

// The accused no longer believes that accuser; a member that does would wait for its word in vain.
static void what_others_believe_is_refuted_whoever_says_it(void **s)
{
    (void)s;
    begin(6);
    member_net_run(&net, 20 * SECOND); // the liar has saved up its credit
    uint64_t before;
    do {
        before = totals(1).refutations;
        tell_lie(2, 1, 1);
        member_net_run(&net, 100 * MILLISECOND);
    } while (totals(1).refutations > before);
    tell_lie(2, 0, 1);
    assert_int_equal(state_of(0, 1), GOSSIP_MEMBER_SUSPECT);
    member_net_run(&net, SECOND);
    assert_int_equal(state_of(0, 1), GOSSIP_MEMBER_ALIVE);
    assert_int_equal(totals(1).refutations, before + 1);
    member_net_destroy(&net);
}

// Lifeguard: whoever may be at fault himself is patient.
static void local_health_rises_and_falls(void **s)
{
    (void)s;
    begin(6);
    member_net_run(&net, 2 * SECOND);
    assert_int_equal(totals(3).health, 0);
    tell_lie(2, 3, 3); // others think badly of it
    assert_int_equal(totals(3).health, 1);
    member_net_run(&net, 4 * SECOND);
    assert_int_equal(totals(3).health, 0);
    member_net_step(&net, 3,
                    &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_UNREACHABLE,
                                                      .peer = net.nodes[1].identity.id});
    net.cut[1][3] = true; // its answer does not come, its refutation by way of others does
    for (int i = 0; i < 25 && totals(3).health == 0; i++)
        member_net_run(&net, 20 * MILLISECOND);
    assert_int_equal(totals(3).health, 1); // it was wrong
    net.cut[1][3] = false;
    member_net_run(&net, 4 * SECOND);
    assert_int_equal(totals(3).health, 0);
    member_net_cut(&net, 3, true, true, true);
    member_net_run(&net, 2500 * MILLISECOND); // nobody even says that it is there
    assert_true(totals(3).health >= 2);
    member_net_destroy(&net);
}

static void after_a_pause_suspicions_have_the_time_that_was_lost(void **s)
{
    (void)s;
    begin(8);
    member_net_kill(&net, 5, true);
    while (state_of(0, 5) != GOSSIP_MEMBER_SUSPECT || accusers_of(0, 5) < 4)
        member_net_run(&net, 100 * MILLISECOND);
    net.nodes[0].running = false;
    net.nodes[0].silent = true;
    member_net_run(&net, 4 * SECOND); // the others do not hold it for dead
    net.nodes[0].running = true;
    member_net_run(&net, 3 * SECOND);
    assert_true(totals(0).pauses > 0);
    assert_int_equal(state_of(0, 5), GOSSIP_MEMBER_SUSPECT);
    member_net_run(&net, 6 * SECOND);
    assert_int_equal(state_of(0, 5), GOSSIP_MEMBER_DEAD);
    member_net_destroy(&net);
}

static void loss_kills_nobody(void **s)
{
    (void)s;
    begin(8);
    net.loss = 0.3;
    member_net_run(&net, 600 * SECOND);
    assert_int_equal(deaths(), 0);
    member_net_destroy(&net);
}

static void without_datagrams_streams_do(void **s)
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

static void a_pause_accuses_nobody_and_kills_nobody(void **s)
{
    (void)s;
    begin(8);
    uint64_t before = totals(3).accusations;
    for (int i = 0; i < 4; i++) { // six seconds each
        net.nodes[3].running = false;
        net.nodes[3].silent = true; // datagrams to a stopped process wait; here they are lost
        member_net_run(&net, 6 * SECOND);
        net.nodes[3].running = true;
        member_net_run(&net, 4 * SECOND);
    }
    assert_int_equal(deaths(), 0);
    assert_true(totals(3).pauses >= 4);
    assert_int_equal(totals(3).accusations, before);
    assert_true(agree_within(10 * SECOND));
    member_net_destroy(&net);
}

static void a_long_pause_is_a_death_and_heals(void **s)
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

static void a_partition_heals_by_itself(void **s)
{
    (void)s;
    begin(10);
    member_net_partition(&net, 4, true);
    member_net_run(&net, 14 * SECOND);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(totals(i).alive, i < 4 ? 4 : 6);
        assert_int_equal(totals(i).minority, i < 4);
    }
    member_net_run(&net, 300 * SECOND);
    member_net_partition(&net, 4, false);
    assert_true(agree_within(3 * SECOND));
    assert_false(totals(0).minority);
    member_net_destroy(&net);
}

static void half_and_half_has_one_majority(void **s)
{
    (void)s;
    begin(6);
    member_net_partition(&net, 3, true);
    member_net_run(&net, 20 * SECOND);
    for (size_t i = 1; i < 6; i++)
        assert_int_equal(totals(i).minority, i < 3 ? totals(0).minority : !totals(0).minority);
    member_net_destroy(&net);
}

static void who_leaves_is_not_dead(void **s)
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

static void a_restart_overrides_its_own_death(void **s)
{
    (void)s;
    begin(8);
    member_net_kill(&net, 2, false);
    member_net_run(&net, 5 * SECOND);
    assert_int_equal(state_of(0, 2), GOSSIP_MEMBER_DEAD);
    net.loss = 0.3;
    member_net_start(&net, 2, 2);
    member_net_join(&net, 2, 5);
    assert_true(agree_within(3 * SECOND));
    assert_int_equal(net.nodes[2].conflicts, 0);
    member_net_destroy(&net);
}

// Its disk is lost or old: it comes back with a boot number that the others have seen already.
static void a_lost_boot_number_is_found_again(void **s)
{
    (void)s;
    begin(6);
    member_net_kill(&net, 2, false);
    member_net_run(&net, 3 * SECOND);
    member_net_start(&net, 2, 1);
    if (net.nodes[2].options.version.life == 0)
        fail();
    member_net_join(&net, 2, 0);
    assert_true(agree_within(5 * SECOND));
    assert_int_equal(net.nodes[2].conflicts, 0);
    member_net_kill(&net, 2, false);
    member_net_run(&net, 3 * SECOND);
    member_net_start(&net, 2, 0);
    member_net_join(&net, 2, 0);
    assert_true(agree_within(5 * SECOND));
    assert_true(net.nodes[2].boots >=
                1); // boot 0 is below all that was heard; whether 1 is too, the lives say
    member_net_destroy(&net);
}

// Another process may run with the identity of whoever comes by a link, or it has lost its boot number.
static void whoever_is_linked_hears_what_is_known_of_it(void **s)
{
    (void)s;
    begin(4);
    bool told = false;
    struct gossip_membership_action action;
    struct gossip_membership_event event = {
        .kind = GOSSIP_MEMBERSHIP_LINKED, .now_ns = net.now_ns, .peer = net.nodes[1].identity.id};
    assert_int_equal(gossip_membership_step(net.nodes[0].membership, &event), BASE_OK);
    while (gossip_membership_next(net.nodes[0].membership, &action)) {
        struct gossip_record record;
        if (action.kind != GOSSIP_MEMBERSHIP_SEND || action.n_bytes <= HEADER)
            continue;
        assert_int_equal(action.way, GOSSIP_BY_STREAM);
        struct base_reader reader = base_reader_of(action.bytes + HEADER, action.n_bytes - HEADER);
        if (base_read_u8(&reader) != 1 || gossip_record_read(&reader, &record) != BASE_OK)
            continue;
        told |= gossip_id_compare(&record.id, &event.peer) == 0 &&
                gossip_version_compare(&record.version, &info_of(1, 1).record->version) == 0;
    }
    assert_true(told);
    member_net_destroy(&net);
}

// Node 5 runs with the identity of node 2, as a copied directory would.
static bool names(const uint8_t *bytes, size_t count, size_t node)
{
    const struct gossip_id *id = &net.nodes[node].identity.id;
    for (size_t i = 0; i + sizeof id->bytes <= count; i++)
        if (memcmp(bytes + i, id->bytes, sizeof id->bytes) == 0)
            return true;
    return false;
}

// What a process hears whose link is refused because another has its identity: of that one, and whom it talks
// to, who may have started anew since.
static void a_second_process_is_told_of_both(void **s)
{
    (void)s;
    begin(4);
    uint8_t bytes[LIMIT_DATAGRAM_BYTES];
    size_t count =
        gossip_membership_about(net.nodes[0].membership, &net.nodes[2].identity.id, bytes, sizeof bytes);
    assert_true(names(bytes, count, 0) && names(bytes, count, 2) && !names(bytes, count, 1));
    assert_int_equal(
        gossip_membership_step(net.nodes[2].membership,
                               &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                                 .now_ns = net.now_ns,
                                                                 .peer = net.nodes[0].identity.id,
                                                                 .way = GOSSIP_BY_STREAM,
                                                                 .bytes = bytes,
                                                                 .n_bytes = count}),
        BASE_OK);
    assert_int_equal(
        gossip_membership_about(net.nodes[0].membership, &(struct gossip_id){{0}}, bytes, sizeof bytes), 0);
    member_net_destroy(&net);
}

// Whoever holds all others for dead has nobody to gossip with: what it says of itself rides on its questions.
static void the_dead_are_told_of_a_change(void **s)
{
    (void)s;
    begin(5);
    member_net_cut(&net, 0, true, true, true);
    member_net_run(&net, 20 * SECOND);
    assert_int_equal(totals(0).dead, 4);
    member_net_cut(&net, 0, false, true, false); // still deaf
    gossip_membership_flags(net.nodes[0].membership, GOSSIP_RECORD_TRAINING, 0);
    member_net_run(&net, 3 * SECOND);
    assert_true(info_of(3, 0).record->flags & GOSSIP_RECORD_TRAINING);
    member_net_destroy(&net);
}

static void of_two_with_one_identity_the_second_stops(void **s)
{
    (void)s;
    member_net_create(&net, 6, seed());
    for (size_t i = 0; i < 5; i++)
        member_net_start(&net, i, 1);
    for (size_t i = 1; i < 5; i++)
        member_net_join(&net, i, 0);
    member_net_run(&net, 20 * SECOND);
    assert_true(member_net_agrees(&net));
    struct member_net_node *copy = &net.nodes[5];
    copy->identity = net.nodes[2].identity;
    member_net_start(&net, 5, 2);
    // What the copy says arrives at node 0 under the shared identity, and what node 0 hears goes to the copy.
    struct gossip_membership_action action;
    struct gossip_membership_event event = {.kind = GOSSIP_MEMBERSHIP_LINKED,
                                            .peer = net.nodes[0].identity.id};
    bool stopped = false;
    for (int turn = 0; turn < 200 && !stopped; turn++) {
        event.now_ns = net.now_ns;
        if (turn % 2)
            event.kind = GOSSIP_MEMBERSHIP_TIMER;
        assert_int_equal(gossip_membership_step(copy->membership, &event), BASE_OK);
        while (gossip_membership_next(copy->membership, &action)) {
            stopped |= action.kind == GOSSIP_MEMBERSHIP_CONFLICT;
            if (action.kind == GOSSIP_MEMBERSHIP_SEND &&
                gossip_id_compare(&action.peer, &net.nodes[0].identity.id) == 0)
                member_net_step(&net, 0,
                                &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                                  .peer = copy->identity.id,
                                                                  .way = action.way,
                                                                  .bytes = action.bytes,
                                                                  .n_bytes = action.n_bytes});
        }
        net.nodes[5].running = false;
        member_net_run(&net, 50 * MILLISECOND);
        net.nodes[5].running = true;
        // node 0 tells what it knows of itself and of this identity
        static uint8_t packet[1024];
        memset(packet, 0, sizeof packet);
        packet[0] = 6;
        struct base_writer writer = base_writer_of(packet + HEADER, sizeof packet - HEADER);
        for (size_t about = 0; about < 3; about += 2) {
            struct gossip_member_info info;
            assert_int_equal(
                gossip_membership_find(net.nodes[0].membership, &net.nodes[about].identity.id, &info),
                BASE_OK);
            base_write_u8(&writer, 1);
            gossip_record_write(info.record, &writer);
        }
        event = (struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                 .peer = net.nodes[0].identity.id,
                                                 .way = GOSSIP_BY_STREAM,
                                                 .bytes = packet,
                                                 .n_bytes = HEADER + base_writer_used(&writer)};
    }
    assert_true(stopped);
    assert_int_equal(net.nodes[2].conflicts, 0);
    assert_true(net.nodes[2].boots >= 1);
    net.nodes[5].running = false;
    member_net_destroy(&net);
}

static void tell_lie_of(size_t liar, size_t to, size_t about, const struct gossip_version *version)
{
    struct gossip_accusation accusation = {.subject = net.nodes[about].identity.id,
                                           .accuser = net.nodes[liar].identity.id,
                                           .version = *version,
                                           .class =
                                               tell_silent ? GOSSIP_ACCUSED_SILENT : GOSSIP_ACCUSED_EVIDENCE};
    gossip_accusation_sign(&accusation, &net.nodes[liar].identity);
    uint8_t bytes[256] = {6};
    struct base_writer writer = base_writer_of(bytes + HEADER, sizeof bytes - HEADER);
    base_write_u8(&writer, 2);
    gossip_accusation_write(&accusation, &writer);
    member_net_step(&net, to,
                    &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                      .peer = net.nodes[liar].identity.id,
                                                      .bytes = bytes,
                                                      .n_bytes = HEADER + base_writer_used(&writer)});
}

static void tell_lie(size_t liar, size_t to, size_t about)
{
    tell_lie_of(liar, to, about, &info_of(to, about).record->version);
}

static void a_liar_kills_nobody(void **s)
{
    (void)s;
    begin(8);
    uint64_t before = totals(0).refutations;
    for (int i = 0; i < 3000; i++) { // 100 a second for half a minute
        tell_lie(7, (size_t)i % 7, (size_t)(i / 7) % 7 == (size_t)i % 7 ? 7 - 1 : (size_t)(i / 7) % 7);
        member_net_run(&net, 10 * MILLISECOND);
    }
    assert_int_equal(deaths(), 0);
    uint64_t refuted = totals(0).refutations - before;
    print_message("refutations of one of seven accused: %llu in 30 s\n", (unsigned long long)refuted);
    assert_true(refuted < 60); // it is soon not listened to
    assert_true(agree_within(10 * SECOND));
    member_net_destroy(&net);
}

static void restart(size_t node, unsigned recent_boots)
{
    member_net_kill(&net, node, false);
    member_net_start(&net, node, net.nodes[node].options.version.boot + 1);
    gossip_membership_destroy(net.nodes[node].membership);
    net.nodes[node].options.recent_boots = recent_boots;
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
    for (size_t held = 2; held <= 6; held++) { // of six
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

// However long nobody hears it, and however often it is told so.
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
            member_net_run(&net, 700 * SECOND); // all flaps are forgotten
        }
    // The fourth within ten minutes is held out, once.
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

static void who_is_not_allowed_is_not_known(void **s)
{
    (void)s;
    member_net_create(&net, 4, seed());
    struct gossip_id ids[3] = {net.nodes[0].identity.id, net.nodes[1].identity.id, net.nodes[2].identity.id};
    struct gossip_allow_list list = {.ids = ids, .count = 3};
    for (size_t i = 0; i < 3; i++)
        net.nodes[i].options.allow = &list;
    for (size_t i = 0; i < 4; i++)
        member_net_start(&net, i, 1);
    for (size_t i = 1; i < 4; i++)
        member_net_join(&net, i, 0);
    member_net_run(&net, 5 * SECOND);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(totals(i).alive, 3);
    list.count = 2; // taken off the list while it runs
    member_net_run(&net, 6 * SECOND);
    assert_int_equal(totals(0).alive, 2);
    member_net_destroy(&net);
}

static void broken_bytes_change_nothing(void **s)
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
        if (count > HEADER && i % 2) { // a fine header with broken items
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

// SWIM's promise: what a member sends does not grow with the cluster.
static void load_does_not_grow(void **s)
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
        cmocka_unit_test(one_living_name_is_enough),
        cmocka_unit_test(all_know_the_group_of_each),
        cmocka_unit_test(the_hash_covers_the_group),
        cmocka_unit_test(all_know_how_far_each_is),
        cmocka_unit_test(a_stop_is_told_with_its_round),
        cmocka_unit_test(a_stop_is_told_whole_or_not_at_all),
        cmocka_unit_test(who_is_only_talked_of_has_not_answered),
        cmocka_unit_test(a_killed_process_is_known_to_all_in_a_second),
        cmocka_unit_test(a_closed_port_makes_no_storm),
        cmocka_unit_test(a_silent_host_is_given_time),
        cmocka_unit_test(a_host_of_which_one_way_works_is_found),
        cmocka_unit_test(who_hears_nobody_knows_it_soon_and_accuses_nobody_aloud),
        cmocka_unit_test(a_late_datagram_of_the_dead_acquits_nobody),
        cmocka_unit_test(an_answer_to_a_later_question_acquits),
        cmocka_unit_test(an_accusation_of_a_record_that_was_missed_brings_it),
        cmocka_unit_test(a_record_that_was_missed_comes_within_two_periods),
        cmocka_unit_test(the_evidence_of_one_other_kills_nobody),
        cmocka_unit_test(silence_counts_from_the_second_accuser),
        cmocka_unit_test(who_was_refuted_often_is_not_believed),
        cmocka_unit_test(what_others_believe_is_refuted_whoever_says_it),
        cmocka_unit_test(local_health_rises_and_falls),
        cmocka_unit_test(after_a_pause_suspicions_have_the_time_that_was_lost),
        cmocka_unit_test(loss_kills_nobody),
        cmocka_unit_test(without_datagrams_streams_do),
        cmocka_unit_test(a_pause_accuses_nobody_and_kills_nobody),
        cmocka_unit_test(a_long_pause_is_a_death_and_heals),
        cmocka_unit_test(a_partition_heals_by_itself),
        cmocka_unit_test(half_and_half_has_one_majority),
        cmocka_unit_test(who_leaves_is_not_dead),
        cmocka_unit_test(a_restart_overrides_its_own_death),
        cmocka_unit_test(a_lost_boot_number_is_found_again),
        cmocka_unit_test(whoever_is_linked_hears_what_is_known_of_it),
        cmocka_unit_test(a_second_process_is_told_of_both),
        cmocka_unit_test(the_dead_are_told_of_a_change),
        cmocka_unit_test(of_two_with_one_identity_the_second_stops),
        cmocka_unit_test(a_liar_kills_nobody),
        cmocka_unit_test(a_flapping_node_keeps_itself_out),
        cmocka_unit_test(holding_out_never_empties_a_graph),
        cmocka_unit_test(one_outage_is_one_flap),
        cmocka_unit_test(who_is_not_allowed_is_not_known),
        cmocka_unit_test(broken_bytes_change_nothing),
        cmocka_unit_test(load_does_not_grow),
    };
    print_message("seed %llu\n", (unsigned long long)seed());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
