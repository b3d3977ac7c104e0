// Who is believed to be a member: whoever has answered, or whom two members know. What a member says of
// others that nobody has met costs little, and changes nothing.
#include "gossip/member/state.h"
#include "test/support/member_net.h"
#include "test/support/member_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { LIAR = 3, ACK = 2, GOSSIP = 6, FEW = 10, MANY = 4000, MOST = 64 };

static struct gossip_identity ghosts[MANY];

static void make_ghosts(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[32] = {0xfe, (uint8_t)i, (uint8_t)(i >> 8)};
        gossip_identity_from_seed(bytes, &ghosts[i]);
    }
}

static struct gossip_record record_of(const struct gossip_identity *ghost, uint8_t flags, uint64_t generation)
{
    struct gossip_record record = *info_of(LIAR, LIAR).record;
    record.id = ghost->id;
    record.version = (struct gossip_version){.generation = generation, .instance_id = 1, .incarnation = 1};
    record.flags = flags;
    memcpy(record.exchange_public, ghost->exchange_public, sizeof record.exchange_public);
    gossip_record_sign(&record, ghost);
    return record;
}

static void hand_over(size_t to, const struct gossip_id *from, uint8_t bytes[1024], size_t count)
{
    member_net_step(&net, to,
                    &(struct gossip_membership_event){
                        .kind = GOSSIP_MEMBERSHIP_PACKET, .peer = *from, .bytes = bytes, .n_bytes = count});
}

static void tell_record(size_t to, const struct gossip_id *from, const struct gossip_record *record)
{
    uint8_t bytes[1024] = {GOSSIP};
    struct base_writer writer = base_writer_of(bytes + HEADER, sizeof bytes - HEADER);
    base_write_u8(&writer, PACKET_ITEM_RECORD);
    gossip_record_write(record, &writer);
    hand_over(to, from, bytes, HEADER + base_writer_used(&writer));
}

static void tell_of(size_t teller, size_t to, const struct gossip_identity *ghost)
{
    const struct gossip_record record = record_of(ghost, GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING, 1);
    tell_record(to, &net.nodes[teller].identity.id, &record);
}

static void tell_of_all(size_t count)
{
    static struct gossip_record records[MANY];
    for (size_t i = 0; i < count; i++) {
        if (gossip_id_compare(&records[i].id, &ghosts[i].id) != 0)
            records[i] = record_of(&ghosts[i], GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING, 1);
        for (size_t to = 0; to < LIAR; to++)
            tell_record(to, &net.nodes[LIAR].identity.id, &records[i]);
    }
}

static const struct member *known(size_t observer, const struct gossip_identity *ghost)
{
    return member_find(net.nodes[observer].membership, &ghost->id);
}

static size_t in_view(size_t node)
{
    size_t count;
    (void)gossip_membership_view(net.nodes[node].membership, &count);
    return count;
}

static void nothing_has_changed(void)
{
    for (size_t i = 0; i < net.count; i++) {
        const struct gossip_membership_totals t = totals(i);
        assert_int_equal(in_view(i), net.count);
        assert_int_equal(t.alive, net.count);
        assert_true(t.here == net.count && t.gone == 0 && !t.minority && !t.cut_off && t.health == 0);
    }
}

// Whether a full sync of node 0 has the ghost.
static bool is_in_a_sync(const struct gossip_identity *ghost)
{
    struct gossip_membership *m = net.nodes[0].membership;
    struct gossip_membership_action action;
    bool there = false;
    member_sync_ask(m, member_find(m, &net.nodes[1].identity.id));
    while (gossip_membership_next(m, &action))
        for (size_t i = 0; i + sizeof ghost->id.bytes <= action.n_bytes; i++)
            there |= memcmp(action.bytes + i, ghost->id.bytes, sizeof ghost->id.bytes) == 0;
    return there;
}

// Ten of four are a majority. They are no members, are told to nobody, and are forgotten.
static void made_up_members_count_nowhere(void **s)
{
    (void)s;
    begin(4);
    make_ghosts(FEW);
    for (int second = 0; second < 55; second++) {
        tell_of_all(FEW);
        for (size_t i = 0; i < LIAR; i++) // has something to tell
            gossip_membership_flags(net.nodes[i].membership, second % 2 ? GOSSIP_RECORD_TRAINING : 0,
                                    GOSSIP_RECORD_TRAINING);
        member_net_run(&net, SECOND);
        nothing_has_changed();
        assert_true(!known(LIAR, &ghosts[0])); // none of those that were told passes it on
        assert_true(totals(0).unproven <= FEW && totals(0).suspicions == 0);
    }
    assert_int_equal(totals(0).unproven, FEW);
    assert_false(is_in_a_sync(&ghosts[0]));
    member_net_run(&net, 30 * SECOND);
    assert_int_equal(totals(0).unproven, 0);
    member_net_destroy(&net);
}

