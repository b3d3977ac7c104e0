#include "node/notify.h"

#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define STATUS_NS 1000000000ull // between two status texts

static bool connect_to(int file, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@')) {
        errno = EINVAL;
        return false;
    }
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') // a name without a file
        address.sun_path[0] = 0;
    return connect(file, (const struct sockaddr *)&address,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) == 0;
}

// Half of the manager's timeout, as sd_watchdog_enabled(3) advises; 0 if it watches no process, or another
// one.
static uint64_t watchdog_of(const char *patience_us, const char *process)
{
    char *end = NULL;
    if (!patience_us || (process && strtoll(process, NULL, 10) != (long long)getpid()))
        return 0;
    errno = 0;
    unsigned long long us = strtoull(patience_us, &end, 10);
    if (errno || end == patience_us || *end || us > UINT64_MAX / 1000)
        return 0;
    return us * 1000 / 2;
}

// A datagram that does not get through (the manager is busy, or gone) is dropped: the next one says the same
// or more.
static void send_text(const struct node_notify *notify, const char *text)
{
    if (notify->socket >= 0)
        (void)send(notify->socket, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void node_notify_open(struct node_notify *notify)
{
    const char *path = getenv("NOTIFY_SOCKET");
    *notify = (struct node_notify){.socket = -1};
    if (!path || !path[0])
        return;
    notify->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notify->socket < 0 || !connect_to(notify->socket, path)) {
        base_log(BASE_LOG_WARN, "notify",
                 "NOTIFY_SOCKET: found '%s', which cannot be used (%s); nothing is reported to the service "
                 "manager",
                 path, strerror(errno));
        node_notify_close(notify);
        return;
    }
    notify->watchdog_ns = watchdog_of(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"));
}

void node_notify_ready(struct node_notify *notify)
{
    BASE_ASSERT(notify->state == NODE_NOTIFY_STARTING);
    notify->state = NODE_NOTIFY_READY;
    send_text(notify, "READY=1");
}

void node_notify_stopping(struct node_notify *notify)
{
    if (notify->state == NODE_NOTIFY_STOPPING)
        return;
    notify->state = NODE_NOTIFY_STOPPING;
    send_text(notify, "STOPPING=1");
}

void node_notify_tick(struct node_notify *notify, uint64_t now_ns, const char *status)
{
    char text[NODE_NOTIFY_STATUS_BYTES + 32];
    bool alive = notify->watchdog_ns && now_ns >= notify->alive_ns;
    bool changed =
        now_ns >= notify->told_ns && strncmp(notify->status, status, sizeof notify->status - 1) != 0;
    if (notify->socket < 0 || (!alive && !changed))
        return;
    if (alive)
        notify->alive_ns = now_ns + notify->watchdog_ns;
    if (changed) {
        notify->told_ns = now_ns + STATUS_NS;
        snprintf(notify->status, sizeof notify->status, "%s", status);
    }
    snprintf(text, sizeof text, "%s%s%s", alive ? "WATCHDOG=1\n" : "", changed ? "STATUS=" : "",
             changed ? notify->status : "");
    send_text(notify, text);
}

void node_notify_close(struct node_notify *notify)
{
    if (notify->socket >= 0)
        close(notify->socket);
    notify->socket = -1;
}
