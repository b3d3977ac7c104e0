#include "lab/term/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Ports from here up to those that the kernel gives to outgoing connections: one of these could take a port
// between the moment when it is found free and the start of the node that is to listen there.
#define LOWEST 10000u

static unsigned highest(void)
{
    unsigned ephemeral = 0;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (!file || fscanf(file, "%u", &ephemeral) != 1)
        ephemeral = 0;
    if (file)
        fclose(file);
    return ephemeral > LOWEST + 1000 && ephemeral <= 65535 ? ephemeral - 1 : 65535;
}

// Of the port, or -1.
static int bind_to(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -1;
    if (bind(sock, (const struct sockaddr *)&address, sizeof address)) {
        int cause = errno;
        close(sock);
        errno = cause;
        return -1;
    }
    return sock;
}

// The next free port from *at on, once round; -1: there is none.
static int bind_next(unsigned *at, unsigned last, uint16_t *port)
{
    for (unsigned tried = 0; tried <= last - LOWEST; tried++) {
        *port = (uint16_t)*at;
        *at = *at < last ? *at + 1 : LOWEST;
        int sock = bind_to(*port);
        if (sock >= 0)
            return sock;
    }
    return -1;
}

enum base_error lab_ports_find(size_t count, uint16_t *ports, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    size_t bound = 0;
    const unsigned last = highest();
    // Runs that look at the same time begin at different places.
    unsigned at = LOWEST + (unsigned)((uint64_t)getpid() * 7919u % (last - LOWEST + 1));
    int *socks = calloc(count ? count : 1, sizeof *socks);
    if (!socks)
        return base_fail(why, BASE_ENOMEM, "no memory for %zu ports", count);
    for (; bound < count && !error; bound++) {
        socks[bound] = bind_next(&at, last, &ports[bound]);
        if (socks[bound] < 0) {
            error = base_fail(why, BASE_EIO, "found %zu free ports on 127.0.0.1, expected %zu: %s", bound,
                              count, strerror(errno));
            break;
        }
    }
    while (bound)
        close(socks[--bound]);
    free(socks);
    return error;
}
