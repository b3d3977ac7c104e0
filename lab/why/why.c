#include "lab/why/why.h"

#include "lab/record/directory.h"
#include "lab/top/fetch.h"
#include "lab/why/story.h"
#include "node/config/config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

static enum base_error ask(const struct lab_why_options *options, struct why_story *story,
                           struct base_reason *why)
{
    const uint64_t round = options->latest ? 0 : options->round;
    char path[48] = "/rounds", host[LIMIT_HOST_BYTES];
    uint16_t port;
    if (round > 0)
        snprintf(path, sizeof path, "/rounds/%" PRIu64, round);
    if (node_address_parse(options->source, host, &port, why))
        return base_fail(why, BASE_ENOTFOUND,
                         "'%s' is neither the directory of a node nor HOST:PORT of a node's pages",
                         options->source);
    char *text = lab_top_get(options->source, path);
    const enum base_error error =
        text ? why_story_of_page(options->source, text, round, story, why)
             : base_fail(why, BASE_EIO, "no answer to %s from %s", path, options->source);
    free(text);
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
