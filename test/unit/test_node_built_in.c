// The built-in trainer as a learner: what happens to its own state when the model is replaced by another's.
#include "kernels/kernels.h"
#include "node/learn/built_in.h"
#include "train/loaders.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { FEATURES = 4 };

// With l1, the proximal step of a step is made only after the exchange; a model that is fetched instead must
// not get it.
static void a_taken_model_is_not_shrunk(void **state)
{
    static const char text[] = "0 1:1 2:2\n1 3:1 4:-1\n0 1:0.5\n1 4:2\n";
    const struct train_bytes bytes = {"rows", (const uint8_t *)text, strlen(text)};
    const struct train_options options = {
        .optimizer = TRAIN_SGD, .rate = 0.1, .batch = 2, .seed = 3, .l1 = 0.02, .blocks = 1};
    float start[16] = {0};
    const struct kernels *kernels;
    struct train_dataset rows = {0};
    struct train_model *model;
    struct node_built_in learner = {0};
    struct kernels_loss loss;
    struct base_reason why;
    size_t counted;

    (void)state;
    assert_int_equal(kernels_open("cpu", 1, &kernels, &why), BASE_OK);
    assert_int_equal(
        train_libsvm_parse(&bytes,
                           &(struct train_libsvm_options){.features = FEATURES, .classes = 2, .sparse = true},
                           &rows, &why),
        BASE_OK);
    const struct train_model_spec spec = {.kind = TRAIN_LOGISTIC, .inputs = FEATURES, .classes = 2};
    assert_int_equal(train_model_create(&spec, kernels, 4, &model, &why), BASE_OK);
    const size_t count = train_model_parameters(model);
    assert_true(count <= sizeof start / sizeof *start);
    assert_int_equal(train_trainer_create(&options, model, &rows, start, &learner.trainer, &why), BASE_OK);
    float *x = train_trainer_model(learner.trainer);
    train_trainer_step(learner.trainer, false, &loss, &counted);
    for (size_t i = 0; i < count; i++)
        x[i] = 1;
    node_built_in_adopt(&learner, GOSSIP_LEARNER_TAKEN, 9);
    train_trainer_settle(learner.trainer); // as the next step does
    for (size_t i = 0; i < count; i++)
        assert_true(x[i] == 1);
    train_trainer_destroy(learner.trainer);
    train_model_destroy(model);
    train_dataset_destroy(&rows);
}

// -- the table of docs/EMBEDDING.md, as python/tests/test_state.py checks it for the other learners

struct world {
    struct train_dataset rows;
    struct train_model *model;
    struct node_built_in learner;
    size_t count, vectors;
    struct train_state_vector state[TRAIN_STATES];
};

// `held`: the model begins at it, and holds all of it back.
static void make_world(struct world *w, enum train_optimizer_kind kind, float held)
{
    static const char text[] = "0 1:1 2:2\n1 3:1 4:-1\n0 1:0.5\n1 4:2\n";
    const struct train_bytes bytes = {"rows", (const uint8_t *)text, strlen(text)};
    const struct train_options options = {.optimizer = kind,
                                          .rate = 0.1,
                                          .momentum = 0.9,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .epsilon = 1e-8,
                                          .batch = 2,
                                          .seed = 3,
                                          .holds_back = held > 0};
    static const struct node_config config;
    const bool deep = kind == TRAIN_MUON; // a hidden matrix, and weights that are not 0
    float start[32] = {0};
    const struct kernels *kernels;
    struct gossip_learner_vectors vectors;
    struct base_reason why;

    *w = (struct world){.learner.config = &config};
    assert_int_equal(kernels_open("cpu", 1, &kernels, &why), BASE_OK);
    const struct train_libsvm_options rows = {.features = FEATURES, .classes = 2, .sparse = !deep};
    assert_int_equal(train_libsvm_parse(&bytes, &rows, &w->rows, &why), BASE_OK);
    const struct train_model_spec spec = {.kind = deep ? TRAIN_MLP : TRAIN_LOGISTIC,
                                          .inputs = FEATURES,
                                          .classes = 2,
                                          .hidden = {2, 2},
                                          .n_hidden = deep ? 2 : 0};
    assert_int_equal(train_model_create(&spec, kernels, 4, &w->model, &why), BASE_OK);
    w->count = train_model_parameters(w->model);
    assert_true(w->count <= sizeof start / sizeof *start);
    if (deep)
        train_model_initialise(w->model, 1, start);
    assert_int_equal(train_trainer_create(&options, w->model, &w->rows, start, &w->learner.trainer, &why),
                     BASE_OK);
    node_built_in_begin(&w->learner, &vectors);
    assert_true(!vectors.held == !(held > 0));
    for (size_t i = 0; vectors.held && i < w->count; i++)
        vectors.model[i] = vectors.held[i] = held;
    node_built_in_steps(&w->learner, 3, 1);
    w->vectors = train_trainer_state_vectors(w->learner.trainer, w->state);
    assert_true(w->vectors > 0);
}

