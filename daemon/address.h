// Where trainers connect: unix:PATH. The daemon that listens there takes a lock on PATH.lock before it checks
// whether the path is free, and holds it until it has removed the path. So only one of several daemons has
// the path.
#ifndef DAEMON_ADDRESS_H
#define DAEMON_ADDRESS_H

#include "base/error.h"
#include <sys/un.h>

struct daemon_address {
    struct sockaddr_un socket;
    int listener, lock; // descriptors; -1: none
};

// BASE_EINVAL: not "unix:PATH", or too long for a socket.
enum base_error daemon_address_check(const char *text, struct base_reason *why) BASE_CHECK;
// `text` has passed daemon_address_check. Removes the socket of a daemon that died. The listener is
// non-blocking. BASE_EIO: the path is in use, or cannot be used. Call daemon_address_close after an error,
// too.
enum base_error daemon_address_open(struct daemon_address *address, const char *text,
                                    struct base_reason *why) BASE_CHECK;
void daemon_address_close(struct daemon_address *address);

#endif
