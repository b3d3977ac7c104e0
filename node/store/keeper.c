#include "node/store/keeper.h"

#include "base/file.h"
#include "base/log.h"
#include "node/store/place.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES 65536u
#define PATH_BYTES 4096u

enum { IDENTITY, BOOT, JOINED, FILES }; // joined alone may be removed on purpose: the next process asks again
static const char *const names[FILES] = {"identity", "boot", "joined"};

struct kept {
    uint8_t *text; // NULL: the node has no such file
    size_t bytes;
    mode_t mode;
    struct timespec changed;
    ino_t inode;
};
struct node_keeper {
    pthread_mutex_t mutex; // of everything below
    char *directory;
    int lock;
    struct kept kept[FILES];
    bool failed; // to restore, the latest time
    bool lost;   // another process has the directory
};

static bool path_of(const struct node_keeper *k, const char *name, char path[PATH_BYTES])
{
    const int used = snprintf(path, PATH_BYTES, "%s/%s", k->directory, name);
    return used > 0 && (size_t)used < PATH_BYTES;
}

static void drop(struct kept *kept)
{
    if (kept->text)
        explicit_bzero(kept->text, kept->bytes); // of the identity
    free(kept->text);
    *kept = (struct kept){0};
}

// The lock is the file that was locked, under its name.
static bool lock_is_there(const struct node_keeper *k)
{
    char path[PATH_BYTES];
    struct stat ours, there;
    if (!path_of(k, "lock", path) || fstat(k->lock, &ours))
        return true;
    if (stat(path, &there))
        return errno != ENOENT && errno != ENOTDIR; // a disk that does not answer has removed nothing
    return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

static bool is_same(const struct kept *kept, const struct stat *status)
{
    return kept->text && kept->inode == status->st_ino && kept->changed.tv_sec == status->st_mtim.tv_sec &&
           kept->changed.tv_nsec == status->st_mtim.tv_nsec;
}

// False: the file was there and is missing.
static bool take_copy(struct node_keeper *k, size_t i)
{
    char path[PATH_BYTES];
    struct stat status;
    struct base_reason why;
    struct kept fresh = {0};
    if (!path_of(k, names[i], path))
        return true;
    if (stat(path, &status))
        return !k->kept[i].text || (errno != ENOENT && errno != ENOTDIR);
    if (is_same(&k->kept[i], &status) ||
        base_file_read_regular(path, FILE_BYTES, &fresh.text, &fresh.bytes, &why))
        return true;
    fresh.mode = status.st_mode & 0777;
    fresh.changed = status.st_mtim;
    fresh.inode = status.st_ino;
    drop(&k->kept[i]);
    k->kept[i] = fresh;
    return true;
}

static enum base_error put_back(struct node_keeper *k, size_t i, struct base_reason *why)
{
    char path[PATH_BYTES];
    const struct base_span span = {k->kept[i].text, k->kept[i].bytes};
    if (!k->kept[i].text || !path_of(k, names[i], path))
        return BASE_OK;
    return base_file_write(path, k->kept[i].mode, &span, 1, why);
}

static enum base_error lose(struct node_keeper *k, struct base_reason *why)
{
    k->lost = true;
    return base_fail(
        why, BASE_ESTATE,
        "node.dir: %s was removed while this node ran, and another process uses it now; this node ends "
        "and writes nothing there. Give every node a directory of its own that no cleaner touches",
        k->directory);
}

// A new file under the name of the lock, locked under the same descriptor.
static enum base_error take_lock(struct node_keeper *k, struct base_reason *why)
{
    char path[PATH_BYTES];
    if (!path_of(k, "lock", path))
        return BASE_OK;
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return base_fail(why, BASE_EIO, "%s: %s", path, base_open_error(errno));
    enum base_error error = BASE_OK;
    if (flock(file, LOCK_EX | LOCK_NB))
        error =
            errno == EWOULDBLOCK ? lose(k, why) : base_fail(why, BASE_EIO, "%s: %s", path, strerror(errno));
    else if (dup3(file, k->lock, O_CLOEXEC) < 0)
        error = base_fail(why, BASE_EIO, "%s: %s", path, strerror(errno));
    close(file);
    return error;
}

static enum base_error restore(struct node_keeper *k, const bool missing[FILES], bool lock,
                               struct base_reason *why)
{
    enum base_error error = base_directory_make(k->directory, NODE_DIRECTORY_MODE, why);
    if (!error && !lock)
        error = take_lock(k, why);
    for (size_t i = 0; i < FILES && !error; i++)
        error = missing[i] ? put_back(k, i, why) : BASE_OK;
    for (size_t i = 0; i < FILES && !error; i++)
        (void)take_copy(k, i); // its new time and inode
    return error;
}

// With the lock gone, whatever is in the directory now was put there by somebody else.
static bool is_anothers(const struct node_keeper *k, bool lock)
{
    char path[PATH_BYTES];
    uint8_t *text = NULL;
    size_t bytes = 0;
    struct base_reason why;
    const struct kept *identity = &k->kept[IDENTITY];
    if (lock || !identity->text || !path_of(k, names[IDENTITY], path) ||
        base_file_read_regular(path, FILE_BYTES, &text, &bytes, &why))
        return false;
    const bool other = bytes != identity->bytes || memcmp(text, identity->text, bytes) != 0;
    explicit_bzero(text, bytes);
    free(text);
    return other;
}

static void tell_restored(const struct node_keeper *k, const bool missing[FILES], bool lock)
{
    char list[64] = "";
    for (size_t i = 0; i < FILES; i++)
        if (missing[i])
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s, ", names[i]);
    if (!lock)
        snprintf(list + strlen(list), sizeof list - strlen(list), "lock, ");
    list[strlen(list) - 2] = 0;
    base_log(
        BASE_LOG_ERROR, "directory",
        "files in %s were removed while this node runs; restored: %s. Earlier checkpoints and metrics may be "
        "lost; a checkpoint is written. Does a cleaner of temporary files do this? Use a directory that it "
        "leaves alone",
        k->directory, list);
}

static enum base_error look(struct node_keeper *k, bool *restored, struct base_reason *why)
{
    const bool lock = lock_is_there(k);
    bool missing[FILES], whole = lock;
    if (k->lost || is_anothers(k, lock))
        return lose(k, why);
    for (size_t i = 0; i < FILES; i++) {
        missing[i] = !take_copy(k, i);
        whole = whole && (!missing[i] || i == JOINED);
    }
    if (whole)
        return BASE_OK;
    const enum base_error error = restore(k, missing, lock, why);
    if (!error)
        tell_restored(k, missing, lock);
    else if (error == BASE_ESTATE || !k->failed)
        base_log(BASE_LOG_ERROR, "directory",
                 "files in %s were removed while this node runs, and cannot be restored: %s", k->directory,
                 why->text);
    k->failed = error != BASE_OK;
    *restored = !error;
    return error;
}

enum base_error node_keeper_look(struct node_keeper *keeper, bool *restored, struct base_reason *why)
{
    *restored = false;
    pthread_mutex_lock(&keeper->mutex);
    const enum base_error error = look(keeper, restored, why);
    pthread_mutex_unlock(&keeper->mutex);
    return error;
}

enum base_error node_keeper_create(const char *directory, int lock, struct node_keeper **out,
                                   struct base_reason *why)
{
    struct node_keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper || !(keeper->directory = strdup(directory))) {
        free(keeper);
        return base_fail(why, BASE_ENOMEM, "no memory for the files of '%s'", directory);
    }
    keeper->lock = lock;
    pthread_mutex_init(&keeper->mutex, NULL);
    for (size_t i = 0; i < FILES; i++)
        (void)take_copy(keeper, i);
    *out = keeper;
    return BASE_OK;
}

void node_keeper_destroy(struct node_keeper *keeper)
{
    if (!keeper)
        return;
    for (size_t i = 0; i < FILES; i++)
        drop(&keeper->kept[i]);
    pthread_mutex_destroy(&keeper->mutex);
    free(keeper->directory);
    free(keeper);
}
