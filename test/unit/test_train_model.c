// Shapes, names and fingerprints of models; gradients compared with central differences in double.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "train/dataset.h"
#include "train/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BATCH = 8, WIDEST = 64 };

static const struct kernels *kernels;
static uint64_t seed = 20260131u;

static const struct train_model_spec shapes[] = {
    {.kind = TRAIN_SOFTMAX, .inputs = 7, .classes = 5},
    {.kind = TRAIN_MLP, .inputs = 9, .classes = 4, .hidden = {8}, .n_hidden = 1},
    {.kind = TRAIN_MLP, .inputs = 9, .classes = 4, .hidden = {17, 6}, .n_hidden = 2},
    {.kind = TRAIN_MLP, .inputs = 6, .classes = 3, .hidden = {5, 19, 5}, .n_hidden = 3},
    {.kind = TRAIN_MLP, .inputs = 33, .classes = 2, .hidden = {40, 3, 33}, .n_hidden = 3},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static struct train_model *make(const struct train_model_spec *spec)
{
    struct train_model *model = NULL;
    struct base_reason why;
    if (train_model_create(spec, kernels, MAX_BATCH, &model, &why)) {
        fail_msg("%s", why.text);
    }
    return model;
}

static void *get(size_t bytes)
{
    void *memory = calloc(1, bytes);
    assert_non_null(memory);
    return memory;
}

// The mean loss of a batch in double. *nearest becomes the smallest |z| before a ReLU.
static double reference_loss(const struct train_model *model, const double *p, const float *x,
                             const uint32_t *labels, size_t rows, double *nearest)
{
    const struct train_model_spec *spec = train_model_spec(model);
    double total = 0.0;
    for (size_t r = 0; r < rows; r++) {
        double a[WIDEST], z[WIDEST] = {0.0};
        size_t in = spec->inputs, out = 0;
        const double *w = p;
        for (size_t i = 0; i < in; i++) {
            a[i] = (double)x[r * in + i];
        }
        for (size_t layer = 0; layer <= spec->n_hidden; layer++) {
            out = layer < spec->n_hidden ? spec->hidden[layer] : spec->classes;
            for (size_t o = 0; o < out; o++) {
                z[o] = w[in * out + o];
                for (size_t i = 0; i < in; i++) {
                    z[o] += a[i] * w[i * out + o];
                }
            }
            for (size_t o = 0; layer < spec->n_hidden && o < out; o++) {
                *nearest = fabs(z[o]) < *nearest ? fabs(z[o]) : *nearest;
                a[o] = z[o] > 0.0 ? z[o] : 0.0;
            }
            w += in * out + out;
            in = out;
        }
        double sum = 0.0;
        for (size_t o = 0; o < out; o++) {
            sum += exp(z[o]);
        }
        total += log(sum) - z[labels[r]];
    }
    return total / (double)rows;
}

struct problem {
    struct train_model *model;
    size_t count, rows;
    float *parameters, *x, *gradient; // in the kernels' memory, which is ordinary here
    double *p;
    uint32_t *labels;
    struct kernels_loss loss;
};

// Draws until no unit is so close to the kink of its ReLU that a difference quotient could cross it.
static void draw(struct problem *problem, struct base_rng *rng)
{
    const struct train_model_spec *spec = train_model_spec(problem->model);
    double nearest;
    do {
        train_model_initialise(problem->model, base_rng_u64(rng), problem->parameters); // logits of size 1
        for (size_t i = 0; i < problem->count; i++) {
            problem->parameters[i] += (float)(0.1 * base_rng_normal(rng)); // biases, too
            problem->p[i] = (double)problem->parameters[i];
        }
        for (size_t i = 0; i < problem->rows * spec->inputs; i++) {
            problem->x[i] = (float)base_rng_normal(rng);
        }
        for (size_t i = 0; i < problem->rows; i++) {
            problem->labels[i] = (uint32_t)base_rng_below(rng, spec->classes);
        }
        nearest = INFINITY;
        (void)reference_loss(problem->model, problem->p, problem->x, problem->labels, problem->rows,
                             &nearest);
    } while (nearest < 1e-4);
}

static struct problem open_problem(const struct train_model_spec *spec, size_t rows, struct base_rng *rng)
{
    struct problem problem = {.model = make(spec), .rows = rows};
    problem.count = train_model_parameters(problem.model);
    problem.parameters = get(problem.count * sizeof(float));
    problem.gradient = get(problem.count * sizeof(float));
    problem.p = get(problem.count * sizeof(double));
    problem.x = get(rows * spec->inputs * sizeof(float));
    problem.labels = get(rows * sizeof(uint32_t));
    draw(&problem, rng);
    train_model_gradient(problem.model, problem.parameters, problem.x, problem.labels, rows, 1.0f,
                         problem.gradient, &problem.loss);
    return problem;
}

static void close_problem(struct problem *problem)
{
    train_model_destroy(problem->model);
    free(problem->parameters);
    free(problem->gradient);
    free(problem->p);
    free(problem->x);
    free(problem->labels);
}

// Central differences with h = 1e-6 in double have an error of about h^2 + 1e-16/h = 1e-10. The gradient
// itself is computed in fp32: four layers of sums of up to 40 products of size about 1 have an error of at
// most some 40 * eps * 4 = 2e-5 of the largest entry.
static void check_gradient(const struct problem *problem)
{
    const double h = 1e-6;
    double largest = 0.05, unused = INFINITY;
    for (size_t i = 0; i < problem->count; i++) {
        largest = fmax(largest, fabs((double)problem->gradient[i]));
    }
    for (size_t i = 0; i < problem->count; i++) {
        const double kept = problem->p[i];
        problem->p[i] = kept + h;
        const double above =
            reference_loss(problem->model, problem->p, problem->x, problem->labels, problem->rows, &unused);
        problem->p[i] = kept - h;
        const double below =
            reference_loss(problem->model, problem->p, problem->x, problem->labels, problem->rows, &unused);
        problem->p[i] = kept;
        const double expected = (above - below) / (2.0 * h), found = (double)problem->gradient[i];
        if (!(fabs(found - expected) <= 2e-5 * largest)) {
            fail_msg("parameter %zu of %zu: gradient %.9g, by differences %.9g", i, problem->count, found,
                     expected);
        }
    }
}

static void gradients_match_central_differences(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    for (size_t s = 0; s < SHAPES; s++) {
        for (size_t rows = 1; rows <= MAX_BATCH; rows += 1 + rows / 2) {
            struct problem problem = open_problem(&shapes[s], rows, &rng);
            check_gradient(&problem);
            double nearest = INFINITY;
            const double loss =
                reference_loss(problem.model, problem.p, problem.x, problem.labels, rows, &nearest);
            assert_true(fabs(problem.loss.loss_sum / (double)rows - loss) < 1e-5 * (1.0 + loss));
            close_problem(&problem);
        }
    }
}

// A batch after a larger one, and the same batch twice: the workspace keeps nothing.
static void the_workspace_keeps_nothing(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    struct problem problem = open_problem(&shapes[3], MAX_BATCH, &rng);
    float *small = get(problem.count * sizeof *small), *again = get(problem.count * sizeof *again);
    struct train_model *fresh = make(&shapes[3]);
    struct kernels_loss loss;
    train_model_gradient(fresh, problem.parameters, problem.x, problem.labels, 3, 1.0f, small, &loss);
    train_model_gradient(problem.model, problem.parameters, problem.x, problem.labels, 3, 1.0f, again, &loss);
    assert_memory_equal(small, again, problem.count * sizeof *small);
    train_model_gradient(problem.model, problem.parameters, problem.x, problem.labels, MAX_BATCH, 1.0f, again,
                         &loss);
    assert_memory_equal(problem.gradient, again, problem.count * sizeof *again);
    train_model_destroy(fresh);
    free(small);
    free(again);
    close_problem(&problem);
}

static void evaluation_gives_loss_and_accuracy(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    enum { EXAMPLES = 3 * MAX_BATCH - 1 }; // the last batch is short
    const struct train_model_spec *spec = &shapes[2];
    struct train_model *model = make(spec);
    const size_t count = train_model_parameters(model);
    float *parameters = get(count * sizeof *parameters);
    double *p = get(count * sizeof *p);
    struct train_dataset data = {.examples = EXAMPLES, .features = spec->inputs, .classes = spec->classes};
    data.x = get(EXAMPLES * spec->inputs * sizeof *data.x);
    data.labels = get(EXAMPLES * sizeof *data.labels);
    train_model_initialise(model, 3, parameters);
    for (size_t i = 0; i < count; i++) {
        p[i] = (double)parameters[i];
    }
    for (size_t i = 0; i < EXAMPLES * spec->inputs; i++) {
        data.x[i] = (float)base_rng_normal(&rng);
    }
    double expected_correct = 0.0, unused = INFINITY;
    for (size_t i = 0; i < EXAMPLES;
         i++) { // for two of three examples, the label is the one that the model gives
        double best = INFINITY;
        uint32_t given = 0;
        for (uint32_t label = 0; label < spec->classes; label++) {
            const double loss = reference_loss(model, p, data.x + i * spec->inputs, &label, 1, &unused);
            given = loss < best ? label : given;
            best = loss < best ? loss : best;
        }
        data.labels[i] = i % 3 < 2 ? given : (given + 1) % (uint32_t)spec->classes;
        expected_correct += i % 3 < 2 ? 1.0 : 0.0;
    }
    struct train_score score;
    train_model_evaluate(model, parameters, &data, &score);
    assert_true(fabs(score.accuracy - expected_correct / EXAMPLES) < 1e-12);
    assert_true(fabs(score.loss - reference_loss(model, p, data.x, data.labels, EXAMPLES, &unused)) <
                1e-5 * (1.0 + score.loss));
    assert_true(isnan(score.rmse));
    free(parameters);
    free(p);
    free(data.x);
    free(data.labels);
    train_model_destroy(model);
}

static void the_tensors_cover_the_vector_without_gaps(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        struct train_model *model = make(&shapes[s]);
        size_t count, end = 0;
        const struct train_tensor *tensors = train_model_tensors(model, &count);
        assert_int_equal(count, 2 * (shapes[s].n_hidden + 1));
        for (size_t i = 0; i < count; i++) {
            char name[LIMIT_TENSOR_NAME_BYTES];
            (void)snprintf(name, sizeof name, "layers.%zu.%s", i / 2, i % 2 == 0 ? "weight" : "bias");
            assert_string_equal(tensors[i].name, name);
            assert_int_equal(tensors[i].n_dims, i % 2 == 0 ? 2 : 1);
            assert_int_equal(tensors[i].count, tensors[i].shape[0] * (i % 2 == 0 ? tensors[i].shape[1] : 1));
            assert_int_equal(tensors[i].offset, end);
            end += tensors[i].count;
        }
        assert_int_equal(end, train_model_parameters(model));
        train_model_destroy(model);
    }
}

