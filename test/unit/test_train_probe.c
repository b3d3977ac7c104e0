// Which models may replace a trainer's: by losses, and of a trainer that has learned something.
#include "train/probe.h"
#include "trainer_world.h"

#define NOTHING 2.3

static bool is_worse(double own, double other, bool trained)
{
    const struct train_probe probe = {NOTHING, own, other, NAN, NAN, trained};
    return train_probe_is_worse(&probe, TRAIN_OFFER_DONORS);
}

static void a_model_that_knows_nothing_does_not_replace_one_that_has_learned(void **state)
{
    (void)state;
    assert_true(is_worse(0.1, NOTHING, true));
    assert_true(is_worse(1.5, NOTHING, true));
    assert_true(is_worse(0.1, INFINITY, true));
    assert_true(is_worse(0.1, NAN, true));
    assert_false(is_worse(0.1, 1.3, true)); // of a node with other examples
    assert_false(is_worse(0.1, 0.2, true));
    assert_false(is_worse(2.05, 2.2, true)); // hard examples: the difference is no more than chance
}

// The highest of an honest late node was 3.2 times that of nothing (README.md).
static void a_model_that_has_not_learned_gives_way_to_all_but_wild_ones(void **state)
{
    (void)state;
    for (int trained = 0; trained < 2; trained++) {
        assert_false(is_worse(2.6, 3.2 * NOTHING, trained));
        assert_true(is_worse(2.6, 11.5 * NOTHING, trained));
        assert_true(is_worse(2.6, INFINITY, trained));
    }
    assert_false(is_worse(1.9, NOTHING, false)); // the first weights happen to suit its examples
}

static void where_nothing_is_known_any_model_is_taken(void **state)
{
    struct train_probe probe = {NAN, 0.1, 50, NAN, NAN, true};
    (void)state;
    assert_false(train_probe_is_worse(&probe, TRAIN_OFFER_DONORS));
    probe.nothing = 0; // of a regression without any spread
    assert_false(train_probe_is_worse(&probe, TRAIN_OFFER_DONORS));
    probe = (struct train_probe){NOTHING, NAN, 50, NAN, NAN, true}; // its own is not finite
    assert_false(train_probe_is_worse(&probe, TRAIN_OFFER_DONORS));
}

// A mean that is far from a node's own examples still knows some of them.
static void a_merged_model_is_refused_if_it_knows_no_example_well(void **state)
{
    struct train_probe probe = {NOTHING, 0.02, 1.35 * NOTHING, 0.001, 0.07, true};
    (void)state;
    assert_true(train_probe_is_worse(&probe, TRAIN_OFFER_DONORS));
    assert_false(train_probe_is_worse(&probe, TRAIN_OFFER_MERGED));
    probe.best_other = 0.52 * NOTHING; // after ten rounds
    assert_false(train_probe_is_worse(&probe, TRAIN_OFFER_MERGED));
    probe.best_other = 0.7 * NOTHING;
    assert_true(train_probe_is_worse(&probe, TRAIN_OFFER_MERGED));
    probe.best_other = NAN; // no memory to measure it
    assert_true(train_probe_is_worse(&probe, TRAIN_OFFER_MERGED));
    probe.best_other = 0;
    probe.other = 2.1 * NOTHING;
    assert_true(train_probe_is_worse(&probe, TRAIN_OFFER_MERGED));
}

static struct train_probe_losses losses_of(size_t count, double best, double rest)
{
    struct train_probe_losses of = {.count = count};
    for (size_t i = 0; i < count; i++)
        of.loss[i] = i == 0 ? best : rest;
    return of;
}

// Five examples: their best tenth is one of them.
static void a_program_s_losses_have_a_mean_and_a_best_tenth(void **state)
{
    struct train_probe_losses of[TRAIN_PROBE_MODELS] = {[TRAIN_PROBE_NOTHING] =
                                                            losses_of(5, NOTHING, NOTHING),
                                                        [TRAIN_PROBE_OWN] = losses_of(5, 0.1, 0.2),
                                                        [TRAIN_PROBE_OTHER] = losses_of(5, 0.5, 3.5)};
    (void)state;
    const struct train_probe probe = train_probe_of(of, true);
    assert_true(fabs(probe.own - 0.18) < 1e-9 && fabs(probe.other - 2.9) < 1e-9 && probe.best_other == 0.5);
    assert_true(train_probe_is_worse(&probe, TRAIN_OFFER_DONORS));
    assert_false(train_probe_is_worse(&probe, TRAIN_OFFER_MERGED));
    for (size_t i = 0; i < TRAIN_PROBE_MODELS; i++)
        of[i] = losses_of(1, i == TRAIN_PROBE_OWN ? 0.18 : 2.9, 0); // the mean alone
    const struct train_probe mean = train_probe_of(of, true);
    assert_true(train_probe_is_worse(&mean, TRAIN_OFFER_MERGED));
    of[TRAIN_PROBE_OTHER].loss[0] = NAN;
    const struct train_probe wild = train_probe_of(of, true);
    assert_true(train_probe_is_worse(&wild, TRAIN_OFFER_DONORS));
    of[TRAIN_PROBE_OTHER].count = 2; // of other examples
    const struct train_probe unknown = train_probe_of(of, true);
    assert_true(isnan(unknown.nothing));
    assert_false(train_probe_is_worse(&unknown, TRAIN_OFFER_DONORS));
}

