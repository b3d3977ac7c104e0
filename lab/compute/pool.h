// Threads that compute for a simulation. Results never depend on their number: a job uses only its own data,
// and the owner waits for it before reading the result. One owner; jobs must not call the pool.
#ifndef LAB_COMPUTE_POOL_H
#define LAB_COMPUTE_POOL_H

#include "base/error.h"
#include <stdatomic.h>
#include <stddef.h>

struct lab_pool;

struct lab_job { // owned by the caller; stays in place until it has been waited for
    void (*run)(void *argument);
    void *argument;
    struct lab_job *next; // the pool's
    atomic_int state;     // the pool's
};

// `threads`: the number of computing threads, including the caller of lab_pool_wait; 0: one per core. With 1
// no thread is started, and a job runs when it is waited for.
enum base_error lab_pool_create(size_t threads, struct lab_pool **pool, struct base_reason *why) BASE_CHECK;
void lab_pool_destroy(struct lab_pool *pool); // no job may be under way; NULL is fine
size_t lab_pool_threads(const struct lab_pool *pool);
void lab_pool_submit(struct lab_pool *pool, struct lab_job *job);
// Returns when the job is done. In the meantime the calling thread runs it or other jobs.
void lab_pool_wait(struct lab_pool *pool, struct lab_job *job);
// Calls run(arguments + i * bytes) for all i < count and waits for all; without memory, only on the calling
// thread.
void lab_pool_each(struct lab_pool *pool, void (*run)(void *argument), void *arguments, size_t bytes,
                   size_t count);

#endif
