// The plural ending of an English noun after a number, for messages: "%zu node%s", n, base_plural(n).
#ifndef BASE_PLURAL_H
#define BASE_PLURAL_H

#include <stdint.h>

static inline const char *base_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

#endif
