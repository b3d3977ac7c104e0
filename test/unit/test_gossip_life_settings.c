// The life of a node, rule by rule: settings that are changed while the cluster trains.
#include "test/support/life_rules.h"
#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const enum gossip_setting_kind rate = GOSSIP_SETTING_RATE, decay = GOSSIP_SETTING_DECAY;

static void training_at(uint64_t round) // 20 rounds a second
{
    life_world_init(&w);
    life_world_train(&w);
    life_world_pass(&w, 5 * SECOND);
    for (uint64_t i = round - 20; i <= round; i++) {
        w.now_ns += 50 * MS;
        all_train_at(i, i);
    }
    life_world_clear(&w);
}

static enum gossip_life_answer set(enum gossip_setting_kind kind, double value)
{
    life_world_tell(
        &w, (struct gossip_life_event){.kind = GOSSIP_LIFE_SET, .setting_kind = kind, .value = value});
    return gossip_life_answer(w.life);
}

static void told_by(size_t member, enum gossip_setting_kind kind, uint64_t round, double value)
{
    w.member[member].record.settings[kind] =
        (struct gossip_setting){.round = round, .by = member, .value = value, .before = (double)NAN};
    life_world_look(&w);
}

static void is(enum gossip_setting_kind kind, uint64_t round, double value)
{
    const struct gossip_setting *setting = gossip_life_setting(w.life, kind);
    assert_int_equal(setting->round, round);
    assert_true(setting->value == value);
}

static void a_change_lies_five_seconds_ahead_of_the_furthest_member(void **state)
{
    (void)state;
    training_at(100);
    life_world_progress(&w, 2, 110);
    assert_int_equal(set(rate, 0.5), GOSSIP_LIFE_IS_SET);
    const struct gossip_setting *setting = gossip_life_setting(w.life, rate);
    assert_in_range(setting->round, 110 + 100, 110 + 102);
    assert_true(setting->value == 0.5 && isnan(setting->before));
    const struct gossip_life_action *action = life_world_last(&w, GOSSIP_LIFE_SETTING);
    assert_non_null(action);
    assert_int_equal(gossip_setting_compare(&action->setting, setting), 0);
    assert_int_equal(gossip_life_order(action).kind, GOSSIP_ORDER_SETTING);
    is(decay, 0, 0);
    assert_true(isnan(gossip_setting_at(setting, setting->round - 1)));
    assert_true(gossip_setting_at(setting, setting->round) == 0.5);
}

static void a_node_that_has_just_begun_knows_no_time_of_a_round(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    for (uint64_t i = 1; i <= 20; i++) { // slow ones, as after every start
        w.now_ns += 200 * MS;
        all_train_at(i, i);
    }
    assert_int_equal(set(rate, 0.5), GOSSIP_LIFE_HAS_JUST_BEGUN);
    is(rate, 0, 0);
    life_world_pass(&w, SECOND);
    assert_int_equal(set(rate, 0.5), GOSSIP_LIFE_IS_SET);
}

static void another_change_waits_until_all_have_made_the_first(void **state)
{
    (void)state;
    training_at(100);
    assert_int_equal(set(rate, 0.5), GOSSIP_LIFE_IS_SET);
    const uint64_t first = gossip_life_setting(w.life, rate)->round;
    assert_int_equal(set(rate, 0.6), GOSSIP_LIFE_CHANGES);
    is(rate, first, 0.5);
    assert_int_equal(set(decay, 0.1), GOSSIP_LIFE_IS_SET); // another key
    all_train_at(first, first);
    assert_int_equal(set(rate, 0.6), GOSSIP_LIFE_CHANGES); // some may be a few rounds behind
    all_train_at(first + 120, first + 120);
    assert_int_equal(set(rate, 0.6), GOSSIP_LIFE_IS_SET);
    assert_true(gossip_life_setting(w.life, rate)->before == 0.5);
}

