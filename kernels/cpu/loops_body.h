// The loops of the CPU backend: plain C that gcc and clang vectorise, compiled once for each instruction set
// by the file that includes it and names KERNELS_PATH, KERNELS_TABLE, KERNELS_GEMM, KERNELS_IN_PIECES and
// KERNELS_PIECES. Without fused multiply-add and with partial sums of a fixed width, every path gives the
// same bits.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/select.h"

#include <math.h>
#include <string.h>

static void bias_add(size_t rows, size_t cols, const float *restrict bias, float *restrict z)
{
    for (size_t r = 0; r < rows; r++, z += cols)
        for (size_t c = 0; c < cols; c++)
            z[c] += bias[c];
}

static void bias_add_relu(size_t rows, size_t cols, const float *restrict bias, float *restrict z)
{
    for (size_t r = 0; r < rows; r++, z += cols) {
        for (size_t c = 0; c < cols; c++) {
            float value = z[c] + bias[c];
            z[c] = 0.0f > value ? 0.0f : value; // in this order NaN stays NaN, so that divergence is visible
        }
    }
}

static void relu_backward(size_t count, const float *restrict activation, float *restrict grad)
{
    for (size_t i = 0; i < count; i++)
        grad[i] = activation[i] > 0.0f ? grad[i] : 0.0f;
}

static void column_sum(size_t rows, size_t cols, const float *restrict z, float *restrict sum)
{
    memset(sum, 0, cols * sizeof *sum);
    for (size_t r = 0; r < rows; r++, z += cols)
        for (size_t c = 0; c < cols; c++)
            sum[c] += z[c];
}

static float row_max(size_t count, const float *z)
{
    float lane[LANES];
    for (size_t l = 0; l < LANES; l++)
        lane[l] = z[0];
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] = z[i + l] > lane[l] ? z[i + l] : lane[l];
    float max = z[0];
    for (; i < count; i++)
        max = z[i] > max ? z[i] : max;
    for (size_t l = 0; l < LANES; l++)
        max = lane[l] > max ? lane[l] : max;
    return max;
}

// Subtracts from each row its largest logit, and from the loss what is then the logit of the label. Counts
// the correct predictions.
static void shift_rows(size_t rows, size_t cols, float *restrict z, const uint32_t *restrict labels,
                       struct kernels_loss *loss)
{
    for (size_t r = 0; r < rows; r++, z += cols) {
        const size_t label = labels[r];
        const float max = row_max(cols, z);
        bool correct = z[label] == max;
        for (size_t c = 0; correct && c < label; c++)
            correct = z[c] < max;
        loss->correct += correct;
        for (size_t c = 0; c < cols; c++)
            z[c] -= max;
        loss->loss_sum -= (double)z[label];
    }
}

static void exp_all(size_t count, float *z)
{
    for (size_t i = 0; i < count; i++)
        z[i] = exp_nonpositive(z[i]);
}

static void normalise_rows(size_t rows, size_t cols, float *restrict z, const uint32_t *restrict labels,
                           float scale, struct kernels_loss *loss)
{
    for (size_t r = 0; r < rows; r++, z += cols) {
        const float sum = row_sum(cols, z);
        const float factor = scale / sum;
        loss->loss_sum += log((double)sum);
        for (size_t c = 0; c < cols; c++)
            z[c] *= factor;
        z[labels[r]] -= scale;
    }
}

#define PAIRS 1024u // rows of two classes that are computed at once

// Two classes, without a branch or a call for each row. `lead` is by how much the other class is ahead of the
// label: the loss is log(1 + e^lead), and its gradient +-logistic(lead).
static void pair_losses(size_t rows, float *restrict z, const uint32_t *restrict labels, float scale,
                        float *restrict losses, struct kernels_loss *loss)
{
    const union float_bits one = {.f = 1.0f};
    const uint32_t sign = 1u << 31;
    uint32_t correct = 0;
    for (size_t r = 0; r < rows; r++) {
        const uint32_t turned = labels[r] << 31;
        union float_bits lead = {.f = z[2 * r + 1] - z[2 * r]};
        lead.u ^= turned;
        const uint32_t behind = 0u - (lead.u >> 31);
        const union float_bits level = {.u = lead.u | sign}, ahead = {.u = lead.u & ~behind};
        const union float_bits e = {.f = exp_nonpositive(level.f)},
                               part = {.u = (e.u & behind) | (one.u & ~behind)};
        union float_bits slope = {.f = part.f * scale / (1.0f + e.f)};
        slope.u ^= turned;
        losses[r] = ahead.f + log_1_plus(e.f);
        z[2 * r] = -slope.f;
        z[2 * r + 1] = slope.f;
        correct += (uint32_t)(lead.u - sign - 1 < 0x7f800000u) | (uint32_t)((lead.u << 1 | turned) == 0);
    }
    loss->correct += correct;
    loss->loss_sum += (double)row_sum(rows, losses);
}

static void softmax_of_pairs(size_t rows, float *logits, const uint32_t *labels, float scale,
                             struct kernels_loss *loss)
{
    float losses[PAIRS];
    for (size_t done = 0; done < rows; done += PAIRS) {
        const size_t now = rows - done < PAIRS ? rows - done : PAIRS;
        pair_losses(now, logits + 2 * done, labels + done, scale, losses, loss);
    }
}

