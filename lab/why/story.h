// What a node has kept of one round: the lines of metrics.jsonl and events.jsonl that belong to it, as JSON.
// Private to lab/why.
#ifndef LAB_WHY_STORY_H
#define LAB_WHY_STORY_H

#include "base/error.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct why_story {
    json_t *round;        // its line, NULL: none
    json_t *before;       // the line of another round before it; NULL: none, or not known
    json_t *end;          // the node's last line, if this was its last round; NULL
    json_t *after;        // the line of the round that follows; NULL: none
    json_t *events;       // array: all that are kept, in the order of their times
    json_t *names;        // object: the first 16 digits of an id -> name of a member
    json_t *events_from;  // time from which all events are kept; NULL or null: all are
    json_t *now;          // of a running node: what it waits for; NULL: not known
    double set_back_s;    // the clock was set back by so much between two lines; 0: never
    uint64_t first, last; // rounds of the first and the latest line; 0: none
};

void why_story_free(struct why_story *story);
// From the files of a node's directory. `round` 0: the latest one.
enum base_error why_story_read(const char *directory, uint64_t round, struct why_story *story,
                               struct base_reason *why) BASE_CHECK;
// From the answer of a running node's page (node_status_round) at HOST:PORT `page`.
enum base_error why_story_of_page(const char *page, const char *text, uint64_t round, struct why_story *story,
                                  struct base_reason *why) BASE_CHECK;

// tell.c: pure.
void why_tell(const struct why_story *story, FILE *out);

#endif
