// p2pml.h over node/: setup, threads, and the hosted learner (node/learn/hosted.h).
#include "lib/open.h"

#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "node/config/config.h"
#include "node/learn/hosted.h"
#include "node/loop.h"
#include "node/queue/clock.h"
#include "node/setup.h"
#include "node/threads.h"
#include "train/optimizer.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_VECTORS 3

_Static_assert((int)P2PML_ENOMEM == BASE_ENOMEM && (int)P2PML_EORDER == BASE_ESTATE, "one list of errors");

//     OPEN --start--> STARTING --OK--> TURN <==> LENT            any --> ENDED
//                                        |         |
//                                        +--leave--+--> LEAVING
enum state { OPEN, STARTING, TURN, LENT, LEAVING, ENDED };
static const char *const state_names[] = {
    "open", "starting", "in the program's turn", "in the node's turn", "leaving", "ended"};

struct p2pml_node {
    pid_t process; // that opened it: only this one may use its threads
    enum state state;
    const struct node_config *config; // &own, or the caller's
    struct node_config own;
    bool resume, changes;
    int file; // of the vectors, if another process maps them; -1: private memory
    struct train_tensor *tensors;
    size_t n_tensors, parameters, vector_bytes; // bytes: of whole pages
    float *vectors[N_VECTORS];
    struct gossip_blob blob, blob_before; // before: at the beginning of the turn, if
    bool blob_set;                        // the program has replaced it since then
    bool has_setup, running;              // running: the thread is to be joined
    struct node_setup setup;
    struct node_hosted *hosted;
    struct node_threads *threads;
    pthread_t thread;
    int status;             // of the thread,
    struct base_reason why; // which writes these two before it ends
    struct base_reason reason;
};

// -- opening

enum base_error lib_defaults(struct node_config *config, struct base_reason *why)
{
    enum base_error code = node_schema_defaults(&node_config_schema, config, why);
    if (code == BASE_OK)
        code = node_schema_assign(&node_config_schema, "default", "train.steps=1000000000000", config, why);
    return code;
}

static enum base_error read_config(struct node_config *config, const struct p2pml_options *o,
                                   struct base_reason *why)
{
    const struct node_schema *schema = &node_config_schema;
    enum base_error code = lib_defaults(config, why);
    if (code == BASE_OK && o->config_file)
        code = node_schema_read_file(schema, o->config_file, config, why);
    if (code == BASE_OK && o->config_text)
        code =
            node_schema_read_text(schema, "config_text", o->config_text, strlen(o->config_text), config, why);
    for (size_t i = 0; code == BASE_OK && o->settings && o->settings[i]; i++)
        code = node_schema_assign(schema, "settings", o->settings[i], config, why);
    if (code == BASE_OK)
        code = node_config_check(config, why);
    if (code == BASE_OK)
        code = node_config_check_runnable(config, why);
    if (code == BASE_OK)
        node_config_complete(config);
    return code;
}

static enum base_error copy_tensor(const struct p2pml_tensor *from, size_t at, struct train_tensor *to,
                                   struct base_reason *why)
{
    if (!from->name || strlen(from->name) >= sizeof to->name)
        return base_fail(why, BASE_EINVAL, "tensor %zu: its name is missing or has over %zu bytes", at,
                         sizeof to->name - 1);
    if (from->dims > TRAIN_DIMS || (from->dims > 0 && !from->shape))
        return base_fail(why, BASE_EINVAL, "tensor '%s': found %zu dimensions, expected 0 to %d", from->name,
                         from->dims, TRAIN_DIMS);
    strcpy(to->name, from->name);
    to->n_dims = from->dims;
    for (size_t i = 0; i < from->dims; i++)
        to->shape[i] = from->shape[i];
    return BASE_OK;
}

// The kernels run on the CPU: the averaged vectors lie in the program's memory.
static enum base_error make_model(const p2pml_node *n, const struct kernels **kernels,
                                  struct train_model **model, struct base_reason *why)
{
    enum base_error code = kernels_open("cpu", 1, kernels, why);
    if (code != BASE_OK)
        return code;
    return train_model_create_tensors(n->tensors, n->n_tensors, *kernels, model, why);
}

