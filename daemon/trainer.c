#include "daemon/trainer.h"
#include "base/log.h"
#include "daemon/private.h"
#include "lib/open.h"
#include "node/queue/clock.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define REST_NS NODE_SECOND_NS // before the next attempt to accept, if no descriptor was free
#define NEVER   UINT64_MAX

static void close_refused(struct server *s)
{
    if (s->refused < 0)
        return;
    (void)!recv(s->refused, s->in, sizeof s->in, MSG_DONTWAIT);
    close(s->refused);
    s->refused = -1;
}

static void accept_trainer(struct server *s)
{
    const int fresh = accept4(s->address.listener, NULL, NULL, SOCK_CLOEXEC);
    if (fresh < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
            return;
        s->rests_ns = node_clock_ns() + REST_NS;
        base_log(BASE_LOG_WARN, "trainer",
                 "a trainer's connection cannot be accepted: %s; trying again in a second", strerror(errno));
        return;
    }
    if (s->peer >= 0) {
        static const char words[] = "another trainer is connected";
        const size_t bytes = daemon_answer(DAEMON_OPEN, P2PML_EORDER, words, strlen(words), s->out);
        (void)!send(fresh, s->out, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        close_refused(s);
        s->refused = fresh; // if it were closed with its OPEN unread, the trainer would see a reset instead
                            // of the answer
        return;
    }
    base_log(BASE_LOG_INFO, "trainer", "a trainer has connected");
    s->peer = fresh;
    s->fresh = true;
    s->heard_ns = node_clock_ns();
}

// -- signals, loop

// In the count of signals that waits in the descriptor: by which ones.
#define INTERRUPT (1ull << 20)
#define HANGUP    (1ull << 40)

static int stop_event;

static void note_signal(int number)
{
    const uint64_t count = number == SIGHUP ? HANGUP : number == SIGINT ? INTERRUPT : 1;
    (void)!write(stop_event, &count, sizeof count);
}

// Handlers, not signalfd: libraries have threads that do not block signals.
static enum base_error take_signals(struct server *s, struct base_reason *why)
{
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    s->signals = stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->signals < 0)
        return base_fail(why, BASE_EIO, "no descriptor for signals: %s", strerror(errno));
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    return BASE_OK;
}

static void hang_up(struct server *s)
{
    if (s->state == SERVER_CLOSED)
        base_log(BASE_LOG_INFO, "reload",
                 "SIGHUP: the node has not started yet, and reads its files when it starts");
    else
        lib_reload(s->node);
}

// Steps of a turn that is not complete do not count.
static void leave(struct server *s, int number)
{
    base_log(BASE_LOG_INFO, "signal", "%s: leaving; SIGINT after more than a second ends the process at once",
             strsignal(number));
    node_notify_stopping(&s->notify);
    if (s->state == SERVER_TRAINERS)
        server_undo(s);
    server_leave(s);
}

static void take_stop(struct server *s, int number)
{
    const enum base_stop_meaning meaning = base_stop_take(&s->stop, number, node_clock_ns());
    if (meaning == BASE_STOP_AT_ONCE)
        _exit(1);
    if (meaning == BASE_STOP_ASKED)
        leave(s, number);
}

static void on_signal(struct server *s)
{
    uint64_t count;
    if (read(s->signals, &count, sizeof count) != (ssize_t)sizeof count)
        return;
    if (count >= HANGUP)
        hang_up(s);
    if (count % INTERRUPT > 0)
        take_stop(s, SIGTERM);
    if (count % HANGUP >= INTERRUPT)
        take_stop(s, SIGINT);
}

// When a silent trainer is dropped, if it has to send the next message; else NEVER.
static uint64_t patience_ends(const struct server *s)
{
    const uint64_t timeout_ns = s->options->config->node.trainer_timeout_ns;
    const bool asks = !s->asked && s->state != SERVER_LEAVING;
    const bool awaited = s->peer >= 0 && (asks || s->judge == SERVER_JUDGING);
    return awaited && timeout_ns > 0 ? s->heard_ns + timeout_ns : NEVER;
}

