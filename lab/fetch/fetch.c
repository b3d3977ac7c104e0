#include "lab/fetch/fetch.h"
#include "base/file.h"
#include "base/limits.h"
#include "lab/fetch/private.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <spawn.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE 65536u

extern char **environ;

static void to_hex(const unsigned char hash[crypto_hash_sha256_BYTES], char digest[LAB_FETCH_DIGEST + 1])
{
    sodium_bin2hex(digest, LAB_FETCH_DIGEST + 1, hash, crypto_hash_sha256_BYTES);
}

static enum base_error digest_of(const char *path, char digest[LAB_FETCH_DIGEST + 1], struct base_reason *why)
{
    unsigned char piece[PIECE], hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    FILE *file = fopen(path, "rb");
    if (!file)
        return base_fail(why, errno == ENOENT ? BASE_ENOTFOUND : BASE_EIO, "%s: cannot be read: %s", path,
                         strerror(errno));
    crypto_hash_sha256_init(&state);
    for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;)
        crypto_hash_sha256_update(&state, piece, got);
    const int failed = ferror(file);
    fclose(file);
    if (failed)
        return base_fail(why, BASE_EIO, "%s: cannot be read", path);
    crypto_hash_sha256_final(&state, hash);
    to_hex(hash, digest);
    return BASE_OK;
}

static bool is_at(int file, const char *path)
{
    struct stat held, there;
    return fstat(file, &held) == 0 && lstat(path, &there) == 0 && held.st_dev == there.st_dev &&
           held.st_ino == there.st_ino;
}

// Opens the partial file, which stays locked until it is closed: of two processes that fetch the same file,
// the second ends at once. What a killed process left is overwritten; a complete file that appeared in the
// meantime is not.
static enum base_error open_part(const char *part, FILE **out, struct base_reason *why)
{
    const int file = open(part, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file < 0)
        return base_fail(why, BASE_EIO, "%s: cannot be written: %s", part, strerror(errno));
    const bool busy = flock(file, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (busy || !is_at(file, part)) {
        close(file);
        return base_fail(why, BASE_EMISMATCH, "%s: another process fetches this file", part);
    }
    *out = ftruncate(file, 0) == 0 ? fdopen(file, "wb") : NULL;
    if (*out)
        return BASE_OK;
    const int cause = errno;
    close(file);
    return base_fail(why, BASE_EIO, "%s: cannot be written: %s", part, strerror(cause));
}

static enum base_error write_part(const char *url, size_t most, const struct lab_fetch_options *options,
                                  const char *part, FILE *out, struct base_reason *why)
{
    enum base_error error = lab_fetch_transfer(url, most, options, out, part, why);
    if (!error && (fflush(out) || fsync(fileno(out))))
        error = base_fail(why, BASE_EIO, "%s: cannot be written: %s", part, strerror(errno));
    return error;
}

static enum base_error get(const struct lab_fetch_file *file, const char *url,
                           const struct lab_fetch_options *options, const char *path, struct base_reason *why)
{
    char part[LAB_FETCH_PATH + 8], digest[LAB_FETCH_DIGEST + 1];
    FILE *out = NULL;
    snprintf(part, sizeof part, "%s.part", path);
    enum base_error error = open_part(part, &out, why);
    if (error)
        return base_fail_context(why, error, "not fetched");
    error = write_part(url, file->bytes ? file->bytes : LIMIT_DATA_FILE_BYTES, options, part, out, why);
    if (error)
        error = base_fail_context(why, error, "not fetched");
    if (!error)
        error = digest_of(part, digest, why);
    if (!error && strcmp(digest, file->sha256) != 0)
        error = base_fail(
            why, BASE_EMISMATCH,
            "%s: found SHA-256 %s, expected %s: it is a different file or was changed in transit; it was "
            "not kept",
            url, digest, file->sha256);
    if (!error && rename(part, path))
        error = base_fail(why, BASE_EIO, "%s: cannot be written: %s", path, strerror(errno));
    if (error)
        unlink(part);
    fclose(out); // either all of it is on the disk, or it was removed
    return error;
}

enum base_error lab_fetch(const struct lab_fetch_file *file, const struct lab_fetch_options *options,
                          bool *there, struct base_reason *why)
{
    char path[LAB_FETCH_PATH], url[LAB_FETCH_PATH], digest[LAB_FETCH_DIGEST + 1];
    const char *last = strrchr(file->url, '/');
    const size_t base = options->from ? strlen(options->from) : 0;
    BASE_ASSERT(last);
    if (snprintf(path, sizeof path, "%s/%s", options->directory, file->name) >= (int)sizeof path)
        return base_fail(why, BASE_EINVAL, "--dir: found a path of more than %d bytes", LAB_FETCH_PATH);
    const bool slash = base && options->from[base - 1] == '/';
    const int used = options->from ? snprintf(url, sizeof url, "%s%s", options->from, last + slash)
                                   : snprintf(url, sizeof url, "%s", file->url);
    if (used >= (int)sizeof url)
        return base_fail(why, BASE_EINVAL, "found an address of more than %d bytes", LAB_FETCH_PATH);
    enum base_error error = base_directory_make(options->directory, 0777, why);
    *there = false;
    if (error)
        return base_fail_context(why, error, "--dir");
    error = digest_of(path, digest, why);
    *there = !error && strcmp(digest, file->sha256) == 0;
    if (!error && !*there)
        return base_fail(why, BASE_EMISMATCH,
                         "%s: exists with SHA-256 %s, expected %s; move it away, or choose another --dir",
                         path, digest, file->sha256);
    if (error == BASE_ENOTFOUND)
        error = get(file, url, options, path, why);
    if (error == BASE_EIO || error == BASE_ESTATE) {
        char said[sizeof why->text];
        snprintf(said, sizeof said, "%s", why ? why->text : "");
        error = base_fail(
            why, error,
            "%s\nOn a machine with a network, download %s (SHA-256 %s) and put it at %s; then repeat "
            "this command",
            said, url, file->sha256, path);
    }
    return error;
}

enum base_error lab_fetch_unpack(const char *name, const char *directory, struct base_reason *why)
{
    static const char packed[] = ".tar.gz";
    char path[LAB_FETCH_PATH];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (strlen(name) < sizeof packed || strcmp(name + strlen(name) + 1 - sizeof packed, packed) != 0)
        return BASE_OK;
    char *const arguments[] = {"tar", "--no-same-owner", "-xzf", path, "-C", (char *)directory, NULL};
    pid_t pid, ended;
    int status = 0;
    const int failed = posix_spawnp(&pid, "tar", NULL, NULL, arguments, environ);
    if (failed)
        return base_fail(why, BASE_EIO, "cannot start tar: %s; unpack %s by hand", strerror(failed), path);
    while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        ;
    return ended < 0 || status ? base_fail(why, BASE_EIO, "%s: tar could not unpack it", path) : BASE_OK;
}
