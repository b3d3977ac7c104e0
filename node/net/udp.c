#include "node/net/udp.h"
#include "base/limits.h"
#include <errno.h>
#include <event2/event.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATAGRAMS_TURN 256
#define ERRORS_TURN    64
#define BUFFER_BYTES   (1 << 20) // asked for; the kernel may give less

struct node_udp {
    int socket;
    sa_family_t family;
    struct event *readable;
    const struct node_udp_handler *handler;
    void *owner;
    struct node_udp_counters counters;
};

static void tune(int s, sa_family_t family)
{
    int on = 1, bytes = BUFFER_BYTES;
    (void)setsockopt(s, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    (void)setsockopt(s, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    (void)setsockopt(s, IPPROTO_IP, IP_RECVERR, &on, sizeof on); // of a dual-stack socket, too
    if (family == AF_INET6)
        (void)setsockopt(s, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof on);
}

enum base_error node_udp_bind(int listener, int *out, struct base_reason *why)
{
    struct node_address bound;
    char text[NODE_ADDRESS_TEXT];
    if (!node_address_bound(listener, &bound))
        return base_fail(why, BASE_EIO, "the listener has no address: %s", strerror(errno));
    int s = socket(bound.storage.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s < 0)
        return base_fail(why, BASE_EIO, "no datagram socket: %s", strerror(errno));
    if (bind(s, (const struct sockaddr *)&bound.storage, bound.bytes) == 0) {
        tune(s, bound.storage.ss_family);
        *out = s;
        return BASE_OK;
    }
    int error = errno;
    close(s);
    node_address_text(&bound, text);
    if (error == EADDRINUSE)
        return base_fail(
            why, BASE_ESTATE,
            "the UDP port of %s is in use by another process; stop that process, or configure another port (0: "
            "any free port)",
            text);
    return base_fail(why, BASE_EIO, "UDP on %s: %s", text, strerror(error));
}

// ::ffff:a.b.c.d is a.b.c.d.
static void unmap(struct node_address *address)
{
    const struct sockaddr_in6 v6 = *(const struct sockaddr_in6 *)&address->storage;
    if (address->storage.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
        return;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6.sin6_port};
    memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, sizeof v4.sin_addr);
    memset(&address->storage, 0, sizeof address->storage);
    memcpy(&address->storage, &v4, sizeof v4);
    address->bytes = sizeof v4;
}

static void map(struct node_address *address)
{
    BASE_ASSERT(address->storage.ss_family == AF_INET);
    const struct sockaddr_in v4 = *(const struct sockaddr_in *)&address->storage;
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = v4.sin_port};
    v6.sin6_addr.s6_addr[10] = v6.sin6_addr.s6_addr[11] = 0xff;
    memcpy(v6.sin6_addr.s6_addr + 12, &v4.sin_addr, sizeof v4.sin_addr);
    memset(&address->storage, 0, sizeof address->storage);
    memcpy(&address->storage, &v6, sizeof v6);
    address->bytes = sizeof v6;
}

static bool says_port_closed(const struct cmsghdr *c)
{
    bool error = (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
                 (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR);
    struct sock_extended_err e;
    if (!error || c->cmsg_len < CMSG_LEN(sizeof e))
        return false;
    memcpy(&e, CMSG_DATA(c), sizeof e);
    bool icmp = e.ee_origin == SO_EE_ORIGIN_ICMP || e.ee_origin == SO_EE_ORIGIN_ICMP6;
    return icmp && e.ee_errno == ECONNREFUSED;
}

static void drain_errors(struct node_udp *udp)
{
    for (int i = 0; i < ERRORS_TURN; i++) {
        struct node_address to = {0};
        uint8_t start[64]; // of the datagram that was sent
        _Alignas(struct cmsghdr) uint8_t control[512];
        struct iovec part = {.iov_base = start, .iov_len = sizeof start};
        struct msghdr m = {.msg_name = &to.storage,
                           .msg_namelen = sizeof to.storage,
                           .msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof control};
        if (recvmsg(udp->socket, &m, MSG_ERRQUEUE) < 0)
            return;
        bool closed = false;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
            closed |= says_port_closed(c);
        to.bytes = m.msg_namelen;
        unmap(&to);
        if (closed && to.bytes > 0)
            udp->handler->unreachable(udp->owner, &to);
    }
}

bool node_udp_drain(struct node_udp *udp)
{
    uint8_t bytes[LIMIT_DATAGRAM_BYTES + 1]; // one more shows that it is too long
    BASE_ASSERT(udp->socket >= 0);           // not released
    drain_errors(udp);
    for (int i = 0; i < DATAGRAMS_TURN; i++) {
        struct node_address from = {.bytes = sizeof from.storage};
        ssize_t got =
            recvfrom(udp->socket, bytes, sizeof bytes, 0, (struct sockaddr *)&from.storage, &from.bytes);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (got < 0) { // the pending error of an earlier datagram; the error queue says which
            drain_errors(udp);
            continue;
        }
        udp->counters.received++;
        udp->counters.bytes_received += (uint64_t)got;
        unmap(&from);
        udp->handler->datagram(udp->owner, &from, bytes, (size_t)got);
    }
    return false;
}

static void ready(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    (void)node_udp_drain(argument); // if datagrams are left, the socket is still readable
}

enum base_error node_udp_create(const struct node_udp_options *options, struct node_udp **out)
{
    struct node_address bound;
    if (!node_address_bound(options->socket, &bound))
        return BASE_EIO;
    struct node_udp *udp = calloc(1, sizeof *udp);
    if (!udp)
        return BASE_ENOMEM;
    udp->family = bound.storage.ss_family;
    udp->handler = options->handler;
    udp->owner = options->owner;
    udp->readable = event_new(options->base, options->socket, EV_READ | EV_PERSIST, ready, udp);
    if (!udp->readable || event_add(udp->readable, NULL) != 0) {
        udp->socket = -1; // still the caller's
        node_udp_destroy(udp);
        return BASE_ENOMEM;
    }
    udp->socket = options->socket;
    *out = udp;
    return BASE_OK;
}

void node_udp_destroy(struct node_udp *udp)
{
    if (!udp)
        return;
    if (udp->readable)
        event_free(udp->readable);
    if (udp->socket >= 0)
        close(udp->socket);
    free(udp);
}

void node_udp_release(struct node_udp *udp)
{
    BASE_ASSERT(udp->socket >= 0);
    event_del(udp->readable);
    udp->socket = -1;
}

bool node_udp_reaches(const struct node_udp *udp, const struct node_address *to)
{
    return udp->family == AF_INET6 || to->storage.ss_family == AF_INET;
}

bool node_udp_send(struct node_udp *udp, const struct node_address *to, const uint8_t *bytes, size_t count)
{
    struct node_address address = *to;
    BASE_ASSERT(udp->socket >= 0); // not released
    if (!node_udp_reaches(udp, to))
        return false;
    if (udp->family == AF_INET6 && to->storage.ss_family == AF_INET)
        map(&address);
    // The first call may report the pending error of another datagram instead of sending this one.
    for (int attempt = 0; attempt < 2; attempt++) {
        if (sendto(udp->socket, bytes, count, MSG_NOSIGNAL, (const struct sockaddr *)&address.storage,
                   address.bytes) == (ssize_t)count) {
            udp->counters.sent++;
            udp->counters.bytes_sent += count;
            return true;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return false;
    }
    return false;
}

struct node_udp_counters node_udp_counters(const struct node_udp *udp)
{
    return udp->counters;
}
