#include "base/file.h"

#include "base/log.h"
#include "base/write_spans.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY      ".tmp-XXXXXX" // appended to the name of the file
#define ANY_CHARACTERS 6u            // number of X in it
#define TRIES          100           // each with other characters

static enum base_error failed(struct base_reason *why, const char *verb, const char *path)
{
    enum base_error error = errno == ENOENT || errno == ENOTDIR ? BASE_ENOTFOUND : BASE_EIO;
    return base_fail(why, error, "cannot %s '%s': %s", verb, path, strerror(errno));
}

static enum base_error too_large(struct base_reason *why, const char *path, size_t limit)
{
    return base_fail(why, BASE_ELIMIT, "'%s' is larger than %zu bytes, the maximum here", path, limit);
}

// Reads to the end of `file`; the size from fstat is only a first guess (0 in /proc, and files grow).
static enum base_error read_all(int file, const char *path, size_t guess, size_t limit, uint8_t **data,
                                size_t *bytes, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    size_t used = 0, capacity = guess < limit ? guess : limit;
    uint8_t *content = malloc(capacity + 1); // one more byte: room to detect the end, and the zero
    for (;;) {
        if (!content) {
            error = base_fail(why, BASE_ENOMEM, "no memory to read '%s' (%zu bytes)", path, capacity + 1);
            goto out;
        }
        ssize_t got = read(file, content + used, capacity + 1 - used);
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            error = failed(why, "read", path);
            goto out;
        }
        used += (size_t)got;
        if (used <= capacity)
            continue;
        if (capacity >= limit) {
            error = too_large(why, path, limit);
            goto out;
        }
        capacity = capacity > limit / 2 ? limit : 2 * capacity + 1 < limit ? 2 * capacity + 1 : limit;
        uint8_t *larger = realloc(content, capacity + 1);
        if (!larger)
            free(content);
        content = larger;
    }
    content[used] = 0;
    *data = content;
    *bytes = used;
    content = NULL;
out:
    free(content);
    return error;
}

static enum base_error read_file(const char *path, bool regular, size_t limit, uint8_t **data, size_t *bytes,
                                 struct base_reason *why)
{
    BASE_ASSERT(limit < SIZE_MAX);
    int file = open(path, O_RDONLY | O_CLOEXEC | (regular ? O_NONBLOCK : 0)); // must not block on a pipe
    if (file < 0)
        return failed(why, "open", path);
    struct stat status;
    enum base_error error;
    if (fstat(file, &status))
        error = failed(why, "examine", path);
    else if (S_ISDIR(status.st_mode))
        error = base_fail(why, BASE_EIO, "cannot read '%s': it is a directory, expected a file", path);
    else if (regular && !S_ISREG(status.st_mode))
        error = base_fail(why, BASE_EIO,
                          "cannot read '%s': it is a pipe, a socket or a device, expected a file", path);
    else if (status.st_size > 0 && (uintmax_t)status.st_size > limit)
        error = too_large(why, path, limit);
    else
        error =
            read_all(file, path, status.st_size > 0 ? (size_t)status.st_size : 4096, limit, data, bytes, why);
    close(file);
    return error;
}

enum base_error base_file_read(const char *path, size_t limit, uint8_t **data, size_t *bytes,
                               struct base_reason *why)
{
    return read_file(path, false, limit, data, bytes, why);
}

enum base_error base_file_read_regular(const char *path, size_t limit, uint8_t **data, size_t *bytes,
                                       struct base_reason *why)
{
    return read_file(path, true, limit, data, bytes, why);
}

const char *base_open_error(int cause)
{
    return cause == ELOOP ? "it is a symbolic link, expected a file; remove the link" : strerror(cause);
}

static int open_parent(const char *path)
{
    char *copy = strdup(path); // dirname() writes into its argument
    if (!copy)
        return -1;
    int directory = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int saved = errno;
    free(copy);
    errno = saved;
    return directory;
}

