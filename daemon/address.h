// Where trainers connect: unix:PATH. The daemon that listens there holds a lock on PATH.lock from before it
// looks whether the path is free until the path is gone again, so that of several only one has it.
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
// `text` is checked. What is left there of a daemon that died is removed. The listener does not block.
// BASE_EIO: the path is in use, or cannot be used. Close *address after an error, too.
enum base_error daemon_address_open(struct daemon_address *address, const char *text,
                                    struct base_reason *why) BASE_CHECK;
void daemon_address_close(struct daemon_address *address);

#endif
