#include "lab/top/fetch.h"

#include "node/config/config.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 200 // between two looks at the limit of a fetch that is waited for

static bool connect_to(struct lab_top_fetch *fetch, const char *host, uint16_t port)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return false;
    fetch->socket = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool begun = fetch->socket >= 0 &&
                 (connect(fetch->socket, found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS);
    freeaddrinfo(found);
    return begun;
}

bool lab_top_fetch_begin(struct lab_top_fetch *fetch, const char *address, const char *path, uint64_t now_ns)
{
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    struct base_reason why;
    *fetch = (struct lab_top_fetch){.path = path, .socket = -1, .since_ns = now_ns};
    snprintf(fetch->address, sizeof fetch->address, "%s", address);
    if (!node_address_parse(address, host, &port, &why) && connect_to(fetch, host, port))
        return true;
    lab_top_fetch_end(fetch);
    return false;
}

short lab_top_fetch_events(const struct lab_top_fetch *fetch)
{
    return fetch->asked ? POLLIN : POLLOUT;
}

// The request fits into the buffer of a new socket.
static bool ask(struct lab_top_fetch *fetch)
{
    char text[LAB_TOP_ADDRESS_BYTES + 1024];
    int bytes =
        fetch->text
            ? snprintf(text, sizeof text,
                       "POST %s HTTP/1.0\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %zu\r\n"
                       "Content-Type: text/plain\r\n\r\n%s",
                       fetch->path, fetch->address, fetch->token, strlen(fetch->text), fetch->text)
            : snprintf(text, sizeof text, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", fetch->path, fetch->address);
    fetch->asked =
        (size_t)bytes < sizeof text && send(fetch->socket, text, (size_t)bytes, MSG_NOSIGNAL) == bytes;
    return fetch->asked;
}

// False: the answer has ended, or cannot be read.
static bool receive(struct lab_top_fetch *fetch, bool *failed)
{
    uint8_t *room;
    for (;;) {
        *failed = base_buffer_reserve(&fetch->answer, 16384, LAB_TOP_FETCH_BYTES, &room) != BASE_OK;
        if (*failed)
            return false;
        ssize_t got = recv(fetch->socket, room, 16384, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        *failed = got < 0;
        if (got <= 0)
            return false;
        base_buffer_commit(&fetch->answer, (size_t)got);
    }
}

static enum lab_top_outcome body_of(struct lab_top_fetch *fetch, const char **body)
{
    if (base_buffer_append(&fetch->answer, "", 1, LAB_TOP_FETCH_BYTES + 1))
        return LAB_TOP_FAILED;
    const char *text = (const char *)base_buffer_head(&fetch->answer), *end = strstr(text, "\r\n\r\n");
    if (!end || strncmp(text, "HTTP/1.", 7) != 0)
        return LAB_TOP_FAILED;
    *body = end + 4;
    return strncmp(text + 8, " 200", 4) == 0 ? LAB_TOP_ANSWERED : LAB_TOP_FAILED;
}

enum lab_top_outcome lab_top_fetch_step(struct lab_top_fetch *fetch, short ready, uint64_t now_ns,
                                        const char **body)
{
    bool failed = false;
    if (ready && !fetch->asked)
        failed = !ask(fetch);
    else if (ready && !receive(fetch, &failed) && !failed)
        return body_of(fetch, body);
    return failed || now_ns - fetch->since_ns > LAB_TOP_FETCH_NS ? LAB_TOP_FAILED : LAB_TOP_UNDER_WAY;
}

void lab_top_fetch_end(struct lab_top_fetch *fetch)
{
    if (fetch->socket >= 0)
        close(fetch->socket);
    fetch->socket = -1;
    base_buffer_free(&fetch->answer);
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static enum lab_top_outcome wait_for(struct lab_top_fetch *fetch, const char **body)
{
    enum lab_top_outcome outcome = LAB_TOP_UNDER_WAY;
    while (outcome == LAB_TOP_UNDER_WAY) {
        struct pollfd polled = {.fd = fetch->socket, .events = lab_top_fetch_events(fetch)};
        if (poll(&polled, 1, LOOK_MS) < 0)
            polled.revents = 0;
        outcome = lab_top_fetch_step(fetch, polled.revents, clock_ns(), body);
    }
    return outcome;
}

char *lab_top_get(const char *address, const char *path)
{
    struct lab_top_fetch fetch;
    const char *body = NULL;
    if (!lab_top_fetch_begin(&fetch, address, path, clock_ns()))
        return NULL;
    char *text = wait_for(&fetch, &body) == LAB_TOP_ANSWERED ? strdup(body) : NULL;
    lab_top_fetch_end(&fetch);
    return text;
}

char *lab_top_post(const char *address, const char *path, const char *token, const char *text, bool *accepted)
{
    struct lab_top_fetch fetch;
    const char *body = NULL;
    *accepted = false;
    if (!lab_top_fetch_begin(&fetch, address, path, clock_ns()))
        return NULL;
    fetch.token = token;
    fetch.text = text;
    *accepted = wait_for(&fetch, &body) == LAB_TOP_ANSWERED;
    char *answer = body ? strdup(body) : NULL;
    lab_top_fetch_end(&fetch);
    return answer;
}
