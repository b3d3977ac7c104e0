#include "node/store/events.h"
#include "gossip/session/identity.h"
#include "node/queue/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (64 << 20) // a lying member can make many events; a file must end somewhere

struct node_events {
    int file; // -1: none
    off_t written;
    bool complained;
    char *kept[NODE_EVENTS_KEPT]; // a ring
    size_t count, next;
    struct node_allowance lines; // of the log
};

enum base_error node_events_open(const char *path, struct node_events **out, struct base_reason *why)
{
    struct stat status = {0};
    struct node_events *events = calloc(1, sizeof *events);
    if (!events)
        return base_fail(why, BASE_ENOMEM, "no memory for events");
    events->file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    if (path && (events->file < 0 || fstat(events->file, &status) != 0)) {
        enum base_error code =
            base_fail(why, BASE_EIO, "cannot open '%s' to append events: %s", path, strerror(errno));
        node_events_close(events);
        return code;
    }
    events->written = status.st_size;
    *out = events;
    return BASE_OK;
}

void node_events_close(struct node_events *events)
{
    if (!events)
        return;
    for (size_t i = 0; i < NODE_EVENTS_KEPT; i++)
        free(events->kept[i]);
    if (events->file >= 0)
        close(events->file);
    free(events);
}

static void set_flag(json_t *row, const char *key, enum node_event_flag flag)
{
    if (flag != NODE_EVENT_UNTOLD)
        json_object_set_new(row, key, json_boolean(flag == NODE_EVENT_TRUE));
}

static void set_lists(json_t *row, const struct node_event *event)
{
    if (event->lists) {
        json_t *names = json_array();
        for (size_t i = 0; i < event->n_neighbours; i++)
            json_array_append_new(names, json_string(event->neighbours[i]));
        json_object_set_new(row, "members", json_integer((json_int_t)event->members));
        json_object_set_new(row, "neighbours", names);
    }
    if (event->shards) {
        json_t *shards = json_array();
        for (size_t i = 0; i < event->n_shards; i++)
            json_array_append_new(shards, json_integer((json_int_t)event->shards[i]));
        json_object_set_new(row, "shards", shards);
    }
}

static uint64_t unix_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

// malloc'ed; NULL: out of memory.
static char *line_of(const struct node_event *event)
{
    char hex[GOSSIP_ID_HEX], time[48];
    uint64_t time_us = event->time_us ? event->time_us : unix_us();
    json_t *row = json_object();
    json_object_set_new(row, "event", json_string(event->event));
    if (event->name)
        json_object_set_new(row, "member", json_string(event->name));
    if (event->id) {
        gossip_id_hex(event->id, hex);
        json_object_set_new(row, "id", json_string(hex));
    }
    if (event->before)
        json_object_set_new(row, "before", json_string(event->before));
    set_flag(row, "evidence", event->evidence);
    set_flag(row, "was_dead", event->was_dead);
    set_lists(row, event);
    if (event->boot > 0)
        json_object_set_new(row, "boot", json_integer((json_int_t)event->boot));
    if (event->text)
        json_object_set_new(row, "text", json_string(event->text));
    char *fields = json_dumps(row, JSON_COMPACT), *line = NULL;
    json_decref(row);
    // Microseconds as they are: a double printed by the library would show 17 digits.
    snprintf(time, sizeof time, "{\"time\":%lld.%06ld,", (long long)(time_us / 1000000),
             (long)(time_us % 1000000));
    if (fields && asprintf(&line, "%s%s", time, fields + 1) < 0)
        line = NULL;
    free(fields);
    return line;
}

static void write_line(struct node_events *events, const char *line)
{
    char text[8192];
    int used = snprintf(text, sizeof text, "%s\n", line);
    if (events->file < 0 || events->complained)
        return;
    if (events->written > FILE_MAX) {
        events->complained = true;
        base_log(BASE_LOG_WARN, "events", "events.jsonl has its largest size; nothing more is written to it");
    } else if (used > 0 && (size_t)used < sizeof text &&
               write(events->file, text, (size_t)used) != (ssize_t)used) {
        events->complained = true;
        base_log(BASE_LOG_ERROR, "events", "events.jsonl can't be written: %s", strerror(errno));
    }
    events->written += used;
}

static void keep(struct node_events *events, char *line)
{
    free(events->kept[events->next]);
    events->kept[events->next] = line;
    events->next = (events->next + 1) % NODE_EVENTS_KEPT;
    if (events->count < NODE_EVENTS_KEPT)
        events->count++;
}

void node_events_write(struct node_events *events, const struct node_event *event)
{
    char *line = line_of(event);
    if (!line)
        return;
    write_line(events, line);
    keep(events, line);
}

void node_events_tell(struct node_events *events, const struct node_event *event, enum base_log_level level,
                      const char *format, ...)
{
    struct base_reason text;
    struct node_event told = *event;
    uint64_t left_out = 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text.text, sizeof text.text, format, arguments);
    va_end(arguments);
    told.text = text.text;
    node_events_write(events, &told);
    if (!node_allowance_take(&events->lines, node_clock_ns(), &left_out))
        return;
    if (left_out > 0)
        base_log(BASE_LOG_WARN, "left_out", "%llu lines about members were too many and are not here",
                 (unsigned long long)left_out);
    base_log(level, event->event, "%s", text.text);
}

size_t node_events_count(const struct node_events *events)
{
    return events->count;
}

const char *node_events_line(const struct node_events *events, size_t index)
{
    size_t first = (events->next + NODE_EVENTS_KEPT - events->count) % NODE_EVENTS_KEPT;
    return events->kept[(first + index) % NODE_EVENTS_KEPT];
}
