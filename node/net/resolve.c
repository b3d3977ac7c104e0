#include "node/net/resolve.h"
#include "node/queue/mailbox.h"
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4u // a lookup that is not answered takes seconds, and must not hold up all others

struct node_resolver {
    atomic_int owners; // the loop and the threads; the last one frees
    atomic_bool ending;
    bool started[THREADS];
    struct node_mailbox *questions[THREADS], *answers;
};

struct lane { // of one thread
    struct node_resolver *resolver;
    struct node_mailbox *questions;
};

static void resolve(struct node_resolution *r, int flags)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)r->port);
    r->count = 0;
    int code = getaddrinfo(r->host, service, &hints, &found);
    if (code != 0) {
        snprintf(r->problem, sizeof r->problem, "%s",
                 code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
        return;
    }
    for (struct addrinfo *a = found; a && r->count < NODE_RESOLVE_ADDRESSES; a = a->ai_next) {
        if (a->ai_family != AF_INET && a->ai_family != AF_INET6)
            continue;
        BASE_ASSERT(a->ai_addrlen <= sizeof r->addresses->storage);
        memcpy(&r->addresses[r->count].storage, a->ai_addr, a->ai_addrlen);
        r->addresses[r->count++].bytes = a->ai_addrlen;
    }
    if (r->count == 0)
        snprintf(r->problem, sizeof r->problem, "no address of a known family");
    freeaddrinfo(found);
}

void node_resolve_now(struct node_resolution *r)
{
    resolve(r, AI_NUMERICSERV);
}

static void release(struct node_resolver *resolver)
{
    if (atomic_fetch_sub(&resolver->owners, 1) != 1)
        return;
    for (size_t i = 0; i < THREADS; i++)
        if (resolver->questions[i])
            node_mailbox_destroy(resolver->questions[i], free);
    if (resolver->answers)
        node_mailbox_destroy(resolver->answers, free);
    free(resolver);
}

static void *resolving(void *argument)
{
    struct lane lane = *(struct lane *)argument;
    struct node_resolver *resolver = lane.resolver;
    (void)pthread_setname_np(pthread_self(), "resolver");
    free(argument);
    while (!atomic_load(&resolver->ending)) {
        struct node_resolution *question = node_mailbox_take(lane.questions, UINT64_MAX);
        if (!question)
            continue;
        if (!atomic_load(&resolver->ending))
            node_resolve_now(question);
        if (node_mailbox_post(resolver->answers, question))
            free(question); // the caller asks again
    }
    release(resolver);
    return NULL;
}

enum base_error node_resolver_create(struct node_resolver **out)
{
    struct node_resolver *resolver = calloc(1, sizeof *resolver);
    if (!resolver)
        return BASE_ENOMEM;
    atomic_init(&resolver->owners, 1);
    enum base_error error = node_mailbox_create(LIMIT_PEERS + 1, &resolver->answers);
    for (size_t i = 0; i < THREADS && !error; i++)
        error = node_mailbox_create(LIMIT_PEERS + 1, &resolver->questions[i]);
    if (error) {
        release(resolver);
        return error;
    }
    *out = resolver;
    return BASE_OK;
}

void node_resolver_destroy(struct node_resolver *resolver)
{
    if (!resolver)
        return;
    atomic_store(&resolver->ending, true);
    for (size_t i = 0; i < THREADS; i++) {
        struct node_resolution *wake = resolver->started[i] ? calloc(1, sizeof *wake) : NULL;
        if (wake && node_mailbox_post(resolver->questions[i], wake))
            free(wake);
    }
    release(resolver);
}

// Signals belong to the loop's thread, and threads for names are made only when there are names.
static enum base_error start(struct node_resolver *resolver, size_t at)
{
    BASE_ASSERT(!resolver->started[at]);
    struct lane *lane = malloc(sizeof *lane);
    if (!lane)
        return BASE_ENOMEM;
    *lane = (struct lane){.resolver = resolver, .questions = resolver->questions[at]};
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0) {
        free(lane);
        return BASE_ENOMEM;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    atomic_fetch_add(&resolver->owners, 1);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, &attributes, resolving, lane);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failed) {
        atomic_fetch_sub(&resolver->owners, 1);
        free(lane);
        return BASE_ENOMEM;
    }
    resolver->started[at] = true;
    return BASE_OK;
}

enum base_error node_resolver_ask(struct node_resolver *resolver, size_t ticket, const char *host,
                                  uint16_t port)
{
    struct node_resolution *question = calloc(1, sizeof *question);
    if (!question)
        return BASE_ENOMEM;
    question->ticket = ticket;
    question->port = port;
    snprintf(question->host, sizeof question->host, "%s", host);
    resolve(question, AI_NUMERICHOST | AI_NUMERICSERV); // count 0: it is a name
    enum base_error error = BASE_OK;
    if (question->count > 0) {
        error = node_mailbox_post(resolver->answers, question);
    } else {
        size_t at = ticket % THREADS;
        if (!resolver->started[at])
            error = start(resolver, at);
        if (!error)
            error = node_mailbox_post(resolver->questions[at], question);
    }
    if (error)
        free(question);
    return error;
}

int node_resolver_descriptor(struct node_resolver *resolver)
{
    return node_mailbox_descriptor(resolver->answers);
}

struct node_resolution *node_resolver_take(struct node_resolver *resolver)
{
    return node_mailbox_take(resolver->answers, 0);
}

bool node_address_bound(int socket, struct node_address *address)
{
    address->bytes = sizeof address->storage;
    return getsockname(socket, (struct sockaddr *)&address->storage, &address->bytes) == 0;
}

void node_address_text(const struct node_address *address, char text[NODE_ADDRESS_TEXT])
{
    char host[NI_MAXHOST], service[NI_MAXSERV];
    if (getnameinfo((const struct sockaddr *)&address->storage, address->bytes, host, sizeof host, service,
                    sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf(text, NODE_ADDRESS_TEXT, "(unknown address)");
    else
        snprintf(text, NODE_ADDRESS_TEXT,
                 address->storage.ss_family == AF_INET6 ? "[%.46s]:%.6s" : "%.46s:%.6s", host, service);
}
