#define KERNELS_IMAGE kernels_cpu_image_avx2
#define LANES         8u
#define TILE_ROWS     6u
#include "kernels/cpu/image_body.h"