static void different_models_have_different_schemas(void **state)
{
    (void)state;
    uint64_t schemas[SHAPES];
    for (size_t s = 0; s < SHAPES; s++) {
        struct train_model *model = make(&shapes[s]), *twin = make(&shapes[s]);
        schemas[s] = train_model_schema(model);
        assert_true(schemas[s] == train_model_schema(twin));
        for (size_t t = 0; t < s; t++) {
            assert_true(schemas[s] != schemas[t]);
        }
        train_model_destroy(model);
        train_model_destroy(twin);
    }
}

static void a_model_is_described_in_words(void **state)
{
    (void)state;
    char text[64], cut[6];
    struct train_model *model = make(&shapes[2]), *softmax = make(&shapes[0]);
    train_model_describe(model, text, sizeof text);
    assert_string_equal(text, "mlp 9-17-6-4");
    train_model_describe(model, cut, sizeof cut);
    assert_string_equal(cut, "mlp 9");
    train_model_describe(softmax, text, sizeof text);
    assert_string_equal(text, "softmax 7-5");
    train_model_destroy(model);
    train_model_destroy(softmax);
}

static void first_weights_have_their_distribution(void **state)
{
    (void)state;
    const struct train_model_spec spec = {
        .kind = TRAIN_MLP, .inputs = 400, .classes = 10, .hidden = {100}, .n_hidden = 1};
    struct train_model *model = make(&spec);
    const size_t count = train_model_parameters(model);
    float *a = get(count * sizeof *a), *b = get(count * sizeof *b);
    train_model_initialise(model, 5, a);
    train_model_initialise(model, 5, b);
    assert_memory_equal(a, b, count * sizeof *a);
    train_model_initialise(model, 6, b);
    assert_memory_not_equal(a, b, count * sizeof *a);
    double squares = 0.0;
    for (size_t i = 0; i < 40000; i++) {
        squares += (double)a[i] * (double)a[i];
    }
    // Variance 2/400 of 40,000 draws: the standard deviation of the estimate is sqrt(2/40000) = 0.7% of it;
    // five of these.
    assert_true(fabs(squares / 40000.0 * 200.0 - 1.0) < 0.035);
    for (size_t i = 40000; i < 40100; i++) {
        assert_true(a[i] == 0.0f);
    }
    free(a);
    free(b);
    train_model_destroy(model);
}