// Each node looks at a few, once in a while, however many it is told of.
static void many_made_up_members_cost_little(void **s)
{
    (void)s;
    begin(4);
    make_ghosts(MANY);
    const uint64_t before = totals(0).probes;
    member_net_run(&net, 30 * SECOND);
    const uint64_t usual = totals(0).probes - before;
    for (int second = 0; second < 30; second++) {
        tell_of_all(MANY);
        member_net_run(&net, SECOND);
        nothing_has_changed();
        assert_true(totals(0).unproven <= MOST);
    }
    const uint64_t more = totals(0).probes - before - 2 * usual;
    print_message("%u made up each second: %llu probes in 30 s more than %llu\n", (unsigned)MANY,
                  (unsigned long long)more, (unsigned long long)usual);
    assert_in_range(more, MOST, 2 * MOST + 10); // each once in 20 s
    member_net_destroy(&net);
}

static bool counts(size_t observer, const struct gossip_identity *ghost)
{
    const struct member *x = known(observer, ghost);
    return x && member_is_here(x);
}

// One that this node cannot reach counts if two members know it; the same one twice, or its own word, does
// not.
static void two_members_vouch_for_a_third(void **s)
{
    (void)s;
    begin(4);
    make_ghosts(1);
    tell_of(LIAR, 0, &ghosts[0]);
    tell_of(LIAR, 0, &ghosts[0]);
    const struct gossip_record own = record_of(&ghosts[0], GOSSIP_RECORD_ELIGIBLE, 2);
    tell_record(0, &ghosts[0].id, &own);
    assert_false(counts(0, &ghosts[0]));
    tell_of(2, 0, &ghosts[0]);
    assert_false(counts(0, &ghosts[0])); // that is an older record
    tell_record(0, &net.nodes[2].identity.id, &own);
    assert_true(counts(0, &ghosts[0]));
    member_net_destroy(&net);
}

// Who only knows one of the two that vouch does not count.
static void the_unproven_introduce_nobody(void **s)
{
    (void)s;
    begin(4);
    make_ghosts(3);
    tell_of(LIAR, 0, &ghosts[0]);
    const struct gossip_record second = record_of(&ghosts[1], GOSSIP_RECORD_ELIGIBLE, 1);
    tell_record(0, &ghosts[0].id, &second);
    assert_null(known(0, &ghosts[1]));
    tell_of(LIAR, 0, &ghosts[1]);
    tell_record(0, &ghosts[0].id, &second);
    assert_false(counts(0, &ghosts[1]));
    member_net_destroy(&net);
}

// Nor are they believed when they accuse others, or this node.
static void the_unproven_suspect_nobody(void **s)
{
    (void)s;
    begin(4);
    make_ghosts(3);
    const struct gossip_version version = info_of(0, 1).record->version, own = info_of(0, 0).record->version;
    for (size_t i = 0; i < 3; i++) {
        tell_of(LIAR, 0, &ghosts[i]);
        member_net_run(&net, 2 * SECOND); // it may suspect somebody
        for (size_t about = 0; about < 2; about++) {
            struct gossip_suspicion suspicion = {.subject = net.nodes[about].identity.id,
                                                 .suspector = ghosts[i].id,
                                                 .version = about ? version : own,
                                                 .class = GOSSIP_SUSPECTED_EVIDENCE};
            uint8_t bytes[1024] = {GOSSIP, PACKET_BIT_DEAD};
            struct base_writer writer = base_writer_of(bytes + HEADER, sizeof bytes - HEADER);
            gossip_suspicion_sign(&suspicion, &ghosts[i]);
            base_write_u8(&writer, PACKET_ITEM_SUSPICION);
            gossip_suspicion_write(&suspicion, &writer);
            hand_over(0, &ghosts[i].id, bytes, HEADER + base_writer_used(&writer));
        }
    }
    assert_int_equal(totals(0).suspicions, 0);
    assert_int_equal(net.nodes[0].suspected, 0);
    member_net_destroy(&net);
}