static void free_world(struct world *w)
{
    train_trainer_destroy(w->learner.trainer);
    train_model_destroy(w->model);
    train_dataset_destroy(&w->rows);
}

static float *first_moment(const struct world *w)
{
    for (size_t i = 0; i < w->vectors; i++)
        if (w->state[i].values != train_trainer_second_moment(w->learner.trainer))
            return w->state[i].values;
    fail_msg("no first moment");
    return NULL;
}

static void expect_after(struct world *w, enum gossip_learner_change change, bool first_stays,
                         bool second_stays)
{
    float *first = first_moment(w), *second = train_trainer_second_moment(w->learner.trainer);
    const float one = first[0], two = second ? second[0] : 0;
    node_built_in_adopt(&w->learner, change, train_trainer_steps_done(w->learner.trainer));
    assert_true(first[0] == (first_stays ? one : 0));
    if (second)
        assert_true(second[0] == (second_stays ? two : 0));
}

static void the_state_of_an_optimiser_at_every_event(void **state)
{
    static const enum train_optimizer_kind kinds[] = {TRAIN_SGD, TRAIN_ADAMW, TRAIN_LION, TRAIN_MUON};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct world w;
        make_world(&w, kinds[i], 0);
        assert_true(first_moment(&w)[0] != 0);
        expect_after(&w, GOSSIP_LEARNER_EXCHANGED, true, true);
        expect_after(&w, GOSSIP_LEARNER_COLLECTED, true, true);
        expect_after(&w, GOSSIP_LEARNER_RESTORED, true, true);
        expect_after(&w, GOSSIP_LEARNER_ROLLED_BACK, true, true); // finite: it stays
        first_moment(&w)[1] = NAN;
        expect_after(&w, GOSSIP_LEARNER_ROLLED_BACK, false, true);
        assert_true(first_moment(&w)[1] == 0);
        if (train_trainer_second_moment(w.learner.trainer)) {
            train_trainer_second_moment(w.learner.trainer)[1] = INFINITY;
            expect_after(&w, GOSSIP_LEARNER_ROLLED_BACK, false, false);
        }
        first_moment(&w)[0] = 1;
        if (train_trainer_second_moment(w.learner.trainer))
            train_trainer_second_moment(w.learner.trainer)[0] = 1;
        expect_after(&w, GOSSIP_LEARNER_TAKEN, false, true);
        free_world(&w);
    }
}

// Steps on a model whose weights something overwrites in each round, until the watch has had enough.
static enum gossip_learner_result rounds_of(struct world *w, unsigned rounds, float overwritten)
{
    struct gossip_learner_steps did = {0};
    for (unsigned i = 0; i < rounds && did.result != GOSSIP_LEARNER_DIVERGED; i++) {
        if (overwritten != 0)
            for (size_t j = 0; j < w->count; j++)
                train_trainer_model(w->learner.trainer)[j] = j % 2 ? overwritten : -overwritten;
        node_built_in_steps(&w->learner, 128, 1);
        node_built_in_boundary(&w->learner, &did);
    }
    return did.result;
}

