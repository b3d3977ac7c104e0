// Which backends this build has, and which one a node gets. The only file with a switch for CUDA.
#include "kernels/cpu/cpu.h"
#ifdef P2PML_HAVE_CUDA
#include "kernels/cuda/cuda.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Written by kernels_open before other threads start, read afterwards.
static char description[256];

static enum base_error open_cpu(unsigned threads, const struct kernels **table, struct base_reason *why)
{
    const char *path = getenv("P2PML_CPU");
    const struct kernels *found = kernels_cpu_table(path != NULL && path[0] != '\0' ? path : NULL);
    if (found == NULL) {
        return base_fail(
            why, BASE_ENOTFOUND,
            "P2PML_CPU names '%s', which this processor or this build lacks; expected scalar, avx2 or "
            "avx512: unset it to take the best",
            path);
    }
    kernels_cpu_set_threads(threads);
    kernels_cpu_describe(found, description, sizeof description);
    *table = found;
    return BASE_OK;
}

static enum base_error open_cuda(const struct kernels **table, struct base_reason *why)
{
#ifdef P2PML_HAVE_CUDA
    return kernels_cuda_open(table, description, sizeof description, why);
#else
    (void)table;
    return base_fail(
        why, BASE_ENOTFOUND,
        "device 'cuda' is not in this build: no CUDA compiler (nvcc) was found when it was configured; "
        "build with the preset 'cuda' or take device 'cpu'");
#endif
}

enum base_error kernels_open(const char *device, unsigned threads, const struct kernels **table,
                             struct base_reason *why)
{
    if (threads == 0) {
        return base_fail(why, BASE_EINVAL, "0 threads for BLAS; expected at least 1");
    }
    if (strcmp(device, "cpu") == 0) {
        return open_cpu(threads, table, why);
    }
    if (strcmp(device, "cuda") == 0) {
        return open_cuda(table, why);
    }
    if (strcmp(device, "auto") == 0) {
        struct base_reason unused;
        return open_cuda(table, &unused) == BASE_OK ? BASE_OK : open_cpu(threads, table, why);
    }
    return base_fail(why, BASE_EINVAL, "device '%s' is unknown; expected cpu, cuda or auto", device);
}

const char *kernels_describe(const struct kernels *table)
{
    return description[0] != '\0' ? description : table->name;
}