static bool refuses(const struct setup *s, const float *model, enum train_offer offer)
{
    const struct train_probe probe = train_probe(s->trainer, model, offer);
    assert_true(fabs(probe.nothing - log(3)) < 1e-6);
    return train_probe_is_worse(&probe, offer);
}

static void a_trained_node_refuses_models_of_noise_and_of_constants(void **state)
{
    struct setup s;
    (void)state;
    open_setup(&s, clusters(300, 8, 3), 6, &sgd);
    float *other = get(s.count * sizeof *other), *trained = get(s.count * sizeof *trained);
    assert_false(refuses(&s, s.start, TRAIN_OFFER_DONORS)); // its own
    run(s.trainer, 120);
    memcpy(trained, train_trainer_model(s.trainer), s.count * sizeof *trained);
    for (unsigned which = TRAIN_OFFER_DONORS; which <= TRAIN_OFFER_MERGED; which++) {
        const enum train_offer offer = (enum train_offer)which;
        struct base_rng rng;
        assert_false(refuses(&s, trained, offer));
        for (size_t i = 0; i < s.count; i++)
            other[i] = 0.9f * trained[i];
        assert_false(refuses(&s, other, offer));
        for (size_t i = 0; i < s.count; i++)
            other[i] = 0.05f;
        assert_true(refuses(&s, other, offer));
        base_rng_seed(&rng, seed);
        for (size_t i = 0; i < s.count; i++)
            other[i] = (float)(0.01 * base_rng_normal(&rng));
        assert_true(refuses(&s, other, offer));
        for (size_t i = 0; i < s.count; i++)
            other[i] = -5e4f * trained[i];
        assert_true(refuses(&s, other, offer));
    }
    assert_memory_equal(trained, train_trainer_model(s.trainer), s.count * sizeof *trained);
    free(other);
    free(trained);
    close_setup(&s);
}

// With the same examples each time: two questions about one model have one answer.
static void the_examples_are_always_the_same(void **state)
{
    struct setup s;
    (void)state;
    open_setup(&s, clusters(1000, 8, 3), 0, &sgd);
    const struct train_probe first = train_probe(s.trainer, s.start, TRAIN_OFFER_DONORS);
    run(s.trainer, 20);
    const struct train_probe second = train_probe(s.trainer, s.start, TRAIN_OFFER_DONORS);
    assert_true(first.other == second.other && first.own > second.own);
    assert_true(first.own == first.other);
    close_setup(&s);
}

// Neighbours are looked at with other examples each time, so that none of them is judged by a few for ever.
static void a_look_takes_other_examples_with_each_turn(void **state)
{
    struct setup s;
    (void)state;
    open_setup(&s, clusters(1000, 8, 3), 6, &sgd);
    run(s.trainer, 20);
    const struct train_probe first = train_probe_look(s.trainer, s.start, 0),
                             second = train_probe_look(s.trainer, s.start, 1),
                             again = train_probe_look(s.trainer, s.start, 1000 / TRAIN_LOOK);
    assert_true(fabs(first.nothing - log(3)) < 1e-6);
    assert_true(first.own < first.other && second.own < second.other);
    assert_true(first.own != second.own && first.other != second.other);
    assert_true(first.own == again.own && first.other == again.other);
    close_setup(&s);
}

static void a_program_s_vectors_are_not_judged(void **state)
{
    struct setup s;
    struct train_trainer *held;
    (void)state;
    open_setup(&s, clusters(30, 8, 3), 0, &sgd);
    assert_int_equal(train_trainer_hold(s.model, &(struct train_vectors){.model = s.start}, &held), BASE_OK);
    const struct train_probe probe = train_probe(held, s.start, TRAIN_OFFER_MERGED);
    assert_true(isnan(probe.nothing));
    assert_true(isnan(train_probe_look(held, s.start, 0).nothing));
    assert_false(train_probe_is_worse(&probe, TRAIN_OFFER_MERGED));
    train_trainer_destroy(held);
    close_setup(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_that_knows_nothing_does_not_replace_one_that_has_learned),
        cmocka_unit_test(a_model_that_has_not_learned_gives_way_to_all_but_wild_ones),
        cmocka_unit_test(where_nothing_is_known_any_model_is_taken),
        cmocka_unit_test(a_merged_model_is_refused_if_it_knows_no_example_well),
        cmocka_unit_test(a_trained_node_refuses_models_of_noise_and_of_constants),
        cmocka_unit_test(the_examples_are_always_the_same),
        cmocka_unit_test(a_program_s_losses_have_a_mean_and_a_best_tenth),
        cmocka_unit_test(a_look_takes_other_examples_with_each_turn),
        cmocka_unit_test(a_program_s_vectors_are_not_judged),
    };
    return open_world() || cmocka_run_group_tests(tests, NULL, NULL);
}
