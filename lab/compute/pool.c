#include "lab/compute/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX 256u

enum { QUEUED, RUNNING, DONE };

struct lab_pool {
    size_t threads; // the owner's among them
    size_t started;
    pthread_t *thread; // [threads - 1]
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct lab_job *first, **last; // queued, in order
    bool closing;
};

static struct lab_job *take_first(struct lab_pool *pool)
{
    struct lab_job *job = pool->first;
    if (!job)
        return NULL;
    pool->first = job->next;
    if (!pool->first)
        pool->last = &pool->first;
    atomic_store_explicit(&job->state, RUNNING, memory_order_relaxed);
    return job;
}

// Removes the job from the queue, if it is still queued.
static bool take_this(struct lab_pool *pool, struct lab_job *job)
{
    struct lab_job **at = &pool->first;
    if (atomic_load_explicit(&job->state, memory_order_relaxed) != QUEUED)
        return false;
    while (*at != job) {
        BASE_ASSERT(*at); // it was submitted
        at = &(*at)->next;
    }
    *at = job->next;
    if (!*at)
        pool->last = at;
    atomic_store_explicit(&job->state, RUNNING, memory_order_relaxed);
    return true;
}

// The caller holds the lock, which is free while the job runs. The job may be freed as soon as it is done.
static void run_unlocked(struct lab_pool *pool, struct lab_job *job)
{
    pthread_mutex_unlock(&pool->lock);
    job->run(job->argument);
    pthread_mutex_lock(&pool->lock);
    atomic_store_explicit(&job->state, DONE, memory_order_release);
    pthread_cond_broadcast(&pool->done);
}

static void *work(void *argument)
{
    struct lab_pool *pool = argument;
    (void)pthread_setname_np(pthread_self(), "pool");
    pthread_mutex_lock(&pool->lock);
    while (!pool->closing) {
        struct lab_job *job = take_first(pool);
        if (job)
            run_unlocked(pool, job);
        else
            pthread_cond_wait(&pool->work, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static size_t threads_for(size_t wanted)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (wanted == 0)
        wanted = processors > 0 ? (size_t)processors : 1;
    return wanted < THREADS_MAX ? wanted : THREADS_MAX;
}

enum base_error lab_pool_create(size_t threads, struct lab_pool **pool, struct base_reason *why)
{
    struct lab_pool *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return base_fail(why, BASE_ENOMEM, "no memory for threads");
    fresh->threads = threads_for(threads);
    fresh->last = &fresh->first;
    pthread_mutex_init(&fresh->lock, NULL);
    pthread_cond_init(&fresh->work, NULL);
    pthread_cond_init(&fresh->done, NULL);
    fresh->thread = calloc(fresh->threads, sizeof *fresh->thread);
    while (fresh->thread && fresh->started + 1 < fresh->threads &&
           pthread_create(&fresh->thread[fresh->started], NULL, work, fresh) == 0)
        fresh->started++;
    if (!fresh->thread || fresh->started + 1 < fresh->threads) {
        lab_pool_destroy(fresh);
        return base_fail(why, BASE_ENOMEM, "cannot start %zu threads; set sim.threads to a smaller number",
                         threads_for(threads));
    }
    *pool = fresh;
    return BASE_OK;
}

void lab_pool_destroy(struct lab_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    BASE_ASSERT(!pool->first);
    pool->closing = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->started; i++)
        pthread_join(pool->thread[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool->thread);
    free(pool);
}

size_t lab_pool_threads(const struct lab_pool *pool)
{
    return pool->threads;
}

void lab_pool_submit(struct lab_pool *pool, struct lab_job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&pool->lock);
    atomic_store_explicit(&job->state, QUEUED, memory_order_relaxed);
    *pool->last = job;
    pool->last = &job->next;
    if (pool->started)
        pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

void lab_pool_wait(struct lab_pool *pool, struct lab_job *job)
{
    if (atomic_load_explicit(&job->state, memory_order_acquire) == DONE)
        return;
    pthread_mutex_lock(&pool->lock);
    if (take_this(pool, job))
        run_unlocked(pool, job);
    while (atomic_load_explicit(&job->state, memory_order_relaxed) != DONE) {
        struct lab_job *other = take_first(pool);
        if (other)
            run_unlocked(pool, other);
        else
            pthread_cond_wait(&pool->done, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}

void lab_pool_each(struct lab_pool *pool, void (*run)(void *argument), void *arguments, size_t bytes,
                   size_t count)
{
    struct lab_job *jobs = pool->started && count > 1 ? calloc(count, sizeof *jobs) : NULL;
    for (size_t i = 0; i < count; i++) {
        void *argument = (char *)arguments + i * bytes;
        if (!jobs) {
            run(argument);
            continue;
        }
        jobs[i].run = run;
        jobs[i].argument = argument;
        lab_pool_submit(pool, &jobs[i]);
    }
    for (size_t i = 0; jobs && i < count; i++)
        lab_pool_wait(pool, &jobs[i]);
    free(jobs);
}
