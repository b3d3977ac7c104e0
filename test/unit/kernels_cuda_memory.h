// The device's memory in the emulator (kernels_cuda_emulator.h includes this): kernels/cuda/memory.h over the
// host's.
#ifndef TEST_UNIT_KERNELS_CUDA_MEMORY_H
#define TEST_UNIT_KERNELS_CUDA_MEMORY_H

#include "kernels/cuda/memory.h"

#include <sys/mman.h>

// For tests of code above the table. After emulator_seal the host cannot access the device's memory: host
// code that reads or writes it ends with SIGSEGV; device code and copies can. Released memory is not reused.
static struct {
    unsigned char *at;
    size_t bytes, used;
} emulator_sealed;

static inline void emulator_reach(int allowed)
{
    if (emulator_sealed.at && mprotect(emulator_sealed.at, emulator_sealed.bytes,
                                       allowed ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
        emulator_stop("the device's memory can't be sealed");
    }
}

__attribute__((unused)) static inline void emulator_seal(size_t bytes)
{
    emulator_sealed.bytes = bytes;
    emulator_sealed.at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (emulator_sealed.at == MAP_FAILED) {
        emulator_stop("no memory for the device");
    }
}

static void *emulator_scratch; // of exactly the requested length, so that AddressSanitizer knows its end

void *kernels_cuda_begin(size_t bytes)
{
    emulator_scratch = !emulator_scratch ? malloc(bytes) : NULL;
    if (!emulator_scratch) {
        emulator_stop("no memory, or two calls at a time");
    }
    memset(emulator_scratch, 0xa5, bytes);
    return emulator_scratch;
}

void kernels_cuda_end(void)
{
    free(emulator_scratch);
    emulator_scratch = NULL;
}

// So small that everything that can be done in parts is.
size_t kernels_cuda_temporary_max(void)
{
    return 4096;
}

void *kernels_cuda_alloc(size_t bytes)
{
    const size_t rounded = (bytes + 256) / 256 * 256;
    if (!emulator_sealed.at) {
        return calloc(bytes + 1, 1);
    }
    if (rounded > emulator_sealed.bytes - emulator_sealed.used) {
        return NULL;
    }
    emulator_sealed.used += rounded;
    return emulator_sealed.at + emulator_sealed.used - rounded; // zeros, since it is freshly mapped
}

void kernels_cuda_release(void *memory)
{
    if (!emulator_sealed.at) {
        free(memory);
    }
}

void kernels_cuda_wait(void)
{
}

static inline void emulator_copy(void *to, const void *from, size_t bytes)
{
    emulator_reach(1);
    memcpy(to, from, bytes);
    emulator_reach(0);
}

void kernels_cuda_upload(void *to_device, const void *from_host, size_t bytes)
{
    emulator_copy(to_device, from_host, bytes);
}

void kernels_cuda_download(void *to_host, const void *from_device, size_t bytes)
{
    emulator_copy(to_host, from_device, bytes);
}

void kernels_cuda_copy(void *to, const void *from, size_t bytes)
{
    emulator_copy(to, from, bytes);
}

void kernels_cuda_clear(void *device, size_t bytes)
{
    emulator_reach(1);
    memset(device, 0, bytes);
    emulator_reach(0);
}

#endif
