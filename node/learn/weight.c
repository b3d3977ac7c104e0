// Apart from data.c: a program that trains by itself needs the weight, and links no loader of data.
#include "node/learn/weight.h"
#include "node/learn/data.h"
#include <stdlib.h>

double node_data_weight(const struct node_config *config, const struct train_dataset *data, size_t living)
{
    if (config->train.weight > 0)
        return config->train.weight;
    if (data->examples == data->whole)
        return 1.0;
    return (double)data->examples * (double)living / (double)data->whole;
}

void node_weighing_add(struct node_weighing *weighing, uint32_t examples)
{
    if (weighing->count == LIMIT_MEMBERS)
        return;
    weighing->examples[weighing->count++] = examples;
    weighing->sum += examples;
}

static int order_counts(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

double node_weighing_result(struct node_weighing *w, uint32_t own)
{
    double sum = 0;
    BASE_ASSERT(w->count > 0);
    qsort(w->examples, w->count, sizeof *w->examples, order_counts);
    const double most = NODE_WEIGHT_MOST * (double)w->examples[(w->count - 1) / 2];
    for (size_t i = 0; i < w->count; i++)
        sum += (double)w->examples[i] < most ? (double)w->examples[i] : most;
    return ((double)own < most ? (double)own : most) * (double)w->count / sum;
}
