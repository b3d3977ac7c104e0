#define KERNELS_IMAGE kernels_cpu_image_scalar
#define LANES         4u
#define TILE_ROWS     6u
#include "kernels/cpu/image_body.h"

size_t kernels_conv_scratch(const struct kernels_conv *c)
{
    return kernels_cpu_conv_rooms(c, 16).total; // the widest vectors of all paths
}
