// kernels/values.h on the device.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.h"

static struct kernels_cuda_section section_of(enum kernels_format format, size_t count)
{
    return (struct kernels_cuda_section){
        .format = (unsigned)format,
        .block_bytes = kernels_section_bytes(format, KERNELS_VALUES_BLOCK),
        .count = count,
    };
}

static void write_section(enum kernels_format format, size_t count, float *value, uint8_t *section)
{
    if (count > 0) {
        struct kernels_cuda_section s = section_of(format, count);
        s.value = value;
        s.out = section;
        kernels_cuda_values_write(&s);
        kernels_cuda_launched("writing values");
    }
}

static void read_section(enum kernels_format format, size_t count, const uint8_t *section, float *value)
{
    if (count > 0) {
        struct kernels_cuda_section s = section_of(format, count);
        s.value = value;
        s.in = section;
        kernels_cuda_values_read(&s);
        kernels_cuda_launched("reading values");
    }
}

static bool valid(enum kernels_format format, size_t count, const uint8_t *section)
{
    if (count == 0)
        return true;
    struct kernels_cuda_section s = section_of(format, count);
    uint32_t broken = 0;
    s.in = section;
    s.broken = kernels_cuda_begin(sizeof broken);
    kernels_cuda_clear(s.broken, sizeof broken);
    kernels_cuda_values_valid(&s);
    kernels_cuda_launched("checking values");
    kernels_cuda_download(&broken, s.broken, sizeof broken);
    kernels_cuda_end();
    return broken == 0;
}

const struct kernels_values kernels_cuda_values = {
    .write = write_section, .read = read_section, .valid = valid};
