#include "lab/term/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int bind_any(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -1;
    if (bind(sock, (const struct sockaddr *)&address, sizeof address) ||
        getsockname(sock, (struct sockaddr *)&address, &bytes)) {
        int cause = errno;
        close(sock);
        errno = cause;
        return -1;
    }
    *port = ntohs(address.sin_port);
    return sock;
}

enum base_error lab_ports_find(size_t count, uint16_t *ports, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    size_t bound = 0;
    int *socks = calloc(count ? count : 1, sizeof *socks);
    if (!socks)
        return base_fail(why, BASE_ENOMEM, "no memory for %zu ports", count);
    for (; bound < count && !error; bound++) {
        socks[bound] = bind_any(&ports[bound]);
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