static const char any[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

// As mkostemp, but with `mode` in place of 0600. Replaces the last characters of the path. -1: errno says
// why.
static int create_temporary(char *path, mode_t mode)
{
    char *end = path + strlen(path) - ANY_CHARACTERS;
    for (int tries = 0; tries < TRIES; tries++) {
        uint8_t chance[ANY_CHARACTERS];
        if (getrandom(chance, sizeof chance, 0) != (ssize_t)sizeof chance)
            return -1;
        for (size_t i = 0; i < ANY_CHARACTERS; i++)
            end[i] = any[chance[i] % (sizeof any - 1)];
        int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
    return -1;
}

// The owner gets the bits of `mode` whatever the umask says; group and others get what the umask leaves.
static bool allow_owner(int file, unsigned mode, unsigned *allowed)
{
    struct stat status;
    if (fstat(file, &status))
        return false;
    *allowed = (status.st_mode & 0777) | (mode & 0700);
    return true;
}

// The file is complete and on disk under its temporary name when this returns true.
static bool fill(int file, unsigned mode, const struct base_span *spans, size_t n_spans)
{
    return fchmod(file, (mode_t)mode) == 0 && base_write_spans(file, spans, n_spans) && fsync(file) == 0;
}

// A rename would replace even a device such as /dev/null, if the directory can be written to.
static enum base_error check_replaceable(const char *path, struct base_reason *why)
{
    struct stat status;
    if (stat(path, &status) || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))
        return BASE_OK; // rename refuses a directory
    return base_fail(why, BASE_EIO,
                     "cannot write '%s': it is a device or a pipe, expected the name of a file", path);
}

// Replaces no file of that name. On a file system without hard links, a file that appears between lstat and
// rename is replaced nevertheless.
static bool place_new(const char *temporary, const char *path)
{
    struct stat status;
    if (link(temporary, path) == 0) {
        unlink(temporary);
        return true;
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
        return false;
    if (lstat(path, &status) == 0) {
        errno = EEXIST;
        return false;
    }
    return rename(temporary, path) == 0;
}

static enum base_error exists(struct base_reason *why, const char *path)
{
    return base_fail(why, BASE_ESTATE, "'%s' exists already and is not overwritten: move it away first",
                     path);
}

// fresh: creates a file of exactly this mode, and replaces none.
static enum base_error put_file(const char *path, unsigned mode, bool fresh, const struct base_span *spans,
                                size_t n_spans, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    char *temporary = NULL;
    int file = -1;
    // The directory is opened first, so that between the rename and its fsync only the disk can fail.
    int directory = open_parent(path);
    if (directory < 0)
        return failed(why, "open the directory of", path);
    if (asprintf(&temporary, "%s" TEMPORARY, path) < 0) {
        temporary = NULL;
        error = base_fail(why, BASE_ENOMEM, "no memory to write '%s'", path);
        goto out;
    }
    file = create_temporary(temporary, (mode_t)mode);
    if (file < 0) {
        error = failed(why, "create a temporary file beside", path);
        goto out;
    }
    bool whole = (fresh || allow_owner(file, mode, &mode)) && fill(file, mode, spans, n_spans);
    // Some file systems report a full disk only here.
    int filled = errno, closed = close(file);
    if (!whole)
        errno = filled;
    if (!whole || closed || (fresh ? !place_new(temporary, path) : rename(temporary, path) != 0)) {
        error = fresh && errno == EEXIST ? exists(why, path) : failed(why, "write", path);
        unlink(temporary);
        goto out;
    }
    // EINVAL: the file system does not sync directories, and makes them durable in its own way.
    if (fsync(directory) && errno != EINVAL)
        error = failed(why, "make durable (the new file is in place)", path);
out:
    free(temporary);
    close(directory);
    return error;
}

enum base_error base_file_write(const char *path, unsigned mode, const struct base_span *spans,
                                size_t n_spans, struct base_reason *why)
{
    const enum base_error error = check_replaceable(path, why);
    return error ? error : put_file(path, mode, false, spans, n_spans, why);
}

enum base_error base_file_create(const char *path, unsigned mode, const void *data, size_t bytes,
                                 struct base_reason *why)
{
    const struct base_span span = {data, bytes};
    struct stat status;
    if (lstat(path, &status) == 0)
        return exists(why, path);
    const enum base_error error = put_file(path, mode, true, &span, 1, why);
    return error == BASE_ENOTFOUND ? BASE_EIO : error; // only the directory can be missing
}

void base_file_sweep(const char *directory, const char *beginning)
{
    DIR *entries = opendir(directory);
    const struct dirent *entry;
    struct stat status;
    while (entries && (entry = readdir(entries))) {
        const size_t length = strlen(entry->d_name), ending = sizeof TEMPORARY - 1;
        if (length <= ending || strncmp(entry->d_name, beginning, strlen(beginning)) != 0 ||
            strncmp(entry->d_name + length - ending, TEMPORARY, ending - ANY_CHARACTERS) != 0 ||
            strspn(entry->d_name + length - ANY_CHARACTERS, any) != ANY_CHARACTERS ||
            fstatat(dirfd(entries), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISREG(status.st_mode))
            continue;
        if (unlinkat(dirfd(entries), entry->d_name, 0))
            base_log(BASE_LOG_WARN, "leftover", "cannot remove '%s/%s': %s", directory, entry->d_name,
                     strerror(errno));
    }
    if (entries)
        closedir(entries);
}

static enum base_error make_one(const char *path, mode_t mode, struct base_reason *why)
{
    if (mkdir(path, mode) == 0 || errno == EEXIST || errno == EISDIR)
        return BASE_OK;
    return failed(why, "make the directory", path);
}

enum base_error base_directory_make(const char *path, unsigned mode, struct base_reason *why)
{
    if (!path[0])
        return base_fail(why, BASE_EINVAL, "the path is empty; expected a directory");
    char *copy = strdup(path);
    if (!copy)
        return base_fail(why, BASE_ENOMEM, "no memory to make the directory '%s'", path);
    enum base_error error = BASE_OK;
    struct stat status;
    for (char *slash = copy + 1; *slash && !error; slash++) {
        if (*slash != '/')
            continue;
        *slash = 0;
        error = make_one(copy, 0777, why);
        *slash = '/';
    }
    if (!error)
        error = make_one(path, mode, why);
    if (!error && stat(path, &status))
        error = failed(why, "examine", path);
    if (!error && !S_ISDIR(status.st_mode))
        error = base_fail(why, BASE_EIO, "'%s' is a file, expected a directory or nothing", path);
    if (!error && faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS))
        error = failed(why, "write in the directory", path);
    free(copy);
    return error;
}

char *base_text_close(FILE *out, char **text)
{
    const bool failed = ferror(out);
    if (!fclose(out) && !failed)
        return *text;
    free(*text);
    return NULL;
}
