// Free ports on 127.0.0.1.
#ifndef LAB_TERM_PORTS_H
#define LAB_TERM_PORTS_H

#include "base/error.h"
#include <stdint.h>

// `count` different ones, free a moment ago: all are bound at once, then let go. BASE_EIO.
enum base_error lab_ports_find(size_t count, uint16_t *ports, struct base_reason *why) BASE_CHECK;

#endif