static enum base_error take_tensors(p2pml_node *n, const struct lib_options *o, struct base_reason *why)
{
    const struct kernels *kernels;
    struct train_model *model;
    if (o->n_tensors > LIMIT_TENSORS)
        return base_fail(why, BASE_ELIMIT, "found %zu tensors, expected at most %u", o->n_tensors,
                         LIMIT_TENSORS);
    n->tensors = calloc(o->n_tensors + 1, sizeof *n->tensors);
    if (!n->tensors)
        return base_fail(why, BASE_ENOMEM, "out of memory for %zu tensors", o->n_tensors);
    n->n_tensors = o->n_tensors;
    for (size_t i = 0; i < o->n_tensors; i++) {
        enum base_error code = copy_tensor(&o->tensors[i], i, &n->tensors[i], why);
        if (code != BASE_OK)
            return code;
    }
    enum base_error code = make_model(n, &kernels, &model, why);
    if (code != BASE_OK)
        return code;
    n->parameters = train_model_parameters(model);
    train_model_destroy(model);
    return BASE_OK;
}

// Sealed, so that neither process can remove pages that the other uses.
static enum base_error make_file(const p2pml_node *n, int *made, struct base_reason *why)
{
    const int file = memfd_create("p2pml-vectors", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file >= 0 && ftruncate(file, (off_t)(N_VECTORS * n->vector_bytes)) == 0 &&
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        *made = file;
        return BASE_OK;
    }
    (void)base_fail(why, BASE_EIO, "no file in memory for vectors of %zu parameters: %s", n->parameters,
                    strerror(errno));
    if (file >= 0)
        close(file);
    return BASE_EIO;
}

// At the address `at`; NULL: anywhere.
static void *map_vector(const p2pml_node *n, int file, size_t which, void *at)
{
    const int access = PROT_READ | PROT_WRITE, fixed = at ? MAP_FIXED : 0;
    if (file < 0)
        return mmap(at, n->vector_bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    return mmap(at, n->vector_bytes, access, MAP_SHARED | fixed, file, (off_t)(which * n->vector_bytes));
}

static bool copy_vector(const p2pml_node *n, int file, size_t which)
{
    const char *from = (const char *)n->vectors[which];
    for (size_t done = 0; done < n->vector_bytes;) {
        const ssize_t bytes =
            pwrite(file, from + done, n->vector_bytes - done, (off_t)(which * n->vector_bytes + done));
        if (bytes <= 0 && errno != EINTR)
            return false;
        done += bytes > 0 ? (size_t)bytes : 0;
    }
    return true;
}

// Moves the vectors to other memory at the same addresses: a process that still writes into the old memory no
// longer reaches them. On failure they stay where they are.
static enum base_error renew_file(p2pml_node *n, struct base_reason *why)
{
    int file = -1;
    enum base_error code = make_file(n, &file, why);
    for (size_t i = 0; code == BASE_OK && i < N_VECTORS; i++)
        if (n->vectors[i] && !copy_vector(n, file, i))
            code = base_fail(why, BASE_ENOMEM, "no memory for a copy of the vectors: %s", strerror(errno));
    for (size_t i = 0; code == BASE_OK && i < N_VECTORS; i++)
        if (n->vectors[i]) // replaces as many pages of the same kind, which cannot fail
            BASE_ASSERT(map_vector(n, file, i, n->vectors[i]) == n->vectors[i]);
    if (code == BASE_OK) {
        close(n->file);
        n->file = file;
    } else if (file >= 0) {
        close(file);
    }
    return code;
}

static enum base_error map_vectors(p2pml_node *n, bool shared, struct base_reason *why)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const bool wanted[N_VECTORS] = {[P2PML_MODEL] = true,
                                    [P2PML_SECOND_MOMENT] = n->config->train.optimizer == TRAIN_ADAMW,
                                    [P2PML_CORRECTION] = n->config->average.drift_correction};
    n->vector_bytes = (n->parameters * sizeof(float) + page - 1) / page * page;
    if (shared) {
        enum base_error code = make_file(n, &n->file, why);
        if (code != BASE_OK)
            return code;
    }
    for (size_t i = 0; i < N_VECTORS; i++) {
        if (!wanted[i])
            continue;
        void *at = map_vector(n, n->file, i, NULL);
        if (at == MAP_FAILED)
            return base_fail(why, BASE_ENOMEM, "out of memory for vectors of %zu parameters", n->parameters);
        n->vectors[i] = at;
    }
    return BASE_OK;
}

