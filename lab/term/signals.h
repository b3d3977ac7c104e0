// SIGINT, SIGTERM, SIGHUP and SIGCHLD as bytes of a descriptor instead of interruptions. Open it on the main
// thread before other threads start, so that they inherit the blocked signals. A thread that a library
// started before main forwards them.
#ifndef LAB_TERM_SIGNALS_H
#define LAB_TERM_SIGNALS_H

#include "base/error.h"
#include "base/stop.h"
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define LAB_STOP_SIGNALS 3

struct lab_signals {
    int file;
    struct base_stop stop;
    sigset_t before;
    struct sigaction acted[LAB_STOP_SIGNALS]; // before
};

enum base_error lab_signals_open(struct lab_signals *signals, struct base_reason *why) BASE_CHECK;
// Waits for a signal or for the given time. Returns the number of requests to stop since the last
// call: 1 is the first one, every later one asks to stop at once (base/stop.h).
unsigned lab_signals_wait(struct lab_signals *signals, uint64_t timeout_ns);
void lab_signals_close(struct lab_signals *signals); // restores the previous actions

#endif
