#include "lab/signals.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define MILLISECOND_NS 1000000u

// One that we were started to ignore (nohup, a script's background job) stays ignored.
static void add_unless_ignored(sigset_t *set, int number)
{
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
        sigaddset(set, number);
}

enum base_error lab_signals_open(struct lab_signals *signals, struct base_reason *why)
{
    sigset_t ours;
    sigemptyset(&ours);
    add_unless_ignored(&ours, SIGINT);
    add_unless_ignored(&ours, SIGTERM);
    add_unless_ignored(&ours, SIGHUP);
    sigaddset(&ours, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ours, &signals->before);
    signals->file = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->file >= 0)
        return BASE_OK;
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
    return base_fail(why, BASE_EIO, "cannot watch for signals: %s", strerror(errno));
}

unsigned lab_signals_wait(const struct lab_signals *signals, uint64_t timeout_ns)
{
    struct pollfd poller = {.fd = signals->file, .events = POLLIN};
    struct signalfd_siginfo signal;
    unsigned stops = 0;
    if (poll(&poller, 1, (int)(timeout_ns / MILLISECOND_NS)) <= 0)
        return 0;
    while (read(signals->file, &signal, sizeof signal) == (ssize_t)sizeof signal)
        stops += signal.ssi_signo != SIGCHLD;
    return stops;
}

// What came since the last wait came too late to be meant: it must not end us while we clear up.
void lab_signals_close(struct lab_signals *signals)
{
    (void)lab_signals_wait(signals, 0);
    close(signals->file);
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
    signals->file = -1;
}
