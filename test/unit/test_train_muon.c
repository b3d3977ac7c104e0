// Muon: which tensors are hidden matrices, its step against the same rule in double, what Newton-Schulz does
// to singular values, and that other tensors take AdamW's steps. Seeks, order and the state of a node are
// tested with the other optimisers.
#include "trainer_world.h"

enum { COUNT = 1000 };

// A vector of one wide and one tall matrix, each between other tensors.
static const struct train_tensor tensors[] = {{.offset = 0, .count = 100},
                                              {.offset = 100, .count = 240, .hidden_rows = 8},
                                              {.offset = 340, .count = 60},
                                              {.offset = 400, .count = 500, .hidden_rows = 50},
                                              {.offset = 900, .count = 100}};
enum { TENSORS = sizeof tensors / sizeof *tensors, WIDE = 1, TALL = 3 };

struct stage {
    float x[COUNT], m[COUNT], v[COUNT], gradient[COUNT], correction[COUNT];
    struct base_rng rng;
};

static void fill(struct base_rng *rng, float *values)
{
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (float)base_rng_normal(rng);
}

static void open_stage(struct stage *s)
{
    memset(s, 0, sizeof *s);
    base_rng_seed(&s->rng, 17);
    fill(&s->rng, s->x);
    fill(&s->rng, s->correction);
    fill(&s->rng, s->gradient);
}

static void step(struct stage *s, enum train_optimizer_kind kind, const struct train_options *options,
                 uint64_t at, bool corrected)
{
    const struct train_optimizer *optimizer = train_optimizer(kind);
    float *scratch = get((optimizer->scratch ? optimizer->scratch(tensors, TENSORS) : 1) * sizeof *scratch);
    const struct train_update update = {.kernels = kernels,
                                        .options = options,
                                        .count = COUNT,
                                        .step = at,
                                        .rate = (float)options->rate,
                                        .gradient = s->gradient,
                                        .correction = corrected ? s->correction : NULL,
                                        .state = {s->m, s->v},
                                        .x = s->x,
                                        .tensors = tensors,
                                        .n_tensors = TENSORS,
                                        .scratch = scratch};
    optimizer->step(&update);
    free(scratch);
}

// -- the rule in double

// c [m, n] = a [m, k] b [k, n]; strides: of a row and of a column.
struct view {
    const double *at;
    size_t row, column;
};

static void multiply(size_t m, size_t n, size_t k, struct view a, struct view b, double *c)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t l = 0; l < k; l++)
                sum += a.at[i * a.row + l * a.column] * b.at[l * b.row + j * b.column];
            c[i * n + j] = sum;
        }
    }
}

// u [rows, cols]: five times u <- a u + b (u u^T) u + c (u u^T)^2 u, always from the left.
static void orthogonalise(size_t rows, size_t cols, double *u)
{
    static double square[50 * 50], once[COUNT], twice[COUNT];
    double norm = 0;
    for (size_t i = 0; i < rows * cols; i++)
        norm += u[i] * u[i];
    for (size_t i = 0; i < rows * cols; i++)
        u[i] /= sqrt(norm) + 1e-7;
    for (int t = 0; t < 5; t++) {
        multiply(rows, rows, cols, (struct view){u, cols, 1}, (struct view){u, 1, cols}, square);
        multiply(rows, cols, rows, (struct view){square, rows, 1}, (struct view){u, cols, 1}, once);
        multiply(rows, cols, rows, (struct view){square, rows, 1}, (struct view){once, cols, 1}, twice);
        for (size_t i = 0; i < rows * cols; i++)
            u[i] = 3.4445 * u[i] - 4.7750 * once[i] + 2.0315 * twice[i];
    }
}

struct reference {
    double x[COUNT], m[COUNT];
};

static void reference_step(struct reference *r, const struct train_tensor *t, const struct stage *s,
                           const struct train_options *options, bool corrected)
{
    static double u[COUNT];
    const size_t rows = t->hidden_rows, cols = t->count / rows;
    for (size_t i = 0; i < t->count; i++) {
        const size_t at = t->offset + i;
        r->m[at] = 0.95 * r->m[at] + 0.05 * (double)s->gradient[at];
        u[i] = 0.05 * (double)s->gradient[at] + 0.95 * r->m[at];
    }
    orthogonalise(rows, cols, u);
    const double factor = 0.2 * sqrt((double)(rows > cols ? rows : cols));
    for (size_t i = 0; i < t->count; i++) {
        const size_t at = t->offset + i;
        r->x[at] -= options->rate * (factor * u[i] + options->weight_decay * r->x[at] -
                                     (corrected ? (double)s->correction[at] : 0.0));
    }
}

