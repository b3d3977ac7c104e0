#include "daemon/trainer.h"

#include "base/log.h"
#include "daemon/address.h"
#include "daemon/message.h"
#include "lib/open.h"
#include "node/notify.h"
#include "node/queue/clock.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE_NS NODE_SECOND_NS // between two rounds of a node without a trainer
#define REST_NS NODE_SECOND_NS // before the next attempt to accept, if no descriptor was free
#define NEVER   UINT64_MAX

enum state {
    CLOSED,   // no node, or one that was not started
    NODES,    // the node joins, or a round is under way
    IDLE,     // a turn that no trainer has taken
    TRAINERS, // the trainer takes steps
    LEAVING,
    OVER,
};

struct server {
    const struct daemon_trainer_options *options;
    struct daemon_address address;
    struct node_notify notify; // until the node reports by itself
    int signals, peer;         // descriptors; -1: none
    int refused;               // was told that there is another trainer; closed when it has sent something
    enum state state;
    p2pml_node *node;              // from the first OPEN on
    struct daemon_tensors tensors; // of the node
    bool begun;                    // the node has joined
    bool fresh;                    // the peer has had no turn
    bool undone;                   // the round under way undoes a trainer's steps
    enum daemon_kind asked;        // the peer waits for this answer; 0: for none
    struct p2pml_round round;      // as last told
    uint64_t idle_ns;              // since when IDLE
    uint64_t heard_ns;             // when the peer sent something, or was answered
    uint64_t rests_ns;             // no trainer is accepted until then
    bool signalled, succeeded;
    uint8_t in[DAEMON_MESSAGE_MAX + 1], out[DAEMON_MESSAGE_MAX];
};

static void enter(struct server *s, enum state state)
{
    static const unsigned follow[] = {
        [CLOSED] = 1u << NODES | 1u << OVER,
        [NODES] = 1u << IDLE | 1u << TRAINERS | 1u << LEAVING | 1u << OVER,
        [IDLE] = 1u << NODES | 1u << TRAINERS | 1u << LEAVING | 1u << OVER,
        [TRAINERS] = 1u << NODES | 1u << LEAVING | 1u << OVER,
        [LEAVING] = 1u << OVER,
        [OVER] = 0,
    };
    BASE_ASSERT(follow[s->state] & 1u << state);
    s->state = state;
    s->idle_ns = node_clock_ns();
}

// -- answers

static void drop(struct server *s, const char *why);

