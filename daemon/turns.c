// Whose turn it is: the node's or the trainer's, and what the trainer is told of it.
#include "base/log.h"
#include "daemon/private.h"
#include "lib/open.h"
#include "node/queue/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

void server_enter(struct server *s, enum server_state state)
{
    static const unsigned follow[] = {
        [SERVER_CLOSED] = 1u << SERVER_NODES | 1u << SERVER_OVER,
        [SERVER_NODES] = 1u << SERVER_IDLE | 1u << SERVER_TRAINERS | 1u << SERVER_LEAVING | 1u << SERVER_OVER,
        [SERVER_IDLE] = 1u << SERVER_NODES | 1u << SERVER_TRAINERS | 1u << SERVER_LEAVING | 1u << SERVER_OVER,
        [SERVER_TRAINERS] = 1u << SERVER_NODES | 1u << SERVER_LEAVING | 1u << SERVER_OVER,
        [SERVER_LEAVING] = 1u << SERVER_OVER,
        [SERVER_OVER] = 0,
    };
    BASE_ASSERT(follow[s->state] & 1u << state);
    s->state = state;
    s->idle_ns = node_clock_ns();
}

// -- answers

// A trainer that does not read its answers is dropped: the daemon never waits for a trainer to read.
void server_send(struct server *s, size_t bytes, int descriptor)
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
        server_drop(s, "it does not read its answers");
}

void server_answer(struct server *s, enum daemon_kind kind, int code, const char *reason)
{
    const size_t count = reason ? strlen(reason) : 0;
    server_send(s, daemon_answer(kind, code, reason, count, s->out), -1);
}

void server_answer_node(struct server *s, enum daemon_kind kind, int code)
{
    server_answer(s, kind, code, code == P2PML_OK ? NULL : p2pml_reason(s->node));
}

// -- models of others

// Neither process can change it.
static int make_model_file(const float *model, size_t parameters)
{
    const size_t bytes = parameters * sizeof *model;
    const int file = memfd_create("p2pml-model", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t done = 0;
    while (file >= 0 && done < bytes) {
        const ssize_t written = write(file, (const char *)model + done, bytes - done);
        if (written <= 0 && errno != EINTR)
            break;
        done += written > 0 ? (size_t)written : 0;
    }
    if (file >= 0 && done == bytes &&
        fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return file;
    base_log(BASE_LOG_WARN, "trainer", "no memory to show the trainer a model: it is taken as it comes");
    if (file >= 0)
        close(file);
    return -1;
}

// Only a trainer that waits for its turn reads a question.
static bool server_asks_trainer(struct server *s, const float *model)
{
    size_t parameters = 0;
    if (s->judge != SERVER_JUDGES || !s->asked)
        return false;
    (void)p2pml_vector(s->node, P2PML_MODEL, &parameters);
    const int file = make_model_file(model, parameters);
    if (file < 0)
        return false;
    s->judge = SERVER_JUDGING;
    server_send(s, daemon_question(parameters, s->out), file);
    close(file);
    return s->judge == SERVER_JUDGING; // else the trainer is gone
}

void server_judge(struct server *s)
{
    const float *model;
    if (s->judge == SERVER_JUDGING)
        return;
    while ((model = lib_asks(s->node)) && !server_asks_trainer(s, model))
        lib_losses(s->node, NULL, 0);
}

// -- turns

void server_end(struct server *s)
{
    s->succeeded = lib_succeeded(s->node);
    server_enter(s, SERVER_OVER);
    if (s->peer >= 0 && s->asked)
        server_answer(s, s->asked, P2PML_ENDED, p2pml_reason(s->node));
}

void server_give_turn(struct server *s)
{
    const enum daemon_kind kind = s->asked;
    if (s->fresh && !s->round.another)
        s->round.another = P2PML_TAKEN; // this trainer does not know what the vectors hold
    s->asked = 0;
    s->fresh = false;
    server_enter(s, SERVER_TRAINERS);
    server_send(s, daemon_answer_round(kind, &s->round, s->out), -1);
}

// An undone round is followed by one without steps, so that trainers that die one after another do not look
// like a model that is not finite in many rounds in a row.
void server_take_round(struct server *s, const struct p2pml_round *round)
{
    s->round = *round;
    s->begun = true;
    if (!s->undone && (s->asked == DAEMON_START || s->asked == DAEMON_ROUND))
        server_give_turn(s);
    else
        server_enter(s, SERVER_IDLE);
}

void server_look_at_node(struct server *s)
{
    struct p2pml_round round = {0};
    int code;
    if (s->state == SERVER_LEAVING)
        code = p2pml_leave(s->node, 0);
    else
        code = s->begun ? p2pml_round_end(s->node, 0, &round) : p2pml_start(s->node, 0, &round);
    if (code == P2PML_ENDED)
        server_end(s);
    else if (code == P2PML_OK)
        server_take_round(s, &round);
    else
        server_judge(s);
}

void server_step_idle(struct server *s)
{
    const uint64_t waited_ns = node_clock_ns() - s->idle_ns;
    if (s->state != SERVER_IDLE || (!s->undone && waited_ns < SERVER_IDLE_NS))
        return;
    s->undone = false;
    if (p2pml_round_begin(s->node, 0, 0, (double)NAN) == P2PML_OK)
        server_enter(s, SERVER_NODES);
    else
        server_end(s);
}

void server_undo(struct server *s)
{
    s->undone = true;
    if (lib_undo(s->node) == P2PML_OK)
        server_enter(s, SERVER_NODES);
    else
        server_end(s);
}

void server_leave(struct server *s)
{
    if (s->state == SERVER_LEAVING || s->state == SERVER_OVER)
        return;
    if (s->state == SERVER_CLOSED) {
        s->succeeded = true;
        server_enter(s, SERVER_OVER);
        if (s->asked)
            server_answer(s, s->asked, P2PML_ENDED, "the node was never started");
        return;
    }
    server_enter(s, SERVER_LEAVING);
    server_look_at_node(s);
}

// -- the trainer is gone

void server_forget_node(struct server *s)
{
    struct daemon_request old = {.tensors = s->tensors};
    p2pml_close(s->node);
    daemon_request_free(&old);
    s->node = NULL;
    s->tensors = (struct daemon_tensors){0};
}

void server_drop(struct server *s, const char *why)
{
    if (s->peer < 0)
        return;
    base_log(BASE_LOG_WARN, "trainer", "the trainer is gone: %s", why);
    close(s->peer);
    s->peer = -1;
    s->asked = 0;
    s->judge = SERVER_TAKES_ALL;
    if (s->state == SERVER_CLOSED && s->node)
        server_forget_node(s); // the next one may bring another model
    else if (s->state == SERVER_TRAINERS)
        server_undo(s);
}
