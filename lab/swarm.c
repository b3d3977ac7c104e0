#include "lab/swarm.h"

#include "node/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS    (100 * NODE_MILLISECOND_NS)
#define LOG_BYTES  2048u // read from the end of a log
#define LOG_LINES  6u
#define LOG_INDENT 4u

struct watch {
    const struct lab_swarm_options *options;
    struct lab_swarm *swarm;
    unsigned stops;             // how often a stop was asked for
    bool asked, killed;         // SIGTERM, SIGKILL were sent
    uint64_t start_ns, kill_ns; // kill_ns: when grace ends
};

static size_t last_lines(char *text, size_t bytes, size_t lines)
{
    size_t from = bytes;
    while (from && (text[from - 1] == '\n' || text[from - 1] == ' '))
        from--;
    bytes = from;
    for (; from; from--)
        if (text[from - 1] == '\n' && --lines == 0)
            break;
    memmove(text, text + from, bytes - from);
    return bytes - from;
}

void lab_log_end(const char *path, char *text, size_t capacity)
{
    char end[LOG_BYTES];
    size_t used = 0;
    ssize_t got = -1;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        off_t size = lseek(file, 0, SEEK_END);
        got = pread(file, end, sizeof end, size > (off_t)sizeof end ? size - (off_t)sizeof end : 0);
        close(file);
    }
    size_t bytes = got > 0 ? last_lines(end, (size_t)got, LOG_LINES) : 0;
    for (size_t i = 0; i < bytes && used + LOG_INDENT + 2 < capacity; i++) {
        if (i == 0 || end[i - 1] == '\n') {
            memset(text + used, ' ', LOG_INDENT);
            used += LOG_INDENT;
        }
        bool shown = (unsigned char)end[i] >= ' ' && end[i] != 0x7f;
        text[used++] = shown || end[i] == '\n' ? end[i] : '?';
    }
    if (used)
        text[used++] = '\n';
    text[used] = 0;
}

static void signal_all(struct lab_swarm *swarm, int number)
{
    for (size_t i = 0; i < swarm->count; i++)
        lab_process_signal(&swarm->nodes[i].process, number);
}

static bool any_runs(const struct lab_swarm *swarm)
{
    for (size_t i = 0; i < swarm->count; i++)
        if (swarm->nodes[i].process.running)
            return true;
    return false;
}

static void say(struct watch *watch, const char *format, ...) BASE_PRINTF(2, 3);

static void say(struct watch *watch, const char *format, ...)
{
    struct lab_display *display = watch->options->display;
    va_list arguments;
    lab_display_clear(display);
    va_start(arguments, format);
    vfprintf(display->out, format, arguments);
    va_end(arguments);
    fflush(display->out);
}

static void say_end(struct watch *watch, const struct lab_node *node)
{
    char status[LAB_STATUS_BYTES], log[LOG_BYTES + 64 * LOG_INDENT];
    if (lab_process_succeeded(&node->process) || watch->killed)
        return;
    lab_process_describe(&node->process, status);
    lab_log_end(node->log, log, sizeof log);
    say(watch, "%s ended: %s; the end of %s:\n%s", node->name, status, node->log,
        log[0] ? log : "    (it is empty)\n");
}

// Ended processes, new lines.
static void look(struct watch *watch)
{
    for (size_t i = 0; i < watch->swarm->count; i++) {
        struct lab_node *node = &watch->swarm->nodes[i];
        bool ended = lab_process_reap(&node->process);
        lab_tail_read(&node->tail);
        if (ended)
            say_end(watch, node);
    }
}

static void ask_to_stop(struct watch *watch, const char *reason)
{
    watch->asked = true;
    watch->kill_ns = node_clock_ns() + watch->options->stop_grace_ns;
    say(watch, "%s: stopping the nodes, each writes a last checkpoint\n", reason);
    signal_all(watch->swarm, SIGTERM);
}

static void kill_all(struct watch *watch, const char *reason)
{
    watch->killed = true;
    say(watch, "%s: killing the nodes that still run\n", reason);
    signal_all(watch->swarm, SIGKILL);
}

static void decide(struct watch *watch)
{
    uint64_t now_ns = node_clock_ns(), limit_ns = watch->options->time_limit_ns;
    if (!watch->asked && watch->stops) {
        watch->swarm->interrupted = true;
        ask_to_stop(watch, "interrupted");
    } else if (!watch->asked && limit_ns && now_ns - watch->start_ns >= limit_ns) {
        watch->swarm->overtime = true;
        watch->stops = 1; // the next one kills
        ask_to_stop(watch, "experiment.time_limit is over");
    } else if (watch->asked && !watch->killed && watch->stops > 1)
        kill_all(watch, "interrupted again");
    else if (watch->asked && !watch->killed && now_ns >= watch->kill_ns)
        kill_all(watch, "experiment.stop_grace is over");
}

static void show(const struct watch *watch, bool now)
{
    struct lab_progress rows[LAB_NODES_MOST];
    char ends[LAB_NODES_MOST][LAB_STATUS_BYTES];
    for (size_t i = 0; i < watch->swarm->count; i++) {
        const struct lab_node *node = &watch->swarm->nodes[i];
        rows[i] = (struct lab_progress){.name = node->name, .row = node->tail.row, .lines = node->tail.lines};
        lab_process_describe(&node->process, ends[i]);
        if (!node->process.running)
            rows[i].state = ends[i];
        else if (watch->asked)
            rows[i].state = "stopping";
        else
            rows[i].state = node->tail.lines ? node->tail.row.state : "starting";
    }
    lab_display_nodes(watch->options->display, rows, watch->swarm->count, now);
}

static enum base_error start_all(struct watch *watch, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < watch->swarm->count && !error; i++) {
        struct lab_node *node = &watch->swarm->nodes[i];
        char name[] = "p2pml-node", option[] = "--config";
        char *arguments[] = {name, option, node->config, NULL};
        error = lab_process_start(watch->options->program, arguments, watch->options->environment, node->log,
                                  &node->process, why);
    }
    return error;
}

enum base_error lab_swarm_run(const struct lab_swarm_options *options, struct lab_swarm *swarm,
                              struct base_reason *why)
{
    struct watch watch = {.options = options, .swarm = swarm, .start_ns = node_clock_ns()};
    enum base_error error = start_all(&watch, why);
    if (error) {
        watch.killed = true;
        signal_all(swarm, SIGKILL);
    }
    while (any_runs(swarm)) {
        watch.stops += lab_signals_wait(options->signals, LOOK_NS);
        look(&watch);
        if (!error) {
            decide(&watch);
            show(&watch, false);
        }
    }
    swarm->seconds = (double)(node_clock_ns() - watch.start_ns) / (double)NODE_SECOND_NS;
    if (!error)
        show(&watch, true);
    lab_display_keep(options->display);
    return error;
}