static void invalid_shapes_are_refused(void **state)
{
    (void)state;
    const struct train_model_spec bad[] = {
        {.kind = TRAIN_SOFTMAX, .inputs = 0, .classes = 5},
        {.kind = TRAIN_SOFTMAX, .inputs = 7, .classes = 0},
        {.kind = TRAIN_SOFTMAX, .inputs = 7, .classes = 1},
        {.kind = TRAIN_SOFTMAX, .inputs = 7, .classes = LIMIT_CLASSES + 1},
        {.kind = TRAIN_SOFTMAX, .inputs = 7, .classes = 5, .hidden = {3}, .n_hidden = 1},
        {.kind = TRAIN_MLP, .inputs = 7, .classes = 5},
        {.kind = TRAIN_MLP, .inputs = 7, .classes = 5, .hidden = {0}, .n_hidden = 1},
        {.kind = TRAIN_MLP, .inputs = 7, .classes = 5, .hidden = {3}, .n_hidden = LIMIT_LAYERS + 1},
        {.kind = TRAIN_MLP, .inputs = 7, .classes = 5, .hidden = {SIZE_MAX}, .n_hidden = 1},
        {.kind = TRAIN_MLP, .inputs = 1u << 20, .classes = 5, .hidden = {1u << 11}, .n_hidden = 1},
        {.kind = (enum train_model_kind)9, .inputs = 7, .classes = 5},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct train_model *model = NULL;
        struct base_reason why = {{0}};
        assert_int_equal(train_model_create(&bad[i], kernels, MAX_BATCH, &model, &why), BASE_EINVAL);
        assert_null(model);
        assert_true(strlen(why.text) > 10);
    }
    struct train_model *model = NULL;
    struct base_reason why;
    assert_int_equal(train_model_create(&shapes[0], kernels, 0, &model, &why), BASE_EINVAL);
    assert_int_equal(train_model_create(&shapes[0], kernels, LIMIT_BATCH + 1, &model, &why), BASE_EINVAL);
}

