#include "lab/term/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// Ports are taken from here up to the range that the kernel uses for outgoing connections: an outgoing
// connection could take a port between the check that it is free and the start of the node that listens
// there.
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

static bool is_free(uint16_t port, int type)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int sock = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    bool is = sock >= 0 && bind(sock, (const struct sockaddr *)&address, sizeof address) == 0;
    if (sock >= 0)
        close(sock);
    return is;
}

// Claims a free port by binding a name, which no other run can bind, also before the nodes of this run
// listen. -1: taken.
static int claim(uint16_t port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const size_t length = 1 + (size_t)snprintf(name.sun_path + 1, 32, "p2pml-port-%u", (unsigned)port);
    int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -1;
    if (bind(sock, (const struct sockaddr *)&name,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) == 0 &&
        is_free(port, SOCK_STREAM) && is_free(port, SOCK_DGRAM))
        return sock;
    close(sock);
    return -1;
}

// Claims the next free port from *at on, through the whole range; -1: none is free.
static int claim_next(unsigned *at, unsigned last, uint16_t *port)
{
    for (unsigned tried = 0; tried <= last - LOWEST; tried++) {
        *port = (uint16_t)*at;
        *at = *at < last ? *at + 1 : LOWEST;
        int sock = claim(*port);
        if (sock >= 0 || errno == EMFILE || errno == ENFILE)
            return sock;
    }
    return -1;
}

enum base_error lab_ports_claim(size_t count, struct lab_ports *ports, struct base_reason *why)
{
    const unsigned last = highest();
    // Runs that look for ports at the same time begin at different ones.
    unsigned at = LOWEST + (unsigned)((uint64_t)getpid() * 7919u % (last - LOWEST + 1));
    *ports = (struct lab_ports){.port = calloc(count + 1, sizeof *ports->port),
                                .claim = calloc(count + 1, sizeof *ports->claim)};
    if (!ports->port || !ports->claim) {
        lab_ports_release(ports);
        return base_fail(why, BASE_ENOMEM, "no memory for %zu ports", count);
    }
    for (; ports->count < count; ports->count++) {
        int sock = claim_next(&at, last, &ports->port[ports->count]);
        if (sock < 0) {
            enum base_error error =
                base_fail(why, BASE_EIO, "found %zu free ports on 127.0.0.1, expected %zu: %s", ports->count,
                          count, strerror(errno));
            lab_ports_release(ports);
            return error;
        }
        ports->claim[ports->count] = sock;
    }
    return BASE_OK;
}

void lab_ports_release(struct lab_ports *ports)
{
    for (size_t i = 0; i < ports->count; i++)
        close(ports->claim[i]);
    free(ports->port);
    free(ports->claim);
    *ports = (struct lab_ports){0};
}
