// p2pml.h over node/: setup, threads, and the hosted learner (node/learn/hosted.h).
#include "lib/node.h"
#include "lib/open.h"

#include "base/error.h"
#include "base/log.h"
#include "node/queue/clock.h"
#include "node/setup.h"
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)P2PML_ENOMEM == BASE_ENOMEM && (int)P2PML_EORDER == BASE_ESTATE, "one list of errors");

#define STEPS_MAX 1000000000u // in a round, as average.local_steps

static const char *const state_names[] = {
    "open", "starting", "in the program's turn", "in the node's turn", "leaving", "ended"};

int lib_descriptor(const p2pml_node *n)
{
    return n->vectors.file;
}

size_t lib_stride(const p2pml_node *n)
{
    return n->vectors.bytes;
}

bool lib_succeeded(const p2pml_node *n)
{
    return n->state == LIB_ENDED && n->status == 0;
}

// -- calls

static int fail(p2pml_node *n, int code, const char *format, ...) BASE_PRINTF(3, 4);
static int fail(p2pml_node *n, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(n->reason.text, sizeof n->reason.text, format, arguments);
    va_end(arguments);
    return code;
}

static int check_process(p2pml_node *n, const char *call)
{
    if (n->process == getpid())
        return P2PML_OK;
    return fail(n, P2PML_EFORK,
                "%s: the node belongs to process %ld, which forked this one; open another node here", call,
                (long)n->process);
}

static int out_of_order(p2pml_node *n, const char *call, const char *expected)
{
    return fail(n, P2PML_EORDER, "%s: the node is %s; %s", call, state_names[n->state], expected);
}

float *p2pml_vector(p2pml_node *n, int which, size_t *parameters)
{
    if (parameters)
        *parameters = n->vectors.parameters;
    return which >= 0 && which < LIB_VECTORS ? n->vectors.at[which] : NULL;
}

int p2pml_fd(const p2pml_node *n)
{
    return n->hosted ? node_hosted_descriptor(n->hosted) : -1;
}

const char *p2pml_reason(const p2pml_node *n)
{
    return n->reason.text;
}

// -- starting

// As node_setup_training, for a program that trains by itself.
static enum base_error make_training(struct node_setup *s, void *context, struct base_reason *why)
{
    p2pml_node *n = context;
    const size_t bytes = n->vectors.parameters * sizeof(float);
    s->steps = n->judge.seed ? NODE_STEPS_OF_A_JUDGE : NODE_STEPS_OF_PROGRAM;
    s->blob = &n->blob;
    s->state = &n->program;
    enum base_error error = lib_make_model(n, &s->kernels, &s->model, why);
    if (error)
        return error;
    s->start = malloc(bytes);
    const struct train_vectors vectors = {.model = n->vectors.at[P2PML_MODEL],
                                          .second_moment = n->vectors.at[P2PML_SECOND_MOMENT],
                                          .correction = n->vectors.at[P2PML_CORRECTION],
                                          .held = n->vectors.at[P2PML_HELD]};
    if (!s->start || train_trainer_hold(s->model, &vectors, &s->trainer))
        return base_fail(why, BASE_ENOMEM, "out of memory for a model of %zu parameters",
                         n->vectors.parameters);
    if (!s->kernels->host->apply->finite(n->vectors.at[P2PML_MODEL], n->vectors.parameters))
        return base_fail(why, BASE_EINVAL, "the model vector holds NaN or infinity before training");
    memcpy(s->start, n->vectors.at[P2PML_MODEL], bytes);
    if (n->judge.seed)
        memcpy(n->judge.seed, s->start, bytes);
    train_model_describe(s->model, s->greeting.model, sizeof s->greeting.model);
    s->greeting.schema = train_model_schema(s->model);
    return BASE_OK;
}

// Numbers in /metrics and in the log have points in this thread, which writes them, whatever the locale of
// the program is.
static void *run(void *argument)
{
    p2pml_node *n = argument;
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c)
        (void)uselocale(c);
    n->status = node_threads_run(n->threads, &n->why);
    if (n->status == 0 && node_starts_end(n->setup.starts_path, &n->why))
        n->status = 1;
    node_hosted_over(n->hosted);
    (void)uselocale(LC_GLOBAL_LOCALE);
    if (c)
        freelocale(c);
    return NULL;
}

static void unmake(p2pml_node *n)
{
    node_threads_destroy(n->threads);
    node_hosted_destroy(n->hosted);
    if (n->has_setup)
        node_setup_destroy(&n->setup);
    n->threads = NULL;
    n->hosted = NULL;
    n->has_setup = false;
}

