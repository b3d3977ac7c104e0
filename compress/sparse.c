#include "base/limits.h"
#include "compress/compress.h"
#include "kernels/kernels.h"
#include <stdlib.h>

enum base_error compress_sparse_create(size_t capacity, struct compress_sparse *sparse)
{
    return compress_sparse_create_on(NULL, capacity, sparse);
}

enum base_error compress_sparse_create_on(const struct kernels *kernels, size_t capacity,
                                          struct compress_sparse *sparse)
{
    if (capacity > LIMIT_PARAMETERS)
        return BASE_ELIMIT;
    size_t room = capacity > 0 ? capacity : 1;
    void *(*alloc)(size_t) = kernels ? kernels->alloc : malloc;
    struct compress_sparse made = {.index = alloc(room * sizeof *made.index),
                                   .value = alloc(room * sizeof *made.value),
                                   .capacity = capacity,
                                   .kernels = kernels};
    if (!made.index || !made.value) {
        compress_sparse_destroy(&made);
        return BASE_ENOMEM;
    }
    *sparse = made;
    return BASE_OK;
}

void compress_sparse_destroy(struct compress_sparse *sparse)
{
    void (*release)(void *) = sparse->kernels ? sparse->kernels->release : free;
    release(sparse->index);
    release(sparse->value);
    *sparse = (struct compress_sparse){0};
}
