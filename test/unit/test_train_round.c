// What a round is for the trainer: the proximal term pulls back to its beginning, and the rate can be scaled.
#include "trainer_world.h"

static void displace(struct setup *s, double by)
{
    float *x = train_trainer_model(s->trainer);
    for (size_t i = 0; i < s->count; i++)
        x[i] += (float)by * (float)(i % 7);
    train_trainer_store(s->trainer);
}

// Compared with a twin without it, a step of plain SGD goes -rate * mu * (x - x_round) further, whatever the
// loss.
static void one_step_goes_back_by_mu(void **state)
{
    (void)state;
    struct train_options pulled = sgd;
    struct setup s;
    pulled.proximal = 0.7;
    pulled.weight = 3; // scales the loss, not the pull
    open_setup(&s, clusters(40, 6, 3), 9, &pulled);
    (void)run(s.trainer, 5);
    train_trainer_round_begin(s.trainer);
    float *round = get(s.count * sizeof *round), *before = get(s.count * sizeof *before);
    memcpy(round, train_trainer_model(s.trainer), s.count * sizeof *round);
    (void)run(s.trainer, 3);
    struct train_options free_of_it = pulled;
    free_of_it.proximal = 0;
    struct train_trainer *twin = restored(&s, &free_of_it);
    memcpy(before, train_trainer_model(s.trainer), s.count * sizeof *before);
    (void)run(s.trainer, 1);
    (void)run(twin, 1);
    double most = 0;
    for (size_t i = 0; i < s.count; i++) {
        const double away = (double)before[i] - (double)round[i];
        const double further =
            (double)train_trainer_model(s.trainer)[i] - (double)train_trainer_model(twin)[i];
        assert_true(fabs(further + 0.1 * 0.7 * away) < 1e-6);
        most = fmax(most, fabs(away));
    }
    assert_true(most > 1e-2); // there was something to pull at
    train_trainer_destroy(twin);
    free(round);
    free(before);
    close_setup(&s);
}

// Where the loss has no gradient (weights of inputs that are 0), (1 - rate * mu)^k of the distance is left
// after k steps.
static void without_a_loss_the_model_returns_geometrically(void **state)
{
    (void)state;
    enum { FEATURES = 5, CLASSES = 3, STEPS = 9 };
    struct train_dataset data = clusters(12, FEATURES, CLASSES);
    struct train_options pulled = sgd;
    struct setup s;
    memset(data.x, 0, data.examples * FEATURES * sizeof *data.x);
    pulled.proximal = 2;
    open_setup(&s, data, 0, &pulled);
    displace(&s, 0.25); // x_round is where the trainer was created
    (void)run(s.trainer, STEPS);
    for (size_t i = 0; i < FEATURES * CLASSES; i++) {
        const double left = 0.25 * (double)(i % 7) * pow(1 - 0.1 * 2, STEPS);
        assert_true(fabs((double)train_trainer_model(s.trainer)[i] - (double)s.start[i] - left) < 1e-6);
    }
    train_trainer_round_begin(s.trainer); // nothing pulls at the beginning of a round
    float there[FEATURES * CLASSES];
    memcpy(there, train_trainer_model(s.trainer), sizeof there);
    (void)run(s.trainer, STEPS);
    assert_memory_equal(there, train_trainer_model(s.trainer), sizeof there);
    close_setup(&s);
}

// The pull is part of the objective: it enters the moments of the optimisers, unlike the drift correction.
static void the_pull_enters_the_moments(void **state)
{
    (void)state;
    for (size_t o = 1; o < 3; o++) {
        struct train_options pulled = *optimisers[o];
        struct setup s;
        pulled.proximal = 1.5;
        open_setup(&s, clusters(40, 6, 3), 0, &pulled);
        struct train_trainer *twin = make_trainer(&s, optimisers[o]);
        displace(&s, 0.5);
        memcpy(train_trainer_model(twin), train_trainer_model(s.trainer), s.count * sizeof(float));
        (void)run(s.trainer, 1);
        (void)run(twin, 1);
        struct train_state_vector a[4], b[4];
        (void)train_trainer_state_vectors(s.trainer, a);
        (void)train_trainer_state_vectors(twin, b);
        const double part = optimisers[o]->optimizer == TRAIN_ADAMW ? 1 - optimisers[o]->beta1 : 1;
        for (size_t i = 0; i < s.count; i++) {
            const double pull = part * 1.5 * 0.5 * (double)(i % 7);
            assert_true(fabs((double)a[0].values[i] - (double)b[0].values[i] - pull) < 1e-5);
        }
        train_trainer_destroy(twin);
        close_setup(&s);
    }
}

static void a_seek_begins_a_round(void **state)
{
    (void)state;
    struct train_options pulled = sgd;
    struct setup s;
    pulled.proximal = 3;
    open_setup(&s, clusters(40, 6, 3), 0, &pulled);
    (void)run(s.trainer, 20);
    struct train_trainer *copy = restored(&s, &pulled);
    train_trainer_round_begin(s.trainer);
    (void)run(s.trainer, 5);
    (void)run(copy, 5);
    assert_same_model(s.trainer, copy, s.count);
    train_trainer_destroy(copy);
    close_setup(&s);
}

static void scale_multiplies_the_scheduled_rate(void **state)
{
    (void)state;
    struct train_options options = sgd, five = sgd;
    struct setup s;
    options.steps = 10;
    options.schedule = (struct train_schedule){.count = 1, .at = {0.5}, .factor = {0.1}};
    five = options;
    five.rate *= 5;
    open_setup(&s, clusters(40, 6, 3), 9, &options);
    struct train_trainer *twin = make_trainer(&s, &five);
    train_trainer_scale(s.trainer, 5);
    (void)run(s.trainer, 7);
    (void)run(twin, 7);
    assert_same_model(s.trainer, twin, s.count);
    assert_true(fabs(train_trainer_rate(s.trainer) - 0.05) < 1e-15);
    train_trainer_scale(s.trainer, 1);
    assert_true(fabs(train_trainer_rate(s.trainer) - 0.01) < 1e-15);
    train_trainer_destroy(twin);
    close_setup(&s);
}

static void an_invalid_pull_is_refused(void **state)
{
    (void)state;
    static const double wrong[] = {-0.1, NAN, INFINITY};
    struct setup s;
    open_setup(&s, clusters(40, 6, 3), 0, &sgd);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct train_options options = sgd;
        struct train_trainer *trainer = NULL;
        struct base_reason why = {""};
        options.proximal = wrong[i];
        assert_int_equal(train_trainer_create(&options, s.model, &s.data, s.start, &trainer, &why),
                         BASE_EINVAL);
        assert_non_null(strstr(why.text, "expected a number, 0 or more"));
        assert_null(trainer);
    }
    close_setup(&s);
}

int main(void)
{
    if (open_world() != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_step_goes_back_by_mu),
        cmocka_unit_test(without_a_loss_the_model_returns_geometrically),
        cmocka_unit_test(the_pull_enters_the_moments),
        cmocka_unit_test(a_seek_begins_a_round),
        cmocka_unit_test(scale_multiplies_the_scheduled_rate),
        cmocka_unit_test(an_invalid_pull_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
