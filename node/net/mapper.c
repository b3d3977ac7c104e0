#include "node/net/mapper.h"

#include "node/net/router.h"
#include "node/queue/clock.h"
#include "node/queue/mailbox.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define REMOVE_NS (3 * NODE_SECOND_NS)

struct question {
    struct gossip_mapping_request request;
    struct gossip_mapping_answer answer;
};

struct node_mapper {
    atomic_int owners;         // the loop and the thread; the last one frees
    atomic_bool ending, holds; // holds: there is something to remove
    bool started;
    struct node_mailbox *questions, *answers;
};

static void release(struct node_mapper *mapper)
{
    if (atomic_fetch_sub(&mapper->owners, 1) != 1)
        return;
    if (mapper->questions)
        node_mailbox_destroy(mapper->questions, free);
    if (mapper->answers)
        node_mailbox_destroy(mapper->answers, free);
    free(mapper);
}

static void answer(struct node_mapper *mapper, struct node_router *router, struct question *question)
{
    if (router)
        node_router_map(router, &question->request, &question->answer);
    else
        question->answer = (struct gossip_mapping_answer){.end = GOSSIP_MAPPING_NOBODY};
    atomic_store(&mapper->holds, question->answer.end == GOSSIP_MAPPING_MAPPED);
    node_mailbox_put(mapper->answers, question);
}

// Ends with a question that is not asked, but comes back when all is removed.
static void *mapping(void *argument)
{
    struct node_mapper *mapper = argument;
    struct node_router *router = node_router_create();
    struct question *question = NULL;
    (void)pthread_setname_np(pthread_self(), "mapper");
    while (!question || !atomic_load(&mapper->ending)) {
        if (question)
            answer(mapper, router, question);
        question = node_mailbox_take(mapper->questions, UINT64_MAX);
    }
    node_router_destroy(router);
    node_mailbox_put(mapper->answers, question);
    release(mapper);
    return NULL;
}

enum base_error node_mapper_create(struct node_mapper **out)
{
    struct node_mapper *mapper = calloc(1, sizeof *mapper);
    if (!mapper)
        return BASE_ENOMEM;
    atomic_init(&mapper->owners, 1);
    enum base_error error = node_mailbox_create(2, &mapper->questions);
    if (!error)
        error = node_mailbox_create(2, &mapper->answers);
    if (error)
        release(mapper);
    else
        *out = mapper;
    return error;
}

// Signals belong to the loop's thread.
static enum base_error start(struct node_mapper *mapper)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return BASE_ENOMEM;
    sigfillset(&all);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    atomic_fetch_add(&mapper->owners, 1);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&thread, &attributes, mapping, mapper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failed)
        atomic_fetch_sub(&mapper->owners, 1);
    mapper->started = !failed;
    return failed ? BASE_ENOMEM : BASE_OK;
}

enum base_error node_mapper_ask(struct node_mapper *mapper, const struct gossip_mapping_request *request)
{
    enum base_error error = mapper->started ? BASE_OK : start(mapper);
    struct question *question = error ? NULL : calloc(1, sizeof *question);
    if (!question)
        return BASE_ENOMEM;
    question->request = *request;
    error = node_mailbox_post(mapper->questions, question);
    if (error)
        free(question);
    return error;
}

bool node_mapper_take(struct node_mapper *mapper, struct gossip_mapping_answer *answer)
{
    struct question *question = node_mailbox_take(mapper->answers, 0);
    if (question)
        *answer = question->answer;
    free(question);
    return question != NULL;
}

static void end_thread(struct node_mapper *mapper)
{
    struct question *last = calloc(1, sizeof *last);
    atomic_store(&mapper->ending, true);
    if (!last)
        return; // the process ends soon
    const uint64_t until_ns = node_clock_ns() + REMOVE_NS;
    const bool waits = atomic_load(&mapper->holds);
    node_mailbox_put(mapper->questions, last);
    while (waits) {
        struct question *back = node_mailbox_take(mapper->answers, until_ns);
        if (!back || back == last) {
            free(back);
            return;
        }
        free(back);
    }
}

void node_mapper_destroy(struct node_mapper *mapper)
{
    if (!mapper)
        return;
    if (mapper->started)
        end_thread(mapper);
    release(mapper);
}
