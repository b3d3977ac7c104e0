// Logistic regression over sparse rows: compared with dense rows, with differences, and with the optimum of
// L1.
#include "train/loaders.h"
#include "train/rows.h"
#include "train/shrink.h"
#include "trainer_world.h"

enum { EXAMPLES = 60, FEATURES = 17, TEXT_BYTES = 65536 };

struct world {
    struct train_dataset sparse, dense;
    struct train_model *model, *over_dense; // the same shape: each has its own workspace
    size_t count;
    float *start;
};

// About a third of the features of each row, in LIBSVM text; the classes are not separable.
static size_t write_text(size_t classes, char *text)
{
    struct base_rng rng;
    size_t used = 0;
    base_rng_seed_stream(&rng, seed, classes);
    for (size_t i = 0; i < EXAMPLES; i++) {
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%zu",
                                 i < classes ? i : (size_t)base_rng_below(&rng, classes));
        for (size_t f = 0; f < FEATURES; f++) {
            if (base_rng_below(&rng, 3) == 0 || f == i % 5) {
                used += (size_t)snprintf(text + used, TEXT_BYTES - used, " %zu:%.4f", f + 1,
                                         f == i % 5 ? 1.0 : base_rng_normal(&rng));
            }
        }
        text[used++] = '\n';
    }
    return used;
}

static struct train_model *make_model(enum train_model_kind kind, size_t classes)
{
    const struct train_model_spec spec = {.kind = kind, .inputs = FEATURES, .classes = classes};
    struct train_model *model = NULL;
    struct base_reason why;
    if (train_model_create(&spec, kernels, EXAMPLES, &model, &why)) {
        fail_msg("%s", why.text);
    }
    return model;
}

static void open_rows(struct world *w, size_t classes)
{
    static char text[TEXT_BYTES];
    const struct train_bytes bytes = {"rows", (const uint8_t *)text, write_text(classes, text)};
    struct base_reason why;
    struct base_rng rng;
    *w = (struct world){0};
    if (train_libsvm_parse(
            &bytes, &(struct train_libsvm_options){.features = FEATURES, .classes = classes, .sparse = true},
            &w->sparse, &why) ||
        train_libsvm_parse(&bytes, &(struct train_libsvm_options){.features = FEATURES, .classes = classes},
                           &w->dense, &why)) {
        fail_msg("%s", why.text);
    }
    w->model = make_model(TRAIN_LOGISTIC, classes);
    w->over_dense = make_model(TRAIN_LOGISTIC, classes);
    w->count = train_model_parameters(w->model);
    w->start = get(w->count * sizeof *w->start);
    base_rng_seed_stream(&rng, seed, 100);
    for (size_t i = 0; i < w->count; i++) {
        w->start[i] = 0.3f * (float)base_rng_normal(&rng);
    }
}

static void close_rows(struct world *w)
{
    train_dataset_destroy(&w->sparse);
    train_dataset_destroy(&w->dense);
    train_model_destroy(w->model);
    train_model_destroy(w->over_dense);
    free(w->start);
}

static void gradient_of(struct train_model *model, const struct train_dataset *data, const float *x,
                        float *gradient, double *loss)
{
    const struct train_rows rows = {.csr = data->csr, .x = data->x, .features = data->features};
    struct kernels_loss sum;
    train_model_gradient(model, x, &rows, data->labels, data->examples, 1.0f, gradient, &sum);
    *loss = sum.loss_sum / (double)data->examples;
}

static void the_sparse_and_the_dense_loader_read_the_same(void **state)
{
    (void)state;
    struct world w;
    open_rows(&w, 3);
    static const uint32_t some[] = {5, 0, 59, 5};
    struct train_dataset cut;
    assert_int_equal(train_dataset_subset(&w.sparse, some, 4, &cut), BASE_OK);
    assert_null(w.sparse.x);
    assert_memory_equal(w.sparse.labels, w.dense.labels, EXAMPLES * sizeof(uint32_t));
    for (size_t pass = 0; pass < 2; pass++) {
        const struct train_dataset *data = pass == 0 ? &w.sparse : &cut;
        const struct train_rows rows = {.csr = data->csr, .features = FEATURES};
        for (size_t i = 0; i < data->examples; i++) {
            const size_t from = pass == 0 ? i : some[i];
            const struct train_row row = train_rows_at(&rows, i);
            float whole[FEATURES] = {0};
            for (size_t k = 0; k < row.count; k++) {
                whole[row.column[k]] = row.value[k];
            }
            assert_memory_equal(whole, w.dense.x + from * FEATURES, sizeof whole);
            assert_int_equal(data->labels[i], w.dense.labels[from]);
        }
    }
    train_dataset_destroy(&cut);
    close_rows(&w);
}

