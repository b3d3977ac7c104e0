#include "lab/processes/supervisor.h"

#include "lab/processes/acts.h"
#include "lab/summary/outcome.h"
#include "node/queue/clock.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS    (100 * NODE_MILLISECOND_NS)
#define ROUND_NS   (10 * NODE_MILLISECOND_NS) // while an event waits for a round
#define LOG_BYTES  2048u                      // read from the end of a log
#define LOG_LINES  6u
#define LOG_INDENT 4u

struct watch {
    const struct lab_supervisor_options *options;
    struct lab_cluster *cluster;
    struct lab_acts acts;
    struct lab_player player;
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

static void signal_all(struct lab_cluster *cluster, int number)
{
    for (size_t i = 0; i < cluster->count; i++)
        lab_process_signal(&cluster->nodes[i].process, number);
}

static bool any_runs(const struct lab_cluster *cluster)
{
    for (size_t i = 0; i < cluster->count; i++)
        if (cluster->nodes[i].process.running)
            return true;
    return false;
}

static struct lab_display *out(const struct watch *watch)
{
    return watch->options->display;
}

static void say_end(struct watch *watch, const struct lab_node *node)
{
    char status[LAB_STATUS_BYTES], log[LOG_BYTES + 64 * LOG_INDENT];
    if (!lab_node_failed(node) || watch->killed)
        return;
    lab_process_describe(&node->process, status);
    lab_log_end(node->log, log, sizeof log);
    lab_display_say(out(watch), "%s ended: %s; the end of %s:\n%s", node->name, status, node->log,
                    log[0] ? log : "    (it is empty)\n");
}

// Handles ended processes and new lines of the files.
static void look(struct watch *watch)
{
    for (size_t i = 0; i < watch->cluster->count; i++) {
        struct lab_node *node = &watch->cluster->nodes[i];
        bool ended = lab_process_reap(&node->process);
        lab_tail_read(&node->tail);
        lab_journal_read(&node->journal);
        if (!ended)
            continue;
        node->end_time = lab_unix_seconds();
        say_end(watch, node);
    }
}

// Reports an event when all nodes that were present have seen it.
static void say_seen(struct watch *watch, size_t index)
{
    static const char *const words[] = {"dead", "suspected", "there", "gone", "all beyond the cut dead"};
    const struct lab_event *event = &watch->cluster->schedule->items[index];
    struct lab_happening *happening = &watch->cluster->happenings[index];
    struct lab_outcome outcome;
    if (isnan(happening->time) || happening->told)
        return;
    lab_outcome_of(watch->cluster, index, NULL, &outcome);
    const struct lab_times *times = &outcome.detected;
    if (!times->of || times->seen < times->of)
        return;
    bool one = event->kind != LAB_PARTITION;
    lab_display_say(out(watch), "%s%s%s: seen by %zu of %zu after %.2f s\n",
                    one ? watch->cluster->nodes[event->node].name : "", one ? " " : "", words[event->kind],
                    times->seen, times->of, times->last);
    happening->told = true;
}

static void say_false_deaths(struct watch *watch, struct lab_node *node)
{
    for (; node->heard < node->journal.count; node->heard++) {
        const struct lab_sign *sign = &node->journal.signs[node->heard];
        if (lab_death_is_false(watch->cluster, sign))
            lab_display_say(out(watch), "%s reports %s dead, and no event explains it\n", node->name,
                            watch->cluster->nodes[sign->member].name);
    }
}

static void say_what_was_seen(struct watch *watch)
{
    for (size_t i = 0; i < watch->cluster->schedule->count; i++)
        say_seen(watch, i);
    for (size_t i = 0; i < watch->cluster->count; i++)
        say_false_deaths(watch, &watch->cluster->nodes[i]);
}

static void ask_to_stop(struct watch *watch, const char *reason)
{
    watch->asked = true;
    watch->kill_ns = node_clock_ns() + watch->options->stop_grace_ns;
    lab_player_close(&watch->player, "the run was stopped first");
    lab_display_say(out(watch), "%s: stopping the nodes; each writes a last checkpoint\n", reason);
    signal_all(watch->cluster, SIGTERM);
}

static void kill_all(struct watch *watch, const char *reason)
{
    watch->killed = true;
    lab_display_say(out(watch), "%s: killing the nodes that still run\n", reason);
    signal_all(watch->cluster, SIGKILL);
}

static void decide(struct watch *watch)
{
    uint64_t now_ns = node_clock_ns(), limit_ns = watch->options->time_limit_ns;
    if (!watch->asked && watch->stops) {
        watch->cluster->interrupted = true;
        ask_to_stop(watch, "interrupted");
    } else if (!watch->asked && limit_ns && now_ns - watch->start_ns >= limit_ns) {
        watch->cluster->overtime = true;
        watch->stops = 1; // the next stop kills
        ask_to_stop(watch, "experiment.time_limit has passed");
    } else if (watch->asked && !watch->killed && watch->stops > 1)
        kill_all(watch, "interrupted again");
    else if (watch->asked && !watch->killed && now_ns >= watch->kill_ns)
        kill_all(watch, "experiment.stop_grace has passed");
}

static const char *state_of(const struct watch *watch, const struct lab_node *node, const char *end)
{
    if (!node->starts)
        return "starts later";
    if (node->gone != LAB_HERE)
        return node->gone == LAB_KILLED ? "killed by an event" : "asked to leave by an event";
    if (!node->process.running)
        return end;
    if (node->stopped || watch->asked)
        return node->stopped ? "stopped by an event" : "stopping";
    return node->tail.lines > node->lines_before ? node->tail.row.state : "starting";
}

static void show(const struct watch *watch, bool now)
{
    struct lab_progress rows[LAB_PROCESSES_MAX];
    char ends[LAB_PROCESSES_MAX][LAB_STATUS_BYTES];
    for (size_t i = 0; i < watch->cluster->count; i++) {
        const struct lab_node *node = &watch->cluster->nodes[i];
        rows[i] = (struct lab_progress){
            .name = node->name, .row = lab_tail_row(&node->tail), .lines = node->tail.lines};
        lab_process_describe(&node->process, ends[i]);
        rows[i].state = state_of(watch, node, ends[i]);
    }
    lab_display_nodes(watch->options->display, rows, watch->cluster->count, now);
}

// Starts all nodes except those that an event starts.
static enum base_error start_all(struct watch *watch, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < watch->cluster->count && !error; i++)
        if (!lab_set_has(&watch->cluster->schedule->late, i))
            error = lab_node_start(&watch->cluster->nodes[i], watch->options->program,
                                   watch->options->environment, why);
    return error;
}

