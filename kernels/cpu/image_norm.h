// Part of image_body.h: group normalisation.
#ifndef KERNELS_CPU_IMAGE_NORM_H
#define KERNELS_CPU_IMAGE_NORM_H

static void norm_statistics(const struct kernels_group_norm *n, const float *x, float *mean, float *scale)
{
    const size_t width = n->channels / n->groups;
    const double count = (double)(width * n->pixels);
    for (size_t g = 0; g < n->groups; g++) {
        double sum = 0, square = 0;
        for (size_t p = 0; p < n->pixels; p++)
            for (size_t c = 0; c < width; c++)
                sum += (double)x[p * n->channels + g * width + c];
        const double middle = sum / count;
        for (size_t p = 0; p < n->pixels; p++) {
            for (size_t c = 0; c < width; c++) {
                const double d = (double)x[p * n->channels + g * width + c] - middle;
                square += d * d;
            }
        }
        mean[g] = (float)middle;
        scale[g] = (float)(1.0 / sqrt(square / count + (double)n->epsilon));
    }
}

static void norm(const struct kernels_group_norm *n, const float *x, const float *gamma, const float *beta,
                 float *kept, float *y)
{
    const size_t width = n->channels / n->groups;
    for (size_t image = 0; image < n->images; image++, kept += 2 * n->groups) {
        norm_statistics(n, x, kept, kept + n->groups);
        for (size_t p = 0; p < n->pixels; p++, x += n->channels, y += n->channels) {
            for (size_t g = 0; g < n->groups; g++) {
                const float mean = kept[g], scale = kept[n->groups + g];
                for (size_t c = g * width; c < (g + 1) * width; c++) {
                    const float value = (x[c] - mean) * scale * gamma[c] + beta[c];
                    y[c] = n->relu && 0.0f > value ? 0.0f : value;
                }
            }
        }
    }
}

// With h = (x - mean) scale: dgamma = sum dy h, dbeta = sum dy, and
// dx = scale (gamma dy - mean(gamma dy) - h mean(gamma dy h)), means over the group.
static void norm_backward(const struct kernels_group_norm *n, const float *x, const float *y,
                          const float *gamma, const float *kept, float *dy, bool accumulate, float *scratch,
                          float *dgamma, float *dbeta, float *dx)
{
    const size_t channels = n->channels, width = channels / n->groups, image_size = n->pixels * channels;
    float *with_h = scratch, *plain = scratch + channels, *middle = scratch + 2 * channels,
          *scale = scratch + 3 * channels, *mean_plain = scratch + 4 * channels,
          *mean_h = scratch + 5 * channels;
    if (!accumulate) {
        memset(dgamma, 0, channels * sizeof *dgamma);
        memset(dbeta, 0, channels * sizeof *dbeta);
    }
    for (size_t i = 0; i < n->images; i++, kept += 2 * n->groups) {
        const float *restrict in = x + i * image_size;
        float *restrict up = dy + i * image_size;
        float *restrict down = dx ? dx + i * image_size : NULL;
        if (n->relu)
            mask(image_size, y + i * image_size, up);
        memset(scratch, 0, 2 * channels * sizeof *scratch);
        for (size_t c = 0; c < channels; c++) {
            middle[c] = kept[c / width];
            scale[c] = kept[n->groups + c / width];
        }
        for (size_t p = 0; p < image_size; p += channels) {
            for (size_t c = 0; c < channels; c++) {
                with_h[c] += up[p + c] * ((in[p + c] - middle[c]) * scale[c]);
                plain[c] += up[p + c];
            }
        }
        for (size_t g = 0; g < n->groups; g++) {
            float sum_h = 0, sum = 0;
            for (size_t c = g * width; c < (g + 1) * width; c++) {
                sum_h += gamma[c] * with_h[c];
                sum += gamma[c] * plain[c];
            }
            for (size_t c = g * width; c < (g + 1) * width; c++) {
                mean_h[c] = sum_h / (float)(width * n->pixels);
                mean_plain[c] = sum / (float)(width * n->pixels);
            }
        }
        add_rows(1, channels, with_h, dgamma);
        add_rows(1, channels, plain, dbeta);
        for (size_t p = 0; p < image_size && dx; p += channels) {
            for (size_t c = 0; c < channels; c++) {
                const float h = (in[p + c] - middle[c]) * scale[c];
                down[p + c] = scale[c] * (gamma[c] * up[p + c] - mean_plain[c] - h * mean_h[c]);
            }
        }
    }
}

#endif