static void hidden_matrices_follow_the_rule(void **state)
{
    (void)state;
    for (unsigned corrected = 0; corrected < 2; corrected++) {
        static struct stage s;
        static struct reference r;
        open_stage(&s);
        for (size_t i = 0; i < COUNT; i++) {
            r.x[i] = (double)s.x[i];
            r.m[i] = 0;
        }
        for (uint64_t t = 0; t < 20; t++) {
            fill(&s.rng, s.gradient);
            reference_step(&r, &tensors[WIDE], &s, &muon, corrected);
            reference_step(&r, &tensors[TALL], &s, &muon, corrected);
            step(&s, TRAIN_MUON, &muon, t, corrected);
        }
        for (size_t i = 0; i < COUNT; i++)
            if ((i >= 100 && i < 340) || (i >= 400 && i < 900)) // a step moves an element by about 0.002
                assert_true(fabs((double)s.x[i] - r.x[i]) < 1e-5 * (1.0 + fabs(r.x[i])));
    }
}

static void other_tensors_have_the_bits_of_adamw(void **state)
{
    (void)state;
    for (unsigned corrected = 0; corrected < 2; corrected++) {
        static struct stage ours, theirs;
        open_stage(&ours);
        open_stage(&theirs);
        for (uint64_t t = 0; t < 20; t++) {
            fill(&ours.rng, ours.gradient);
            fill(&theirs.rng, theirs.gradient);
            step(&ours, TRAIN_MUON, &muon, t, corrected);
            step(&theirs, TRAIN_ADAMW, &muon, t, corrected);
        }
        for (size_t i = 0; i < TENSORS; i++) {
            const size_t at = tensors[i].offset, bytes = tensors[i].count * sizeof(float);
            if (tensors[i].hidden_rows > 0) {
                assert_memory_not_equal(ours.x + at, theirs.x + at, bytes);
                for (size_t j = 0; j < tensors[i].count; j++)
                    assert_true(ours.v[at + j] == 0);
            } else {
                assert_memory_equal(ours.x + at, theirs.x + at, bytes);
                assert_memory_equal(ours.m + at, theirs.m + at, bytes);
                assert_memory_equal(ours.v + at, theirs.v + at, bytes);
            }
        }
    }
}

// -- invariants of a step

// The direction of a first step in a matrix, without its factor.
static void direction(struct stage *s, const struct train_tensor *t, double *out)
{
    struct train_options plain = muon;
    plain.weight_decay = 0;
    plain.rate = 1;
    const size_t cols = t->count / t->hidden_rows;
    const double factor = 0.2 * sqrt((double)(t->hidden_rows > cols ? t->hidden_rows : cols));
    memset(s->x, 0, sizeof s->x);
    memset(s->m, 0, sizeof s->m);
    memset(s->v, 0, sizeof s->v);
    step(s, TRAIN_MUON, &plain, 0, false);
    for (size_t i = 0; i < t->count; i++)
        out[i] = -(double)s->x[t->offset + i] / factor;
}

// The least and the largest singular value of the shorter side, by rotations of pairs of rows (Jacobi).
static void singular(size_t rows, size_t cols, double *u, bool tall, double *least, double *most)
{
    const size_t side = tall ? cols : rows, length = tall ? rows : cols, next = tall ? cols : 1,
                 row = tall ? 1 : cols;
    for (int sweep = 0; sweep < 30; sweep++) {
        for (size_t p = 0; p < side; p++) {
            for (size_t q = p + 1; q < side; q++) {
                double a = 0, b = 0, c = 0;
                for (size_t i = 0; i < length; i++) {
                    const double x = u[p * row + i * next], y = u[q * row + i * next];
                    a += x * x;
                    b += y * y;
                    c += x * y;
                }
                const double angle = 0.5 * atan2(2 * c, a - b);
                for (size_t i = 0; i < length; i++) {
                    const double x = u[p * row + i * next], y = u[q * row + i * next];
                    u[p * row + i * next] = cos(angle) * x + sin(angle) * y;
                    u[q * row + i * next] = cos(angle) * y - sin(angle) * x;
                }
            }
        }
    }
    *least = INFINITY;
    *most = 0;
    for (size_t p = 0; p < side; p++) {
        double square = 0;
        for (size_t i = 0; i < length; i++)
            square += u[p * row + i * next] * u[p * row + i * next];
        *least = fmin(*least, sqrt(square));
        *most = fmax(*most, sqrt(square));
    }
}

static void all_singular_values_are_near_one(void **state)
{
    static const size_t which[] = {WIDE, TALL};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        static struct stage s;
        static double u[COUNT];
        const struct train_tensor *t = &tensors[which[i]];
        const size_t rows = t->hidden_rows, cols = t->count / rows;
        double least, most;
        open_stage(&s);
        // Rows and columns of very different size: the largest singular value is over 100 times the least.
        for (size_t j = 0; j < t->count; j++)
            s.gradient[t->offset + j] *= powf(2.0f, -(float)(rows < cols ? j / cols : j % cols));
        for (size_t j = 0; j < t->count; j++)
            u[j] = (double)s.gradient[t->offset + j];
        singular(rows, cols, u, rows > cols, &least, &most);
        assert_true(most > 50 * least);
        direction(&s, t, u);
        singular(rows, cols, u, rows > cols, &least, &most);
        assert_true(least > 0.6 && most < 1.25);
    }
}

