// The rules of membership, one by one: restarts, lost generations, two processes with one identity, and a
// member that lies.
#include "gossip/member/state.h"
#include "test/support/member_net.h"
#include "test/support/member_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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

// The round of a process that is gone is not that of the next one, from the first word of it, whoever says
// it.
static void a_new_process_has_no_progress(void **s)
{
    (void)s;
    begin(8);
    gossip_membership_progress(net.nodes[2].membership, 100, 1000);
    member_net_run(&net, 12 * SECOND);
    const uint64_t before = info_of(0, 2).record->version.generation;
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(info_of(i, 2).round, 100);
    member_net_kill(&net, 2, false);
    member_net_run(&net, 3 * SECOND);
    member_net_start(&net, 2, 2);
    member_net_join(&net, 2, 5);
    size_t known = 0;
    for (int t = 0; t < 3000 && known < 8; t++) {
        member_net_run(&net, MILLISECOND);
        known = 0;
        for (size_t i = 0; i < 8; i++) {
            const struct gossip_member_info info = info_of(i, 2);
            const bool is_new = info.record->version.generation != before;
            if (is_new) // a packet of it may come before its record
                assert_true(info.round == 0 && info.step == 0);
            known += is_new;
        }
    }
    assert_int_equal(known, 8);
    member_net_destroy(&net);
}

// Its disk is lost or old: it returns with a generation that the others have already seen.
static void a_lost_generation_is_found_again(void **s)
{
    (void)s;
    begin(6);
    member_net_kill(&net, 2, false);
    member_net_run(&net, 3 * SECOND);
    member_net_start(&net, 2, 1);
    if (net.nodes[2].options.version.instance_id == 0)
        fail();
    member_net_join(&net, 2, 0);
    assert_true(agree_within(5 * SECOND));
    assert_int_equal(net.nodes[2].conflicts, 0);
    member_net_kill(&net, 2, false);
    member_net_run(&net, 3 * SECOND);
    member_net_start(&net, 2, 0);
    member_net_join(&net, 2, 0);
    assert_true(agree_within(5 * SECOND));
    assert_true(net.nodes[2].raised_generations >=
                1); // generation 0 is below all that were heard; whether 1 is, the instance_id decides
    member_net_destroy(&net);
}

// After 2^32 changes of a record, the next one must not look older than all before it.
static void a_record_survives_the_overflow_of_its_incarnation(void **s)
{
    (void)s;
    begin(4);
    struct member *self = net.nodes[2].membership->self;
    const uint64_t generation = self->record.version.generation;
    self->record.version.incarnation = UINT32_MAX - 1;
    for (int i = 0; i < 3; i++) {
        gossip_membership_flags(net.nodes[2].membership, i % 2 ? GOSSIP_RECORD_TRAINING : 0,
                                i % 2 ? 0 : GOSSIP_RECORD_TRAINING);
        member_net_run(&net, 2 * SECOND);
        gossip_membership_flags(net.nodes[2].membership, i % 2 ? 0 : GOSSIP_RECORD_TRAINING,
                                i % 2 ? GOSSIP_RECORD_TRAINING : 0);
        member_net_run(&net, 2 * SECOND);
    }
    assert_true(self->record.version.generation == generation + 1);
    assert_in_range(self->record.version.incarnation, 1, 10);
    assert_int_equal(net.nodes[2].raised_generations, 1); // the generation is written to disk
    for (size_t i = 0; i < 4; i++) {
        struct gossip_member_info info;
        assert_int_equal(gossip_membership_find(net.nodes[i].membership, &net.nodes[2].identity.id, &info),
                         BASE_OK);
        assert_true(info.record->version.generation == generation + 1);
    }
    assert_true(agree_within(SECOND));
    member_net_destroy(&net);
}

