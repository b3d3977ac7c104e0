// The rules of membership, one by one: when a member is suspected, when it refutes, and when it is dead.
#include "gossip/member/state.h"
#include "test/support/member_net.h"
#include "test/support/member_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { PING = 1, ACK = 2, RELAYED = 4 };

static void all_members_detect_a_killed_process_within_a_second(void **s)
{
    (void)s;
    begin(16);
    member_net_run(&net,
                   2 * SECOND); // the end of a stream so soon after a start may belong to an earlier process
    uint64_t at_ns = net.now_ns;
    member_net_kill(&net, 5, false);
    member_net_run(&net, 3 * SECOND);
    assert_true(last_detection_s(5, at_ns) <= 1.5);
    assert_true(agree_within(2 * SECOND));
    member_net_destroy(&net);
}

// A datagram to a closed port causes an UNREACHABLE; that must not cause another datagram for ever.
static void a_closed_port_causes_no_storm(void **s)
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

static void a_silent_host_gets_time_to_answer(void **s)
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
static void a_host_with_only_one_working_direction_is_detected(void **s)
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

static void a_node_that_hears_no_member_detects_it_and_sends_no_suspicions(void **s)
{
    (void)s;
    begin(12);
    for (unsigned which = 1; which < 4; which++) {
        uint64_t before = refutations(5);
        member_net_cut(&net, 5, which & 1, which & 2, true);
        // A mute node also waits for two members to call that it has asked before: seed 20, 3.2 s.
        const uint64_t least_ns = 2500 * MILLISECOND, most_ns = which == 2 ? 5 * SECOND : least_ns,
                       cut_ns = net.now_ns;
        member_net_run(&net, least_ns);
        while (!totals(5).cut_off && net.now_ns < cut_ns + most_ns)
            member_net_run(&net, 100 * MILLISECOND);
        assert_true(totals(5).cut_off && totals(5).minority);
        for (size_t i = 0; i < 12; i++)
            assert_true(i == 5 || (!totals(i).cut_off && !totals(i).minority));
        assert_int_equal(deaths(), 0);
        assert_true(refutations(5) - before <= 6); // what it sent before it detected that
        member_net_cut(&net, 5, true, true, false);
        assert_true(agree_within(5 * SECOND));
        assert_false(totals(5).cut_off);
        assert_int_equal(deaths(), 0);
    }
    member_net_cut(&net, 5, true, true, true);
    member_net_run(&net, 9500 * MILLISECOND);
    assert_int_equal(totals(5).dead, 11); // detected here as early as by the others
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

// What a dead member had sent before it died does not speak for it now.
static void a_late_datagram_of_a_dead_member_does_not_clear_it(void **s)
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

static unsigned suspectors_of(size_t observer, size_t node)
{
    return info_of(observer, node).suspectors;
}

static void an_answer_to_a_later_question_clears(void **s)
{
    (void)s;
    begin(5);
    member_net_run(&net, 2 * SECOND);
    net.nodes[1].running = false; // does not answer by itself
    net.nodes[1].silent = true;
    // This node takes its own suspicion back.
    member_net_step(&net, 0,
                    &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_UNREACHABLE,
                                                      .peer = net.nodes[1].identity.id});
    assert_int_equal(suspectors_of(0, 1), 1);
    say(1, 0, ACK, net.nodes[0].asked[1] - 1); // asked before the suspicion
    assert_int_equal(suspectors_of(0, 1), 1);
    say(1, 0, ACK, net.nodes[0].asked[1] + 1); // never asked
    assert_int_equal(suspectors_of(0, 1), 1);
    say(1, 0, ACK, net.nodes[0].asked[1]);
    assert_int_equal(suspectors_of(0, 1), 0);
    assert_int_equal(state_of(0, 1), GOSSIP_MEMBER_ALIVE);
    // The evidence of others is cleared.
    tell_lie(2, 0, 1);
    tell_lie(3, 0, 1);
    assert_int_equal(suspectors_of(0, 1), 2);
    say(1, 0, ACK, net.nodes[0].asked[1]);
    member_net_run(&net, 2 * SECOND);
    assert_int_equal(state_of(0, 1), GOSSIP_MEMBER_SUSPECT);
    member_net_destroy(&net);
    // Without that answer it is not cleared.
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

// A node may have missed a record that the hash of the view does not cover. The member that it suspects sends
// the record.
static void a_suspicion_of_an_old_record_is_answered_with_the_new_one(void **s)
{
    (void)s;
    begin(6);
    member_net_run(&net, 2 * SECOND);
    for (size_t i = 0; i < 6; i++)
        net.cut[i][0] = true;
    tell_lie(2, 1, 1); // it refutes
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

// Where no other member is alive, what this node has seen itself is enough; the report of another is not.
static bool knows_of_training(size_t observer, size_t node)
{
    return info_of(observer, node).record->flags & GOSSIP_RECORD_TRAINING;
}

static size_t know_of_training(size_t count)
{
    size_t know = 0;
    for (size_t i = 0; i < count; i++)
        know += knows_of_training(i, 0);
    return know;
}

// Views that differ for a period are compared, and what one of them lacks is sent: a node probes in each
// period, so its views meet another one within a period, and again when the difference is a period old.
static void a_missed_record_arrives_within_three_periods(void **s)
{
    const uint64_t period_ns = 500 * MILLISECOND;
    (void)s;
    for (size_t deaf = 1; deaf < 6; deaf++) {
        begin(6);
        member_net_cut(&net, deaf, true, false, true);
        gossip_membership_flags(net.nodes[0].membership, GOSSIP_RECORD_TRAINING, 0);
        for (int i = 0; i < 20 && know_of_training(6) < 5; i++)
            member_net_run(&net, 50 * MILLISECOND);
        assert_true(know_of_training(6) == 5 && !knows_of_training(deaf, 0));
        member_net_cut(&net, deaf, true, false, false);
        member_net_run(&net, 3 * period_ns);
        assert_true(knows_of_training(deaf, 0));
        member_net_destroy(&net);
    }
}

static void the_evidence_of_one_other_member_kills_none(void **s)
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

// Node 0 runs alone. The test answers its questions to all but node 1, and may report as a helper that node 1
// is alive.
static void others_answer(uint64_t ns, bool report)
{
    for (uint64_t end_ns = net.now_ns + ns; net.now_ns < end_ns;) {
        member_net_run(&net, 50 * MILLISECOND);
        for (size_t i = 2; i < net.count; i++)
            say(i, 0, ACK, net.nodes[0].asked[i]);
        if (report)
            say_relayed(2, 0, 1, net.nodes[0].asked[1]);
    }
}

static void answer_by_hand(uint64_t ns)
{
    others_answer(ns, true);
}

// Node 0 of eight; the test plays the others.
static void begin_alone(void)
{
    begin(8);
    member_net_run(&net, 2 * SECOND);
    for (size_t i = 1; i < 8; i++) {
        net.nodes[i].running = false;
        net.nodes[i].silent = true;
    }
}

// The last of them has said that node 1 is silent, and may go on with that.
static void begin_beside_a_liar(void)
{
    begin_alone();
    answer_by_hand(SECOND);
    tell_silent = true;
    tell_lie(7, 0, 1);
}

// A liar that came first does not shorten the time that honest members give a suspect.
static void silence_counts_from_the_second_suspector(void **s)
{
    (void)s;
    begin_beside_a_liar();
    answer_by_hand(4 * SECOND);
    for (size_t i = 3; i < 6; i++)
        tell_lie(i, 0, 1);
    tell_silent = false;
    assert_int_equal(suspectors_of(0, 1), 4);
    answer_by_hand(4 * SECOND);
    assert_int_equal(state_of(0, 1), GOSSIP_MEMBER_SUSPECT);
    answer_by_hand(2 * SECOND);
    assert_int_equal(state_of(0, 1), GOSSIP_MEMBER_DEAD);
    member_net_destroy(&net);
}

// Nor does it where no member is left to confirm: neither a liar's report of long ago, nor silence of a time
// in which other members answered and did not confirm it, is time that this node has waited.
static void a_node_that_is_cut_off_counts_only_silence_that_it_observed(void **s)
{
    (void)s;
    for (int own = 0; own < 2; own++) {
        if (own)
            begin_alone();
        else
            begin_beside_a_liar();
        tell_silent = false;
        others_answer(10 * SECOND, !own);
        assert_int_equal(suspectors_of(0, 1), 1);
        member_net_run(&net, 5 * SECOND); // no member answers any more: cut off after 1.5 to 2 s
        for (size_t i = 1; i < 8; i++)
            assert_int_equal(state_of(0, i), GOSSIP_MEMBER_SUSPECT);
        member_net_run(&net, 4 * SECOND);
        for (size_t i = 1; i < 8; i++)
            assert_int_equal(state_of(0, i), GOSSIP_MEMBER_DEAD);
        member_net_destroy(&net);
    }
}

// Two or three others are all that can confirm: their word ends the wait as early as in a large cluster.
// Before it begins, a member may be probed first in one order of all and last in the next one; 1.5 s for the
// probe, the word of others, and the news of the death.
static void a_small_cluster_detects_a_silent_host_as_early(void **s)
{
    (void)s;
    for (size_t n = 3; n < 7; n++) {
        begin(n);
        uint64_t at_ns = net.now_ns;
        member_net_kill(&net, 1, true);
        const double turn_s = 0.5 * (double)(2 * (n - 1) - 1);
        member_net_run(&net, 14 * SECOND);
        print_message("%zu members: known by all after %.1f s\n", n, last_detection_s(1, at_ns));
        assert_true(last_detection_s(1, at_ns) <= turn_s + 6.2 + 1.5);
        member_net_destroy(&net);
    }
}

// A suspector may have saved up a number of suspicions, and gets two more each second.
static void a_member_suspects_at_a_bounded_rate(void **s)
{
    (void)s;
    begin(4);
    struct gossip_membership *m = net.nodes[0].membership;
    struct member *suspector = member_find(m, &net.nodes[1].identity.id);
    m->now_ns += 1000 * SECOND;
    for (size_t i = 0; i < 32 + 4; i++)
        assert_true(member_may_suspect(m, suspector));
    assert_false(member_may_suspect(m, suspector));
    m->now_ns += 500 * MILLISECOND;
    assert_true(member_may_suspect(m, suspector));
    assert_false(member_may_suspect(m, suspector));
    member_net_destroy(&net);
}

// A new member has saved up nothing, so that many new ones suspect no more than a few.
static void a_new_member_begins_without_credit(void **s)
{
    (void)s;
    member_net_create(&net, 5, seed());
    member_net_start_first(&net, 4);
    member_net_run(&net, 100 * SECOND);
    struct gossip_membership *m = net.nodes[0].membership;
    struct member *new = NULL;
    member_net_start(&net, 4, 1);
    member_net_join(&net, 4, 0);
    while (!(new = member_find(m, &net.nodes[4].identity.id)))
        member_net_run(&net, MILLISECOND);
    assert_false(member_may_suspect(m, new));
    m->now_ns += 500 * MILLISECOND;
    assert_true(member_may_suspect(m, new));
    assert_false(member_may_suspect(m, new));
    member_net_destroy(&net);
}

// One refuted suspicion is forgiven every ten seconds, from the first one on.
static void refuted_suspicions_are_forgiven_one_by_one(void **s)
{
    (void)s;
    begin(4);
    struct gossip_membership *m = net.nodes[0].membership;
    struct member *suspector = member_find(m, &net.nodes[1].identity.id);
    m->now_ns += 1000 * SECOND;
    for (size_t i = 0; i < WRONG_MAX + 3; i++)
        member_was_wrong(m, &suspector->record.id);
    for (size_t i = 0; i < 3; i++) {
        assert_false(member_may_suspect(m, suspector));
        m->now_ns += 10 * SECOND - 1;
        assert_false(member_may_suspect(m, suspector));
        m->now_ns++;
        assert_true(member_may_suspect(m, suspector));
        member_was_wrong(m, &suspector->record.id);
    }
    member_was_wrong(m, &m->self->record.id);
    assert_int_equal(m->self->wrong, 0);
    member_net_destroy(&net);
}

static struct gossip_suspicion suspicion_by(size_t suspector, enum gossip_suspicion_class class)
{
    return (struct gossip_suspicion){.subject = net.nodes[1].identity.id,
                                     .suspector = net.nodes[suspector].identity.id,
                                     .version = info_of(0, 1).record->version,
                                     .class = (uint8_t) class};
}

static bool put(size_t suspector, enum gossip_suspicion_class class)
{
    const struct gossip_suspicion suspicion = suspicion_by(suspector, class);
    struct gossip_membership *m = net.nodes[0].membership;
    return member_suspicion_put(m, member_find(m, &suspicion.subject), &suspicion);
}

// Evidence is worth more: of the same suspector, and of another one once there is no room for more.
static void evidence_replaces_silence_and_nothing_replaces_evidence(void **s)
{
    (void)s;
    begin(SUSPECTORS_MAX + 4);
    const size_t first = 2, last = first + SUSPECTORS_MAX - 1, another = last + 1;
    for (size_t i = first; i <= last; i++)
        assert_true(put(i, GOSSIP_SUSPECTED_SILENT));
    assert_false(put(first, GOSSIP_SUSPECTED_SILENT));
    assert_false(put(another, GOSSIP_SUSPECTED_SILENT));
    assert_true(put(first, GOSSIP_SUSPECTED_EVIDENCE));
    assert_false(put(first, GOSSIP_SUSPECTED_EVIDENCE));
    assert_false(put(first, GOSSIP_SUSPECTED_SILENT));
    assert_true(put(another, GOSSIP_SUSPECTED_EVIDENCE));
    struct gossip_membership *m = net.nodes[0].membership;
    struct member *x = member_find(m, &net.nodes[1].identity.id);
    size_t evident = 0;
    for (size_t i = 0; i < x->n_suspicions; i++)
        evident += x->suspicions[i].told.class == GOSSIP_SUSPECTED_EVIDENCE;
    assert_int_equal(x->n_suspicions, SUSPECTORS_MAX);
    assert_int_equal(evident, 2);
    assert_non_null(member_suspicion_by(x, &net.nodes[first].identity.id));
    member_net_destroy(&net);
}

static void a_member_whose_suspicions_were_often_refuted_is_not_believed(void **s)
{
    (void)s;
    begin(6);
    uint64_t believed = 0;
    for (int i = 0; i < 70; i++) {
        uint64_t before = totals(0).suspicions;
        tell_lie(2, 0, 1);
        believed += totals(0).suspicions - before;
        member_net_run(&net, 600 * MILLISECOND); // meanwhile it refutes, and the liar has new credit
    }
    print_message("believed %llu of 70 suspicions that were refuted\n", (unsigned long long)believed);
    assert_true(believed >= 16 && believed <= 22); // one more is believed every ten seconds
    assert_int_equal(deaths(), 0);
    member_net_destroy(&net);
}

// The suspect no longer believes that suspector. Another member that does would wait in vain for a
// refutation.
static void a_suspicion_that_others_believe_is_refuted_whoever_sends_it(void **s)
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

// Lifeguard: a node that may itself be at fault is patient.
// With no updates left to send, a suspect still refutes once a second what another believes, and a member
// tells a suspect as often of the suspicion. Otherwise it would die of a suspicion that it has refuted.
static void a_node_with_nothing_left_still_refutes_and_warns(void **s)
{
    (void)s;
    begin(4);
    const struct gossip_version old = info_of(1, 1).record->version;
    uint64_t refuted = 0, warned = 0;
    tell_lie(2, 1, 1);
    member_net_run(&net, 5 * SECOND);
    tell_lie(2, 0, 1);
    for (int i = 0; i < 30; i++) {
        const uint64_t before[] = {net.nodes[0].datagrams, net.nodes[1].datagrams};
        net.nodes[0].membership->savings = net.nodes[1].membership->savings = -1000000;
        tell_lie_of(3, 1, 1, &old);
        say(1, 0, PACKET_GOSSIP, 0);
        warned += net.nodes[0].datagrams - before[0];
        refuted += net.nodes[1].datagrams - before[1];
        net.now_ns += 100 * MILLISECOND;
    }
    assert_int_equal(refuted, 3);
    assert_int_equal(warned, 2); // that, and the ping that followed the suspicion
    member_net_destroy(&net);
}

static void local_health_rises_and_falls(void **s)
{
    (void)s;
    begin(6);
    member_net_run(&net, 2 * SECOND);
    assert_int_equal(totals(3).health, 0);
    tell_lie(2, 3, 3); // others suspect it
    assert_int_equal(totals(3).health, 1);
    member_net_run(&net, 4 * SECOND);
    assert_int_equal(totals(3).health, 0);
    member_net_step(&net, 3,
                    &(struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_UNREACHABLE,
                                                      .peer = net.nodes[1].identity.id});
    net.cut[1][3] = true; // its answer is lost, but its refutation arrives through others
    for (int i = 0; i < 100 && totals(3).health == 0; i++)
        member_net_run(&net, 20 * MILLISECOND);
    assert_int_equal(totals(3).health, 1); // it was wrong
    net.cut[1][3] = false;
    member_net_run(&net, 4 * SECOND);
    assert_int_equal(totals(3).health, 0);
    member_net_cut(&net, 3, true, true, true);
    member_net_run(&net, 2500 * MILLISECOND); // no member even confirms that it is there
    assert_true(totals(3).health >= 2);
    member_net_destroy(&net);
}

static void suspicions_are_extended_by_the_length_of_a_pause(void **s)
{
    (void)s;
    begin(8);
    member_net_kill(&net, 5, true);
    while (state_of(0, 5) != GOSSIP_MEMBER_SUSPECT || suspectors_of(0, 5) < 4)
        member_net_run(&net, 100 * MILLISECOND);
    net.nodes[0].running = false;
    net.nodes[0].silent = true;
    member_net_run(&net, 4 * SECOND); // the others do not consider it dead
    net.nodes[0].running = true;
    member_net_run(&net, 3 * SECOND);
    assert_true(totals(0).pauses > 0);
    assert_int_equal(state_of(0, 5), GOSSIP_MEMBER_SUSPECT);
    member_net_run(&net, 6 * SECOND);
    assert_int_equal(state_of(0, 5), GOSSIP_MEMBER_DEAD);
    member_net_destroy(&net);
}

// Packets that waited in the socket show that the process runs again: its pause counts once, however many
// there are before its timers run.
static void a_pause_counts_once(void **s)
{
    (void)s;
    begin(4);
    member_net_run(&net, 5 * SECOND);
    const uint64_t before = totals(0).pauses;
    net.now_ns += 3 * SECOND;
    for (uint32_t number = 1; number < 5; number++)
        say(1, 0, PING, number);
    assert_int_equal(totals(0).pauses, before + 1);
    net.now_ns += SECOND;
    say(1, 0, PING, 6);
    assert_int_equal(totals(0).pauses, before + 1); // two periods are no pause
    member_net_destroy(&net);
}

// An update is sent as often as it should be, and no more: not when the packet has no room for it, and not
// when it was sent often enough.
static void updates_are_sent_a_number_of_times(void **s)
{
    (void)s;
    begin(SUSPECTORS_MAX + 4);
    struct gossip_membership *m = net.nodes[0].membership;
    struct member *x = member_find(m, &net.nodes[1].identity.id);
    struct gossip_membership_action action;
    for (size_t i = 0; i < SUSPECTORS_MAX; i++)
        assert_true(put(2 + i, GOSSIP_SUSPECTED_SILENT));
    m->savings = m->savings_most = 1000000;
    for (size_t fit = 0; fit <= SUSPECTORS_MAX / 2; fit++) {
        const size_t bytes = fit * (1 + GOSSIP_SUSPICION_BYTES);
        size_t left = 0;
        for (size_t i = 0; i < m->count; i++)
            m->sorted[i]->record_sends = 0;
        for (size_t i = 0; i < SUSPECTORS_MAX; i++)
            x->suspicions[i].sends = i % 2;
        m->spread_ns = m->now_ns;
        m->actions_taken = m->n_actions = 0;
        member_send_packet(m, member_find(m, &net.nodes[2].identity.id), GOSSIP_BY_DATAGRAM, PACKET_ACK, 1,
                           NULL, HEADER + bytes + 1);
        assert_true(gossip_membership_next(m, &action));
        assert_int_equal(action.n_bytes, HEADER + bytes);
        for (size_t i = 0; i < SUSPECTORS_MAX; i++)
            left += x->suspicions[i].sends;
        assert_int_equal(left, SUSPECTORS_MAX / 2 - fit);
    }
    member_net_destroy(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_members_detect_a_killed_process_within_a_second),
        cmocka_unit_test(a_closed_port_causes_no_storm),
        cmocka_unit_test(a_silent_host_gets_time_to_answer),
        cmocka_unit_test(a_host_with_only_one_working_direction_is_detected),
        cmocka_unit_test(a_node_that_hears_no_member_detects_it_and_sends_no_suspicions),
        cmocka_unit_test(a_late_datagram_of_a_dead_member_does_not_clear_it),
        cmocka_unit_test(an_answer_to_a_later_question_clears),
        cmocka_unit_test(a_suspicion_of_an_old_record_is_answered_with_the_new_one),
        cmocka_unit_test(a_missed_record_arrives_within_three_periods),
        cmocka_unit_test(the_evidence_of_one_other_member_kills_none),
        cmocka_unit_test(silence_counts_from_the_second_suspector),
        cmocka_unit_test(a_node_that_is_cut_off_counts_only_silence_that_it_observed),
        cmocka_unit_test(a_small_cluster_detects_a_silent_host_as_early),
        cmocka_unit_test(a_member_suspects_at_a_bounded_rate),
        cmocka_unit_test(a_new_member_begins_without_credit),
        cmocka_unit_test(refuted_suspicions_are_forgiven_one_by_one),
        cmocka_unit_test(evidence_replaces_silence_and_nothing_replaces_evidence),
        cmocka_unit_test(a_member_whose_suspicions_were_often_refuted_is_not_believed),
        cmocka_unit_test(a_suspicion_that_others_believe_is_refuted_whoever_sends_it),
        cmocka_unit_test(a_node_with_nothing_left_still_refutes_and_warns),
        cmocka_unit_test(local_health_rises_and_falls),
        cmocka_unit_test(suspicions_are_extended_by_the_length_of_a_pause),
        cmocka_unit_test(a_pause_counts_once),
        cmocka_unit_test(updates_are_sent_a_number_of_times),
    };
    print_message("seed %llu\n", (unsigned long long)seed());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
