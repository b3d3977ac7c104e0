// Events of members and of this node, with times: <node.dir>/events.jsonl (one JSON object a line,
// flushed at once), the latest lines in memory for the pages, and one line each in the log. Loop's thread.
#ifndef NODE_STORE_EVENTS_H
#define NODE_STORE_EVENTS_H

#include "base/error.h"
#include "base/log.h"
#include "gossip/id.h"
#include "node/queue/rate_limit.h"
#include "node/store/lines.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODE_EVENTS_KEPT 1024u

enum node_event_flag { NODE_EVENT_UNTOLD, NODE_EVENT_FALSE, NODE_EVENT_TRUE };

struct node_event {
    const char *event;          // a constant word
    const struct gossip_id *id; // of the member it is about; NULL: none
    const char *name;
    const char *before; // state before; NULL: not told
    enum node_event_flag evidence, was_dead;
    bool lists;                    // members and neighbours are told
    size_t members;                // in the view
    const char *const *neighbours; // names
    size_t n_neighbours;
    const uint32_t *shards; // NULL: not told
    size_t n_shards;
    const char *text;    // for people; NULL: none. node_events_tell sets it
    uint64_t generation; // 0: not told
    uint64_t time_us;    // unix; 0: now
};

struct node_events;

// `path` NULL: nothing is written. BASE_EIO with the reason.
enum base_error node_events_open(const char *path, struct node_lines_bounds bounds,
                                 struct node_events **events, struct base_reason *why) BASE_CHECK;
void node_events_close(struct node_events *events); // NULL is fine
void node_events_write(struct node_events *events, const struct node_event *event);
// `line`, for people, becomes the event's text and is logged at this level.
void node_events_tell(struct node_events *events, const struct node_event *event, enum base_log_level level,
                      const char *line, ...) BASE_PRINTF(4, 5);
size_t node_events_count(const struct node_events *events);                   // kept in memory
const char *node_events_line(const struct node_events *events, size_t index); // oldest first; no newline
double node_events_time(const struct node_events *events, size_t index);      // unix seconds

#endif