static void a_range_of_sparse_rows_is_read(void **state)
{
    (void)state;
    static const char text[] = "0 1:1\n1\n0 2:3 4:-1\n1 4:8";
    const struct train_bytes bytes = {"rows", (const uint8_t *)text, sizeof text - 1};
    struct train_dataset data;
    struct base_reason why;
    assert_int_equal(
        train_libsvm_parse(&bytes,
                           &(struct train_libsvm_options){
                               .features = 4, .classes = 2, .first = 1, .count = 2, .sparse = true},
                           &data, &why),
        BASE_OK);
    static const size_t start[] = {0, 0, 2};
    static const uint32_t column[] = {1, 3};
    static const float value[] = {3, -1};
    assert_memory_equal(data.csr->start, start, sizeof start);
    assert_memory_equal(data.csr->column, column, sizeof column);
    assert_memory_equal(data.csr->value, value, sizeof value);
    assert_int_equal(data.labels[0], 1);
    train_dataset_destroy(&data);
    assert_int_equal(
        train_libsvm_parse(
            &bytes, &(struct train_libsvm_options){.features = 3, .classes = 2, .sparse = true}, &data, &why),
        BASE_ELIMIT);
    assert_string_equal(why.text, "rows:3: index 4, but the data set was said to have 3 features");
}

// Zeros add nothing: the same bits over sparse and dense rows. For two classes, softmax over [0, w] is the
// same model.
static void sparse_rows_give_the_bits_of_dense_rows(void **state)
{
    (void)state;
    for (size_t classes = 2; classes <= 4; classes++) {
        struct world w;
        double loss[3];
        open_rows(&w, classes);
        const size_t soft = (FEATURES + 1) * classes;
        float *a = get(w.count * sizeof *a), *b = get(w.count * sizeof *b), *c = get(soft * sizeof *c),
              *as_softmax = get(soft * sizeof *c);
        gradient_of(w.model, &w.sparse, w.start, a, &loss[0]);
        gradient_of(w.over_dense, &w.dense, w.start, b, &loss[1]);
        assert_memory_equal(a, b, w.count * sizeof *a);
        assert_true(loss[0] == loss[1]);
        struct train_model *softmax = make_model(TRAIN_SOFTMAX, classes);
        struct kernels_loss sum;
        const size_t outputs = w.count / (FEATURES + 1);
        for (size_t i = 0; i < w.count; i++) {
            as_softmax[outputs == 1 ? 2 * i + 1 : i] = w.start[i];
        }
        train_model_gradient(softmax, as_softmax, w.dense.x, w.dense.labels, EXAMPLES, 1.0f, c, &sum);
        for (size_t i = 0; i < w.count; i++) {
            assert_float_equal(a[i], c[outputs == 1 ? 2 * i + 1 : i], 1e-6);
        }
        struct train_score score[2];
        train_model_evaluate(w.model, w.start, &w.sparse, &score[0]);
        train_model_evaluate(softmax, as_softmax, &w.dense, &score[1]);
        assert_true(score[0].accuracy == score[1].accuracy && fabs(score[0].loss - score[1].loss) < 1e-6);
        train_model_destroy(softmax);
        free(a), free(b), free(c), free(as_softmax);
        close_rows(&w);
    }
}

static void gradients_match_central_differences(void **state)
{
    (void)state;
    for (size_t classes = 2; classes <= 4; classes++) {
        struct world w;
        double loss, up, down;
        open_rows(&w, classes);
        float *gradient = get(w.count * sizeof *gradient), *other = get(w.count * sizeof *other);
        gradient_of(w.model, &w.sparse, w.start, gradient, &loss);
        for (size_t i = 0; i < w.count; i++) {
            const float at = w.start[i], h = 0x1p-6f;
            w.start[i] = at + h;
            gradient_of(w.model, &w.sparse, w.start, other, &up);
            w.start[i] = at - h;
            gradient_of(w.model, &w.sparse, w.start, other, &down);
            w.start[i] = at;
            assert_true(fabs((double)gradient[i] - (up - down) / (2.0 * (double)h)) < 2e-4);
        }
        free(gradient), free(other);
        close_rows(&w);
    }
}

