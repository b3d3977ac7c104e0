// Apart from data.c: a program that trains by itself needs the weight, and links no loader of data.
#include "node/learn/data.h"

double node_data_weight(const struct node_config *config, const struct train_dataset *data, size_t living)
{
    if (config->train.weight > 0)
        return config->train.weight;
    if (data->examples == data->whole)
        return 1.0;
    return (double)data->examples * (double)living / (double)data->whole;
}