// The node behind a new link may have lost its generation, or another process may run with its identity.
static void a_newly_linked_node_is_sent_its_own_record(void **s)
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
        if (base_read_u8(&reader) != 1 || gossip_record_read(&reader, &record))
            continue;
        told |= gossip_id_compare(&record.id, &event.peer) == 0 &&
                gossip_version_compare(&record.version, &info_of(1, 1).record->version) == 0;
    }
    assert_true(told);
    member_net_destroy(&net);
}

// Whether the packet contains the id of `node`.
static bool names(const uint8_t *bytes, size_t count, size_t node)
{
    const struct gossip_id *id = &net.nodes[node].identity.id;
    for (size_t i = 0; i + sizeof id->bytes <= count; i++)
        if (memcmp(bytes + i, id->bytes, sizeof id->bytes) == 0)
            return true;
    return false;
}

// If another process has its identity, the link of a second one is refused. It is then sent the record of
// that process, and that of the member it talks to, which may have restarted since.
static void a_second_process_is_sent_both_records(void **s)
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

// Node 0 sends node 2 the record of another process with node 2's identity, older or newer than its own.
// Returns whether node 2 answers with its own record by datagram, although streams are in use here: node 0
// drops the links of one of the two processes.
static bool is_told_by_datagram(uint64_t generation, uint64_t after_ns)
{
    struct gossip_record record = *info_of(2, 2).record;
    uint8_t bytes[HEADER + 1 + GOSSIP_RECORD_BYTES_MAX] = {6};
    struct base_writer writer = base_writer_of(bytes + HEADER, sizeof bytes - HEADER);
    struct gossip_membership_action action;
    bool told = false;
    record.version = (struct gossip_version){.generation = generation, .instance_id = 99};
    gossip_record_sign(&record, &net.nodes[2].identity);
    base_write_u8(&writer, 1);
    gossip_record_write(&record, &writer);
    net.now_ns += after_ns;
    const struct gossip_membership_event event = {.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                  .now_ns = net.now_ns,
                                                  .peer = net.nodes[0].identity.id,
                                                  .way = GOSSIP_BY_STREAM,
                                                  .bytes = bytes,
                                                  .n_bytes = HEADER + base_writer_used(&writer)};
    assert_int_equal(gossip_membership_step(net.nodes[2].membership, &event), BASE_OK);
    while (gossip_membership_next(net.nodes[2].membership, &action))
        told |= action.kind == GOSSIP_MEMBERSHIP_SEND && action.way == GOSSIP_BY_DATAGRAM &&
                gossip_id_compare(&action.peer, &event.peer) == 0 && names(action.bytes, action.n_bytes, 2);
    return told;
}

static void a_member_that_names_another_process_is_sent_the_record_of_this_one(void **s)
{
    (void)s;
    begin(4);
    net.no_datagrams = true;
    member_net_run(&net, 10 * SECOND);
    assert_true(is_told_by_datagram(0, SECOND));
    assert_false(is_told_by_datagram(0, MILLISECOND)); // it was sent a moment ago
    assert_true(is_told_by_datagram(0, SECOND));
    assert_true(is_told_by_datagram(7, SECOND));
    assert_int_equal(info_of(2, 2).record->version.generation, 8);
    member_net_destroy(&net);
}

// Another process has raised its generation to the one with which this one has just started. Others cannot
// open datagrams of this one, and which of the two has the higher instance_id is chance.
static void of_two_under_one_generation_the_second_raises_it(void **s)
{
    (void)s;
    begin(4);
    struct gossip_version *ours = &net.nodes[2].membership->self->record.version;
    const uint64_t generation = ours->generation;
    ours->instance_id = 98; // is_told_by_datagram sends 99
    assert_true(is_told_by_datagram(generation, SECOND));
    assert_int_equal(ours->generation, generation + 1);
    ours->instance_id = 100;
    assert_true(is_told_by_datagram(generation, SECOND)); // an earlier one changes nothing
    assert_int_equal(ours->generation, generation + 1);
    assert_true(is_told_by_datagram(generation + 1, SECOND));
    assert_int_equal(ours->generation, generation + 2);
    member_net_destroy(&net);
}