// Over sparse and dense rows: the elements of the block have the bits of the whole gradient, the rest is
// zero, and the bias is included.
static void the_gradient_of_a_block_is_a_part_of_the_whole(void **state)
{
    (void)state;
    struct world w;
    double loss;
    open_rows(&w, 3);
    float *whole = get(w.count * sizeof *whole), *part = get(w.count * sizeof *part);
    gradient_of(w.model, &w.sparse, w.start, whole, &loss);
    for (size_t from = 0; from < FEATURES; from++) {
        for (size_t to = from + 1; to <= FEATURES; to++) {
            for (size_t dense = 0; dense < 2; dense++) {
                train_model_restrict(w.model, from, to);
                gradient_of(w.model, dense == 1 ? &w.dense : &w.sparse, w.start, part, &loss);
                for (size_t i = 0; i < w.count; i++) {
                    const bool within = i >= 3 * FEATURES || (i / 3 >= from && i / 3 < to);
                    assert_true(part[i] == (within ? whole[i] : 0.0f));
                }
            }
        }
    }
    train_model_restrict(w.model, 0, 0);
    free(whole), free(part);
    close_rows(&w);
}

// -- L1

static struct train_trainer *trainer_of(struct world *w, const struct train_options *options)
{
    struct train_trainer *trainer = NULL;
    struct base_reason why;
    if (train_trainer_create(options, w->model, &w->sparse, w->start, &trainer, &why)) {
        fail_msg("%s", why.text);
    }
    return trainer;
}

static double objective(struct world *w, const struct train_options *o, const float *x)
{
    struct train_score score;
    const size_t weights = FEATURES * (w->count / (FEATURES + 1));
    train_model_evaluate(w->model, x, &w->sparse, &score);
    double sum = score.loss;
    for (size_t i = 0; i < weights; i++) {
        sum += o->l1 * fabs((double)x[i]) + 0.5 * o->l2 * (double)x[i] * (double)x[i];
    }
    return sum;
}

static void the_objective_falls_with_every_step(void **state)
{
    (void)state;
    const struct train_options options = {.optimizer = TRAIN_SGD,
                                          .rate = 0.1,
                                          .steps = 200,
                                          .batch = EXAMPLES,
                                          .l1 = 0.02,
                                          .l2 = 0.01,
                                          .blocks = 3};
    struct world w;
    open_rows(&w, 2);
    struct train_trainer *trainer = trainer_of(&w, &options);
    double last = objective(&w, &options, w.start);
    for (int i = 0; i < 200; i++) {
        (void)run(trainer, 1);
        train_trainer_settle(trainer);
        const double now = objective(&w, &options, train_trainer_model(trainer));
        assert_true(now <= last + 1e-6);
        last = now;
    }
    train_trainer_destroy(trainer);
    close_rows(&w);
}

// Karush, Kuhn, Tucker: g + l2 w = -l1 sign(w) where w is not 0, |g| <= l1 where it is, and 0 for the bias.
static void assert_optimal(struct world *w, const struct train_options *o, const float *x)
{
    const size_t weights = FEATURES * (w->count / (FEATURES + 1));
    size_t zeros = 0;
    double loss;
    float *g = get(w->count * sizeof *g);
    train_model_restrict(w->model, 0, 0);
    gradient_of(w->model, &w->sparse, x, g, &loss);
    for (size_t i = 0; i < w->count; i++) {
        const double slope = (double)g[i] + (i < weights ? o->l2 * (double)x[i] : 0.0);
        if (i < weights && x[i] == 0.0f) {
            assert_true(fabs(slope) <= o->l1 + 1e-4);
            zeros++;
        } else {
            assert_true(fabs(slope + (i < weights ? copysign(o->l1, (double)x[i]) : 0.0)) <= 2e-4);
        }
    }
    assert_in_range(zeros, 1, weights - 1);
    free(g);
}