static void a_model_that_diverged_comes_back_as_it_was(void **state)
{
    static const enum train_optimizer_kind kinds[] = {TRAIN_SGD, TRAIN_ADAMW};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct world w;
        float kept[32];
        make_world(&w, kinds[i], 0);
        w.learner.kept = kept;
        assert_true(node_built_in_kept(w.learner.trainer) <= sizeof kept / sizeof kept[0]);
        assert_int_equal(rounds_of(&w, 60, 0), GOSSIP_LEARNER_DONE);
        const float *x = train_trainer_model(w.learner.trainer);
        assert_memory_equal(kept, x, w.count * sizeof *x); // the latest round closed a good window
        float good[32];
        memcpy(good, kept, sizeof kept);
        assert_int_equal(rounds_of(&w, 60, 1e6f), GOSSIP_LEARNER_DIVERGED);
        assert_memory_equal(x, good, w.count * sizeof *x);
        if (train_trainer_second_moment(w.learner.trainer))
            assert_memory_equal(train_trainer_second_moment(w.learner.trainer), good + w.count,
                                w.count * sizeof *x);
        expect_after(&w, GOSSIP_LEARNER_RETURNED, false, true);
        assert_int_equal(rounds_of(&w, 60, 0), GOSSIP_LEARNER_DONE);
        assert_false(w.learner.watch.recovers);
        free_world(&w);
    }
}

// How far a step goes without momentum, at the place of the first one.
static float step_from(struct world *w, const float *start)
{
    float *model = train_trainer_model(w->learner.trainer);
    float moved = 0;
    memcpy(model, start, w->count * sizeof *model);
    memset(first_moment(w), 0, w->count * sizeof *model);
    node_built_in_steps(&w->learner, 1, 1);
    for (size_t i = 0; i < w->count; i++)
        moved += fabsf(model[i] - start[i]);
    return moved;
}

static void a_setting_counts_from_the_next_step_on_until_it_is_taken_back(void **state)
{
    struct world w;
    float start[16];
    (void)state;
    make_world(&w, TRAIN_SGD, 0);
    for (size_t i = 0; i < w.count; i++)
        start[i] = 100;
    const float usual = step_from(&w, start);
    node_built_in_set(&w.learner, GOSSIP_SETTING_RATE, 0.05);
    assert_true(train_trainer_rate(w.learner.trainer) == 0.05);
    node_built_in_set(&w.learner, GOSSIP_SETTING_DECAY, 0.5);
    const float decayed = step_from(&w, start);
    node_built_in_set(&w.learner, GOSSIP_SETTING_DECAY, (double)NAN);
    node_built_in_set(&w.learner, GOSSIP_SETTING_RATE, (double)NAN);
    assert_true(train_trainer_rate(w.learner.trainer) == 0.1);
    const float again = step_from(&w, start);
    assert_true(usual > 0 && again < decayed && decayed > 0.05f * 0.5f * 99 * (float)w.count);
    node_built_in_set(&w.learner, GOSSIP_SETTING_RATE, 0);
    assert_true(step_from(&w, start) == 0);
    free_world(&w);
}

// The steps are those of a model that is less by what is held back, which comes back at the boundary.
static void steps_hold_back_and_give_back(void **state)
{
    const float held = 0.25f;
    struct gossip_learner_steps did;
    struct world plain, holding;

    (void)state;
    make_world(&plain, TRAIN_ADAMW, 0);
    make_world(&holding, TRAIN_ADAMW, held);
    const float *y = train_trainer_model(plain.learner.trainer),
                *x = train_trainer_model(holding.learner.trainer);
    assert_memory_equal(x, y, plain.count * sizeof *x);
    node_built_in_boundary(&holding.learner, &did);
    for (size_t i = 0; i < plain.count; i++)
        assert_true(x[i] == y[i] + held);
    free_world(&plain);
    free_world(&holding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_taken_model_is_not_shrunk), cmocka_unit_test(steps_hold_back_and_give_back),
        cmocka_unit_test(a_setting_counts_from_the_next_step_on_until_it_is_taken_back),
        cmocka_unit_test(the_state_of_an_optimiser_at_every_event),
        cmocka_unit_test(a_model_that_diverged_comes_back_as_it_was)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