// Node 2 returns on an old disk and sends node 0 its record. Returns the generation for which node 0 seals
// its answer, 0 if there is no answer.
static uint64_t is_answered_for(uint64_t generation, enum gossip_member_way way, size_t teller)
{
    struct gossip_record record = *info_of(2, 2).record;
    uint8_t bytes[HEADER + 1 + GOSSIP_RECORD_BYTES_MAX] = {6};
    struct base_writer writer = base_writer_of(bytes + HEADER, sizeof bytes - HEADER);
    struct gossip_membership_action action;
    uint64_t sealed_for = 0;
    record.version = (struct gossip_version){.generation = generation, .instance_id = 99};
    gossip_record_sign(&record, &net.nodes[2].identity);
    base_write_u8(&writer, 1);
    gossip_record_write(&record, &writer);
    net.now_ns += SECOND;
    const struct gossip_membership_event event = {.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                  .now_ns = net.now_ns,
                                                  .peer = net.nodes[teller].identity.id,
                                                  .way = way,
                                                  .bytes = bytes,
                                                  .n_bytes = HEADER + base_writer_used(&writer)};
    assert_int_equal(gossip_membership_step(net.nodes[0].membership, &event), BASE_OK);
    while (gossip_membership_next(net.nodes[0].membership, &action))
        if (action.kind == GOSSIP_MEMBERSHIP_SEND && action.generation != 0) {
            assert_int_equal(action.way, GOSSIP_BY_DATAGRAM);
            assert_int_equal(gossip_id_compare(&action.peer, &net.nodes[2].identity.id), 0);
            assert_true(names(action.bytes, action.n_bytes, 2) && names(action.bytes, action.n_bytes, 0));
            sealed_for = action.generation;
        }
    return sealed_for;
}

// Only this node may know the later record, and its links may be refused (a copied directory).
static void a_member_on_an_old_disk_is_sent_its_later_record(void **s)
{
    (void)s;
    begin(4);
    member_net_kill(&net, 2, false);
    member_net_start(&net, 2, 7);
    member_net_join(&net, 2, 0);
    member_net_run(&net, 5 * SECOND);
    assert_int_equal(info_of(0, 2).record->version.generation, 7);
    assert_int_equal(is_answered_for(3, GOSSIP_BY_STREAM, 2), 3);
    assert_int_equal(is_answered_for(5, GOSSIP_BY_STREAM, 2), 5);
    assert_int_equal(is_answered_for(3, GOSSIP_BY_STREAM, 1), 0);   // others may be late with it
    assert_int_equal(is_answered_for(3, GOSSIP_BY_DATAGRAM, 2), 0); // does not prove that the process lives
    member_net_destroy(&net);
}

// When the link became active, node 0 did not know node 2 yet, or knew an earlier process of it.
static void a_member_that_sends_its_own_record_over_its_link_has_answered(void **s)
{
    (void)s;
    begin(4);
    struct member *x = member_find(net.nodes[0].membership, &net.nodes[2].identity.id);
    x->answered = false;
    (void)is_answered_for(1, GOSSIP_BY_STREAM, 1); // another member sends the record
    (void)is_answered_for(1, GOSSIP_BY_DATAGRAM, 2);
    assert_false(x->answered);
    (void)is_answered_for(9, GOSSIP_BY_STREAM, 2); // a new process of it
    assert_int_equal(info_of(0, 2).record->version.generation, 9);
    assert_true(x->answered);
    x->answered = false;
    (void)is_answered_for(3, GOSSIP_BY_STREAM, 2); // an old process, or one on an old disk: not the known one
    assert_false(x->answered);
    (void)is_answered_for(9, GOSSIP_BY_STREAM, 2);
    assert_true(x->answered);
    x->answered = false;
    x->record.version.generation++; // that process has raised it since
    (void)is_answered_for(9, GOSSIP_BY_STREAM, 2);
    assert_false(x->answered);
    x->record.version =
        (struct gossip_version){.generation = 9, .instance_id = 100}; // of two under one generation
    (void)is_answered_for(9, GOSSIP_BY_STREAM, 2);
    assert_false(x->answered);
    member_net_destroy(&net);
}

