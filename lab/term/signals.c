#include "lab/term/signals.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND_NS 1000000u

static const int stops[LAB_STOP_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
static pthread_t watcher;

// Runs in a thread that does not block the signal.
static void pass_on(int number)
{
    pthread_kill(watcher, number);
}

// A signal that was ignored at the start (nohup, a background job of a script) stays ignored.
static void choose(struct lab_signals *signals, sigset_t *ours)
{
    sigemptyset(ours);
    sigaddset(ours, SIGCHLD);
    for (size_t i = 0; i < LAB_STOP_SIGNALS; i++)
        if (sigaction(stops[i], NULL, &signals->acted[i]) == 0 && signals->acted[i].sa_handler != SIG_IGN)
            sigaddset(ours, stops[i]);
}

// Sets the handlers, which are for other threads, after the signals are blocked in this one.
static void handle(const sigset_t *ours)
{
    const struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    watcher = pthread_self();
    for (size_t i = 0; i < LAB_STOP_SIGNALS; i++)
        if (sigismember(ours, stops[i]))
            (void)sigaction(stops[i], &action, NULL); // valid number and handler
}

static void act_as_before(const struct lab_signals *signals)
{
    for (size_t i = 0; i < LAB_STOP_SIGNALS; i++)
        (void)sigaction(stops[i], &signals->acted[i], NULL);
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
}

enum base_error lab_signals_open(struct lab_signals *signals, struct base_reason *why)
{
    sigset_t ours;
    choose(signals, &ours);
    sigprocmask(SIG_BLOCK, &ours, &signals->before);
    handle(&ours);
    signals->stop = (struct base_stop){0};
    signals->file = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->file >= 0)
        return BASE_OK;
    act_as_before(signals);
    return base_fail(why, BASE_EIO, "cannot watch for signals: %s", strerror(errno));
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

unsigned lab_signals_wait(struct lab_signals *signals, uint64_t timeout_ns)
{
    struct pollfd poller = {.fd = signals->file, .events = POLLIN};
    struct signalfd_siginfo signal;
    unsigned asked = 0;
    if (poll(&poller, 1, (int)(timeout_ns / MILLISECOND_NS)) <= 0)
        return 0;
    while (read(signals->file, &signal, sizeof signal) == (ssize_t)sizeof signal)
        asked += signal.ssi_signo != SIGCHLD &&
                 base_stop_take(&signals->stop, (int)signal.ssi_signo, now_ns()) != BASE_STOP_NOTHING;
    return asked;
}

// A signal after the last wait must not end the program during cleanup.
void lab_signals_close(struct lab_signals *signals)
{
    (void)lab_signals_wait(signals, 0);
    close(signals->file);
    act_as_before(signals);
    signals->file = -1;
}