static void softmax_cross_entropy(size_t rows, size_t cols, float *logits, const uint32_t *labels,
                                  float scale, struct kernels_loss *loss)
{
    *loss = (struct kernels_loss){0};
    if (cols == 2) {
        softmax_of_pairs(rows, logits, labels, scale, loss);
        return;
    }
    const size_t block =
        cols < 2048 ? 2048 / cols : 1; // rows that fit the L1 cache; exp runs across their ends
    for (size_t done = 0; done < rows; done += block) {
        const size_t now = rows - done < block ? rows - done : block;
        float *z = logits + done * cols;
        shift_rows(now, cols, z, labels + done, loss);
        exp_all(now * cols, z);
        normalise_rows(now, cols, z, labels + done, scale, loss);
    }
}

// Callers pass the flags as constants, so that each call becomes a loop that reads only the vectors that it
// needs.
static inline __attribute__((always_inline)) void
sgd_loop(size_t count, const struct kernels_sgd *options, const float *restrict grad,
         const float *restrict correction, float *restrict m, float *restrict x, bool heavy, bool corrected)
{
    const float rate = options->rate, momentum = options->momentum, decay = options->weight_decay;
    for (size_t i = 0; i < count; i++) {
        float direction = grad[i] + decay * x[i];
        if (heavy) {
            direction = momentum * m[i] + direction;
            m[i] = direction;
        }
        if (corrected)
            direction -= correction[i];
        x[i] -= rate * direction;
    }
}

static void sgd_step(size_t count, const struct kernels_sgd *options, const float *grad,
                     const float *correction, float *m, float *x)
{
    const bool heavy = m != NULL;
    BASE_ASSERT(heavy || options->momentum == 0.0f);
    if (heavy && correction)
        sgd_loop(count, options, grad, correction, m, x, true, true);
    else if (heavy)
        sgd_loop(count, options, grad, NULL, m, x, true, false);
    else if (correction)
        sgd_loop(count, options, grad, correction, NULL, x, false, true);
    else
        sgd_loop(count, options, grad, NULL, NULL, x, false, false);
}

static inline __attribute__((always_inline)) void
adamw_loop(size_t count, const struct kernels_adamw *options, const float *restrict grad,
           const float *restrict correction, float *restrict m, float *restrict v, float *restrict x,
           bool corrected)
{
    const struct kernels_adamw o = *options;
    const float unbias1 = 1.0f / o.correction1, unbias2 = 1.0f / o.correction2;
    const float beta1 = (float)o.beta1, rest1 = (float)(1.0 - o.beta1);
    const float beta2 = (float)o.beta2, rest2 = (float)(1.0 - o.beta2);
    for (size_t i = 0; i < count; i++) {
        const float g = grad[i];
        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * (g * g);
        float direction = (m[i] * unbias1) / (sqrtf(v[i] * unbias2) + o.epsilon) + o.weight_decay * x[i];
        if (corrected)
            direction -= correction[i];
        x[i] -= o.rate * direction;
    }
}

static void adamw_step(size_t count, const struct kernels_adamw *options, const float *grad,
                       const float *correction, float *m, float *v, float *x)
{
    if (correction)
        adamw_loop(count, options, grad, correction, m, v, x, true);
    else
        adamw_loop(count, options, grad, NULL, m, v, x, false);
}

static inline __attribute__((always_inline)) void
lion_loop(size_t count, const struct kernels_lion *options, const float *restrict grad,
          const float *restrict correction, float *restrict m, float *restrict x, bool corrected)
{
    const struct kernels_lion o = *options;
    const float beta1 = (float)o.beta1, rest1 = (float)(1.0 - o.beta1);
    const float beta2 = (float)o.beta2, rest2 = (float)(1.0 - o.beta2);
    for (size_t i = 0; i < count; i++) {
        const float g = grad[i], mean = beta1 * m[i] + rest1 * g;
        const float sign = mean > 0.0f ? 1.0f : mean < 0.0f ? -1.0f : mean; // NaN stays NaN
        float direction = sign + o.weight_decay * x[i];
        if (corrected)
            direction -= correction[i];
        m[i] = beta2 * m[i] + rest2 * g;
        x[i] -= o.rate * direction;
    }
}

static void lion_step(size_t count, const struct kernels_lion *options, const float *grad,
                      const float *correction, float *m, float *x)
{
    if (correction)
        lion_loop(count, options, grad, correction, m, x, true);
    else
        lion_loop(count, options, grad, NULL, m, x, false);
}

// The sub-table `name` of this path: kernels_cpu_<name>_<path>.
#define SUBTABLE_PASTE(name, path) &kernels_cpu_##name##_##path
#define SUBTABLE_OF(name, path)    SUBTABLE_PASTE(name, path)
#define SUBTABLE(name)             SUBTABLE_OF(name, KERNELS_PATH)

const struct kernels KERNELS_TABLE = {
    .name = "cpu",
    .shares_host = true,
    .alloc = kernels_cpu_alloc,
    .release = kernels_cpu_release,
    .upload = kernels_cpu_copy,
    .download = kernels_cpu_copy,
    .wait = kernels_cpu_wait,
    .gemm = KERNELS_GEMM,
    .in_pieces = KERNELS_IN_PIECES,
    .gemm_pieces = KERNELS_PIECES,
    .bias_add = bias_add,
    .bias_add_relu = bias_add_relu,
    .relu_backward = relu_backward,
    .column_sum = column_sum,
    .softmax_cross_entropy = softmax_cross_entropy,
    .sgd_step = sgd_step,
    .adamw_step = adamw_step,
    .lion_step = lion_step,
    .host = &KERNELS_TABLE,
    .select = SUBTABLE(select),
    .values = SUBTABLE(values),
    .apply = SUBTABLE(apply),
    .vectors = &kernels_cpu_vectors,
    .coding = SUBTABLE(coding),
    .image = SUBTABLE(image),
    .sequence = SUBTABLE(sequence),
    .decoder = &kernels_decoder_plain,
};