static void release(p2pml_node *n)
{
    for (size_t i = 0; i < N_VECTORS; i++)
        if (n->vectors[i])
            munmap(n->vectors[i], n->vector_bytes);
    if (n->file >= 0)
        close(n->file);
    node_schema_free(&node_config_schema, &n->own);
    free(n->tensors);
    free(n);
}

enum base_error lib_open(const struct lib_options *o, p2pml_node **node, struct base_reason *why)
{
    p2pml_node *n = calloc(1, sizeof *n);
    if (!n)
        return base_fail(why, BASE_ENOMEM, "out of memory for a node");
    n->process = getpid();
    n->config = o->config;
    n->resume = o->resume;
    n->changes = o->changes;
    n->file = -1;
    enum base_error code = BASE_OK;
    if (o->config->average.outer_momentum > 0)
        code = base_fail(why, BASE_EINVAL,
                         "average.outer_momentum: found %g, expected 0: only the built-in trainer has it",
                         o->config->average.outer_momentum);
    if (code == BASE_OK)
        code = take_tensors(n, o, why);
    if (code == BASE_OK)
        code = map_vectors(n, o->shared, why);
    if (code == BASE_OK)
        *node = n;
    else
        release(n);
    return code;
}

p2pml_node *p2pml_open(const struct p2pml_options *options, char *reason, size_t bytes)
{
    struct base_reason why = {""};
    struct node_config config = {0};
    enum base_error code = BASE_OK;
    p2pml_node *n = NULL;
    if (options->size != sizeof *options)
        code = base_fail(&why, BASE_EMISMATCH,
                         "the program was built for another version of libp2pml: options of %zu bytes, "
                         "expected %zu",
                         options->size, sizeof *options);
    if (code == BASE_OK)
        code = read_config(&config, options, &why);
    if (code == BASE_OK) {
        const struct lib_options o = {.config = &config,
                                      .tensors = options->tensors,
                                      .n_tensors = options->n_tensors,
                                      .resume = options->resume,
                                      .changes = options->changes};
        code = lib_open(&o, &n, &why);
    }
    if (bytes > 0)
        snprintf(reason, bytes, "%s", code == BASE_OK ? "" : why.text);
    if (code != BASE_OK) {
        node_schema_free(&node_config_schema, &config);
        return NULL;
    }
    n->own = config;
    n->config = &n->own;
    return n;
}

int lib_descriptor(const p2pml_node *n)
{
    return n->file;
}

size_t lib_stride(const p2pml_node *n)
{
    return n->vector_bytes;
}

bool lib_succeeded(const p2pml_node *n)
{
    return n->state == ENDED && n->status == 0;
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
        *parameters = n->parameters;
    return which >= 0 && which < N_VECTORS ? n->vectors[which] : NULL;
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
    const size_t bytes = n->parameters * sizeof(float);
    s->guest = true;
    s->blob = &n->blob;
    enum base_error code = make_model(n, &s->kernels, &s->model, why);
    if (code != BASE_OK)
        return code;
    s->start = malloc(bytes);
    if (!s->start || train_trainer_hold(s->model, n->vectors[P2PML_MODEL], n->vectors[P2PML_SECOND_MOMENT],
                                        n->vectors[P2PML_CORRECTION], &s->trainer) != BASE_OK)
        return base_fail(why, BASE_ENOMEM, "out of memory for a model of %zu parameters", n->parameters);
    if (!s->kernels->host->apply->finite(n->vectors[P2PML_MODEL], n->parameters))
        return base_fail(why, BASE_EINVAL, "the model vector holds NaN or infinity before training");
    memcpy(s->start, n->vectors[P2PML_MODEL], bytes);
    train_model_describe(s->model, s->greeting.model, sizeof s->greeting.model);
    s->greeting.schema = train_model_schema(s->model);
    return BASE_OK;
}

