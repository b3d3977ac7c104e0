#include "lab/why/why.h"

#include "lab/record/directory.h"
#include "lab/top/fetch.h"
#include "lab/why/story.h"
#include "node/config/config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

static enum base_error ask(const char *address, struct why_story *story, struct base_reason *why)
{
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    if (node_address_parse(address, host, &port, why))
        return base_fail(why, BASE_ENOTFOUND,
                         "'%s' is neither the directory of a node nor HOST:PORT of a node's pages", address);
    char *text = lab_top_get(address, "/status");
    const enum base_error error =
        text ? why_story_of_status(text, story, why) : base_fail(why, BASE_EIO, "no answer from %s", address);
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
                                                                 : ask(options->source, &story, why);
    if (!error && !options->latest && story.last != options->round && !story.before && story.now)
        error = base_fail(why, BASE_ENOTFOUND,
                          "the pages of a node have its latest round only, now %" PRIu64
                          "; the others are in its directory (node.dir)",
                          story.last);
    if (!error)
        why_tell(&story, out);
    why_story_free(&story);
    return error;
}
