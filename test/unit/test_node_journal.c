// The journal of the edges beside the checkpoints: whichever checkpoint is resumed and at whatever moment the
// process was killed, its files lead to the latest record. Damage costs no more than what follows it.
#include "checkpoint_net.h"

#include <glob.h>
#include <sys/stat.h>

struct life { // node 0 over several processes
    struct world *world;
    struct net net;
    struct node_journal journal;
    struct gossip_exchange_replayed replayed; // at the latest restart
};

static void begin_journal(struct life *life)
{
    node_journal_begin(&life->journal, life->world->directory,
                       train_trainer_steps_done(life->net.learner.trainer));
    gossip_exchange_journal_begin(life->net.exchange[0]);
}

static void checkpoint(struct life *life)
{
    learner_train(&life->net.learner, 1);
    begin_journal(life);
    life->net.learner.parts.journal = life->journal.key;
    write_here(life->world, &life->net);
}

static void begin(struct life *life, void **state)
{
    *life = (struct life){.world = *state, .journal = {.fd = -1, .limit = 1 << 20}};
    net_make(&life->net);
    life->net.journal = &life->journal;
    exchange_some(&life->net, 4);
    checkpoint(life);
}

static void meet_some(struct life *life, size_t rounds)
{
    for (size_t i = 0; i < rounds; i++) {
        begin_round(&life->net, 0, 1 + i % 2);
        deliver_all(&life->net);
        begin_round(&life->net, 1 + i % 2, 0);
        deliver_all(&life->net);
    }
}

static void kill_process(struct life *life)
{
    node_journal_close(&life->journal);
    for (size_t peer = 1; peer < ENDS; peer++)
        step(&life->net, peer,
             &(struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_LINK_DOWN, .peer = id_of(0)});
}

static void start_process(struct life *life)
{
    struct base_reason why;

    life->net.journal = NULL;
    restart(life->world, &life->net);
    life->journal = (struct node_journal){.fd = -1, .limit = 1 << 20};
    assert_int_equal(node_journal_replay(&life->journal, life->world->directory,
                                         life->net.learner.parts.journal, life->net.exchange[0], true,
                                         &life->replayed, &why),
                     BASE_OK);
    begin_journal(life);
    life->net.journal = &life->journal;
}

static uint64_t resyncs_after(struct life *life)
{
    uint64_t before = 0, after = 0;

    for (size_t peer = 1; peer < ENDS; peer++)
        before += info_of(&life->net, peer, 0).resyncs;
    for (size_t peer = 1; peer < ENDS; peer++)
        link_ends(&life->net, 0, peer, GOSSIP_EXCHANGE_LINK_UP);
    meet_some(life, 4);
    for (size_t peer = 1; peer < ENDS; peer++) {
        check_both_ends(&life->net, peer);
        after += info_of(&life->net, peer, 0).resyncs;
    }
    return after - before;
}

static void end(struct life *life)
{
    node_journal_close(&life->journal);
    net_free(&life->net);
}