static unsigned way_of(const p2pml_node *n)
{
    return (n->vectors.at[P2PML_CORRECTION] ? NODE_HOSTED_CORRECTED : 0u) |
           (n->changes ? NODE_HOSTED_TRACKED : 0u) | (n->judge.seed ? NODE_HOSTED_JUDGED : 0u);
}

static enum base_error make(p2pml_node *n, struct base_reason *why)
{
    const struct node_setup_options setup = {
        .version = P2PML_VERSION, .resume = n->resume, .training = make_training, .context = n};
    enum base_error error = node_setup_create(n->config, &setup, &n->setup, why);
    if (error)
        return error;
    n->has_setup = true;
    error = node_hosted_create(n->setup.trainer, &n->blob, way_of(n), &n->hosted);
    if (error)
        return base_fail(why, error, "no memory or descriptor for the turns of program and node");
    if (n->config->train.weight > 0)
        *node_hosted_weight(n->hosted) = n->config->train.weight;
    const struct node_threads_options threads = {
        .setup = &n->setup, .manager = n->vectors.file >= 0, .hosted = n->hosted, .examples = n->examples};
    error = node_threads_open(&threads, &n->threads, why);
    if (!error && pthread_create(&n->thread, NULL, run, n) != 0)
        error = base_fail(why, BASE_ENOMEM, "no thread can be started");
    return error;
}

// Threads inherit the mask: no signal handler of the program ever runs on a thread of the node, and a socket
// that is closed at the other end does not end the process.
static enum base_error make_quietly(p2pml_node *n)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    n->reason.text[0] = 0;
    enum base_error error = make(n, &n->reason);
    if (error)
        unmake(n);
    else
        n->reason.text[0] = 0; // a call that succeeds may leave notes
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int end(p2pml_node *n)
{
    if (n->running)
        pthread_join(n->thread, NULL);
    n->running = false;
    n->state = LIB_ENDED;
    if (n->why.text[0] && n->status != 0)
        return fail(n, P2PML_ENDED, "the node has ended: %s", n->why.text);
    return fail(n, P2PML_ENDED, "%s",
                n->status == 0 ? "the node has left the cluster"
                               : "the node has ended with an error; the last lines of its log say why");
}

// A program that takes more steps than there are left has taken the last one.
static uint64_t up_to_the_end(const p2pml_node *n, uint64_t steps)
{
    const uint64_t end = n->config->train.steps, done = node_hosted_steps_done(n->hosted);
    BASE_ASSERT(end == 0 || done <= end);
    return end > 0 && steps > end - done ? end - done : steps;
}

static bool reaches_the_end(const p2pml_node *n)
{
    const uint64_t end = n->config->train.steps;
    return end > 0 && node_hosted_steps(n->hosted) >= end - node_hosted_steps_done(n->hosted);
}

static int another(const p2pml_node *n, const struct node_hosted_change *change)
{
    if (change->another)
        return P2PML_TAKEN;
    return !n->turned && n->setup.resumed ? P2PML_RESTORED : 0;
}

static void tell(const p2pml_node *n, struct p2pml_round *round)
{
    const struct node_hosted_change *change = node_hosted_change(n->hosted);
    *round = (struct p2pml_round){.steps = node_hosted_steps(n->hosted),
                                  .steps_done = node_hosted_steps_done(n->hosted),
                                  .pace = node_hosted_pace(n->hosted),
                                  .weight = *node_hosted_weight(n->hosted),
                                  .another = another(n, change),
                                  .rolled_back = change->rolled_back,
                                  .saves = node_threads_saves(n->threads) || reaches_the_end(n),
                                  .dense = change->dense,
                                  .changed = change->count,
                                  .index = change->index,
                                  .model = change->model,
                                  .correction = change->correction};
}

static uint64_t deadline_of(int timeout_ms)
{
    if (timeout_ms <= 0)
        return timeout_ms < 0 ? UINT64_MAX : 0;
    return node_clock_ns() + (uint64_t)(unsigned)timeout_ms * NODE_MILLISECOND_NS;
}

// A state belongs to the checkpoint of the turn in which it was given.
static void forget_state(p2pml_node *n)
{
    free(n->program.data);
    n->program = (struct node_program_state){0};
}

// Meanwhile the program judges the models of others.
static enum node_hosted_turn turn_at(p2pml_node *n, int timeout_ms)
{
    const uint64_t deadline_ns = deadline_of(timeout_ms);
    enum node_hosted_turn turn;
    do
        turn = node_hosted_wait(n->hosted, deadline_ns);
    while (turn == NODE_HOSTED_JUDGES && lib_judge_ask(&n->judge, n->vectors.at[P2PML_MODEL], n->hosted));
    return turn;
}

