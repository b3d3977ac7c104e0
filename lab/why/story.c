#include "lab/why/story.h"

#include "lab/record/directory.h"
#include "lab/record/lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ID_DIGITS 16

void why_story_free(struct why_story *story)
{
    json_t *const all[] = {story->round,  story->before, story->end, story->after,
                           story->events, story->names,  story->now, story->events_from};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        json_decref(all[i]);
    *story = (struct why_story){0};
}

static void keep(json_t **place, json_t *value)
{
    json_incref(value);
    json_decref(*place);
    *place = value;
}

static uint64_t number_of(const json_t *row, const char *key)
{
    const json_t *number = json_object_get(row, key);
    return json_is_integer(number) && json_integer_value(number) > 0 ? (uint64_t)json_integer_value(number)
                                                                     : 0;
}

static uint64_t round_of(const json_t *row)
{
    return number_of(row, "round");
}

// The line of a boundary; the last line of a process repeats its round.
static bool ends_a_round(const json_t *row)
{
    const char *state = json_string_value(json_object_get(row, "state"));
    return state && strcmp(state, "training") == 0;
}

struct search {
    struct why_story *story;
    uint64_t round; // wanted; 0: the latest
    json_t *latest; // of another round than the one that is kept
    double latest_time;
    bool any_time;
};

// Lines say when they were written, events when they happened, by the clock of the host.
static void note_time(struct search *search, const json_t *row)
{
    const json_t *time = json_object_get(row, "time");
    if (!json_is_number(time))
        return;
    if (search->any_time)
        search->story->set_back_s =
            fmax(search->story->set_back_s, search->latest_time - json_number_value(time));
    search->latest_time = json_number_value(time);
    search->any_time = true;
}

static void take_row(struct search *search, json_t *row)
{
    struct why_story *story = search->story;
    note_time(search, row);
    const uint64_t round = round_of(row);
    const bool wanted = search->round == 0 || round == search->round;
    if (story->first == 0)
        story->first = round;
    story->last = round;
    if (!ends_a_round(row)) {
        keep(&story->end, story->round && round_of(story->round) == round ? row : NULL);
        return;
    }
    if (wanted) { // a round that is made again after a restart counts
        keep(&story->before, search->latest);
        keep(&story->round, row);
        keep(&story->end, NULL);
        keep(&story->after, NULL);
    } else if (story->round && !story->after) {
        keep(&story->after, row);
    }
    keep(&search->latest, row);
}

static bool take_row_line(void *context, const char *line, size_t bytes)
{
    json_t *row = json_loadb(line, bytes, 0, NULL);
    const bool good = round_of(row) > 0;
    if (good)
        take_row(context, row);
    json_decref(row);
    return good;
}

static void learn_name(struct why_story *story, const json_t *id, json_t *name)
{
    char key[ID_DIGITS + 1] = "";
    const char *digits = json_string_value(id);
    if (!digits || strlen(digits) < ID_DIGITS || !json_is_string(name))
        return;
    memcpy(key, digits, ID_DIGITS);
    json_object_set(story->names, key, name);
}

static bool take_event(struct why_story *story, json_t *event)
{
    const bool good =
        json_is_string(json_object_get(event, "event")) && json_is_number(json_object_get(event, "time"));
    if (good) {
        learn_name(story, json_object_get(event, "id"), json_object_get(event, "member"));
        json_array_append(story->events, event);
    }
    return good;
}

static bool take_event_line(void *context, const char *line, size_t bytes)
{
    json_t *event = json_loadb(line, bytes, 0, NULL);
    const bool good = take_event(context, event);
    json_decref(event);
    return good;
}

static void read_lines(const char *directory, const char *name, lab_line_taker *take, void *context)
{
    struct lab_lines lines;
    char *path = lab_path("%s/%s", directory, name);
    lab_lines_start(path, &lines);
    lab_lines_read(&lines, take, context);
    lab_lines_close(&lines);
    free(path);
}

static void begin(struct why_story *story)
{
    *story = (struct why_story){.events = json_array(), .names = json_object()};
    BASE_ASSERT(story->events && story->names);
}

static enum base_error missing(const struct why_story *story, const char *source, uint64_t round,
                               struct base_reason *why)
{
    if (story->first == 0)
        return base_fail(why, BASE_ENOTFOUND, "'%s' has no line of a round yet", source);
    return base_fail(why, BASE_ENOTFOUND,
                     "'%s' has no line of round %" PRIu64 ": its lines are of rounds %" PRIu64 " to %" PRIu64
                     "; a node that was away or far behind takes the cluster's round and skips its own%s",
                     source, round, story->first, story->last,
                     story->now ? ". Older rounds are in its directory (node.dir)" : "");
}

enum base_error why_story_read(const char *directory, uint64_t round, struct why_story *story,
                               struct base_reason *why)
{
    struct search search = {.story = story, .round = round};
    begin(story);
    read_lines(directory, "metrics.jsonl", take_row_line, &search);
    json_decref(search.latest);
    read_lines(directory, "events.jsonl", take_event_line, story);
    return story->round ? BASE_OK : missing(story, directory, round, why);
}

enum base_error why_story_of_page(const char *page, const char *text, uint64_t round, struct why_story *story,
                                  struct base_reason *why)
{
    struct search search = {.story = story, .round = round};
    json_t *root = json_loads(text, 0, NULL), *item;
    const json_t *rows = json_object_get(root, "rows");
    size_t i;
    begin(story);
    if (!json_is_array(rows)) {
        json_decref(root);
        return base_fail(why, BASE_EFORMAT, "this is no answer of a p2pml-node about its rounds");
    }
    json_array_foreach(rows, i, item)
        if (round_of(item) > 0)
            take_row(&search, item);
    json_decref(search.latest);
    json_array_foreach(json_object_get(root, "events"), i, item)
        take_event(story, item);
    json_object_update(story->names, json_object_get(root, "names"));
    keep(&story->now, json_object_get(root, "wait"));
    keep(&story->events_from, json_object_get(root, "events_from"));
    story->set_back_s = fmax(story->set_back_s, json_number_value(json_object_get(root, "set_back")));
    story->first = number_of(root, "first");
    story->last = number_of(root, "last");
    json_decref(root);
    return story->round ? BASE_OK : missing(story, page, round, why);
}
