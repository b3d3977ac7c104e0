// Which backends this build has, and which one a node gets. The only file with a switch for CUDA.
#include "kernels/cpu/cpu.h"
#ifdef P2PML_HAVE_CUDA
#include "kernels/cuda/cuda.h"
#include <dlfcn.h>
#include <unistd.h>
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Written by kernels_open before other threads start, read afterwards.
static char description[256];

static enum base_error open_cpu(unsigned threads, const struct kernels **table, struct base_reason *why)
{
    const char *path = getenv("P2PML_CPU");
    const struct kernels *found = kernels_cpu_table(path && path[0] != '\0' ? path : NULL);
    if (!found) {
        return base_fail(
            why, BASE_ENOTFOUND,
            "P2PML_CPU names '%s', which this processor or this build lacks; expected scalar, avx2 or "
            "avx512; unset it to use the best",
            path);
    }
    kernels_cpu_set_threads(threads);
    kernels_cpu_describe(found, description, sizeof description);
    *table = found;
    return BASE_OK;
}

#ifdef P2PML_HAVE_CUDA
static struct kernels cuda_table,
    cuda_bf16; // from the module, with `host` and `coding`; written and read like `description`

// The module lies beside the program and is never unloaded: the driver keeps threads of its own.
static enum base_error load_cuda(kernels_cuda_opener **opener, struct base_reason *why)
{
    char path[4096];
    const char *name = "p2pml_cuda.so";
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - strlen(name) - 1);
    if (length <= 0)
        return base_fail(why, BASE_EIO, "/proc/self/exe cannot be read, so it is unknown where %s is", name);
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, name);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = module ? dlsym(module, "kernels_cuda_open") : NULL;
    if (!symbol) {
        return base_fail(why, BASE_ENOTFOUND, "the CUDA backend does not load: %s; use device 'cpu'",
                         dlerror());
    }
    memcpy(opener, &symbol, sizeof symbol);
    return BASE_OK;
}

static enum base_error open_cuda(unsigned threads, const struct kernels **table, struct base_reason *why)
{
    // The driver is checked first, because loading the module costs 155 MiB.
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!driver) {
        return base_fail(why, BASE_ENOTFOUND,
                         "no CUDA driver (libcuda.so.1) is installed; install it or use 'cpu'");
    }
    kernels_cuda_opener *opener = NULL;
    const struct kernels *host = NULL, *device = NULL;
    enum base_error error = open_cpu(threads, &host, why);
    if (!error)
        error = load_cuda(&opener, why);
    if (!error)
        error = opener(&device, description, sizeof description, why);
    if (!error) {
        cuda_table = *device;
        cuda_table.host = host;
        cuda_table.coding = host->coding;
        cuda_table.bf16 = device->bf16 ? &cuda_bf16 : NULL;
        if (device->bf16) {
            cuda_bf16 = *device->bf16;
            cuda_bf16.host = host;
            cuda_bf16.coding = host->coding;
        }
        *table = &cuda_table;
    }
    return error;
}
#else
static enum base_error open_cuda(unsigned threads, const struct kernels **table, struct base_reason *why)
{
    (void)threads;
    (void)table;
    return base_fail(
        why, BASE_ENOTFOUND,
        "device 'cuda' is not in this build, which was configured with P2PML_CUDA=off or found no "
        "nvcc and cuBLAS; build with the preset 'cuda' or use device 'cpu'");
}
#endif

enum base_error kernels_open(const char *device, unsigned threads, const struct kernels **table,
                             struct base_reason *why)
{
    if (threads == 0)
        return base_fail(why, BASE_EINVAL, "0 threads for BLAS; expected at least 1");
    if (strcmp(device, "cpu") == 0)
        return open_cpu(threads, table, why);
    if (strcmp(device, "cuda") == 0)
        return open_cuda(threads, table, why);
    if (strcmp(device, "auto") == 0) {
        struct base_reason unused;
        return !open_cuda(threads, table, &unused) ? BASE_OK : open_cpu(threads, table, why);
    }
    return base_fail(why, BASE_EINVAL, "device '%s' is unknown; expected cpu, cuda or auto", device);
}

enum base_error kernels_take_bf16(const struct kernels **table, struct base_reason *why)
{
    if (!(*table)->bf16) {
        return base_fail(why, BASE_EINVAL,
                         "found bf16, which is for CUDA devices from sm_80 on; '%s' computes in fp32 here",
                         (*table)->name);
    }
    *table = (*table)->bf16;
    const size_t used = strlen(description);
    (void)snprintf(description + used, sizeof description - used, ", bf16");
    return BASE_OK;
}

const char *kernels_slowed_by(void)
{
    static char text[256];
    const char *wanted = getenv("OPENBLAS_CORETYPE");
    if (!kernels_cpu_blas_lags())
        return NULL;
    if (!wanted || wanted[0] == '\0') {
        return "OpenBLAS does not know this processor and took a core with narrower instructions than "
               "the processor has; "
               "OPENBLAS_CORETYPE=SkylakeX (AVX-512) or Haswell (AVX2) sets another";
    }
    (void)snprintf(text, sizeof text,
                   "OPENBLAS_CORETYPE=%.64s keeps OpenBLAS from the widest instructions of this processor; "
                   "unset it, or set SkylakeX (AVX-512) or Haswell (AVX2)",
                   wanted);
    return text;
}

const char *kernels_describe(const struct kernels *table)
{
    return description[0] != '\0' ? description : table->name;
}
