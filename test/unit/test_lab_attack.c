// What an attacker of each kind gives, by hand: two honest nodes and vectors of three entries.
#include "lab/attack/attack.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define D 3u

static const float one[D] = {1, 2, 3}, two[D] = {3, 2, 1}; // honest; their mean is 2 everywhere
static const float *const models[] = {one, two};
static const struct lab_attack_view honest = {models, 2};

static struct lab_attack *attack_of(enum lab_attack_kind kind, double factor)
{
    const struct lab_attack_options options = {.kind = kind, .factor = factor, .seed = 1, .parameters = D};
    static const float start[D] = {0, 0, 0};
    struct lab_attack *attack = NULL;
    struct base_reason why;
    assert_int_equal(lab_attack_create(&options, &attack, &why), BASE_OK);
    lab_attack_begin(attack, start);
    return attack;
}

static void gives(struct lab_attack *attack, float *model, const float expected[D])
{
    lab_attack_give(attack, &honest, model, NULL);
    for (size_t j = 0; j < D; j++)
        assert_float_equal(model[j], expected[j], 1e-6f);
}

static void once(enum lab_attack_kind kind, double factor, const float expected[D])
{
    float model[D] = {1, 1, 1};
    struct lab_attack *attack = attack_of(kind, factor);
    gives(attack, model, expected);
    lab_attack_destroy(attack);
}

static void each_kind_gives_what_its_name_says(void **state)
{
    (void)state;
    once(LAB_ATTACK_SIGN, 1, (float[D]){-1, -1, -1}); // from 0 by 1, reversed
    once(LAB_ATTACK_SIGN, 5, (float[D]){-5, -5, -5});
    once(LAB_ATTACK_BIG, 1, (float[D]){5e4f, 5e4f, 5e4f});
    once(LAB_ATTACK_ONE_ENTRY, 0.1, (float[D]){2, 2, 5e3f});
    once(LAB_ATTACK_ALIE, 3, (float[D]){-1, 2, -1}); // 3 deviations
    once(LAB_ATTACK_NEGATED, 1, (float[D]){-2, -2, -2});
    once(LAB_ATTACK_FREERIDE, 1, (float[D]){0, 0, 0});
    once(LAB_ATTACK_LABELS, 1, (float[D]){1, 1, 1});
}

static void a_walking_attacker_goes_on_from_what_it_gave(void **state)
{
    (void)state;
    struct lab_attack *attack = attack_of(LAB_ATTACK_SIGN, 1);
    float model[D] = {1, 1, 1};
    gives(attack, model, (float[D]){-1, -1, -1});
    memcpy(model, (float[D]){-2, 0, -1}, sizeof model); // the exchange has moved it
    lab_attack_take(attack, model, NULL);
    memcpy(model, (float[D]){-1, 0, -2}, sizeof model); // local steps
    gives(attack, model, (float[D]){-3, 0, 0});
    lab_attack_destroy(attack);
}

static void a_replayed_model_is_the_first_one_for_ever(void **state)
{
    (void)state;
    struct lab_attack *attack = attack_of(LAB_ATTACK_REPLAY, 1);
    float model[D] = {1, 1, 1};
    gives(attack, model, (float[D]){1, 1, 1});
    memcpy(model, (float[D]){7, 8, 9}, sizeof model);
    gives(attack, model, (float[D]){1, 1, 1});
    lab_attack_destroy(attack);
}

static void ipm_reverses_the_progress_of_the_honest_mean(void **state)
{
    (void)state;
    static const float later[D] = {5, 2, 1}; // with `two` the mean is 4, 2, 1
    static const float *const moved[] = {later, two};
    struct lab_attack *attack = attack_of(LAB_ATTACK_IPM, 1);
    float model[D] = {1, 1, 1};
    gives(attack, model, (float[D]){2, 2, 2}); // nothing to reverse yet
    lab_attack_give(attack, &(struct lab_attack_view){moved, 2}, model, NULL);
    assert_memory_equal(model, ((float[D]){0, 2, 3}), sizeof model);
    lab_attack_destroy(attack);
}