enum dead_lie { NO_LIE, OF_ANOTHER, OF_ANOTHER_PROCESS, NOT_SIGNED, OF_ONE_THAT_LEFT, DEAD_LIES };

// Whether node 0 knows node 4 as dead after it was told so by nodes 1 and 2, with one fault in the second's
// word.
static bool is_believed_dead(enum dead_lie lie)
{
    struct gossip_membership *m = net.nodes[0].membership;
    struct gossip_record record = *info_of(4, 4).record;
    struct gossip_suspicion told[2];
    if (lie == OF_ONE_THAT_LEFT) {
        record.flags = GOSSIP_RECORD_LEFT;
        gossip_record_sign(&record, &net.nodes[4].identity);
    }
    for (size_t i = 0; i < 2; i++) {
        told[i] = (struct gossip_suspicion){.subject = record.id,
                                            .suspector = net.nodes[1 + i].identity.id,
                                            .version = record.version,
                                            .class = GOSSIP_SUSPECTED_SILENT};
        if (i && lie == OF_ANOTHER)
            told[i].subject = net.nodes[3].identity.id;
        told[i].version.incarnation += i && lie == OF_ANOTHER_PROCESS;
        gossip_suspicion_sign(&told[i], &net.nodes[1 + i].identity);
        told[i].signature[5] ^= i && lie == NOT_SIGNED;
    }
    member_take_dead(m, &record, told, 2);
    struct member *x = member_find(m, &record.id);
    const bool believed = x && x->state == GOSSIP_MEMBER_DEAD && x->n_suspicions == 2;
    assert_true(believed || !x);
    if (x)
        member_remove(m, x);
    return believed;
}

// An unknown member is dead if those that say so have signed that of its present process, and it has not
// left.
static void the_death_of_an_unknown_member_needs_signed_words(void **s)
{
    (void)s;
    member_net_create(&net, 5, seed());
    for (size_t i = 0; i < 5; i++)
        member_net_start(&net, i, 1);
    for (size_t i = 1; i < 4; i++)
        member_net_join(&net, i, 0);
    member_net_run(&net, 5 * SECOND);
    for (enum dead_lie lie = NO_LIE; lie < DEAD_LIES; lie++)
        assert_int_equal(is_believed_dead(lie), lie == NO_LIE);
    member_net_destroy(&net);
}

// Node 4 joins later and learns of the death from others. After a while it confirms the death, since it has
// seen no sign of life either; a node that still considers node 3 alive need not wait alone.
static void a_death_that_others_reported_is_confirmed(void **s)
{
    (void)s;
    member_net_create(&net, 5, seed());
    member_net_start_first(&net, 4);
    member_net_run(&net, 10 * SECOND);
    member_net_kill(&net, 3, true);
    member_net_run(&net, 60 * SECOND);
    member_net_start(&net, 4, 1);
    member_net_join(&net, 4, 0);
    struct member *x = NULL;
    for (int t = 0; t < 1000 && !(x && x->state == GOSSIP_MEMBER_DEAD); t++) {
        member_net_run(&net, MILLISECOND);
        x = member_find(net.nodes[4].membership, &net.nodes[3].identity.id);
        assert_true(!x || !member_is_here(x)); // from the first word on
    }
    assert_non_null(x);
    assert_int_equal(x->state, GOSSIP_MEMBER_DEAD);
    member_net_run(&net, 4 * SECOND);
    assert_int_equal(x->state, GOSSIP_MEMBER_DEAD);
    assert_false(member_suspected_by_us(net.nodes[4].membership, x));
    member_net_run(&net, 8 * SECOND);
    assert_int_equal(x->state, GOSSIP_MEMBER_DEAD);
    assert_true(member_suspected_by_us(net.nodes[4].membership, x));
    member_net_destroy(&net);
}

