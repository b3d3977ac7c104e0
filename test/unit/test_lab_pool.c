// Jobs of a simulation: each runs exactly once, on any thread, and is complete for the thread that waited for
// it.
#include "lab/compute/pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define JOBS 500u

struct count {
    struct lab_job job;
    unsigned runs;
    uint64_t result;
    uint64_t input;
};

static void calculate(void *argument)
{
    struct count *count = argument;
    count->runs++;
    for (uint64_t i = 0; i < 1000; i++)
        count->result = count->result * 6364136223846793005ull + count->input + i;
}

static struct lab_pool *make_pool(size_t threads)
{
    struct lab_pool *pool = NULL;
    struct base_reason why;
    assert_int_equal(lab_pool_create(threads, &pool, &why), BASE_OK);
    return pool;
}

static void submit(struct lab_pool *pool, struct count *counts)
{
    for (size_t i = 0; i < JOBS; i++) {
        counts[i] = (struct count){.input = i, .job.run = calculate, .job.argument = &counts[i]};
        lab_pool_submit(pool, &counts[i].job);
    }
}

static void every_job_runs_once(void **state)
{
    static struct count alone[JOBS], many[JOBS];
    (void)state;
    for (size_t threads = 1; threads <= 5; threads++) {
        struct lab_pool *pool = make_pool(threads);
        assert_int_equal(lab_pool_threads(pool), threads);
        struct count *counts = threads == 1 ? alone : many;
        submit(pool, counts);
        for (size_t i = 0; i < JOBS; i++) { // not in order
            size_t job = i * 7 % JOBS;
            lab_pool_wait(pool, &counts[job].job);
            assert_int_equal(counts[job].runs, 1);
            assert_true(counts[job].result == alone[job].result || threads == 1);
        }
        lab_pool_destroy(pool);
    }
}

static void note_thread(void *argument)
{
    *(pthread_t *)argument = pthread_self();
}

static void with_one_thread_the_waiting_thread_runs_the_jobs(void **state)
{
    pthread_t ran;
    struct lab_job job = {.run = note_thread, .argument = &ran};
    (void)state;
    struct lab_pool *pool = make_pool(1);
    lab_pool_submit(pool, &job);
    lab_pool_wait(pool, &job);
    assert_true(pthread_equal(ran, pthread_self()));
    lab_pool_wait(pool, &job); // again: the job is done
    lab_pool_destroy(pool);
}

static void a_parallel_loop_visits_every_element(void **state)
{
    static struct count counts[JOBS];
    (void)state;
    for (size_t threads = 1; threads <= 3; threads++) {
        struct lab_pool *pool = make_pool(threads);
        for (size_t i = 0; i < JOBS; i++)
            counts[i] = (struct count){.input = i};
        lab_pool_each(pool, calculate, counts, sizeof *counts, JOBS);
        for (size_t i = 0; i < JOBS; i++)
            assert_int_equal(counts[i].runs, 1);
        lab_pool_each(pool, calculate, counts, sizeof *counts, 0);
        lab_pool_destroy(pool);
    }
}

static void a_job_may_be_used_again(void **state)
{
    struct count count = {.job.run = calculate};
    (void)state;
    struct lab_pool *pool = make_pool(2);
    count.job.argument = &count;
    for (unsigned i = 1; i <= 2000; i++) {
        lab_pool_submit(pool, &count.job);
        lab_pool_wait(pool, &count.job);
        assert_int_equal(count.runs, i);
    }
    lab_pool_destroy(pool);
}

static void a_pool_without_jobs_can_be_destroyed(void **state)
{
    (void)state;
    lab_pool_destroy(NULL);
    lab_pool_destroy(make_pool(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_runs_once),
        cmocka_unit_test(with_one_thread_the_waiting_thread_runs_the_jobs),
        cmocka_unit_test(a_parallel_loop_visits_every_element),
        cmocka_unit_test(a_job_may_be_used_again),
        cmocka_unit_test(a_pool_without_jobs_can_be_destroyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