static void training_ends_at_the_optimum(void **state)
{
    (void)state;
    static const struct {
        size_t classes, blocks, batch_parts;
        double momentum, l2;
    } cases[] = {{2, 1, 0, 0, 0},   {2, 1, 0, 0.9, 0},  {2, 5, 0, 0, 0.02},  {3, 1, 0, 0.9, 0.02},
                 {4, 4, 7, 0.5, 0}, {2, 17, 0, 0.5, 0}, {3, 99, 0, 0, 0.05}, {2, 1, 13, 0.9, 0.01}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct train_options options = {.optimizer = TRAIN_SGD,
                                              .rate = 0.3 * (1.0 - cases[i].momentum),
                                              .momentum = cases[i].momentum,
                                              .batch = EXAMPLES,
                                              .micro_batch = cases[i].batch_parts,
                                              .l1 = 0.03,
                                              .l2 = cases[i].l2,
                                              .blocks = cases[i].blocks,
                                              .block_seed = seed};
        struct world w;
        open_rows(&w, cases[i].classes);
        struct train_trainer *trainer = trainer_of(&w, &options);
        (void)run(trainer, 3000 * (cases[i].blocks > FEATURES ? FEATURES : cases[i].blocks));
        train_trainer_settle(trainer);
        assert_optimal(&w, &options, train_trainer_model(trainer));
        train_trainer_destroy(trainer);
        close_rows(&w);
    }
}

// A checkpoint after the exchange, taken before its proximal step and after it.
static void a_checkpoint_continues_bit_for_bit(void **state)
{
    (void)state;
    const struct train_options options = {.optimizer = TRAIN_SGD,
                                          .rate = 0.1,
                                          .momentum = 0.8,
                                          .batch = 13,
                                          .seed = 3,
                                          .l1 = 0.02,
                                          .blocks = 4,
                                          .block_seed = 9};
    for (int settled = 0; settled < 2; settled++) {
        struct world w;
        open_rows(&w, 2);
        struct setup s = {.data = w.sparse, .model = w.model, .start = w.start, .count = w.count};
        s.trainer = trainer_of(&w, &options);
        (void)run(s.trainer, 38);
        if (settled) {
            train_trainer_settle(s.trainer);
        }
        struct train_trainer *copy = restored(&s, &options);
        if (!settled) {
            train_trainer_unsettle(copy);
        }
        (void)run(s.trainer, 25);
        (void)run(copy, 25);
        assert_same_model(s.trainer, copy, w.count);
        train_trainer_settle(s.trainer);
        train_trainer_settle(copy);
        train_trainer_settle(copy); // no proximal step is left to be made
        assert_same_model(s.trainer, copy, w.count);
        train_trainer_destroy(s.trainer);
        train_trainer_destroy(copy);
        close_rows(&w);
    }
}

static void assert_refused(const struct train_options *options, struct train_model *model,
                           const struct train_dataset *data, const float *start, const char *message)
{
    struct train_trainer *trainer = NULL;
    struct base_reason why = {""};
    assert_int_equal(train_trainer_create(options, model, data, start, &trainer, &why), BASE_EINVAL);
    assert_string_equal(why.text, message);
    assert_null(trainer);
}

static void options_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct world w;
    open_rows(&w, 2);
    struct train_model *softmax = make_model(TRAIN_SOFTMAX, 2);
    struct train_options o = {.optimizer = TRAIN_SGD, .rate = 0.1, .batch = 5};
    assert_refused(&o, softmax, &w.sparse, w.start,
                   "the data are sparse, which model.kind logistic takes; found softmax");
    o.l1 = 0.1;
    assert_refused(&o, softmax, &w.dense, w.start,
                   "l1, l2 and blocks are for model.kind logistic; found softmax");
    o.l1 = -0.1;
    assert_refused(&o, w.model, &w.sparse, w.start, "l1 is -0.1; expected a number, 0 or more");
    o.l1 = NAN;
    assert_refused(&o, w.model, &w.sparse, w.start, "l1 is nan; expected a number, 0 or more");
    o = (struct train_options){.optimizer = TRAIN_ADAMW,
                               .rate = 0.1,
                               .beta1 = 0.9,
                               .beta2 = 0.9,
                               .epsilon = 1e-8,
                               .batch = 5,
                               .l2 = 1};
    assert_refused(&o, w.model, &w.sparse, w.start,
                   "l1 and l2 need the proximal steps of sgd; found the optimizer adamw");
    train_model_destroy(softmax);
    close_rows(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sparse_and_the_dense_loader_read_the_same),
        cmocka_unit_test(a_range_of_sparse_rows_is_read),
        cmocka_unit_test(sparse_rows_give_the_bits_of_dense_rows),
        cmocka_unit_test(gradients_match_central_differences),
        cmocka_unit_test(the_gradient_of_a_block_is_a_part_of_the_whole),
        cmocka_unit_test(the_objective_falls_with_every_step),
        cmocka_unit_test(training_ends_at_the_optimum),
        cmocka_unit_test(a_checkpoint_continues_bit_for_bit),
        cmocka_unit_test(options_that_do_not_fit_are_refused),
    };
    return open_world() != 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
