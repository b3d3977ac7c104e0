#include "node/store/events.h"
#include "gossip/session/identity.h"
#include "node/queue/clock.h"
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node_events {
    struct node_lines *lines; // NULL: none
    struct {
        char *line;
        uint64_t time_us;
    } kept[NODE_EVENTS_KEPT]; // a ring
    size_t count, next;
    struct node_allowance log;
};

enum base_error node_events_open(const char *path, struct node_lines_bounds bounds, struct node_events **out,
                                 struct base_reason *why)
{
    struct node_events *events = calloc(1, sizeof *events);
    if (!events)
        return base_fail(why, BASE_ENOMEM, "no memory for events");
    enum base_error error = path ? node_lines_open(path, "events", bounds, &events->lines, why) : BASE_OK;
    if (error)
        node_events_close(events);
    else
        *out = events;
    return error;
}

void node_events_close(struct node_events *events)
{
    if (!events)
        return;
    for (size_t i = 0; i < NODE_EVENTS_KEPT; i++)
        free(events->kept[i].line);
    node_lines_close(events->lines);
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
static char *line_of(const struct node_event *event, uint64_t time_us)
{
    char hex[GOSSIP_ID_HEX], time[48];
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
    if (event->generation > 0)
        json_object_set_new(row, "boot", json_integer((json_int_t)event->generation));
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

static void keep(struct node_events *events, char *line, uint64_t time_us)
{
    BASE_ASSERT(events->count == NODE_EVENTS_KEPT || !events->kept[events->next].line);
    free(events->kept[events->next].line);
    events->kept[events->next].line = line;
    events->kept[events->next].time_us = time_us;
    events->next = (events->next + 1) % NODE_EVENTS_KEPT;
    if (events->count < NODE_EVENTS_KEPT)
        events->count++;
}

void node_events_write(struct node_events *events, const struct node_event *event)
{
    const uint64_t time_us = event->time_us ? event->time_us : unix_us();
    char *line = line_of(event, time_us);
    if (!line)
        return;
    if (events->lines)
        node_lines_append(events->lines, line); // logs a failure itself
    keep(events, line, time_us);
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
    if (!node_allowance_take(&events->log, node_clock_ns(), &left_out))
        return;
    if (left_out > 0)
        base_log(BASE_LOG_WARN, "left_out", "%llu lines about members were left out: there were too many",
                 (unsigned long long)left_out);
    base_log(level, event->event, "%s", text.text);
}

size_t node_events_count(const struct node_events *events)
{
    return events->count;
}

static size_t place_of(const struct node_events *events, size_t index)
{
    BASE_ASSERT(index < events->count);
    return (events->next + NODE_EVENTS_KEPT - events->count + index) % NODE_EVENTS_KEPT;
}

const char *node_events_line(const struct node_events *events, size_t index)
{
    return events->kept[place_of(events, index)].line;
}

double node_events_time(const struct node_events *events, size_t index)
{
    return 1e-6 * (double)events->kept[place_of(events, index)].time_us;
}