static void wait_and_look(struct watch *watch)
{
    uint64_t now_ns = node_clock_ns(), next_ns = lab_player_next(&watch->player, now_ns);
    uint64_t wait_ns = lab_player_next_round(&watch->player) == UINT64_MAX ? LOOK_NS : ROUND_NS;
    if (next_ns - now_ns < wait_ns)
        wait_ns = next_ns - now_ns + NODE_MILLISECOND_NS - 1; // waits are in whole milliseconds
    watch->stops += lab_signals_wait(watch->options->signals, wait_ns);
    look(watch);
}

static void follow(struct watch *watch)
{
    while (any_runs(watch->cluster) || (!watch->asked && lab_player_goes_on(&watch->player))) {
        wait_and_look(watch);
        decide(watch);
        if (!watch->asked) {
            lab_player_perform(&watch->player, node_clock_ns());
            lab_acts_tell_faults(&watch->acts);
        }
        say_what_was_seen(watch);
        show(watch, false);
    }
    lab_player_close(&watch->player, "the run ended first");
}

enum base_error lab_supervisor_run(const struct lab_supervisor_options *options, struct lab_cluster *cluster,
                                   struct base_reason *why)
{
    struct watch watch = {.options = options, .cluster = cluster, .start_ns = node_clock_ns()};
    watch.acts = (struct lab_acts){.cluster = cluster,
                                   .program = options->program,
                                   .environment = options->environment,
                                   .display = options->display};
    watch.player = (struct lab_player){
        .cluster = cluster, .display = options->display, .acts = lab_acts_of(&watch.acts)};
    enum base_error error = start_all(&watch, why);
    if (error) {
        watch.killed = true;
        signal_all(cluster, SIGKILL);
        while (any_runs(cluster))
            wait_and_look(&watch);
    } else
        follow(&watch);
    cluster->seconds = (double)(node_clock_ns() - watch.start_ns) / (double)NODE_SECOND_NS;
    if (!error)
        show(&watch, true);
    lab_display_keep(options->display);
    return error;
}
