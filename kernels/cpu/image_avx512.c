#define KERNELS_IMAGE kernels_cpu_image_avx512
#define LANES         16u
#define TILE_ROWS     14u
#include "kernels/cpu/image_body.h"
