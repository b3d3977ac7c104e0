#include "daemon/message.h"

#include "base/cursor.h"
#include "base/limits.h"
#include <stdlib.h>
#include <string.h>

#define HEADER 8u // kind and code of an answer

enum { ROUND_ANOTHER = 1, ROUND_ROLLED_BACK = 2 };

static enum base_error fail_format(struct base_reason *why, const char *what)
{
    return base_fail(why, BASE_EFORMAT, "a message from the trainer: %s", what);
}

static enum base_error read_tensor(struct base_reader *in, struct daemon_tensors *t, size_t at,
                                   struct base_reason *why)
{
    const size_t length = base_read_u8(in);
    const uint8_t *name = base_read_bytes(in, length);
    const size_t dims = base_read_u8(in);
    if (in->failed)
        return fail_format(why, "it ends before its last tensor");
    if (length == 0 || length >= sizeof t->names[at] || memchr(name, 0, length))
        return fail_format(why, "the name of a tensor is empty, too long or contains a zero byte");
    if (dims > TRAIN_DIMS)
        return fail_format(why, "a tensor has more than 8 dimensions");
    memcpy(t->names[at], name, length);
    for (size_t d = 0; d < dims; d++)
        t->shapes[at][d] = base_read_u64(in);
    t->list[at] = (struct p2pml_tensor){.name = t->names[at], .shape = t->shapes[at], .dims = dims};
    return BASE_OK;
}

static void free_tensors(struct daemon_tensors *t)
{
    free(t->list);
    free(t->names);
    free(t->shapes);
    *t = (struct daemon_tensors){0};
}

static enum base_error read_open(struct base_reader *in, struct daemon_request *r, struct base_reason *why)
{
    struct daemon_tensors *t = &r->tensors;
    r->protocol = base_read_u32(in);
    const uint32_t count = base_read_u32(in);
    if (!in->failed && (r->protocol == 0 || r->protocol > DAEMON_PROTOCOL))
        return base_fail(why, BASE_EFORMAT, "the trainer speaks protocol %u, this daemon 1 to %u",
                         r->protocol, DAEMON_PROTOCOL);
    if (in->failed || count == 0 || count > LIMIT_TENSORS)
        return fail_format(why, "OPEN names no tensor, or too many");
    t->list = calloc(count, sizeof *t->list);
    t->names = calloc(count, sizeof *t->names);
    t->shapes = calloc(count, sizeof *t->shapes);
    enum base_error error = BASE_OK;
    if (!t->list || !t->names || !t->shapes)
        error = base_fail(why, BASE_ENOMEM, "no memory for %u tensors", count);
    for (; !error && t->count < count; t->count++)
        error = read_tensor(in, t, t->count, why);
    return error;
}

static enum base_error read_losses(struct base_reader *in, struct daemon_request *r, struct base_reason *why)
{
    const size_t bytes = base_reader_left(in);
    if (bytes > sizeof r->losses || bytes % sizeof *r->losses != 0)
        return fail_format(why, "JUDGE has at most 256 losses of 8 bytes each");
    while (r->n_losses < bytes / sizeof *r->losses)
        r->losses[r->n_losses++] = base_read_f64(in);
    return BASE_OK;
}

enum base_error daemon_request_read(const uint8_t *bytes, size_t count, struct daemon_request *r,
                                    struct base_reason *why)
{
    struct base_reader in = base_reader_of(bytes, count);
    const uint32_t kind = base_read_u32(&in);
    enum base_error error = BASE_OK;
    *r = (struct daemon_request){0};
    if (count > DAEMON_MESSAGE_MAX || in.failed || kind == 0 || kind >= DAEMON_KINDS)
        return fail_format(why, "it is longer than 131,072 bytes, or its kind is not known");
    r->kind = (enum daemon_kind)kind;
    if (r->kind == DAEMON_OPEN) {
        error = read_open(&in, r, why);
    } else if (r->kind == DAEMON_ROUND) {
        r->steps = base_read_u64(&in);
        r->step_scale = base_read_f64(&in);
        r->loss = base_read_f64(&in);
    } else if (r->kind == DAEMON_BLOB) {
        const uint32_t sets = base_read_u32(&in);
        r->sets = sets == 1;
        r->blob_bytes = base_reader_left(&in);
        r->blob = base_read_bytes(&in, r->blob_bytes);
        if (sets > 1 || (!r->sets && r->blob_bytes > 0))
            error = fail_format(why, "BLOB has 0 and nothing more, or 1 and the bytes");
    } else if (r->kind == DAEMON_JUDGE) {
        error = read_losses(&in, r, why);
    }
    if (!error && (in.failed || base_reader_left(&in) > 0))
        error = fail_format(why, "its length does not fit its kind");
    if (error)
        free_tensors(&r->tensors);
    return error;
}

void daemon_request_free(struct daemon_request *request)
{
    free_tensors(&request->tensors);
}

bool daemon_tensors_equal(const struct daemon_tensors *a, const struct daemon_tensors *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->list[i].name, b->list[i].name) != 0 || a->list[i].dims != b->list[i].dims ||
            memcmp(a->shapes[i], b->shapes[i], sizeof a->shapes[i]) != 0)
            return false;
    return true;
}

static struct base_writer begin_answer(enum daemon_kind kind, int code, uint8_t *message)
{
    struct base_writer out = base_writer_of(message, DAEMON_MESSAGE_MAX);
    base_write_u32(&out, (uint32_t)kind);
    base_write_u32(&out, (uint32_t)code);
    return out;
}

size_t daemon_answer_opened(const struct daemon_opened *opened, uint8_t message[DAEMON_MESSAGE_MAX])
{
    struct base_writer out = begin_answer(DAEMON_OPEN, P2PML_OK, message);
    base_write_u32(&out, opened->started);
    base_write_u32(&out, opened->vectors);
    base_write_u64(&out, opened->parameters);
    base_write_u64(&out, opened->stride);
    return base_writer_used(&out);
}

size_t daemon_answer_round(enum daemon_kind kind, const struct p2pml_round *round,
                           uint8_t message[DAEMON_MESSAGE_MAX])
{
    struct base_writer out = begin_answer(kind, P2PML_OK, message);
    base_write_u64(&out, round->steps);
    base_write_u64(&out, round->steps_done);
    base_write_f64(&out, round->pace);
    base_write_u32(&out,
                   (round->another ? ROUND_ANOTHER : 0u) | (round->rolled_back ? ROUND_ROLLED_BACK : 0u));
    return base_writer_used(&out);
}

size_t daemon_question(uint64_t parameters, uint8_t message[DAEMON_MESSAGE_MAX])
{
    struct base_writer out = begin_answer(DAEMON_JUDGE, P2PML_OK, message);
    base_write_u64(&out, parameters);
    return base_writer_used(&out);
}

size_t daemon_answer(enum daemon_kind kind, int code, const void *bytes, size_t count,
                     uint8_t message[DAEMON_MESSAGE_MAX])
{
    struct base_writer out = begin_answer(kind, code, message);
    if (count > DAEMON_MESSAGE_MAX - HEADER)
        count = DAEMON_MESSAGE_MAX - HEADER;
    if (count > 0)
        base_write_bytes(&out, bytes, count);
    return base_writer_used(&out);
}
