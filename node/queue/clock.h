// Monotonic time of the node's threads, in nanoseconds and as libevent's struct timeval.
#ifndef NODE_QUEUE_CLOCK_H
#define NODE_QUEUE_CLOCK_H

#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#define NODE_SECOND_NS      1000000000ull
#define NODE_MILLISECOND_NS 1000000ull

static inline uint64_t node_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NODE_SECOND_NS + (uint64_t)now.tv_nsec;
}

static inline struct timeval node_clock_timeval(uint64_t ns)
{
    return (struct timeval){.tv_sec = (time_t)(ns / NODE_SECOND_NS),
                            .tv_usec = (suseconds_t)(ns % NODE_SECOND_NS / 1000)};
}

static inline double node_clock_seconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / (double)NODE_SECOND_NS : 0;
}

#endif