const float *lib_asks(const p2pml_node *n)
{
    if (!n->hosted || node_hosted_wait(n->hosted, 0) != NODE_HOSTED_JUDGES)
        return NULL;
    return lib_judge_model(&n->judge, n->vectors.at[P2PML_MODEL], n->hosted);
}

void lib_losses(p2pml_node *n, const double *losses, size_t count)
{
    BASE_ASSERT(!n->judge.call && node_hosted_wait(n->hosted, 0) == NODE_HOSTED_JUDGES);
    lib_judge_take(&n->judge, losses, count, n->hosted);
}

static int await_turn(p2pml_node *n, int timeout_ms, struct p2pml_round *round)
{
    switch (turn_at(n, timeout_ms)) {
    case NODE_HOSTED_NODE:
    case NODE_HOSTED_JUDGES:
        return P2PML_AGAIN;
    case NODE_HOSTED_OVER:
        return end(n);
    case NODE_HOSTED_PROGRAM:
        break;
    }
    n->state = LIB_TURN;
    n->blob_set = false;
    if (n->turned)
        forget_state(n);
    if (round)
        tell(n, round);
    n->turned = true;
    n->gives = false;
    return P2PML_OK;
}

int p2pml_start(p2pml_node *n, int timeout_ms, struct p2pml_round *round)
{
    int code = check_process(n, "p2pml_start");
    if (code != P2PML_OK)
        return code;
    if (n->state == LIB_ENDED)
        return P2PML_ENDED;
    if (n->state != LIB_OPEN && n->state != LIB_STARTING)
        return out_of_order(n, "p2pml_start", "it has been started already");
    if (n->state == LIB_OPEN) {
        code = make_quietly(n);
        if (code != P2PML_OK)
            return code;
        n->running = true;
        n->state = LIB_STARTING;
    }
    return await_turn(n, timeout_ms, round);
}

int p2pml_round_begin(p2pml_node *n, uint64_t steps, double step_scale, double loss)
{
    int code = check_process(n, "p2pml_round_begin");
    if (code != P2PML_OK)
        return code;
    if (n->state == LIB_ENDED)
        return P2PML_ENDED;
    if (n->state != LIB_TURN)
        return out_of_order(n, "p2pml_round_begin",
                            "p2pml_start, and after each round p2pml_round_end, must have returned OK first");
    if (!(step_scale >= 0) || step_scale > (double)FLT_MAX)
        return fail(
            n, P2PML_EINVAL,
            "p2pml_round_begin: step_scale is %g, expected the sum of the steps' learning rates, 0 to "
            "%g",
            step_scale, (double)FLT_MAX);
    if (steps > STEPS_MAX)
        return fail(n, P2PML_EINVAL, "p2pml_round_begin: found %" PRIu64 " steps, expected 0 to %u", steps,
                    STEPS_MAX);
    if (!n->gives) // in the first turn, that of the checkpoint is there
        forget_state(n);
    node_hosted_give(n->hosted, up_to_the_end(n, steps), step_scale, loss);
    n->state = LIB_LENT;
    return P2PML_OK;
}

void lib_reload(p2pml_node *n)
{
    if (n->state != LIB_OPEN && n->state != LIB_ENDED)
        node_threads_reload(n->threads);
}

int lib_undo(p2pml_node *n)
{
    if (n->state == LIB_ENDED)
        return P2PML_ENDED;
    if (n->state != LIB_TURN)
        return out_of_order(n, "lib_undo", "there are no steps to undo");
    struct base_reason why = {""};
    if (n->vectors.file >= 0 && lib_vectors_renew(&n->vectors, &why))
        base_log(BASE_LOG_WARN, "trainer", "%s; writes of the dropped trainer still reach this node",
                 why.text);
    if (n->blob_set)
        n->blob = n->blob_before;
    node_hosted_undo(n->hosted);
    n->state = LIB_LENT;
    return P2PML_OK;
}

int p2pml_round_end(p2pml_node *n, int timeout_ms, struct p2pml_round *round)
{
    int code = check_process(n, "p2pml_round_end");
    if (code != P2PML_OK)
        return code;
    if (n->state == LIB_ENDED)
        return P2PML_ENDED;
    if (n->state != LIB_LENT)
        return out_of_order(n, "p2pml_round_end", "p2pml_round_begin must lend the vectors first");
    return await_turn(n, timeout_ms, round);
}

