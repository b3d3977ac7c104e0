#include "base/limits.h"
#include "compress/compress.h"
#include "kernels/kernels.h"
#include <stdlib.h>

enum base_error compress_sparse_create_on(const struct kernels *kernels, size_t capacity,
                                          struct compress_sparse *sparse)
{
    if (capacity > LIMIT_PARAMETERS)
        return BASE_ELIMIT;
    size_t room = capacity > 0 ? capacity : 1;
    uint32_t *index = kernels->alloc(room * sizeof *index);
    float *value = kernels->alloc(room * sizeof *value);
    if (index == NULL || value == NULL) {
        kernels->release(index);
        kernels->release(value);
        return BASE_ENOMEM;
    }
    *sparse = (struct compress_sparse){
        .index = index, .value = value, .count = 0, .capacity = capacity, .kernels = kernels};
    return BASE_OK;
}

enum base_error compress_sparse_create(size_t capacity, struct compress_sparse *sparse)
{
    if (capacity > LIMIT_PARAMETERS)
        return BASE_ELIMIT;
    size_t room = capacity > 0 ? capacity : 1;
    uint32_t *index = malloc(room * sizeof *index);
    float *value = malloc(room * sizeof *value);
    if (index == NULL || value == NULL) {
        free(index);
        free(value);
        return BASE_ENOMEM;
    }
    *sparse = (struct compress_sparse){.index = index, .value = value, .count = 0, .capacity = capacity};
    return BASE_OK;
}

void compress_sparse_destroy(struct compress_sparse *sparse)
{
    void (*release)(void *) = sparse->kernels != NULL ? sparse->kernels->release : free;
    release(sparse->index);
    release(sparse->value);
    *sparse = (struct compress_sparse){0};
}