static void a_change_that_not_all_can_hear_of_is_refused(void **state)
{
    (void)state;
    training_at(100);
    all_train_at(950, 950); // of 1,000
    assert_int_equal(set(rate, 0.5), GOSSIP_LIFE_ENDS_BEFORE);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
    assert_int_equal(set(rate, 0.5), GOSSIP_LIFE_TRAINS_NOT);
    is(rate, 0, 0);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_SETTING), 0);
}

static void the_later_round_counts_and_the_higher_id_of_equal_ones(void **state)
{
    (void)state;
    training_at(100);
    told_by(1, rate, 200, 0.1);
    is(rate, 200, 0.1);
    told_by(2, rate, 190, 0.2);
    is(rate, 200, 0.1);
    told_by(3, rate, 200, 0.3);
    is(rate, 200, 0.3);
    told_by(2, rate, 201, 0.4);
    is(rate, 201, 0.4);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_SETTING), 3); // each is repeated to others
}

static void what_is_impossible_or_told_by_nobody_known_changes_nothing(void **state)
{
    (void)state;
    training_at(100);
    told_by(1, rate, 200, -0.1);
    told_by(1, rate, 200, 1001); // above the bound of the configuration
    told_by(1, rate, 1ull << 40, 0.1);
    w.member[2].info.answered = false;
    told_by(2, rate, 200, 0.1);
    is(rate, 0, 0);
    told_by(1, decay, 200, 0.1);
    is(decay, 200, 0.1);
    is(rate, 0, 0);
}

static void resumed(uint8_t flags_of_others)
{
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 300;
    w.self.in_view = true;
    w.options.settings[rate] = (struct gossip_setting){.round = 100, .by = 2, .value = 0.1, .before = NAN};
    life_world_begin(&w);
    others(3, flags_of_others);
    for (size_t i = 1; i < w.count; i++)
        life_world_progress(&w, i, 300);
}

static void after_a_stop_of_all_what_one_of_them_knew_counts(void **state)
{
    (void)state;
    resumed(COUNTS);
    life_world_look(&w);
    is(rate, 100, 0.1);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_SETTING), 1);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_START), 0);
    told_by(1, rate, 250, 0.2);
    is(rate, 250, 0.2);
}

// It was entered at a node that was killed before any other heard of it.
static void a_change_that_none_of_those_that_train_knows_is_lost(void **state)
{
    (void)state;
    resumed(TRAINS);
    told_by(2, rate, 50, 0.3);
    life_world_pass(&w, SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_START), 1);
    is(rate, 50, 0.3);
}

// The learner hears of a change before the order to begin.
static void a_node_that_begins_late_has_the_settings_before_its_first_step(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(3, TRAINS);
    for (size_t i = 1; i < w.count; i++) {
        life_world_progress(&w, i, 500);
        w.member[i].record.settings[rate] =
            (struct gossip_setting){.round = 100, .by = 2, .value = 0.1, .before = NAN};
    }
    life_world_pass(&w, SECOND);
    size_t setting = SIZE_MAX, start = SIZE_MAX;
    for (size_t i = w.n_actions; i-- > 0;) {
        setting = w.action[i].kind == GOSSIP_LIFE_SETTING ? i : setting;
        start = w.action[i].kind == GOSSIP_LIFE_START ? i : start;
    }
    assert_true(start < w.n_actions && setting < start);
    is(rate, 100, 0.1);
}

#define RULE(test) cmocka_unit_test_teardown(test, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_change_lies_five_seconds_ahead_of_the_furthest_member),
        RULE(a_node_that_has_just_begun_knows_no_time_of_a_round),
        RULE(another_change_waits_until_all_have_made_the_first),
        RULE(a_change_that_not_all_can_hear_of_is_refused),
        RULE(the_later_round_counts_and_the_higher_id_of_equal_ones),
        RULE(what_is_impossible_or_told_by_nobody_known_changes_nothing),
        RULE(after_a_stop_of_all_what_one_of_them_knew_counts),
        RULE(a_change_that_none_of_those_that_train_knows_is_lost),
        RULE(a_node_that_begins_late_has_the_settings_before_its_first_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
