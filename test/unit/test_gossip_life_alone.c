// The life of a node, rule by rule: what a node does whose others have finished.
#include "test/support/life_rules.h"
#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void left_alone_in_lock_step_at(uint64_t step)
{
    life_world_init(&w);
    w.options.sync = true;
    life_world_train(&w);
    life_world_tell(
        &w, (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS, .round = step / 8, .step = step});
    for (size_t i = 1; i <= 3; i++)
        life_world_flags(&w, i, FINISHED);
    life_world_look(&w);
}

// In lock-step all nodes end at one round, some shortly after others; a node that is far behind was left
// alone.
static void in_lock_step_a_node_does_its_last_rounds(void **state)
{
    (void)state;
    left_alone_in_lock_step_at(8000 - 8 * 8);
    life_world_pass(&w, 60 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
    life_world_end(&w);
    left_alone_in_lock_step_at(8000 / 2); // half of its steps
    life_world_pass(&w, 60 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
    life_world_end(&w);
    left_alone_in_lock_step_at(8000 / 2 - 8);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1);
    assert_true(life_world_last(&w, GOSSIP_LIFE_ALONE)->fetch);
}

static void a_node_that_is_left_alone_ends_with_the_others(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.reach = w.options.steps; // it is not far behind
    life_world_train(&w);
    for (size_t i = 1; i < 3; i++)
        life_world_flags(&w, i, FINISHED);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0); // one more node trains
    life_world_state(&w, 3, GOSSIP_MEMBER_DEAD);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0); // the finished ones linger for it
    for (size_t i = 1; i < 3; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_LEFT);
    life_world_look(&w);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
    assert_true(w.flags & GOSSIP_RECORD_FINISHED);
    assert_true(w.learner_leaves);
    assert_int_equal(state_of(), GOSSIP_LIFE_LEAVING);
}

// It fetches for long, from a node that trains. The others have finished by the time it has that model.
static void a_node_that_fetches_when_the_others_finish_ends_with_their_model(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    fetch_far_behind();
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
    for (size_t i = 1; i < w.count; i++) {
        life_world_flags(&w, i, FINISHED);
        life_world_progress(&w, i, 1000);
    }
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
    life_world_tell(&w, (struct gossip_life_event){
                            .kind = GOSSIP_LIFE_FETCHED, .ok = true, .round = 401, .step = 8 * 401});
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1);
    assert_true(life_world_last(&w, GOSSIP_LIFE_ALONE)->fetch);
}

static void a_node_goes_on_when_the_others_have_died(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    for (size_t i = 1; i < w.count; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, 10 * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
}

static void a_restarted_node_that_comes_too_late_takes_the_finished_model(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.resumed = true;
    w.self.in_view = true;
    others(3, FINISHED);
    life_world_begin(&w);
    life_world_look(&w);
    assert_true(w.flags & COUNTS); // so that its neighbours stay
    assert_true(w.learner_started && w.learner_fetches);
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
    wants();
    for (size_t i = 1; i < w.count; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_LEFT);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_END_FETCH), 1);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_GAVE_UP), 1);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1); // it ends with its own model
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
}

// -- the progress of the cluster

static void the_last_node_fetches_the_finished_model(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    all_train_at(400, 1000);
    for (size_t i = 1; i < w.count; i++) {
        life_world_flags(&w, i, FINISHED);
        w.member[i].linked = true;
    }
    life_world_look(&w);
    assert_true(life_world_last(&w, GOSSIP_LIFE_ALONE)->fetch);
    wants();
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
    assert_int_equal(w.n_asked, 3);
    fetched(1000);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_false(w.learner_paused); // it waits for nothing more
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
    assert_true(w.learner_leaves);
}

// A newcomer is configured for fewer steps and reports that it has finished.
static void a_node_with_fewer_steps_does_not_end_the_training_of_others(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_flags(&w, 1, FINISHED);
    life_world_progress(&w, 1, 10);
    for (size_t i = 2; i < w.count; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
    life_world_progress(&w, 1, 1000);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1);
}

static void unfit(size_t member)
{
    life_world_tell(
        &w, (struct gossip_life_event){.kind = GOSSIP_LIFE_UNFIT, .peer = w.member[member].record.id});
}

// All but one say that they have finished, and give models that are of no use. The two that are left go on.
static void members_whose_models_are_refused_leave_nobody_alone(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    all_train_at(100, 120);
    for (size_t i = 1; i < 3; i++) {
        life_world_flags(&w, i, FINISHED);
        life_world_progress(&w, i, 1000);
        w.member[i].linked = true;
    }
    life_world_look(&w);
    assert_true(life_world_last(&w, GOSSIP_LIFE_ALONE)->fetch);
    wants();
    assert_int_equal(w.n_asked, 2);
    unfit(1);
    assert_int_equal(w.n_asked, 1);
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
    unfit(2);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_END_FETCH), 1);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    life_world_pass(&w, 60 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1);
    life_world_flags(&w, 3, FINISHED);
    life_world_progress(&w, 3, 1000);
    w.member[3].linked = true;
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 2); // this one has
    wants();
    assert_int_equal(w.n_asked, 1);
    assert_int_equal(gossip_id_compare(&w.asked[0], &w.member[3].record.id), 0);
}

static void finish(size_t member)
{
    life_world_flags(&w, member, FINISHED);
    life_world_progress(&w, member, w.options.steps / 8);
    w.member[member].linked = true;
}

// They claim to have finished, answer, and send no block.
static void members_that_give_no_model_leave_nobody_alone(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    all_train_at(100, 120);
    finish(1);
    finish(2);
    life_world_look(&w);
    wants();
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STARVED, .silent_ns = 60 * SECOND});
    assert_true(life_world_last(&w, GOSSIP_LIFE_END_FETCH)->on);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    life_world_pass(&w, 60 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1);
}

// Three of four identities: an honest one is still on its way.
static void strangers_that_claim_to_have_finished_leave_nobody_alone(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    all_train_at(100, 120);
    for (int i = 0; i < 3; i++)
        finish(life_world_join(&w));
    life_world_pass(&w, 10 * SECOND);
    for (size_t i = 1; i <= 3; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, 10 * SECOND); // it has lost the others: the strangers are not their successors
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
}

// The way of a member takes at least 1/32 of the steps that this node does meanwhile.
static void a_member_that_finishes_sooner_than_it_can_is_not_believed(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.steps = 800000;
    life_world_train(&w);
    all_train_at(100, 120);
    for (size_t i = 1; i < 3; i++)
        finish(i);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
    life_world_tell(
        &w, (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS, .round = 2800, .step = 8 * 2800});
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
    life_world_tell(
        &w, (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS, .round = 3000, .step = 8 * 3000});
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1);
}

int main(void)
{
#define RULE(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        RULE(in_lock_step_a_node_does_its_last_rounds),
        RULE(a_node_that_is_left_alone_ends_with_the_others),
        RULE(a_node_that_fetches_when_the_others_finish_ends_with_their_model),
        RULE(a_node_goes_on_when_the_others_have_died),
        RULE(a_restarted_node_that_comes_too_late_takes_the_finished_model),
        RULE(the_last_node_fetches_the_finished_model),
        RULE(a_node_with_fewer_steps_does_not_end_the_training_of_others),
        RULE(members_whose_models_are_refused_leave_nobody_alone),
        RULE(members_that_give_no_model_leave_nobody_alone),
        RULE(strangers_that_claim_to_have_finished_leave_nobody_alone),
        RULE(a_member_that_finishes_sooner_than_it_can_is_not_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