static void step_patience(struct server *s)
{
    if (node_clock_ns() < patience_ends(s))
        return;
    base_log(BASE_LOG_WARN, "trainer", "the trainer has sent nothing for %.0f s (node.trainer_timeout)",
             (double)s->options->config->node.trainer_timeout_ns / (double)NODE_SECOND_NS);
    server_drop(s, "it does not respond; it may connect again");
}

// Reports to the service manager while there is no node yet; a node reports by itself.
static void step_notify(struct server *s)
{
    if (s->state == SERVER_CLOSED)
        node_notify_tick(&s->notify, node_clock_ns(),
                         s->peer >= 0 ? "a trainer is connected" : "waiting for a trainer");
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int time_left_ms(const struct server *s)
{
    const uint64_t now_ns = node_clock_ns();
    uint64_t due_ns = patience_ends(s);
    if (s->state == SERVER_IDLE)
        due_ns = earlier(due_ns, s->undone ? now_ns : s->idle_ns + SERVER_IDLE_NS);
    if (s->rests_ns > now_ns)
        due_ns = earlier(due_ns, s->rests_ns);
    if (s->state == SERVER_CLOSED && s->notify.watchdog_ns > 0)
        due_ns = earlier(due_ns, s->notify.alive_ns);
    if (due_ns <= now_ns || due_ns == NEVER)
        return due_ns == NEVER ? -1 : 0;
    const uint64_t left_ms = (due_ns - now_ns) / NODE_MILLISECOND_NS + 1;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

static void serve(struct server *s)
{
    while (s->state != SERVER_OVER) {
        const bool waits =
                       (s->state == SERVER_NODES || s->state == SERVER_LEAVING) && s->judge != SERVER_JUDGING,
                   rests = node_clock_ns() < s->rests_ns;
        struct pollfd ready[] = {{s->signals, POLLIN, 0},
                                 {rests ? -1 : s->address.listener, POLLIN, 0},
                                 {s->peer, POLLIN, 0},
                                 {waits ? p2pml_fd(s->node) : -1, POLLIN, 0},
                                 {s->refused, POLLIN, 0}};
        (void)poll(ready, sizeof ready / sizeof *ready, time_left_ms(s));
        if (ready[3].revents)
            server_look_at_node(s);
        if (s->state != SERVER_OVER && ready[0].revents)
            on_signal(s);
        if (s->state != SERVER_OVER && ready[2].revents)
            server_read_trainer(s);
        if (ready[4].revents)
            close_refused(s);
        if (s->state != SERVER_OVER && ready[1].revents)
            accept_trainer(s);
        if (s->state != SERVER_OVER)
            step_patience(s);
        if (s->state != SERVER_OVER)
            server_step_idle(s);
        step_notify(s);
    }
}

bool daemon_trainer_serve(const struct daemon_trainer_options *options, struct base_reason *why)
{
    struct server *s = calloc(1, sizeof *s);
    if (!s) {
        (void)base_fail(why, BASE_ENOMEM, "no memory for the trainer's messages");
        return false;
    }
    s->options = options;
    s->address.listener = s->address.lock = -1;
    s->signals = s->peer = s->refused = -1;
    node_notify_open(&s->notify);
    enum base_error error = take_signals(s, why);
    if (!error)
        error = daemon_address_open(&s->address, options->address, why);
    if (!error) {
        base_log(BASE_LOG_INFO, "trainer", "waiting for a trainer at %s", s->address.socket.sun_path);
        node_notify_ready(&s->notify);
        serve(s);
    }
    server_forget_node(s);
    daemon_address_close(&s->address);
    node_notify_close(&s->notify);
    const int descriptors[] = {s->peer, s->refused, s->signals};
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    const bool succeeded = !error && s->succeeded;
    free(s);
    return succeeded;
}