// Carries out the actions of the copy; returns whether it stops.
static bool deliver_to_node_0(struct member_net_node *copy)
{
    struct gossip_membership_action action;
    bool stopped = false;
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
    return stopped;
}

// A packet to the copy with what node 0 knows of itself and of the shared identity.
static struct gossip_membership_event told_by_node_0(void)
{
    static uint8_t packet[1024];
    memset(packet, 0, sizeof packet);
    packet[0] = 6;
    struct base_writer writer = base_writer_of(packet + HEADER, sizeof packet - HEADER);
    for (size_t about = 0; about < 3; about += 2) {
        struct gossip_member_info info;
        assert_int_equal(
            gossip_membership_find(net.nodes[0].membership, &net.nodes[about].identity.id, &info), BASE_OK);
        base_write_u8(&writer, 1);
        gossip_record_write(info.record, &writer);
    }
    return (struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_PACKET,
                                            .peer = net.nodes[0].identity.id,
                                            .way = GOSSIP_BY_STREAM,
                                            .bytes = packet,
                                            .n_bytes = HEADER + base_writer_used(&writer)};
}

static void of_two_with_one_identity_the_second_stops(void **s)
{
    (void)s;
    member_net_create(&net, 6, seed());
    member_net_start_first(&net, 5);
    member_net_run(&net, 20 * SECOND);
    assert_true(member_net_agrees(&net));
    struct member_net_node *copy = &net.nodes[5]; // as if a directory had been copied
    copy->identity = net.nodes[2].identity;
    member_net_start(&net, 5, 2);
    // Packets of the copy arrive at node 0 under the shared identity; packets for that identity go to the
    // copy.
    struct gossip_membership_event event = {.kind = GOSSIP_MEMBERSHIP_LINKED,
                                            .peer = net.nodes[0].identity.id};
    bool stopped = false;
    for (int turn = 0; turn < 200 && !stopped; turn++) {
        event.now_ns = net.now_ns;
        if (turn % 2)
            event.kind = GOSSIP_MEMBERSHIP_TIMER;
        assert_int_equal(gossip_membership_step(copy->membership, &event), BASE_OK);
        stopped |= deliver_to_node_0(copy);
        net.nodes[5].running = false;
        member_net_run(&net, 50 * MILLISECOND);
        net.nodes[5].running = true;
        event = told_by_node_0();
    }
    assert_true(stopped);
    assert_int_equal(net.nodes[2].conflicts, 0);
    assert_true(net.nodes[2].raised_generations >= 1);
    net.nodes[5].running = false;
    member_net_destroy(&net);
}

static void a_member_that_lies_kills_no_other(void **s)
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
    print_message("refutations of one of seven suspected: %llu in 30 s\n", (unsigned long long)refuted);
    assert_true(refuted < 60); // soon it is no longer believed
    assert_true(agree_within(10 * SECOND));
    member_net_destroy(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_overrides_its_own_death),
        cmocka_unit_test(a_new_process_has_no_progress),
        cmocka_unit_test(a_lost_generation_is_found_again),
        cmocka_unit_test(a_record_survives_the_overflow_of_its_incarnation),
        cmocka_unit_test(a_newly_linked_node_is_sent_its_own_record),
        cmocka_unit_test(a_second_process_is_sent_both_records),
        cmocka_unit_test(a_member_that_names_another_process_is_sent_the_record_of_this_one),
        cmocka_unit_test(of_two_under_one_generation_the_second_raises_it),
        cmocka_unit_test(a_member_on_an_old_disk_is_sent_its_later_record),
        cmocka_unit_test(a_member_that_sends_its_own_record_over_its_link_has_answered),
        cmocka_unit_test(the_death_of_an_unknown_member_needs_signed_words),
        cmocka_unit_test(a_death_that_others_reported_is_confirmed),
        cmocka_unit_test(of_two_with_one_identity_the_second_stops),
        cmocka_unit_test(a_member_that_lies_kills_no_other),
    };
    print_message("seed %llu\n", (unsigned long long)seed());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
