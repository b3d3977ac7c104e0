// Reports to a service manager on this process (systemd: Type=notify, WatchdogSec=): a datagram of lines
// "NAME=value" to the socket that $NOTIFY_SOCKET names, as sd_notify(3) describes it. Without that variable
// all functions do nothing. Loop's thread.
#ifndef NODE_NOTIFY_H
#define NODE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

enum node_notify_state { NODE_NOTIFY_STARTING, NODE_NOTIFY_READY, NODE_NOTIFY_STOPPING };

#define NODE_NOTIFY_STATUS_BYTES 160u

struct node_notify {
    int socket; // -1: nothing listens
    enum node_notify_state state;
    uint64_t
        watchdog_ns;   // between two signs of life, half of what the manager waits for; 0: it waits for none
    uint64_t alive_ns; // when the next one is due
    uint64_t told_ns;  // when a status may be sent again
    char status[NODE_NOTIFY_STATUS_BYTES]; // the latest that was sent
};

// Reads $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID. A socket that cannot be used is logged and then
// treated as missing.
void node_notify_open(struct node_notify *notify);
void node_notify_ready(struct node_notify *notify);
void node_notify_stopping(struct node_notify *notify); // sent only once
// Sends a sign of life if one is due, and the status if it has changed, at most once a second. `status` is
// one line for people.
void node_notify_tick(struct node_notify *notify, uint64_t now_ns, const char *status);
void node_notify_close(struct node_notify *notify);

#endif
