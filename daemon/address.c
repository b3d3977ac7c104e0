#include "daemon/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX    "unix:"
#define WAITING   4 // connections that are not accepted yet
#define LOCK_PATH (sizeof((struct sockaddr_un *)0)->sun_path + sizeof ".lock")

enum base_error daemon_address_check(const char *text, struct base_reason *why)
{
    const size_t most = sizeof((struct sockaddr_un *)0)->sun_path - 1, bytes = strlen(text);
    if (strncmp(text, PREFIX, strlen(PREFIX)) == 0 && bytes > strlen(PREFIX) &&
        bytes - strlen(PREFIX) <= most)
        return BASE_OK;
    return base_fail(why, BASE_EINVAL,
                     "--trainer: found '%.120s', expected unix:PATH with a path of at most %zu bytes", text,
                     most);
}

static void lock_path(const struct daemon_address *a, char path[LOCK_PATH])
{
    snprintf(path, LOCK_PATH, "%s.lock", a->socket.sun_path);
}

// The previous holder may have removed the file after this process opened it.
static bool is_at(int file, const char *path)
{
    struct stat held, there;
    return fstat(file, &held) == 0 && stat(path, &there) == 0 && held.st_dev == there.st_dev &&
           held.st_ino == there.st_ino;
}

// A lock file is empty, and is removed at the end. A file that is not empty is something else.
static bool is_lock(int file)
{
    struct stat held;
    return fstat(file, &held) == 0 && S_ISREG(held.st_mode) && held.st_size == 0;
}

static enum base_error take_lock(struct daemon_address *a, struct base_reason *why)
{
    char path[LOCK_PATH];
    lock_path(a, path);
    for (;;) {
        a->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (a->lock < 0)
            return base_fail(why, BASE_EIO, "--trainer: %s: %s", path, strerror(errno));
        if (!is_lock(a->lock)) {
            close(a->lock);
            a->lock = -1;
            return base_fail(why, BASE_EINVAL, "--trainer: %s exists and is not the lock of a daemon", path);
        }
        const bool locked = flock(a->lock, LOCK_EX | LOCK_NB) == 0;
        if (locked && is_at(a->lock, path))
            return BASE_OK;
        const int cause = errno;
        close(a->lock);
        a->lock = -1;
        if (!locked && cause == EWOULDBLOCK)
            return base_fail(why, BASE_EIO, "--trainer: %s is in use by another process", a->socket.sun_path);
        if (!locked)
            return base_fail(why, BASE_EIO, "--trainer: %s cannot be locked: %s", path, strerror(cause));
    }
}

// A socket on which no process listens was left by a daemon that died.
static enum base_error make_room(const struct daemon_address *a, struct base_reason *why)
{
    struct stat there;
    const char *path = a->socket.sun_path;
    if (lstat(path, &there) != 0)
        return BASE_OK;
    if (!S_ISSOCK(there.st_mode))
        return base_fail(why, BASE_EINVAL, "--trainer: %s exists and is not a socket", path);
    const int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return base_fail(why, BASE_EIO, "--trainer: %s: %s", path, strerror(errno));
    const bool used =
        connect(probe, (const struct sockaddr *)&a->socket, sizeof a->socket) == 0 || errno != ECONNREFUSED;
    close(probe);
    if (used)
        return base_fail(why, BASE_EIO, "--trainer: %s is in use by another process", path);
    (void)unlink(path);
    return BASE_OK;
}

enum base_error daemon_address_open(struct daemon_address *a, const char *text, struct base_reason *why)
{
    *a = (struct daemon_address){.socket.sun_family = AF_UNIX, .listener = -1, .lock = -1};
    strcpy(a->socket.sun_path, text + strlen(PREFIX));
    enum base_error error = take_lock(a, why);
    if (!error)
        error = make_room(a, why);
    if (error)
        return error;
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const mode_t before = umask(0177); // a process that may write to it decides what the node trains
    const bool bound =
        listener >= 0 && bind(listener, (const struct sockaddr *)&a->socket, sizeof a->socket) == 0;
    const int cause = errno;
    umask(before);
    if (bound && listen(listener, WAITING) == 0) {
        a->listener = listener;
        return BASE_OK;
    }
    if (listener >= 0)
        close(listener);
    return base_fail(why, BASE_EIO, "--trainer: %s: %s", a->socket.sun_path, strerror(bound ? errno : cause));
}

void daemon_address_close(struct daemon_address *a)
{
    char path[LOCK_PATH];
    lock_path(a, path);
    if (a->listener >= 0) {
        close(a->listener);
        (void)unlink(a->socket.sun_path);
    }
    if (a->lock >= 0) {
        (void)unlink(path);
        close(a->lock);
    }
    a->listener = a->lock = -1;
}
