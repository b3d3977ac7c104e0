#include "node/net/listener.h"
#include "base/log.h"
#include "node/config/config.h"
#include "node/net/interfaces.h"
#include "node/queue/clock.h"
#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCEPTS_A_TURN 4 // then earlier connections have their turn, before newer ones displace them
#define BACKLOG        128
#define REST_NS        (100 * NODE_MILLISECOND_NS) // when the process is out of descriptors

struct node_listener {
    int socket;
    bool told; // the log has said that no descriptor was left
    struct event *acceptable, *rested;
    node_listener_accepted accepted;
    void *owner;
};

void node_listener_host(const struct node_address *from, char host[NODE_ADDRESS_TEXT])
{
    struct node_address counted = *from;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&counted.storage;
    if (from->storage.ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        memset(v6->sin6_addr.s6_addr + 8, 0, 8);
        v6->sin6_scope_id = 0;
    }
    node_address_text(&counted, host);
    char *colon = strrchr(host, ':');
    if (colon)
        *colon = 0;
}

// Accepting continues when a descriptor may be free again; until then the connections wait in the kernel.
static void rest(struct node_listener *listener, int error)
{
    struct timeval wait = node_clock_timeval(REST_NS);
    BASE_ASSERT(!event_pending(listener->rested, EV_TIMEOUT, NULL)); // nothing is accepted meanwhile
    event_del(listener->acceptable);
    event_add(listener->rested, &wait);
    if (!listener->told)
        base_log(
            BASE_LOG_WARN, "accept",
            "connections wait: %s; they are accepted as descriptors become free (allow this process more: "
            "ulimit -n, LimitNOFILE)",
            strerror(error));
    listener->told = true;
}

static void accept_ready(evutil_socket_t socket, short what, void *argument)
{
    (void)what;
    struct node_listener *listener = argument;
    for (int turn = 0; turn < ACCEPTS_A_TURN; turn++) {
        struct node_address from = {.bytes = sizeof from.storage};
        int s = accept4(socket, (struct sockaddr *)&from.storage, &from.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (s < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                rest(listener, errno);
            return;
        }
        char address[NODE_ADDRESS_TEXT], host[NODE_ADDRESS_TEXT];
        node_address_text(&from, address);
        node_listener_host(&from, host);
        listener->accepted(listener->owner, s, address, host);
    }
}

static void rested(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_listener *listener = argument;
    event_add(listener->acceptable, NULL);
}

enum base_error node_listener_create(struct event_base *base, int socket, node_listener_accepted accepted,
                                     void *owner, struct node_listener **out)
{
    struct node_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return BASE_ENOMEM;
    listener->socket = socket;
    listener->accepted = accepted;
    listener->owner = owner;
    listener->acceptable = event_new(base, socket, EV_READ | EV_PERSIST, accept_ready, listener);
    listener->rested = event_new(base, -1, 0, rested, listener);
    if (!listener->acceptable || !listener->rested) {
        listener->socket = -1;
        node_listener_destroy(listener);
        return BASE_ENOMEM;
    }
    *out = listener;
    return BASE_OK;
}

void node_listener_destroy(struct node_listener *listener)
{
    if (!listener)
        return;
    if (listener->acceptable)
        event_free(listener->acceptable);
    if (listener->rested)
        event_free(listener->rested);
    if (listener->socket >= 0)
        close(listener->socket);
    free(listener);
}

void node_listener_open(struct node_listener *listener)
{
    event_add(listener->acceptable, NULL);
}

void node_listener_close(struct node_listener *listener)
{
    event_del(listener->acceptable);
    event_del(listener->rested);
}

static int bind_one(const struct node_address *address)
{
    int on = 1, s = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s < 0)
        return -1;
    (void)setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(s, (const struct sockaddr *)&address->storage, address->bytes) != 0 || listen(s, BACKLOG) != 0) {
        int error = errno;
        close(s);
        errno = error;
        return -1;
    }
    // Only now, for node_listener_call: no other process may listen there.
    (void)setsockopt(s, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    return s;
}

static int call_socket(const struct node_address *to, enum node_segments segments)
{
    const int segment = NODE_SMALL_SEGMENT;
    const int s = socket(to->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool small =
        segments == NODE_SEGMENTS_SMALL || (segments == NODE_SEGMENTS_SAFE && !node_address_is_neighbour(to));
    if (s >= 0 && small)
        (void)setsockopt(s, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
    return s;
}

// From the port of the listener at any of this host's addresses. A call to this host itself does not leave
// from there: one to the own port would connect to itself.
static bool leaves_from(uint16_t port, int s, const struct node_address *to)
{
    struct node_address from = {.bytes = to->bytes};
    const int on = 1;
    if (port == 0 || node_address_is_own(to))
        return false;
    from.storage.ss_family = to->storage.ss_family;
    if (to->storage.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&from.storage)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&from.storage)->sin_port = htons(port);
    return setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
           setsockopt(s, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 &&
           bind(s, (const struct sockaddr *)&from.storage, from.bytes) == 0;
}

static int connects(int s, const struct node_address *to)
{
    if (s < 0 || connect(s, (const struct sockaddr *)&to->storage, to->bytes) == 0 || errno == EINPROGRESS)
        return s;
    const int error = errno;
    close(s);
    errno = error;
    return -1;
}

int node_listener_call(int listener, const struct node_address *to, enum node_segments segments)
{
    int s = call_socket(to, segments);
    if (s >= 0 && leaves_from(node_listener_port(listener), s, to)) {
        s = connects(s, to);
        if (s >= 0 || errno != EADDRNOTAVAIL) // the kernel still remembers an earlier such connection
            return s;
    } else if (s >= 0) {
        close(s); // it may be bound
    }
    return connects(call_socket(to, segments), to);
}

enum base_error node_listener_bind(const char *key, const char *text, int *socket, struct base_reason *why)
{
    struct node_resolution r = {0};
    enum base_error error = node_address_parse(text, r.host, &r.port, why);
    if (error)
        return base_fail_context(why, error, "%s", key);
    node_resolve_now(&r);
    if (r.count == 0)
        return base_fail(why, BASE_EIO, "%s: %s cannot be resolved (%s); give an address of this machine",
                         key, text, r.problem);
    int s = bind_one(&r.addresses[0]);
    if (s >= 0) {
        *socket = s;
        return BASE_OK;
    }
    if (errno == EADDRINUSE)
        return base_fail(
            why, BASE_EIO,
            "%s: %s is in use by another process; stop that process, or configure another port (0: any free "
            "port)",
            key, text);
    if (errno == EADDRNOTAVAIL)
        return base_fail(why, BASE_EIO, "%s: %s is not an address of this machine", key, text);
    return base_fail(why, BASE_EIO, "%s: %s: %s", key, text, strerror(errno));
}

uint16_t node_listener_port(int socket)
{
    struct node_address bound;
    if (!node_address_bound(socket, &bound))
        return 0;
    if (bound.storage.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&bound.storage)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&bound.storage)->sin_port);
}

bool node_listener_is_loopback(int socket)
{
    struct node_address bound;
    return node_address_bound(socket, &bound) && node_address_loops(&bound);
}
