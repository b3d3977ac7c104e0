#include "lab/record/directory.h"

#include "base/file.h"
#include "lab/record/nodes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

char *lab_path(const char *format, ...)
{
    char *path = NULL;
    va_list arguments;
    va_start(arguments, format);
    int bytes = vasprintf(&path, format, arguments);
    va_end(arguments);
    if (bytes < 0) {
        fputs("p2pml: out of memory\n", stderr);
        abort();
    }
    return path;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)place;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

// FTW_PHYS: a link is removed, its target stays.
static enum base_error remove_tree(const char *directory, const char *name, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    char *path = lab_path("%s/%s", directory, name);
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT)
        error = base_fail(why, BASE_EIO, "cannot remove '%s' of an earlier run: %s", path, strerror(errno));
    free(path);
    return error;
}

static enum base_error clear(const char *directory, struct base_reason *why)
{
    static const char *const names[] = {
        "experiment.yaml", "secret",        "summary.json", "rounds.jsonl", "averaged.safetensors",
        "results.csv",     "results.jsonl", "report.html",  "results.tex",  "nodes.jsonl"};
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !error; i++)
        error = remove_tree(directory, names[i], why);
    for (size_t i = 0; i < LAB_NODES_MAX && !error; i++) {
        char name[LAB_NODE_NAME_BYTES];
        error = remove_tree(directory, lab_node_name(i, name), why);
    }
    return error;
}

// *empty: the directory has no entries; *ours: it has our mark.
static enum base_error look(const char *path, bool *empty, bool *ours, struct base_reason *why)
{
    DIR *directory = opendir(path);
    if (!directory)
        return base_fail(why, BASE_EIO, "cannot read the directory '%s': %s", path, strerror(errno));
    *empty = true;
    *ours = false;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        *empty = false;
        *ours = *ours || strcmp(entry->d_name, LAB_MARK) == 0;
    }
    closedir(directory);
    return BASE_OK;
}

static enum base_error take_lock(const char *path, int *lock, struct base_reason *why)
{
    char *mark = lab_path("%s/%s", path, LAB_MARK);
    enum base_error error = BASE_OK;
    int file = open(mark, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file < 0)
        error = base_fail(why, BASE_EIO, "cannot open '%s': %s", mark, strerror(errno));
    else if (flock(file, LOCK_EX | LOCK_NB))
        error = base_fail(
            why, BASE_ESTATE,
            "another 'p2pml run' is using '%s': wait for it, or choose another directory with --out", path);
    if (error && file >= 0)
        close(file);
    if (!error)
        *lock = file;
    free(mark);
    return error;
}

// A sweep may be hours of work: only another sweep, or --fresh, changes it.
static enum base_error clear_sweep(const char *directory, bool fresh, bool sweep, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    char *list = lab_path("%s/%s", directory, LAB_SWEEP);
    if (fresh)
        error = remove_tree(directory, LAB_RUNS, why);
    if (fresh && !error)
        error = remove_tree(directory, LAB_SWEEP, why);
    if (!fresh && !sweep && access(list, F_OK) == 0)
        error = base_fail(
            why, BASE_ESTATE,
            "the directory '%s' holds the runs of a sweep: choose another with --out, or add --fresh to "
            "remove them",
            directory);
    free(list);
    return error;
}

// Interrupted or failed runs may be repeated.
static bool is_finished(const char *directory)
{
    char *path = lab_path("%s/summary.json", directory);
    json_t *summary = json_load_file(path, 0, NULL);
    const char *status = json_string_value(json_object_get(summary, "status"));
    const bool finished = status && strcmp(status, "complete") == 0;
    json_decref(summary);
    free(path);
    return finished;
}

enum base_error lab_directory_open(const char *path, bool fresh, bool sweep, struct lab_directory *directory,
                                   struct base_reason *why)
{
    bool empty = true, ours = false;
    int lock = -1;
    enum base_error error = base_directory_make(path, 0777, why);
    if (!error)
        error = look(path, &empty, &ours, why);
    if (!error && !empty && !ours && !fresh)
        error = base_fail(
            why, BASE_ESTATE,
            "the directory '%s' is not empty and was not made by 'p2pml run': choose another with --out, or "
            "add --fresh to use it and replace files that have the names of a run's files",
            path);
    if (!error)
        error = take_lock(path, &lock, why);
    if (!error && !fresh && !sweep && is_finished(path))
        error = base_fail(
            why, BASE_ESTATE,
            "the directory '%s' holds a finished result: choose another with --out, or add --fresh to "
            "replace it",
            path);
    if (!error)
        error = clear_sweep(path, fresh, sweep, why);
    if (!error)
        error = clear(path, why);
    if (error) {
        if (lock >= 0)
            close(lock);
        return error;
    }
    *directory = (struct lab_directory){lab_path("%s", path), lock};
    return BASE_OK;
}

void lab_directory_close(struct lab_directory *directory)
{
    if (directory->lock >= 0)
        close(directory->lock);
    free(directory->path);
    *directory = (struct lab_directory){NULL, -1};
}
