// The messages of a trainer, and their answers.
#include "daemon/private.h"
#include "lib/open.h"
#include "node/queue/clock.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void on_open(struct server *s, struct daemon_request *r, struct base_reason *why)
{
    const struct lib_options options = {.config = s->options->config,
                                        .tensors = r->tensors.list,
                                        .n_tensors = r->tensors.count,
                                        .resume = s->options->resume,
                                        .judges = true,
                                        .shared = true};
    if (s->node && !daemon_tensors_equal(&s->tensors, &r->tensors)) {
        server_answer(s, DAEMON_OPEN, P2PML_EMISMATCH,
                      "this node already has a model with other tensors; names and shapes must be the same");
        return;
    }
    if (!s->node) {
        const enum base_error error = lib_open(&options, &s->node, why);
        if (error) {
            server_answer(s, DAEMON_OPEN, (int)error, why->text);
            return;
        }
        s->tensors = r->tensors;
        r->tensors = (struct daemon_tensors){0};
    }
    if (s->judge != SERVER_JUDGING)
        s->judge = r->protocol < DAEMON_PROTOCOL ? SERVER_TAKES_ALL : SERVER_JUDGES;
    struct daemon_opened opened = {.started = s->state != SERVER_CLOSED, .stride = lib_stride(s->node)};
    for (int which = P2PML_MODEL; which <= P2PML_HELD; which++)
        opened.vectors |= p2pml_vector(s->node, which, &opened.parameters) ? 1u << which : 0u;
    server_send(s, daemon_answer_opened(&opened, s->out), lib_descriptor(s->node));
}

static void on_start(struct server *s)
{
    if (s->state == SERVER_TRAINERS) {
        server_answer(s, DAEMON_START, P2PML_EORDER, "START: it is already the trainer's turn");
        return;
    }
    s->asked = DAEMON_START;
    if (s->state == SERVER_IDLE && !s->undone) {
        server_give_turn(s);
    } else if (s->state == SERVER_CLOSED) {
        struct p2pml_round round = {0};
        const int code = p2pml_start(s->node, 0, &round);
        if (code < 0) {
            s->asked = 0;
            server_answer_node(s, DAEMON_START, code);
            return;
        }
        server_enter(s, SERVER_NODES);
        if (code == P2PML_OK)
            server_take_round(s, &round);
        else if (code == P2PML_ENDED)
            server_end(s);
    }
}

static void on_round(struct server *s, const struct daemon_request *r)
{
    if (s->state == SERVER_LEAVING) { // it was the trainer's turn when the signal came
        s->asked = DAEMON_ROUND;
        return;
    }
    if (s->state != SERVER_TRAINERS) {
        server_answer(
            s, DAEMON_ROUND, P2PML_EORDER,
            "ROUND: it is not the trainer's turn; the turn begins with the answer to START or ROUND");
        return;
    }
    const int code = p2pml_round_begin(s->node, r->steps, r->step_scale, r->loss);
    s->asked = DAEMON_ROUND;
    if (code == P2PML_OK) {
        server_enter(s, SERVER_NODES);
    } else if (code == P2PML_ENDED) {
        server_end(s);
    } else {
        s->asked = 0;
        server_answer_node(s, DAEMON_ROUND, code);
    }
}

static void on_status(struct server *s)
{
    char *text = p2pml_status(s->node);
    if (text && strlen(text) > DAEMON_MESSAGE_MAX / 2)
        server_answer(s, DAEMON_STATUS, P2PML_ELIMIT,
                      "the status is too long for a message; GET /status has it");
    else
        server_answer(s, DAEMON_STATUS, text ? P2PML_OK : P2PML_EORDER, text ? text : p2pml_reason(s->node));
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
        server_send(s, daemon_answer(DAEMON_BLOB, code, now, bytes, s->out), -1);
    else
        server_answer_node(s, DAEMON_BLOB, code);
}

static void on_judge(struct server *s, const struct daemon_request *r)
{
    if (s->judge != SERVER_JUDGING) {
        server_answer(s, DAEMON_JUDGE, P2PML_EORDER, "JUDGE: the daemon has asked for no losses");
        return;
    }
    s->judge = SERVER_JUDGES;
    lib_losses(s->node, r->losses, r->n_losses);
    server_judge(s);
}

static void carry_out(struct server *s, struct daemon_request *r, struct base_reason *why)
{
    if (!s->node && r->kind != DAEMON_OPEN) {
        server_answer(s, r->kind, P2PML_EORDER, "OPEN comes first");
        return;
    }
    if (s->asked && (r->kind == DAEMON_START || r->kind == DAEMON_ROUND || r->kind == DAEMON_LEAVE)) {
        server_answer(s, r->kind, P2PML_EORDER, "an earlier START, ROUND or LEAVE is not answered yet");
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
        server_answer_node(s, DAEMON_SAVE, p2pml_save(s->node));
        break;
    case DAEMON_BLOB:
        on_blob(s, r);
        break;
    case DAEMON_LEAVE:
        s->asked = DAEMON_LEAVE;
        server_leave(s);
        break;
    case DAEMON_JUDGE:
        on_judge(s, r);
        break;
    case DAEMON_KINDS:
        break;
    }
}

void server_read_trainer(struct server *s)
{
    struct daemon_request request;
    struct base_reason why = {""};
    const ssize_t bytes = recv(s->peer, s->in, sizeof s->in, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    s->heard_ns = node_clock_ns();
    if (bytes <= 0) {
        server_drop(s, bytes == 0 ? "it has closed the socket" : strerror(errno));
        return;
    }
    const enum base_error error = daemon_request_read(s->in, (size_t)bytes, &request, &why);
    if (error) {
        server_answer(s, request.kind, (int)error, why.text);
        server_drop(s, why.text);
        return;
    }
    carry_out(s, &request, &why);
    daemon_request_free(&request);
}
