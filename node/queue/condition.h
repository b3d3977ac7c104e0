// A lock and a condition on the clock of node_clock_ns, for threads that wait with a deadline.
#ifndef NODE_QUEUE_CONDITION_H
#define NODE_QUEUE_CONDITION_H

#include "base/error.h"
#include "node/queue/clock.h"
#include <pthread.h>
#include <stdbool.h>

static inline void node_condition_init(pthread_mutex_t *lock, pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    const bool made = pthread_condattr_init(&monotonic) == 0 &&
                      pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
                      pthread_mutex_init(lock, NULL) == 0 && pthread_cond_init(condition, &monotonic) == 0;
    BASE_ASSERT(made);
    pthread_condattr_destroy(&monotonic);
}

// Call with the lock held. False: the deadline has passed (0: at once; UINT64_MAX: never). True: look again.
static inline bool node_condition_wait(pthread_mutex_t *lock, pthread_cond_t *condition, uint64_t deadline_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(deadline_ns / NODE_SECOND_NS),
                                   .tv_nsec = (long)(deadline_ns % NODE_SECOND_NS)};
    if (deadline_ns == UINT64_MAX)
        return pthread_cond_wait(condition, lock) == 0;
    return deadline_ns > 0 && pthread_cond_timedwait(condition, lock, &until) == 0;
}

#endif
