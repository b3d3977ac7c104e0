#include "train/regress.h"
#include <math.h>
#include <stdlib.h>

void train_regress_loss(enum train_loss kind, size_t rows, size_t cols, float *z, const float *targets,
                        float scale, struct kernels_loss *loss)
{
    const double each = 1.0 / (double)cols;
    double sum = 0;
    for (size_t i = 0; i < rows * cols; i++) {
        const double error = (double)z[i] - (double)targets[i];
        const double sign = error > 0 ? 1.0 : error < 0 ? -1.0 : 0.0;
        sum += kind == TRAIN_MSE ? error * error : fabs(error);
        z[i] = (float)((kind == TRAIN_MSE ? 2.0 * error : sign) * each * (double)scale);
    }
    *loss = (struct kernels_loss){.loss_sum = sum * each};
}

bool train_regress_begin(size_t outputs, struct train_regress_sums *sums)
{
    *sums = (struct train_regress_sums){outputs, calloc(outputs, sizeof *sums->squared)};
    return sums->squared;
}

void train_regress_add(struct train_regress_sums *sums, size_t rows, const float *z, const float *targets)
{
    for (size_t i = 0; i < rows * sums->outputs; i++) {
        const double error = (double)z[i] - (double)targets[i];
        sums->squared[i % sums->outputs] += error * error;
    }
}

static double deviation(const struct train_dataset *data, size_t output)
{
    double mean = 0, sum = 0;
    for (size_t i = 0; i < data->examples; i++)
        mean += (double)data->targets[i * data->outputs + output] / (double)data->examples;
    for (size_t i = 0; i < data->examples; i++) {
        const double d = (double)data->targets[i * data->outputs + output] - mean;
        sum += d * d;
    }
    return sum;
}

void train_regress_end(struct train_regress_sums *sums, const struct train_dataset *data, double *r2,
                       double *rmse)
{
    const float *factor = data->meaning ? data->meaning->target_factor : NULL;
    double r2_sum = 0, squared = 0;
    for (size_t o = 0; o < sums->outputs; o++) {
        const double whole = deviation(data, o), unit = factor ? 1.0 / (double)factor[o] : 1.0;
        r2_sum += whole > 0 ? 1.0 - sums->squared[o] / whole : (double)NAN;
        squared += sums->squared[o] * unit * unit;
    }
    *r2 = r2_sum / (double)sums->outputs;
    *rmse = sqrt(squared / (double)sums->outputs / (double)data->examples);
    free(sums->squared);
}