static void tell_dead(size_t to, const struct gossip_identity *ghost,
                      const struct gossip_identity *const suspectors[2])
{
    const struct gossip_record record = record_of(ghost, GOSSIP_RECORD_ELIGIBLE, 1);
    uint8_t bytes[1024] = {GOSSIP};
    struct base_writer writer = base_writer_of(bytes + HEADER, sizeof bytes - HEADER);
    base_write_u8(&writer, PACKET_ITEM_DEAD);
    gossip_record_write(&record, &writer);
    base_write_u8(&writer, 2);
    for (size_t i = 0; i < 2; i++) {
        struct gossip_suspicion suspicion = {.subject = ghost->id,
                                             .suspector = suspectors[i]->id,
                                             .version = record.version,
                                             .class = GOSSIP_SUSPECTED_SILENT};
        gossip_suspicion_sign(&suspicion, suspectors[i]);
        gossip_suspicion_write(&suspicion, &writer);
    }
    hand_over(to, &net.nodes[LIAR].identity.id, bytes, HEADER + base_writer_used(&writer));
}

// Ten of four that have died would make a minority of the others.
static void made_up_deaths_count_nowhere(void **s)
{
    (void)s;
    begin(4);
    make_ghosts(FEW);
    for (size_t i = 0; i < FEW; i++)
        for (size_t to = 0; to < LIAR; to++)
            tell_dead(to, &ghosts[i],
                      (const struct gossip_identity *[]){&net.nodes[LIAR].identity, &ghosts[i ? 0 : 1]});
    member_net_run(&net, 20 * SECOND);
    nothing_has_changed();
    for (size_t i = 0; i < 3; i++) // two members have suspected them
        tell_dead(0, &ghosts[i],
                  (const struct gossip_identity *[]){&net.nodes[LIAR].identity, &net.nodes[1].identity});
    assert_int_equal(totals(0).gone, 3);
    member_net_destroy(&net);
}

// What its introducer may tell of is not used up for ever: not by those that leave, nor by those that answer.
static void who_answers_or_leaves_makes_room(void **s)
{
    (void)s;
    begin(4);
    make_ghosts(MOST + 2);
    for (size_t i = 0; i < MOST; i++)
        tell_of(LIAR, 0, &ghosts[i]);
    tell_of(LIAR, 0, &ghosts[MOST]);
    assert_null(known(0, &ghosts[MOST]));
    tell_of(2, 0, &ghosts[MOST + 1]); // another introducer
    assert_non_null(known(0, &ghosts[MOST + 1]));
    const struct gossip_record left = record_of(&ghosts[0], GOSSIP_RECORD_LEFT, 2);
    tell_record(0, &net.nodes[LIAR].identity.id, &left);
    assert_null(known(0, &ghosts[0]));
    tell_of(LIAR, 0, &ghosts[MOST]);
    assert_non_null(known(0, &ghosts[MOST]));
    tell_of(LIAR, 0, &ghosts[0]);
    assert_null(known(0, &ghosts[0]));
    uint8_t answer[1024] = {ACK, 0, 1};
    hand_over(0, &ghosts[1].id, answer, HEADER);
    assert_true(counts(0, &ghosts[1]));
    tell_of(LIAR, 0, &ghosts[0]);
    assert_non_null(known(0, &ghosts[0]));
    member_net_destroy(&net);
}

// A node that was out of reach when it came, of others too, counts when it has come into reach.
static void who_comes_into_reach_counts(void **s)
{
    (void)s;
    member_net_create(&net, 5, seed());
    member_net_start_first(&net, 4);
    member_net_run(&net, 5 * SECOND);
    member_net_start(&net, 4, 1);
    for (size_t i = 1; i < 4; i++)
        net.cut[4][i] = net.cut[i][4] = true;
    member_net_join(&net, 4, 0);
    member_net_run(&net, 20 * SECOND);
    assert_int_equal(totals(0).alive, 5);
    assert_int_equal(totals(1).alive, 4); // only one member knows it
    for (size_t i = 1; i < 4; i++)
        net.cut[4][i] = net.cut[i][4] = false;
    assert_true(agree_within(25 * SECOND));
    member_net_destroy(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_up_members_count_nowhere),
        cmocka_unit_test(many_made_up_members_cost_little),
        cmocka_unit_test(two_members_vouch_for_a_third),
        cmocka_unit_test(the_unproven_introduce_nobody),
        cmocka_unit_test(the_unproven_suspect_nobody),
        cmocka_unit_test(made_up_deaths_count_nowhere),
        cmocka_unit_test(who_answers_or_leaves_makes_room),
        cmocka_unit_test(who_comes_into_reach_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