// A trainer that does not read its answers is dropped: the daemon never waits for a trainer to read.
static void send_answer(struct server *s, size_t bytes, int descriptor)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {s->out, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    s->heard_ns = node_clock_ns();
    if (sendmsg(s->peer, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        drop(s, "it does not read its answers");
}

static void answer(struct server *s, enum daemon_kind kind, int code, const char *reason)
{
    const size_t count = reason ? strlen(reason) : 0;
    send_answer(s, daemon_answer(kind, code, reason, count, s->out), -1);
}

static void answer_node(struct server *s, enum daemon_kind kind, int code)
{
    answer(s, kind, code, code == P2PML_OK ? NULL : p2pml_reason(s->node));
}

// -- turns

static void end(struct server *s)
{
    s->succeeded = lib_succeeded(s->node);
    enter(s, OVER);
    if (s->peer >= 0 && s->asked)
        answer(s, s->asked, P2PML_ENDED, p2pml_reason(s->node));
}

static void give_turn(struct server *s)
{
    const enum daemon_kind kind = s->asked;
    s->round.another |= s->fresh; // this trainer does not know what the vectors hold
    s->asked = 0;
    s->fresh = false;
    enter(s, TRAINERS);
    send_answer(s, daemon_answer_round(kind, &s->round, s->out), -1);
}

// An undone round is followed by one without steps, so that trainers that die one after another do not look
// like a model that is not finite in many rounds in a row.
static void take_round(struct server *s, const struct p2pml_round *round)
{
    s->round = *round;
    s->begun = true;
    if (!s->undone && (s->asked == DAEMON_START || s->asked == DAEMON_ROUND))
        give_turn(s);
    else
        enter(s, IDLE);
}

static void look_at_node(struct server *s)
{
    struct p2pml_round round = {0};
    int code;
    if (s->state == LEAVING)
        code = p2pml_leave(s->node, 0);
    else
        code = s->begun ? p2pml_round_end(s->node, 0, &round) : p2pml_start(s->node, 0, &round);
    if (code == P2PML_ENDED)
        end(s);
    else if (code == P2PML_OK)
        take_round(s, &round);
}

static void step_idle(struct server *s)
{
    const uint64_t waited_ns = node_clock_ns() - s->idle_ns;
    if (s->state != IDLE || (!s->undone && waited_ns < IDLE_NS))
        return;
    s->undone = false;
    if (p2pml_round_begin(s->node, 0, 0, (double)NAN) == P2PML_OK)
        enter(s, NODES);
    else
        end(s);
}

static void undo(struct server *s)
{
    s->undone = true;
    if (lib_undo(s->node) == P2PML_OK)
        enter(s, NODES);
    else
        end(s);
}

static void leave(struct server *s)
{
    if (s->state == LEAVING || s->state == OVER)
        return;
    if (s->state == CLOSED) {
        s->succeeded = true;
        enter(s, OVER);
        if (s->asked)
            answer(s, s->asked, P2PML_ENDED, "the node was never started");
        return;
    }
    enter(s, LEAVING);
    look_at_node(s);
}

// -- the trainer

static void forget_node(struct server *s)
{
    struct daemon_request old = {.tensors = s->tensors};
    p2pml_close(s->node);
    daemon_request_free(&old);
    s->node = NULL;
    s->tensors = (struct daemon_tensors){0};
}

static void drop(struct server *s, const char *why)
{
    if (s->peer < 0)
        return;
    base_log(BASE_LOG_WARN, "trainer", "the trainer is gone: %s", why);
    close(s->peer);
    s->peer = -1;
    s->asked = 0;
    if (s->state == CLOSED && s->node)
        forget_node(s); // the next one may bring another model
    else if (s->state == TRAINERS)
        undo(s);
}

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

static void on_open(struct server *s, struct daemon_request *r, struct base_reason *why)
{
    const struct lib_options options = {.config = s->options->config,
                                        .tensors = r->tensors.list,
                                        .n_tensors = r->tensors.count,
                                        .resume = s->options->resume,
                                        .shared = true};
    if (s->node && !daemon_tensors_equal(&s->tensors, &r->tensors)) {
        answer(s, DAEMON_OPEN, P2PML_EMISMATCH,
               "this node already has a model with other tensors; names and shapes must be the same");
        return;
    }
    if (!s->node) {
        const enum base_error error = lib_open(&options, &s->node, why);
        if (error) {
            answer(s, DAEMON_OPEN, (int)error, why->text);
            return;
        }
        s->tensors = r->tensors;
        r->tensors = (struct daemon_tensors){0};
    }
    struct daemon_opened opened = {.started = s->state != CLOSED, .stride = lib_stride(s->node)};
    for (int which = P2PML_MODEL; which <= P2PML_CORRECTION; which++)
        opened.vectors |= p2pml_vector(s->node, which, &opened.parameters) ? 1u << which : 0u;
    send_answer(s, daemon_answer_opened(&opened, s->out), lib_descriptor(s->node));
}

static void on_start(struct server *s)
{
    if (s->state == TRAINERS) {
        answer(s, DAEMON_START, P2PML_EORDER, "START: it is already the trainer's turn");
        return;
    }
    s->asked = DAEMON_START;
    if (s->state == IDLE && !s->undone) {
        give_turn(s);
    } else if (s->state == CLOSED) {
        struct p2pml_round round = {0};
        const int code = p2pml_start(s->node, 0, &round);
        if (code < 0) {
            s->asked = 0;
            answer_node(s, DAEMON_START, code);
            return;
        }
        enter(s, NODES);
        if (code == P2PML_OK)
            take_round(s, &round);
        else if (code == P2PML_ENDED)
            end(s);
    }
}

static void on_round(struct server *s, const struct daemon_request *r)
{
    if (s->state == LEAVING) { // it was the trainer's turn when the signal came
        s->asked = DAEMON_ROUND;
        return;
    }
    if (s->state != TRAINERS) {
        answer(s, DAEMON_ROUND, P2PML_EORDER,
               "ROUND: it is not the trainer's turn; the turn begins with the answer to START or ROUND");
        return;
    }
    const int code = p2pml_round_begin(s->node, r->steps, r->step_scale, r->loss);
    s->asked = DAEMON_ROUND;
    if (code == P2PML_OK) {
        enter(s, NODES);
    } else if (code == P2PML_ENDED) {
        end(s);
    } else {
        s->asked = 0;
        answer_node(s, DAEMON_ROUND, code);
    }
}

static void on_status(struct server *s)
{
    char *text = p2pml_status(s->node);
    if (text && strlen(text) > DAEMON_MESSAGE_MAX / 2)
        answer(s, DAEMON_STATUS, P2PML_ELIMIT, "the status is too long for a message; GET /status has it");
    else
        answer(s, DAEMON_STATUS, text ? P2PML_OK : P2PML_EORDER, text ? text : p2pml_reason(s->node));
    free(text);
}

static void on_blob(struct server *s, const struct daemon_request *r)
{
    static const uint8_t none;
    const void *now = NULL;
    size_t bytes = 0;
    const void *data = r->sets ? (r->blob_bytes > 0 ? r->blob : &none) : NULL;
    const int code = p2pml_blob(s->node, data, r->blob_bytes, &now, &bytes);
    if (code == P2PML_OK)
        send_answer(s, daemon_answer(DAEMON_BLOB, code, now, bytes, s->out), -1);
    else
        answer_node(s, DAEMON_BLOB, code);
}

static void carry_out(struct server *s, struct daemon_request *r, struct base_reason *why)
{
    if (!s->node && r->kind != DAEMON_OPEN) {
        answer(s, r->kind, P2PML_EORDER, "OPEN comes first");
        return;
    }
    if (s->asked && (r->kind == DAEMON_START || r->kind == DAEMON_ROUND || r->kind == DAEMON_LEAVE)) {
        answer(s, r->kind, P2PML_EORDER, "an earlier START, ROUND or LEAVE is not answered yet");
        return;
    }
    switch (r->kind) {
    case DAEMON_OPEN:
        on_open(s, r, why);
        break;
    case DAEMON_START:
        on_start(s);
        break;
    case DAEMON_ROUND:
        on_round(s, r);
        break;
    case DAEMON_STATUS:
        on_status(s);
        break;
    case DAEMON_SAVE:
        answer_node(s, DAEMON_SAVE, p2pml_save(s->node));
        break;
    case DAEMON_BLOB:
        on_blob(s, r);
        break;
    case DAEMON_LEAVE:
        s->asked = DAEMON_LEAVE;
        leave(s);
        break;
    case DAEMON_KINDS:
        break;
    }
}

static void read_trainer(struct server *s)
{
    struct daemon_request request;
    struct base_reason why = {""};
    const ssize_t bytes = recv(s->peer, s->in, sizeof s->in, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    s->heard_ns = node_clock_ns();
    if (bytes <= 0) {
        drop(s, bytes == 0 ? "it has closed the socket" : strerror(errno));
        return;
    }
    const enum base_error error = daemon_request_read(s->in, (size_t)bytes, &request, &why);
    if (error) {
        answer(s, request.kind, (int)error, why.text);
        drop(s, why.text);
        return;
    }
    carry_out(s, &request, &why);
    daemon_request_free(&request);
}

// -- signals, loop

#define HANGUP (1ull << 32) // in the count of signals; the low half counts those that end the process

static volatile sig_atomic_t stop_signal;
static int stop_event;

static void note_signal(int number)
{
    const uint64_t count = number == SIGHUP ? HANGUP : 1;
    if (number != SIGHUP)
        stop_signal = number;
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
    if (s->state == CLOSED)
        base_log(BASE_LOG_INFO, "reload",
                 "SIGHUP: the node has not started yet, and reads its files when it starts");
    else
        lib_reload(s->node);
}

// Steps of a turn that is not complete do not count.
static void on_signal(struct server *s)
{
    uint64_t count;
    if (read(s->signals, &count, sizeof count) != (ssize_t)sizeof count)
        return;
    if (count >= HANGUP)
        hang_up(s);
    count %= HANGUP;
    if (count == 0)
        return;
    if (s->signalled || count > 1)
        _exit(1);
    s->signalled = true;
    base_log(BASE_LOG_INFO, "signal", "%s: leaving; a second signal ends the process at once",
             strsignal(stop_signal));
    node_notify_stopping(&s->notify);
    if (s->state == TRAINERS)
        undo(s);
    leave(s);
}

// When a silent trainer is dropped, if it has to send the next message; else NEVER.
static uint64_t patience_ends(const struct server *s)
{
    const uint64_t timeout_ns = s->options->config->node.trainer_timeout_ns;
    const bool awaited = s->peer >= 0 && !s->asked && s->state != LEAVING;
    return awaited && timeout_ns > 0 ? s->heard_ns + timeout_ns : NEVER;
}

static void step_patience(struct server *s)
{
    if (node_clock_ns() < patience_ends(s))
        return;
    base_log(BASE_LOG_WARN, "trainer", "the trainer has sent nothing for %.0f s (node.trainer_timeout)",
             (double)s->options->config->node.trainer_timeout_ns / (double)NODE_SECOND_NS);
    drop(s, "it hangs; it may connect again");
}

// Reports to the service manager while there is no node yet; a node reports by itself.
static void step_notify(struct server *s)
{
    if (s->state == CLOSED)
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
    if (s->state == IDLE)
        due_ns = earlier(due_ns, s->undone ? now_ns : s->idle_ns + IDLE_NS);
    if (s->rests_ns > now_ns)
        due_ns = earlier(due_ns, s->rests_ns);
    if (s->state == CLOSED && s->notify.watchdog_ns > 0)
        due_ns = earlier(due_ns, s->notify.alive_ns);
    if (due_ns <= now_ns || due_ns == NEVER)
        return due_ns == NEVER ? -1 : 0;
    const uint64_t left_ms = (due_ns - now_ns) / NODE_MILLISECOND_NS + 1;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

static void serve(struct server *s)
{
    while (s->state != OVER) {
        const bool waits = s->state == NODES || s->state == LEAVING, rests = node_clock_ns() < s->rests_ns;
        struct pollfd ready[] = {{s->signals, POLLIN, 0},
                                 {rests ? -1 : s->address.listener, POLLIN, 0},
                                 {s->peer, POLLIN, 0},
                                 {waits ? p2pml_fd(s->node) : -1, POLLIN, 0},
                                 {s->refused, POLLIN, 0}};
        (void)poll(ready, sizeof ready / sizeof *ready, time_left_ms(s));
        if (ready[3].revents)
            look_at_node(s);
        if (s->state != OVER && ready[0].revents)
            on_signal(s);
        if (s->state != OVER && ready[2].revents)
            read_trainer(s);
        if (ready[4].revents)
            close_refused(s);
        if (s->state != OVER && ready[1].revents)
            accept_trainer(s);
        if (s->state != OVER)
            step_patience(s);
        if (s->state != OVER)
            step_idle(s);
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
    forget_node(s);
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
