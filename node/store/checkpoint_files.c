#include "node/store/checkpoint_files.h"

#include "base/array.h"
#include "base/log.h"
#include "node/store/journal.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char prefix[] = NODE_CHECKPOINT_PREFIX, suffix[] = ".safetensors";

// The step of "checkpoint-<step>.safetensors" and what follows it; false for other names. Accepts digits only
// as this program writes them, so that the name can be made again from the step.
static bool parse_name(const char *name, uint64_t *step, const char **rest)
{
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    const char *digits = name + sizeof prefix - 1;
    size_t n_digits = strspn(digits, "0123456789");
    if (n_digits == 0 || n_digits > 20 || (digits[0] == '0' && n_digits > 1))
        return false;
    errno = 0;
    *step = strtoull(digits, NULL, 10);
    if (errno || strncmp(digits + n_digits, suffix, sizeof suffix - 1) != 0)
        return false;
    *rest = digits + n_digits + sizeof suffix - 1;
    return true;
}

static int descending(const void *left, const void *right)
{
    uint64_t a, b;
    memcpy(&a, left, sizeof a);
    memcpy(&b, right, sizeof b);
    return (a < b) - (a > b);
}

enum base_error node_checkpoint_files_list(const char *directory, struct node_checkpoint_files *files,
                                           struct base_reason *why)
{
    DIR *entries = opendir(directory);
    if (!entries)
        return base_fail(why, errno == ENOENT ? BASE_ENOTFOUND : BASE_EIO,
                         "cannot look for checkpoints in '%s': %s", directory, strerror(errno));
    enum base_error error = BASE_OK;
    struct node_checkpoint_files found = {0};
    const struct dirent *entry;
    while (!error && (entry = readdir(entries))) {
        uint64_t step;
        const char *rest;
        if (!parse_name(entry->d_name, &step, &rest) || *rest)
            continue;
        uint64_t *steps = base_array_grow(found.steps, found.count, sizeof *steps);
        if (steps) {
            found.steps = steps;
            steps[found.count++] = step;
        } else {
            error = base_fail(why, BASE_ENOMEM, "no memory to list %zu checkpoints", found.count + 1);
        }
    }
    closedir(entries);
    if (error) {
        node_checkpoint_files_free(&found);
        return error;
    }
    if (found.count)
        qsort(found.steps, found.count, sizeof *found.steps, descending);
    *files = found;
    return BASE_OK;
}

void node_checkpoint_files_free(struct node_checkpoint_files *files)
{
    free(files->steps);
    *files = (struct node_checkpoint_files){0};
}

enum base_error node_checkpoint_file_path(const char *directory, uint64_t step,
                                          char path[NODE_CHECKPOINT_PATH], struct base_reason *why)
{
    int length = snprintf(path, NODE_CHECKPOINT_PATH, "%s/%s%" PRIu64 "%s", directory, prefix, step, suffix);
    if (length < 0 || length >= NODE_CHECKPOINT_PATH)
        return base_fail(why, BASE_EINVAL,
                         "the path of the directory for checkpoints is too long: '%.200s...'", directory);
    return BASE_OK;
}

static void set_aside(const char *directory, uint64_t later, uint64_t step)
{
    char from[NODE_CHECKPOINT_PATH], to[NODE_CHECKPOINT_PATH];
    if (node_checkpoint_file_path(directory, later, from, NULL) ||
        snprintf(to, sizeof to, "%s/superseded-%" PRIu64 "%s", directory, later, suffix) >= (int)sizeof to)
        return;
    if (rename(from, to))
        base_log(BASE_LOG_WARN, "checkpoint_superseded", "cannot rename '%s': %s", from, strerror(errno));
    else
        base_log(BASE_LOG_WARN, "checkpoint_superseded",
                 "training is at step %" PRIu64 " now: renamed the later checkpoint '%s' to '%s'", step, from,
                 to);
}

void node_checkpoint_files_retire(const char *directory, size_t keep, uint64_t step)
{
    struct node_checkpoint_files files;
    struct base_reason why;
    if (node_checkpoint_files_list(directory, &files, &why)) {
        base_log(BASE_LOG_WARN, "checkpoint_retire", "%s", why.text);
        return;
    }
    size_t kept = 0;
    uint64_t oldest = step;
    char path[NODE_CHECKPOINT_PATH];
    for (size_t i = 0; i < files.count; i++) {
        if (files.steps[i] > step) {
            set_aside(directory, files.steps[i], step);
            continue;
        }
        // The first is `step` itself.
        if (kept++ < (keep ? keep : 1)) {
            oldest = files.steps[i];
            continue;
        }
        if (node_checkpoint_file_path(directory, files.steps[i], path, NULL))
            continue;
        if (unlink(path))
            base_log(BASE_LOG_WARN, "checkpoint_retire", "cannot remove '%s': %s", path, strerror(errno));
    }
    node_checkpoint_files_free(&files);
    node_journal_retire(directory, oldest);
}
