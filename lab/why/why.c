#include "lab/why/why.h"

#include "lab/record/directory.h"
#include "lab/top/fetch.h"
#include "lab/why/story.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#define LOOK_MS 100

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static enum base_error ask(const struct lab_why_options *options, struct why_story *story,
                           struct base_reason *why)
{
    const char *address = options->source;
    const uint64_t round = options->latest ? 0 : options->round;
    char path[48] = "/rounds";
    struct lab_top_fetch fetch;
    const char *body = NULL;
    enum lab_top_outcome outcome = LAB_TOP_UNDER_WAY;
    if (round > 0)
        snprintf(path, sizeof path, "/rounds/%" PRIu64, round);
    if (!lab_top_fetch_begin(&fetch, address, path, now()))
        return base_fail(why, BASE_ENOTFOUND,
                         "'%s' is neither the directory of a node nor HOST:PORT of a node's pages", address);
    while (outcome == LAB_TOP_UNDER_WAY) {
        struct pollfd ready = {.fd = fetch.socket, .events = lab_top_fetch_events(&fetch)};
        if (poll(&ready, 1, LOOK_MS) < 0 && errno != EINTR)
            break;
        outcome = lab_top_fetch_step(&fetch, ready.revents, now(), &body);
    }
    const enum base_error error = outcome == LAB_TOP_ANSWERED
                                      ? why_story_of_page(address, body, round, story, why)
                                      : base_fail(why, BASE_EIO, "no answer to %s from %s", path, address);
    lab_top_fetch_end(&fetch);
    return error;
}

static bool is_there(const char *directory, const char *name, bool is_directory)
{
    struct stat status;
    char *path = lab_path("%s/%s", directory, name);
    const bool there = stat(path, &status) == 0 && (bool)S_ISDIR(status.st_mode) == is_directory;
    free(path);
    return there;
}

static enum base_error read_directory(const struct lab_why_options *options, struct why_story *story,
                                      struct base_reason *why)
{
    if (!is_there(options->source, "metrics.jsonl", false) && is_there(options->source, "node-00", true))
        return base_fail(why, BASE_ENOTFOUND,
                         "'%s' is the directory of a run: name one of its nodes, as %s/node-00",
                         options->source, options->source);
    return why_story_read(options->source, options->latest ? 0 : options->round, story, why);
}

enum base_error lab_why(const struct lab_why_options *options, FILE *out, struct base_reason *why)
{
    struct why_story story = {0};
    enum base_error error = is_there(options->source, ".", true) ? read_directory(options, &story, why)
                                                                 : ask(options, &story, why);
    if (!error)
        why_tell(&story, out);
    why_story_free(&story);
    return error;
}