static void the_largest_number_of_layers_is_accepted(void **state)
{
    (void)state;
    struct train_model_spec spec = {.kind = TRAIN_MLP, .inputs = 4, .classes = 2, .n_hidden = LIMIT_LAYERS};
    for (size_t i = 0; i < LIMIT_LAYERS; i++) {
        spec.hidden[i] = 4;
    }
    struct base_rng rng;
    base_rng_seed(&rng, 1);
    struct train_model *model = make(&spec);
    const size_t count = train_model_parameters(model);
    float *p = get(count * sizeof *p), *g = get(count * sizeof *g), x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const uint32_t labels[2] = {0, 1};
    struct kernels_loss loss;
    train_model_initialise(model, 1, p);
    train_model_gradient(model, p, x, labels, 2, 1.0f, g, &loss);
    assert_true(isfinite(loss.loss_sum));
    free(p);
    free(g);
    train_model_destroy(model);
}

int main(void)
{
    struct base_reason why;
    const char *text = getenv("P2PML_SEED");
    seed = text ? strtoull(text, NULL, 10) : seed;
    printf("P2PML_SEED=%llu\n", (unsigned long long)seed);
    if (kernels_open("cpu", 1, &kernels, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_central_differences),
        cmocka_unit_test(the_workspace_keeps_nothing),
        cmocka_unit_test(evaluation_gives_loss_and_accuracy),
        cmocka_unit_test(the_tensors_cover_the_vector_without_gaps),
        cmocka_unit_test(different_models_have_different_schemas),
        cmocka_unit_test(a_model_is_described_in_words),
        cmocka_unit_test(first_weights_have_their_distribution),
        cmocka_unit_test(invalid_shapes_are_refused),
        cmocka_unit_test(the_largest_number_of_layers_is_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