char *p2pml_status(p2pml_node *n)
{
    if (check_process(n, "p2pml_status") != P2PML_OK)
        return NULL;
    if (n->state != LIB_OPEN && n->state != LIB_ENDED) {
        char *text = node_threads_status(n->threads);
        if (text)
            return text;
    }
    (void)fail(n, P2PML_EORDER, "p2pml_status: the node is %s, or gave no answer in time",
               state_names[n->state]);
    return NULL;
}

int p2pml_accuracy(p2pml_node *n, double accuracy)
{
    int code = check_process(n, "p2pml_accuracy");
    if (code != P2PML_OK)
        return code;
    if (!(accuracy >= 0 && accuracy <= 1))
        return fail(n, P2PML_EINVAL, "p2pml_accuracy: found %g, expected 0 to 1", accuracy);
    if (n->state == LIB_OPEN || n->state >= LIB_LEAVING)
        return out_of_order(n, "p2pml_accuracy", "an accuracy is told while it trains");
    node_threads_accuracy(n->threads, accuracy);
    return P2PML_OK;
}

int p2pml_save(p2pml_node *n)
{
    int code = check_process(n, "p2pml_save");
    if (code != P2PML_OK)
        return code;
    if (n->state == LIB_OPEN || n->state >= LIB_LEAVING)
        return out_of_order(n, "p2pml_save", "a checkpoint can be written only while it trains");
    node_threads_save(n->threads);
    return P2PML_OK;
}

int p2pml_blob(p2pml_node *n, const void *data, size_t bytes, const void **now, size_t *now_bytes)
{
    int code = check_process(n, "p2pml_blob");
    if (code != P2PML_OK)
        return code;
    if (n->state != LIB_OPEN && n->state != LIB_TURN && n->state != LIB_ENDED)
        return out_of_order(n, "p2pml_blob", "the program has lent it the blob with the vectors");
    if (data && bytes > sizeof n->blob.data)
        return fail(n, P2PML_ELIMIT, "p2pml_blob: found %zu bytes, expected at most %zu", bytes,
                    sizeof n->blob.data);
    if (data) {
        if (n->state == LIB_TURN && !n->blob_set)
            n->blob_before = n->blob;
        n->blob_set = true;
        memmove(n->blob.data, data, bytes);
        n->blob.bytes = (uint32_t)bytes;
    }
    if (now)
        *now = n->blob.data;
    if (now_bytes)
        *now_bytes = n->blob.bytes;
    return P2PML_OK;
}

int p2pml_state(p2pml_node *n, const void *data, size_t bytes, const void **now, size_t *now_bytes)
{
    int code = check_process(n, "p2pml_state");
    if (code != P2PML_OK)
        return code;
    if (n->state == LIB_ENDED)
        return P2PML_ENDED;
    if (n->state != LIB_TURN)
        return out_of_order(n, "p2pml_state", "the state is given in the program's turn");
    const size_t most = node_program_state_most(n->vectors.parameters);
    if (data && bytes > most)
        return fail(n, P2PML_ELIMIT, "p2pml_state: found %zu bytes, expected at most %zu", bytes, most);
    if (data) {
        uint8_t *copy = malloc(bytes + 1);
        if (!copy)
            return fail(n, P2PML_ENOMEM, "p2pml_state: no memory for %zu bytes", bytes);
        memcpy(copy, data, bytes);
        forget_state(n);
        n->program = (struct node_program_state){copy, bytes};
        n->gives = true;
    }
    if (now)
        *now = n->program.data;
    if (now_bytes)
        *now_bytes = n->program.bytes;
    return P2PML_OK;
}

int p2pml_leave(p2pml_node *n, int timeout_ms)
{
    int code = check_process(n, "p2pml_leave");
    if (code != P2PML_OK)
        return code;
    if (n->state == LIB_OPEN)
        return end(n);
    if (n->state == LIB_ENDED)
        return P2PML_ENDED;
    if (n->state != LIB_LEAVING) {
        node_hosted_release(n->hosted);
        node_threads_leave(n->threads);
        n->state = LIB_LEAVING;
    }
    if (turn_at(n, timeout_ms) != NODE_HOSTED_OVER)
        return P2PML_AGAIN;
    return end(n);
}

void p2pml_close(p2pml_node *n)
{
    if (!n)
        return;
    if (n->process == getpid()) {
        n->judge.call = lib_judge_unknown; // what the program's function needs may be gone
        (void)p2pml_leave(n, -1);
        unmake(n);
    }
    lib_free(n);
}
