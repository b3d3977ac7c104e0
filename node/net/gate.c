#include "node/net/gate.h"
#include "base/log.h"
#include "node/config/config.h"
#include "node/queue/clock.h"
#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCEPTS_A_TURN 64
#define BACKLOG        128
#define REST_NS        (100 * NODE_MILLISECOND_NS) // when the process is out of descriptors

struct node_gate {
    int listener;
    struct event *acceptable, *rested;
    node_gate_accepted accepted;
    void *owner;
};

void node_gate_host(const struct node_address *from, char host[NODE_ADDRESS_TEXT])
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

static void accept_ready(evutil_socket_t listener, short what, void *argument)
{
    (void)what;
    struct node_gate *gate = argument;
    for (int turn = 0; turn < ACCEPTS_A_TURN; turn++) {
        struct node_address from = {.bytes = sizeof from.storage};
        int s =
            accept4(listener, (struct sockaddr *)&from.storage, &from.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (s < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                struct timeval rest = node_clock_timeval(REST_NS);
                event_del(gate->acceptable);
                event_add(gate->rested, &rest);
            }
            return;
        }
        char address[NODE_ADDRESS_TEXT], host[NODE_ADDRESS_TEXT];
        node_address_text(&from, address);
        node_gate_host(&from, host);
        gate->accepted(gate->owner, s, address, host);
    }
}

static void rested(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_gate *gate = argument;
    event_add(gate->acceptable, NULL);
}

enum base_error node_gate_create(struct event_base *base, int listener, node_gate_accepted accepted,
                                 void *owner, struct node_gate **out)
{
    struct node_gate *gate = calloc(1, sizeof *gate);
    if (!gate)
        return BASE_ENOMEM;
    gate->listener = listener;
    gate->accepted = accepted;
    gate->owner = owner;
    gate->acceptable = event_new(base, listener, EV_READ | EV_PERSIST, accept_ready, gate);
    gate->rested = event_new(base, -1, 0, rested, gate);
    if (!gate->acceptable || !gate->rested) {
        gate->listener = -1;
        node_gate_destroy(gate);
        return BASE_ENOMEM;
    }
    *out = gate;
    return BASE_OK;
}

void node_gate_destroy(struct node_gate *gate)
{
    if (!gate)
        return;
    if (gate->acceptable)
        event_free(gate->acceptable);
    if (gate->rested)
        event_free(gate->rested);
    if (gate->listener >= 0)
        close(gate->listener);
    free(gate);
}

void node_gate_open(struct node_gate *gate)
{
    event_add(gate->acceptable, NULL);
}

void node_gate_close(struct node_gate *gate)
{
    event_del(gate->acceptable);
    event_del(gate->rested);
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
    return s;
}

enum base_error node_gate_bind(const char *key, const char *text, int *listener, struct base_reason *why)
{
    struct node_resolution r = {0};
    enum base_error code = node_address_parse(text, r.host, &r.port, why);
    if (code != BASE_OK)
        return base_fail_context(why, code, "%s", key);
    node_resolve_now(&r);
    if (r.count == 0)
        return base_fail(why, BASE_EIO, "%s: %s can't be resolved (%s); give an address of this machine", key,
                         text, r.problem);
    int s = bind_one(&r.addresses[0]);
    if (s >= 0) {
        *listener = s;
        return BASE_OK;
    }
    if (errno == EADDRINUSE)
        return base_fail(
            why, BASE_EIO,
            "%s: %s is in use by another process; stop that one, or give another port (0: any that is free)",
            key, text);
    if (errno == EADDRNOTAVAIL)
        return base_fail(why, BASE_EIO, "%s: %s is no address of this machine", key, text);
    return base_fail(why, BASE_EIO, "%s: %s: %s", key, text, strerror(errno));
}

static bool bound_to(int listener, struct sockaddr_storage *bound)
{
    socklen_t bytes = sizeof *bound;
    return getsockname(listener, (struct sockaddr *)bound, &bytes) == 0;
}

uint16_t node_gate_port(int listener)
{
    struct sockaddr_storage bound;
    if (!bound_to(listener, &bound))
        return 0;
    if (bound.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&bound)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&bound)->sin_port);
}

bool node_gate_is_loopback(int listener)
{
    struct sockaddr_storage bound;
    struct in6_addr v6;
    if (!bound_to(listener, &bound))
        return false;
    if (bound.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&bound)->sin_addr.s_addr) >> 24 == 127;
    v6 = ((const struct sockaddr_in6 *)&bound)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}
