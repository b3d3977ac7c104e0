#include "lab/why/story.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define YEAR_10000 253402300800.0
#define SHORT_S    0.0005 // shorter waits are not named
#define SET_BACK_S 1.0    // of a clock; a small correction moves hardly an event

// -- values

static double real(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static uint64_t count(const json_t *row, const char *key)
{
    const double value = real(row, key);
    return value > 0 ? (uint64_t)value : 0;
}

static const char *text(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static bool is_text(const json_t *row, const char *key, const char *wanted)
{
    const char *value = text(row, key);
    return value && strcmp(value, wanted) == 0;
}

// Of files and pages that others wrote: nothing that moves a cursor.
static void put(FILE *out, const char *words)
{
    for (const unsigned char *c = (const unsigned char *)words; *c; c++)
        fputc(*c >= 0x20 && *c != 0x7f ? *c : '?', out);
}

#define NAME_BYTES 96
static const char *name_of(const struct why_story *story, const char *id, char name[NAME_BYTES])
{
    const char *known = id ? text(story->names, id) : NULL;
    if (known)
        snprintf(name, NAME_BYTES, "%s", known);
    else
        snprintf(name, NAME_BYTES, "the node with the id %s", id ? id : "?");
    return name;
}

static void put_node(FILE *out, const struct why_story *story, const char *id)
{
    char name[NAME_BYTES];
    put(out, name_of(story, id, name));
}

// A page may send a row without a time, or with any.
static void put_time(FILE *out, double unix_s, const char *format)
{
    if (!(unix_s >= 0 && unix_s < YEAR_10000)) {
        fputs("an unknown time", out);
        return;
    }
    const time_t seconds = (time_t)floor(unix_s);
    struct tm parts;
    char day[64] = "";
    if (gmtime_r(&seconds, &parts))
        strftime(day, sizeof day, format, &parts);
    fprintf(out, "%s.%03d", day, (int)((unix_s - floor(unix_s)) * 1000));
}

// -- the exchange

static const struct {
    const char *missed, *because;
} misses[] = {
    {"stranger", "it was no neighbour of this node yet"},
    {"link", "there was no link to it"},
    {"barred", "it had sent what no honest member sends, and is not met for a while"},
    {"begins", "the link had just come up, and the two ends were comparing their states"},
    {"resync", "their edge was starting over: both models were being averaged block by block"},
    {"silent", "its answer was missing, and this node had asked it where it stands"},
    {"behind", "it was behind this round, and kept the request until it gets there"},
    {"refused", "it refused the request, because it was busy or away"},
    {"under_way", "the exchange was under way, and took longer than the round"},
    {"spent", "it was waited for in vain before, and nobody waits for it until its next exchange"},
    {"other", "this node did not wait for it: it had finished, was paused, or nobody else trained"},
};

static void tell_missed(FILE *out, const struct why_story *story)
{
    const char *missed = text(story->round, "missed"), *because = missed;
    for (size_t i = 0; missed && i < sizeof misses / sizeof *misses; i++)
        if (strcmp(misses[i].missed, missed) == 0)
            because = misses[i].because;
    if (!missed)
        return;
    fputs("It was to meet ", out);
    put_node(out, story, text(story->round, "partner"));
    fputs(", but did not: ", out);
    put(out, because);
    fputs(".\n", out);
}

static void tell_met(FILE *out, const struct why_story *story)
{
    const json_t *met = json_object_get(story->round, "met"), *id;
    const char *partner = text(story->round, "partner");
    const uint64_t all = count(story->round, "met_count");
    size_t i;
    for (i = 0; i < json_array_size(met); i++) {
        id = json_array_get(met, i);
        fputs(i == 0 ? "It met " : i + 1 < json_array_size(met) ? ", " : " and ", out);
        put_node(out, story, json_string_value(id));
        if (partner && json_string_value(id) && strcmp(partner, json_string_value(id)) == 0)
            fputs(" (as the plan says)", out);
    }
    if (all > i)
        fprintf(out, " and %" PRIu64 " more", all - i);
    if (i > 0)
        fputs(".\n", out);
    else if (!json_is_string(json_object_get(story->round, "missed")))
        fputs(partner ? "It met nobody.\n" : "The plan names nobody for this round.\n", out);
}

static void tell_requests(FILE *out, const json_t *round)
{
    const uint64_t asked = count(round, "asked"), answered = count(round, "answered"),
                   refused = count(round, "refused");
    fprintf(out, "It sent %" PRIu64 " request%s", asked, asked == 1 ? "" : "s");
    if (refused > 0)
        fprintf(out, ", %" PRIu64 " refused", refused);
    fprintf(out, ", and answered %" PRIu64 ".\n", answered);
}

// -- waits

static const struct {
    const char *reason, *of_one, *of_some; // the neighbour's name stands between prefix and suffix
    const char *suffix;
} reasons[] = {
    {"answer", "for the answer of ", "for answers", ""},
    {"partner", "for ", "for neighbours that were behind", ", which was behind"},
    {"link", "for the link to ", "for links", ""},
    {"edge", "for any edge, because none was live", "for any edge, because none was live", ""},
    {"cluster", "for the others, because it was too far ahead",
     "for the others, because it was too far ahead", ""},
};

// `name`: of the neighbour, or NULL.
static void put_reason(FILE *out, const char *reason, const char *name)
{
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (strcmp(reasons[i].reason, reason) != 0)
            continue;
        const bool one = name && strcmp(reasons[i].of_one, reasons[i].of_some) != 0;
        fputs(one ? reasons[i].of_one : reasons[i].of_some, out);
        put(out, one ? name : "");
        fputs(one ? reasons[i].suffix : "", out);
        return;
    }
    put(out, reason);
}

static void tell_waits(FILE *out, const struct why_story *story)
{
    json_t *waits = json_object_get(story->round, "waits");
    const double longest = real(story->round, "waited");
    double sum = 0;
    const char *reason;
    json_t *seconds;
    char name[NAME_BYTES];
    bool first = true;
    json_object_foreach(waits, reason, seconds)
        sum += json_number_value(seconds);
    if (sum < SHORT_S) {
        fputs(sum > 0 ? "It waited for less than half a millisecond.\n" : "It waited for nobody.\n", out);
        return;
    }
    fprintf(out, "It waited %.3f s: ", sum);
    json_object_foreach(waits, reason, seconds) {
        const bool is_longest = is_text(story->round, "waited_why", reason);
        double rest = json_number_value(seconds);
        if (is_longest) {
            fputs(first ? "" : ", ", out);
            fprintf(out, "%.3f s ", longest);
            put_reason(out, reason, name_of(story, text(story->round, "waited_for"), name));
            rest -= longest;
            first = false;
        }
        if (rest < SHORT_S)
            continue;
        fputs(first ? "" : ", ", out);
        fprintf(out, "%.3f s ", rest);
        put_reason(out, reason, NULL);
        first = false;
    }
    fputs(".\n", out);
}

// -- the graph: events between two moments

static void tell_event(FILE *out, const json_t *event)
{
    fputs("  ", out);
    put_time(out, real(event, "time"), "%H:%M:%S");
    fputs(" ", out);
    const char *words = text(event, "text");
    if (words) {
        put(out, words);
    } else {
        put(out, text(event, "event"));
        if (text(event, "member")) {
            fputs(": ", out);
            put(out, text(event, "member"));
        }
    }
    fputs("\n", out);
}

static bool tell_events(FILE *out, const struct why_story *story, double after, double until,
                        const char *title)
{
    bool any = false;
    size_t i;
    const json_t *event;
    json_array_foreach(story->events, i, event) {
        const double time = real(event, "time");
        if (!(time > after && time <= until))
            continue;
        if (!any)
            fprintf(out, "%s\n", title);
        any = true;
        tell_event(out, event);
    }
    return any;
}

static void tell_graph(FILE *out, const struct why_story *story, double after, double until)
{
    const double from =
        json_is_number(story->events_from) ? json_number_value(story->events_from) : (double)-INFINITY;
    if (story->set_back_s > SET_BACK_S) {
        fprintf(
            out,
            "The clock of its host was set back by %.0f s: which changes of the graph belong to this round is "
            "not known; events.jsonl has all, in their order.\n",
            story->set_back_s);
        return;
    }
    const bool any = tell_events(out, story, after, until, "In the cluster, up to the end of this round:");
    if (from > after) {
        fputs("Events before ", out);
        put_time(out, from, "%H:%M:%S");
        fputs(" are not kept.\n", out);
    } else if (!any) {
        fputs("Nothing changed in the graph.\n", out);
    }
    if (!story->after)
        tell_events(out, story, until, INFINITY, "After this round:");
}

// -- the model

static bool has_event(const struct why_story *story, double after, double until, const char *kind)
{
    size_t i;
    const json_t *event;
    json_array_foreach(story->events, i, event)
        if (is_text(event, "event", kind) && real(event, "time") > after && real(event, "time") <= until)
            return true;
    return false;
}

// Counters begin at 0 with a process.
static bool is_another_process(const struct why_story *story)
{
    return count(story->before, "own_steps") > count(story->round, "own_steps") ||
           count(story->before, "exchanges") > count(story->round, "exchanges");
}

static uint64_t grown(const struct why_story *story, const char *key)
{
    const uint64_t now = count(story->round, key);
    return now - (is_another_process(story) ? 0 : count(story->before, key));
}

static void tell_model(FILE *out, const struct why_story *story)
{
    const double until = real(story->round, "time"), loss = real(story->round, "loss");
    const double after = story->before ? real(story->before, "time") : -INFINITY;
    const bool knows = story->before; // counters are those of the process
    const uint64_t jump = count(story->round, "step") - count(story->before, "step");
    if (knows && is_another_process(story))
        fputs("Its process was started again before this round.\n", out);
    if (knows)
        fprintf(out, "It computed %" PRIu64 " step%s", grown(story, "own_steps"),
                grown(story, "own_steps") == 1 ? "" : "s");
    else
        fprintf(out, "It has computed %" PRIu64 " steps so far", count(story->round, "own_steps"));
    if (isfinite(loss))
        fprintf(out, ", loss %.4g", loss);
    fputs(".\n", out);
    if (story->before && jump > grown(story, "own_steps") &&
        count(story->round, "step") > count(story->before, "step"))
        fprintf(out, "The step grew by %" PRIu64 ": it took the progress of the others.\n", jump);
    if (knows && has_event(story, after, until, "fetched"))
        fputs("It took the model of another node.\n", out);
    if (knows && grown(story, "returns") > 0)
        fputs("Its loss had diverged: it went back to its last good model.\n", out);
}

static void tell_end(FILE *out, const struct why_story *story)
{
    const double own = real(story->end, "own_accuracy"), merged = real(story->end, "accuracy");
    if (!story->end)
        return;
    fputs(is_text(story->end, "state", "stopped") ? "This was its last round: it was stopped.\n"
                                                  : "This was its last round: it has finished.\n",
          out);
    if (!json_object_get(story->end, "own_accuracy"))
        return;
    fputs("Its final model is the mean of the final models of all nodes (merged)", out);
    if (isfinite(own) && isfinite(merged))
        fprintf(out, ": accuracy %.2f%%, of its own model %.2f%%", 100 * merged, 100 * own);
    fputs(".\n", out);
}

static void tell_now(FILE *out, const struct why_story *story)
{
    const char *reason = text(story->now, "reason");
    if (!reason || strcmp(reason, "none") == 0)
        return;
    fputs("Now it waits ", out);
    put_reason(out, reason, text(story->now, "for"));
    fputs(".\n", out);
}

static void tell_head(FILE *out, const struct why_story *story)
{
    const json_t *row = story->round;
    put(out, text(row, "node") ? text(row, "node") : "?");
    fprintf(out, ": round %" PRIu64 " (step %" PRIu64 ") ended at ", count(row, "round"), count(row, "step"));
    put_time(out, real(row, "time"), "%Y-%m-%d %H:%M:%S");
    fputs(" UTC", out);
    if (story->before && real(row, "time") >= real(story->before, "time"))
        fprintf(out, ", %.3f s after round %" PRIu64, real(row, "time") - real(story->before, "time"),
                count(story->before, "round"));
    fputs(".\n", out);
}

void why_tell(const struct why_story *story, FILE *out)
{
    const double until = real(story->round, "time");
    const double after = story->before ? real(story->before, "time") : -INFINITY;
    const bool told = json_object_get(story->round, "met_count");
    tell_head(out, story);
    if (told) {
        tell_met(out, story);
        tell_missed(out, story);
        tell_waits(out, story);
        tell_requests(out, story->round);
    } else {
        fputs("Its exchanges are not recorded: the file is of an earlier version.\n", out);
    }
    tell_model(out, story);
    tell_graph(out, story, after, until);
    tell_end(out, story);
    if (!story->after)
        tell_now(out, story);
}