static void the_size_of_a_gradient_does_not_matter(void **state)
{
    (void)state;
    static struct stage s;
    static double once[COUNT], large[COUNT];
    const struct train_tensor *t = &tensors[TALL];
    open_stage(&s);
    direction(&s, t, once);
    open_stage(&s);
    for (size_t i = 0; i < COUNT; i++)
        s.gradient[i] *= 1024.0f;
    direction(&s, t, large);
    for (size_t i = 0; i < t->count; i++)
        assert_true(fabs(once[i] - large[i]) < 1e-4);
}

static void zeros_stay_and_what_is_not_a_number_shows(void **state)
{
    (void)state;
    static struct stage s;
    static double u[COUNT];
    const struct train_tensor *t = &tensors[WIDE];
    open_stage(&s);
    memset(s.gradient, 0, sizeof s.gradient);
    direction(&s, t, u);
    for (size_t i = 0; i < t->count; i++)
        assert_true(u[i] == 0);
    open_stage(&s);
    s.gradient[t->offset] = NAN;
    direction(&s, t, u);
    assert_true(isnan(u[0]));
    assert_true(isfinite(s.x[tensors[TALL].offset])); // another matrix
}

// -- the model says which tensors are hidden matrices

struct expected {
    struct train_model_spec spec;
    const char *hidden; // names and shapes
};

static void the_model_names_its_hidden_matrices(void **state)
{
    static const struct expected all[] = {
        {{.kind = TRAIN_SOFTMAX, .inputs = 9, .classes = 3}, ""},
        {{.kind = TRAIN_LOGISTIC, .inputs = 9, .classes = 2}, ""},
        {{.kind = TRAIN_MLP, .inputs = 9, .classes = 3, .hidden = {8}, .n_hidden = 1}, ""},
        {{.kind = TRAIN_MLP, .inputs = 9, .classes = 3, .hidden = {8, 6, 5}, .n_hidden = 3},
         "layers.1.weight 8x6 layers.2.weight 6x5 "},
        {{.kind = TRAIN_LENET, .inputs = 784, .classes = 10, .image = {28, 28, 1}},
         "conv2.weight 150x16 fc1.weight 256x120 fc2.weight 120x84 "},
        {{.kind = TRAIN_CNN, .inputs = 784, .classes = 10, .image = {28, 28, 1}}, "conv2.weight 288x64 "},
        {{.kind = TRAIN_GPT2, .inputs = 8, .classes = 20, .decoder = {.layers = 1, .width = 6, .heads = 2}},
         "h.0.attn.c_attn.weight 6x18 h.0.attn.c_proj.weight 6x6 h.0.mlp.c_fc.weight 6x24 "
         "h.0.mlp.c_proj.weight 24x6 "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct train_model *model = NULL;
        struct base_reason why;
        char found[400] = "";
        size_t n;
        if (train_model_create(&all[i].spec, kernels, 4, &model, &why))
            fail_msg("%s", why.text);
        const struct train_tensor *of = train_model_tensors(model, &n);
        for (size_t j = 0; j < n; j++) {
            const size_t used = strlen(found), rows = of[j].hidden_rows;
            if (rows > 0)
                (void)snprintf(found + used, sizeof found - used, "%s %zux%zu ", of[j].name, rows,
                               of[j].count / rows);
        }
        assert_string_equal(found, all[i].hidden);
        train_model_destroy(model);
    }
}

static void models_without_hidden_matrices_are_refused(void **state)
{
    (void)state;
    struct setup s;
    struct train_trainer *trainer = NULL;
    struct base_reason why;
    open_setup(&s, clusters(40, 6, 3), 9, &sgd);
    assert_int_equal(train_trainer_create(&muon, s.model, &s.data, s.start, &trainer, &why), BASE_EINVAL);
    assert_string_equal(why.text, "train.optimizer muon is for weights between the first and the last layer, "
                                  "which 'mlp 6-9-3' lacks; expected adamw");
    close_setup(&s);
}

// Its scratch is counted.
static void the_memory_of_a_trainer(void **state)
{
    (void)state;
    struct setup s;
    open_setup(&s, clusters(40, 6, 3), 9, &muon);
    const size_t vectors = 5, scratch = 9 * 7 + 2 * 7 * 7; // model, correction, two states, gradient
    assert_int_equal(train_trainer_memory(s.trainer), (vectors * s.count + scratch) * sizeof(float));
    close_setup(&s);
}

int main(void)
{
    if (open_world() != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_matrices_follow_the_rule),
        cmocka_unit_test(other_tensors_have_the_bits_of_adamw),
        cmocka_unit_test(all_singular_values_are_near_one),
        cmocka_unit_test(the_size_of_a_gradient_does_not_matter),
        cmocka_unit_test(zeros_stay_and_what_is_not_a_number_shows),
        cmocka_unit_test(the_model_names_its_hidden_matrices),
        cmocka_unit_test(models_without_hidden_matrices_are_refused),
        cmocka_unit_test(the_memory_of_a_trainer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