static void *run(void *argument)
{
    p2pml_node *n = argument;
    n->status = node_threads_run(n->threads, &n->why);
    if (n->status == 0 && node_starts_end(n->setup.starts_path, &n->why) != BASE_OK)
        n->status = 1;
    node_hosted_over(n->hosted);
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

static enum base_error make(p2pml_node *n, struct base_reason *why)
{
    const struct node_setup_options setup = {
        .version = P2PML_VERSION, .resume = n->resume, .training = make_training, .context = n};
    enum base_error code = node_setup_create(n->config, &setup, &n->setup, why);
    if (code != BASE_OK)
        return code;
    n->has_setup = true;
    code = node_hosted_create(n->setup.trainer, &n->blob, n->vectors[P2PML_CORRECTION] != NULL, n->changes,
                              &n->hosted);
    if (code != BASE_OK)
        return base_fail(why, code, "no memory or descriptor for the turns of program and node");
    const struct node_threads_options threads = {
        .setup = &n->setup, .manager = n->file >= 0, .hosted = n->hosted};
    code = node_threads_open(&threads, &n->threads, why);
    if (code == BASE_OK && pthread_create(&n->thread, NULL, run, n) != 0)
        code = base_fail(why, BASE_ENOMEM, "no thread can be started");
    return code;
}

// Threads inherit the mask: no signal handler of the program ever runs on a thread of the node, and a socket
// that is closed at the other end does not end the process.
static enum base_error make_quietly(p2pml_node *n)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    n->reason.text[0] = 0;
    enum base_error code = make(n, &n->reason);
    if (code != BASE_OK)
        unmake(n);
    else
        n->reason.text[0] = 0; // a call that succeeds may leave notes
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

static int end(p2pml_node *n)
{
    if (n->running)
        pthread_join(n->thread, NULL);
    n->running = false;
    n->state = ENDED;
    if (n->why.text[0] && n->status != 0)
        return fail(n, P2PML_ENDED, "the node has ended: %s", n->why.text);
    return fail(n, P2PML_ENDED, "%s",
                n->status == 0 ? "the node has left the cluster"
                               : "the node has ended with an error; the last lines of its log say why");
}

static void tell(const p2pml_node *n, struct p2pml_round *round)
{
    const struct node_hosted_change *change = node_hosted_change(n->hosted);
    *round = (struct p2pml_round){.steps = node_hosted_steps(n->hosted),
                                  .steps_done = node_hosted_steps_done(n->hosted),
                                  .pace = node_hosted_pace(n->hosted),
                                  .another = change->another,
                                  .rolled_back = change->rolled_back,
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

static int await_turn(p2pml_node *n, int timeout_ms, struct p2pml_round *round)
{
    switch (node_hosted_wait(n->hosted, deadline_of(timeout_ms))) {
    case NODE_HOSTED_NODE:
        return P2PML_AGAIN;
    case NODE_HOSTED_OVER:
        return end(n);
    case NODE_HOSTED_PROGRAM:
        break;
    }
    n->state = TURN;
    n->blob_set = false;
    if (round)
        tell(n, round);
    return P2PML_OK;
}

int p2pml_start(p2pml_node *n, int timeout_ms, struct p2pml_round *round)
{
    int code = check_process(n, "p2pml_start");
    if (code != P2PML_OK)
        return code;
    if (n->state == ENDED)
        return P2PML_ENDED;
    if (n->state != OPEN && n->state != STARTING)
        return out_of_order(n, "p2pml_start", "it has been started already");
    if (n->state == OPEN) {
        code = make_quietly(n);
        if (code != P2PML_OK)
            return code;
        n->running = true;
        n->state = STARTING;
    }
    return await_turn(n, timeout_ms, round);
}

int p2pml_round_begin(p2pml_node *n, uint64_t steps, double step_scale, double loss)
{
    int code = check_process(n, "p2pml_round_begin");
    if (code != P2PML_OK)
        return code;
    if (n->state == ENDED)
        return P2PML_ENDED;
    if (n->state != TURN)
        return out_of_order(n, "p2pml_round_begin",
                            "p2pml_start, and after each round p2pml_round_end, must have returned OK first");
    if (!(step_scale >= 0) || isinf(step_scale))
        return fail(n, P2PML_EINVAL,
                    "p2pml_round_begin: step_scale is %g, expected the sum of the steps' learning rates",
                    step_scale);
    node_hosted_give(n->hosted, steps, step_scale, loss);
    n->state = LENT;
    return P2PML_OK;
}

void lib_reload(p2pml_node *n)
{
    if (n->state != OPEN && n->state != ENDED)
        node_threads_reload(n->threads);
}

int lib_undo(p2pml_node *n)
{
    if (n->state == ENDED)
        return P2PML_ENDED;
    if (n->state != TURN)
        return out_of_order(n, "lib_undo", "there are no steps to undo");
    struct base_reason why = {""};
    if (n->file >= 0 && renew_file(n, &why) != BASE_OK)
        base_log(BASE_LOG_WARN, "trainer", "%s; writes of the dropped trainer still reach this node",
                 why.text);
    if (n->blob_set)
        n->blob = n->blob_before;
    node_hosted_undo(n->hosted);
    n->state = LENT;
    return P2PML_OK;
}

int p2pml_round_end(p2pml_node *n, int timeout_ms, struct p2pml_round *round)
{
    int code = check_process(n, "p2pml_round_end");
    if (code != P2PML_OK)
        return code;
    if (n->state == ENDED)
        return P2PML_ENDED;
    if (n->state != LENT)
        return out_of_order(n, "p2pml_round_end", "p2pml_round_begin must lend the vectors first");
    return await_turn(n, timeout_ms, round);
}

char *p2pml_status(p2pml_node *n)
{
    if (check_process(n, "p2pml_status") != P2PML_OK)
        return NULL;
    if (n->state != OPEN && n->state != ENDED) {
        char *text = node_threads_status(n->threads);
        if (text)
            return text;
    }
    (void)fail(n, P2PML_EORDER, "p2pml_status: the node is %s, or gave no answer in time",
               state_names[n->state]);
    return NULL;
}

int p2pml_save(p2pml_node *n)
{
    int code = check_process(n, "p2pml_save");
    if (code != P2PML_OK)
        return code;
    if (n->state == OPEN || n->state >= LEAVING)
        return out_of_order(n, "p2pml_save", "a checkpoint can be written only while it trains");
    node_threads_save(n->threads);
    return P2PML_OK;
}

int p2pml_blob(p2pml_node *n, const void *data, size_t bytes, const void **now, size_t *now_bytes)
{
    int code = check_process(n, "p2pml_blob");
    if (code != P2PML_OK)
        return code;
    if (n->state != OPEN && n->state != TURN && n->state != ENDED)
        return out_of_order(n, "p2pml_blob", "the program has lent it the blob with the vectors");
    if (data && bytes > sizeof n->blob.data)
        return fail(n, P2PML_ELIMIT, "p2pml_blob: found %zu bytes, expected at most %zu", bytes,
                    sizeof n->blob.data);
    if (data) {
        if (n->state == TURN && !n->blob_set)
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

int p2pml_leave(p2pml_node *n, int timeout_ms)
{
    int code = check_process(n, "p2pml_leave");
    if (code != P2PML_OK)
        return code;
    if (n->state == OPEN)
        return end(n);
    if (n->state == ENDED)
        return P2PML_ENDED;
    if (n->state != LEAVING) {
        node_hosted_release(n->hosted);
        node_threads_leave(n->threads);
        n->state = LEAVING;
    }
    if (node_hosted_wait(n->hosted, deadline_of(timeout_ms)) != NODE_HOSTED_OVER)
        return P2PML_AGAIN;
    return end(n);
}

void p2pml_close(p2pml_node *n)
{
    if (!n)
        return;
    if (n->process == getpid()) {
        (void)p2pml_leave(n, -1);
        unmake(n);
    }
    release(n);
}