static float farthest(const float *model)
{
    float most = 0;
    for (size_t j = 0; j < D; j++)
        most = fmaxf(most, fabsf(model[j] - 2));
    return most;
}

static void a_drift_grows_and_a_spike_comes_now_and_then(void **state)
{
    (void)state;
    struct lab_attack *drift = attack_of(LAB_ATTACK_DRIFT, 1e4), *spike = attack_of(LAB_ATTACK_SPIKE, 1);
    float model[D] = {0};
    for (int round = 1; round <= 3; round++) {
        lab_attack_give(drift, &honest, model, NULL);
        assert_float_equal(farthest(model), (float)round, 1e-5f);
    }
    for (unsigned round = 1; round <= 2 * LAB_ATTACK_SPIKE_ROUNDS; round++) {
        lab_attack_give(spike, &honest, model, NULL);
        assert_float_equal(farthest(model), (round % LAB_ATTACK_SPIKE_ROUNDS ? 0.f : 49998.f), 1e-2f);
    }
    lab_attack_destroy(drift);
    lab_attack_destroy(spike);
}

static void noise_has_its_deviation_and_comes_from_the_seed(void **state)
{
    (void)state;
    struct lab_attack *attack = attack_of(LAB_ATTACK_NOISE, 1), *again = attack_of(LAB_ATTACK_NOISE, 1);
    float model[D], same[D];
    double sum = 0;
    for (int round = 0; round < 1000; round++) {
        lab_attack_give(attack, &honest, model, NULL);
        lab_attack_give(again, &honest, same, NULL);
        assert_memory_equal(model, same, sizeof model);
        for (size_t j = 0; j < D; j++)
            sum += (double)(model[j] - 2) * (model[j] - 2);
    }
    assert_float_equal(sqrt(sum / (1000.0 * D)), 0.05, 0.002);
    lab_attack_destroy(attack);
    lab_attack_destroy(again);
}

static void second_moments_are_given_and_taken_back(void **state)
{
    (void)state;
    struct lab_attack *attack = attack_of(LAB_ATTACK_MOMENTS, 1);
    float model[D] = {1, 2, 3}, second[D] = {1, 2, 3};
    lab_attack_give(attack, &honest, model, second);
    assert_memory_equal(model, one, sizeof model);
    assert_memory_equal(second, ((float[D]){5e3f, 1e4f, 1.5e4f}), sizeof second);
    lab_attack_take(attack, model, second);
    assert_memory_equal(second, one, sizeof second);
    lab_attack_destroy(attack);
}

static void nothing_infinite_is_given(void **state)
{
    (void)state;
    struct lab_attack *attack = attack_of(LAB_ATTACK_SIGN, 1);
    float model[D] = {1, INFINITY, NAN};
    gives(attack, model, (float[D]){-2, -2, -2}); // as if its progress were that of the honest
    memcpy(model, (float[D]){3e38f, -3e38f, 0}, sizeof model);
    lab_attack_take(attack, model, NULL);
    memcpy(model, (float[D]){-3e38f, 3e38f, 0}, sizeof model);
    gives(attack, model, (float[D]){2, 2, 2});
    lab_attack_destroy(attack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_gives_what_its_name_says),
        cmocka_unit_test(a_walking_attacker_goes_on_from_what_it_gave),
        cmocka_unit_test(a_replayed_model_is_the_first_one_for_ever),
        cmocka_unit_test(ipm_reverses_the_progress_of_the_honest_mean),
        cmocka_unit_test(a_drift_grows_and_a_spike_comes_now_and_then),
        cmocka_unit_test(noise_has_its_deviation_and_comes_from_the_seed),
        cmocka_unit_test(second_moments_are_given_and_taken_back),
        cmocka_unit_test(nothing_infinite_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