// The path of the latest file.
static const char *latest(struct life *life)
{
    char name[64];
    glob_t found;

    snprintf(name, sizeof name, NODE_JOURNAL_PREFIX "%" PRIu64 "-*", life->journal.number);
    assert_int_equal(glob(path_of(life->world, name), 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    snprintf(life->world->path, sizeof life->world->path, "%s", found.gl_pathv[0]);
    globfree(&found);
    return life->world->path;
}

static size_t files(struct life *life)
{
    glob_t found;
    const int error = glob(path_of(life->world, NODE_JOURNAL_PREFIX "*"), 0, NULL, &found);
    const size_t count = error ? 0 : found.gl_pathc;

    globfree(&found);
    return count;
}

static void a_kill_between_two_checkpoints_loses_no_edge(void **state)
{
    struct life life;

    begin(&life, state);
    meet_some(&life, 6);
    kill_process(&life);
    start_process(&life);
    assert_true(life.replayed.records >= 12);
    assert_int_equal(life.replayed.left_out, 0);
    assert_int_equal(life.replayed.round,
                     life.net.round - 1); // node 0's latest; the last one is the neighbour's
    assert_int_equal(resyncs_after(&life), 0);
    end(&life);
}

// No checkpoint is completed in three lives, one of which begins one.
static void the_files_of_several_processes_follow_each_other(void **state)
{
    struct life life;

    begin(&life, state);
    for (size_t i = 0; i < 3; i++) {
        meet_some(&life, 3);
        if (i == 1) {
            begin_journal(&life);
            meet_some(&life, 2);
        }
        kill_process(&life);
        start_process(&life);
        assert_int_equal(life.replayed.left_out, 0);
        assert_int_equal(resyncs_after(&life), 0);
    }
    assert_int_equal(files(&life), 5);
    end(&life);
}

// The newest checkpoint is damaged: the one before it, and both files, lead to the same state.
static void an_older_checkpoint_leads_to_the_same_edges(void **state)
{
    struct life life;

    begin(&life, state);
    meet_some(&life, 4);
    checkpoint(&life);
    meet_some(&life, 3);
    flip(path_of(life.world, "checkpoint-2.safetensors"), -1);
    kill_process(&life);
    start_process(&life);
    assert_int_equal(life.net.learner.parts.round, 1);
    assert_int_equal(life.replayed.left_out, 0);
    assert_int_equal(resyncs_after(&life), 0);
    end(&life);
}

// A power failure: what follows the damage is lost, and is not done on top of another state later.
static void damage_costs_what_follows_it(struct life *life, long cut, long flipped)
{
    struct stat status;

    meet_some(life, 6);
    kill_process(life);
    assert_int_equal(stat(latest(life), &status), 0);
    if (cut)
        assert_int_equal(truncate(latest(life), status.st_size - cut), 0);
    else
        flip(latest(life), status.st_size / 2 + flipped);
    start_process(life);
    assert_int_equal(life->replayed.left_out, 0);
    assert_true(resyncs_after(life) <= 2);
    meet_some(life, 4);
    kill_process(life);
    start_process(life);
    assert_int_equal(life->replayed.left_out, 0);
    assert_int_equal(resyncs_after(life), 0);
}

static void a_damaged_or_incomplete_file_ends_there(void **state)
{
    for (long cut = 1; cut < 40; cut += 7) {
        struct life life;
        begin(&life, state);
        damage_costs_what_follows_it(&life, cut, 0);
        damage_costs_what_follows_it(&life, 0, cut);
        end(&life);
    }
}

// Damage that is found only after another process has continued: its records are the future of a lost state.
static void what_continues_damage_is_not_applied(void **state)
{
    struct life life;
    char first[sizeof life.world->path];
    struct stat status;

    begin(&life, state);
    meet_some(&life, 4);
    snprintf(first, sizeof first, "%s", latest(&life));
    kill_process(&life);
    start_process(&life);
    assert_int_equal(resyncs_after(&life), 0);
    kill_process(&life);
    assert_int_equal(stat(first, &status), 0);
    flip(first, status.st_size / 2);
    start_process(&life);
    assert_true(life.replayed.records > 0);
    assert_int_equal(life.replayed.left_out, 0);
    assert_true(resyncs_after(&life) > 0);
    kill_process(&life);
    start_process(&life);
    assert_int_equal(life.replayed.left_out, 0);
    assert_int_equal(resyncs_after(&life), 0);
    end(&life);
}

static void a_file_of_another_checkpoint_is_not_applied(void **state)
{
    struct life life;

    begin(&life, state);
    meet_some(&life, 3);
    kill_process(&life);
    flip(latest(&life), 8); // its key
    start_process(&life);
    assert_int_equal(life.replayed.records, 0);
    assert_true(resyncs_after(&life) > 0);
    end(&life);
}

static void files_that_no_checkpoint_needs_are_removed(void **state)
{
    struct life life;

    begin(&life, state);
    for (size_t i = 0; i < 6; i++) {
        meet_some(&life, 2);
        checkpoint(&life);
    }
    assert_int_equal(files(&life), 3); // as many as there are checkpoints
    end(&life);
}

static void a_long_journal_asks_for_a_checkpoint_and_then_ends(void **state)
{
    struct life life;

    begin(&life, state);
    meet_some(&life, 2);
    assert_false(life.journal.wants);
    life.journal.limit = 2 * life.journal.bytes;
    meet_some(&life, 1);
    assert_true(life.journal.wants && life.journal.fd >= 0);
    meet_some(&life, 4);
    assert_int_equal(life.journal.fd, -1);
    kill_process(&life);
    start_process(&life); // the rest is missing, and is not mixed up
    assert_int_equal(life.replayed.left_out, 0);
    assert_true(resyncs_after(&life) > 0);
    end(&life);
}

static void a_journal_can_be_inspected(void **state)
{
    struct life life;
    struct base_reason why;
    uint8_t *bytes;
    size_t count;

    begin(&life, state);
    meet_some(&life, 3);
    assert_false(node_journal_is(path_of(life.world, "checkpoint-1.safetensors")));
    assert_true(node_journal_is(latest(&life)));
    assert_int_equal(node_checkpoint_inspect(latest(&life), &why), BASE_OK);
    assert_int_equal(base_file_read(latest(&life), 1 << 24, &bytes, &count, &why), BASE_OK);
    struct gossip_journal_entry entry;
    size_t at = 0, records = 0;
    while (gossip_exchange_journal_next(bytes + 32, count - 32, &at, &entry))
        records++;
    assert_true(records >= 6 && at == count - 32);
    assert_string_equal(entry.kind, "exchange");
    free(bytes);
    end(&life);
}

static void without_a_file_nothing_is_kept(void **state)
{
    struct world *world = *state;
    struct node_journal journal = {.fd = -1, .limit = 100};

    node_journal_begin(&journal, path_of(world, "missing"), 7);
    assert_int_equal(journal.fd, -1);
    assert_int_equal(journal.key, 0);
    node_journal_append(&journal, (const uint8_t *)"x", 1);
    assert_false(journal.wants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_kill_between_two_checkpoints_loses_no_edge, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(the_files_of_several_processes_follow_each_other, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(an_older_checkpoint_leads_to_the_same_edges, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_or_incomplete_file_ends_there, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(what_continues_damage_is_not_applied, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(a_file_of_another_checkpoint_is_not_applied, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(files_that_no_checkpoint_needs_are_removed, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(a_long_journal_asks_for_a_checkpoint_and_then_ends, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(a_journal_can_be_inspected, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(without_a_file_nothing_is_kept, world_set_up, world_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
