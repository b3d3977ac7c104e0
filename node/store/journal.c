#include "node/store/journal.h"

#include "base/array.h"
#include "base/cursor.h"
#include "base/file.h"
#include "base/log.h"
#include "node/store/place.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MAGIC       "p2pml j1"
#define MAGIC_BYTES 8u
#define HEAD_BYTES  (MAGIC_BYTES + 3u * 8u)
#define PATH_BYTES  4096u
#define LARGEST     ((size_t)1 << 40)

struct segment { // one file
    uint64_t number, step;
    uint64_t key, follows, follows_bytes;
    bool whole; // its head could be read
};
struct segments {
    struct segment *list; // by number
    size_t count;
};

static bool path_of(const char *directory, uint64_t number, uint64_t step, char path[PATH_BYTES])
{
    int length =
        snprintf(path, PATH_BYTES, "%s/" NODE_JOURNAL_PREFIX "%" PRIu64 "-%" PRIu64, directory, number, step);

    return length > 0 && length < (int)PATH_BYTES;
}

static bool parse_number(const char **text, uint64_t *number)
{
    const size_t digits = strspn(*text, "0123456789");

    if (digits == 0 || digits > 19 || (**text == '0' && digits > 1))
        return false;
    *number = strtoull(*text, NULL, 10);
    *text += digits;
    return true;
}

// Accepts names only as path_of writes them.
static bool parse_name(const char *name, struct segment *segment)
{
    if (strncmp(name, NODE_JOURNAL_PREFIX, strlen(NODE_JOURNAL_PREFIX)) != 0)
        return false;
    name += strlen(NODE_JOURNAL_PREFIX);
    return parse_number(&name, &segment->number) && *name++ == '-' && parse_number(&name, &segment->step) &&
           !*name;
}

static bool parse_head(const uint8_t *bytes, size_t count, struct segment *segment)
{
    if (count < HEAD_BYTES || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0)
        return false;
    struct base_reader reader = base_reader_of(bytes + MAGIC_BYTES, HEAD_BYTES - MAGIC_BYTES);
    segment->key = base_read_u64(&reader);
    segment->follows = base_read_u64(&reader);
    segment->follows_bytes = base_read_u64(&reader);
    return segment->key != 0;
}

static void read_head(const char *path, struct segment *segment)
{
    uint8_t head[HEAD_BYTES];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t got = fd < 0 ? -1 : read(fd, head, sizeof head);

    if (fd >= 0)
        close(fd);
    segment->whole = got == (ssize_t)sizeof head && parse_head(head, sizeof head, segment);
}

static int by_number(const void *left, const void *right)
{
    const struct segment *a = left, *b = right;

    return (a->number > b->number) - (a->number < b->number);
}

// Without memory or directory the list is shorter: the edges begin again.
static struct segments list_segments(const char *directory)
{
    struct segments found = {0};
    DIR *entries = opendir(directory);
    const struct dirent *entry;

    while (entries && (entry = readdir(entries))) {
        struct segment segment = {0};
        char path[PATH_BYTES];
        if (!parse_name(entry->d_name, &segment) || !path_of(directory, segment.number, segment.step, path))
            continue;
        struct segment *list = base_array_grow(found.list, found.count, sizeof *list);
        if (!list)
            break;
        read_head(path, &segment);
        found.list = list;
        list[found.count++] = segment;
    }
    if (entries)
        closedir(entries);
    if (found.count > 0)
        qsort(found.list, found.count, sizeof *found.list, by_number);
    return found;
}

// -- writing

static bool write_all(int fd, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t written = write(fd, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            errno = written == 0 ? ENOSPC : errno;
            return false;
        }
        bytes += written;
        count -= (size_t)written;
    }
    return true;
}

void node_journal_close(struct node_journal *journal)
{
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = -1;
    journal->wants = true;
}

static void fail(struct node_journal *journal, const char *what)
{
    base_log(BASE_LOG_WARN, "journal",
             "%s; if this process is killed before its next checkpoint, its edges begin again", what);
    node_journal_close(journal);
}

static bool write_head(const struct node_journal *journal, uint64_t follows, uint64_t follows_bytes)
{
    uint8_t head[HEAD_BYTES];
    struct base_writer writer = base_writer_of(head, sizeof head);

    base_write_bytes(&writer, MAGIC, MAGIC_BYTES);
    base_write_u64(&writer, journal->key);
    base_write_u64(&writer, follows);
    base_write_u64(&writer, follows_bytes);
    BASE_ASSERT(!writer.failed && writer.at == writer.end);
    return write_all(journal->fd, head, sizeof head);
}

void node_journal_begin(struct node_journal *journal, const char *directory, uint64_t step)
{
    const struct segments present = list_segments(directory);
    const uint64_t follows = journal->key, follows_bytes = journal->bytes;
    const uint64_t highest = present.count > 0 ? present.list[present.count - 1].number : 0;
    char path[PATH_BYTES], what[PATH_BYTES + 128];

    free(present.list);
    node_journal_close(journal);
    journal->number = (highest > journal->number ? highest : journal->number) + 1;
    journal->key = journal->bytes = 0;
    uint64_t key = 0;
    if (path_of(directory, journal->number, step, path) && getrandom(&key, sizeof key, 0) == sizeof key &&
        key)
        journal->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, NODE_FILE_MODE);
    journal->key = journal->fd >= 0 ? key : 0;
    if (journal->fd < 0 || !write_head(journal, follows, follows_bytes)) {
        snprintf(what, sizeof what, "cannot write the journal '%s': %s", path, strerror(errno));
        journal->key = 0;
        fail(journal, what);
    }
    journal->wants = false; // a checkpoint begins now; without a journal nothing is gained by more of them
}

void node_journal_append(struct node_journal *journal, const uint8_t *records, size_t bytes)
{
    char what[160];

    if (journal->fd < 0)
        return;
    BASE_ASSERT(bytes > 0 && journal->key != 0);
    if (bytes > journal->limit - journal->bytes) {
        snprintf(what, sizeof what, "the journal of the edges has reached %" PRIu64 " bytes", journal->bytes);
        fail(journal, what);
    } else if (!write_all(journal->fd, records, bytes)) {
        snprintf(what, sizeof what, "cannot write to the journal of the edges: %s", strerror(errno));
        fail(journal, what);
    } else {
        journal->bytes += bytes;
        journal->wants = journal->wants || journal->bytes > journal->limit / 2;
    }
}

void node_journal_retire(const char *directory, uint64_t step)
{
    const struct segments present = list_segments(directory);
    size_t first = 0;
    char path[PATH_BYTES];

    while (first < present.count && present.list[first].step < step)
        first++;
    for (size_t i = 0; first < present.count && i < first; i++)
        if (path_of(directory, present.list[i].number, present.list[i].step, path) && unlink(path))
            base_log(BASE_LOG_WARN, "journal", "cannot remove '%s': %s", path, strerror(errno));
    free(present.list);
}

// -- reading

// Of several that continue one file, the latest: the others were begun by processes that read less of it.
static const struct segment *follower(const struct segments *present, uint64_t key)
{
    const struct segment *found = NULL;

    for (size_t i = 0; i < present->count; i++)
        if (present->list[i].whole && present->list[i].follows == key)
            found = &present->list[i];
    return found;
}

static const struct segment *find(const struct segments *present, uint64_t key)
{
    for (size_t i = 0; i < present->count; i++)
        if (present->list[i].whole && present->list[i].key == key)
            return &present->list[i];
    return NULL;
}

// `next`: the file that continues this one, or NULL.
static enum base_error replay_one(const char *directory, const struct segment *segment,
                                  const struct segment *next, struct gossip_exchange *exchange, bool recovers,
                                  struct gossip_exchange_replayed *replayed, struct base_reason *why)
{
    char path[PATH_BYTES];
    uint8_t *bytes;
    size_t count;

    *replayed = (struct gossip_exchange_replayed){0};
    if (!path_of(directory, segment->number, segment->step, path))
        return base_fail(why, BASE_EIO, "the path of the journal in '%.200s...' is too long", directory);
    enum base_error error = base_file_read_regular(path, LARGEST, &bytes, &count, why);
    if (error)
        return error;
    count = count > HEAD_BYTES ? count - HEAD_BYTES : 0;
    const size_t most = next && next->follows_bytes < count ? (size_t)next->follows_bytes : count;
    error = gossip_exchange_replay(exchange, bytes + HEAD_BYTES, most, recovers, replayed);
    free(bytes);
    if (!error && replayed->bytes < most)
        base_log(BASE_LOG_WARN, "journal", "'%s' is whole up to byte %zu of %zu: later exchanges are lost",
                 path, replayed->bytes + HEAD_BYTES, most + HEAD_BYTES);
    return error ? base_fail(why, error, "no memory to apply the journal '%s'", path) : BASE_OK;
}

enum base_error node_journal_replay(struct node_journal *journal, const char *directory, uint64_t key,
                                    struct gossip_exchange *exchange, bool recovers,
                                    struct gossip_exchange_replayed *replayed, struct base_reason *why)
{
    const struct segments present = list_segments(directory);
    const struct segment *segment = find(&present, key), *next;
    enum base_error error = BASE_OK;

    *replayed = (struct gossip_exchange_replayed){0};
    for (size_t turns = 0; segment && !error && turns < present.count; segment = next, turns++) {
        struct gossip_exchange_replayed part;
        next = follower(&present, segment->key);
        error = replay_one(directory, segment, next, exchange, recovers, &part, why);
        if (error)
            break;
        replayed->records += part.records;
        replayed->left_out += part.left_out;
        replayed->round = part.round;
        journal->key = segment->key;
        journal->bytes = part.bytes;
        if (next && part.bytes < next->follows_bytes)
            next = NULL; // what follows is the future of a state that is lost
    }
    free(present.list);
    return error;
}

// -- for people

bool node_journal_is(const char *path)
{
    struct segment segment = {0};

    read_head(path, &segment);
    return segment.whole;
}

enum base_error node_journal_inspect(const char *path, struct base_reason *why)
{
    struct segment segment = {0};
    struct gossip_journal_entry entry;
    uint8_t *bytes;
    size_t count, at = 0, records = 0;
    enum base_error error = base_file_read_regular(path, LARGEST, &bytes, &count, why);

    if (error)
        return error;
    if (!parse_head(bytes, count, &segment)) {
        free(bytes);
        return base_fail(why, BASE_EFORMAT, "'%s' is not a journal of p2pml", path);
    }
    printf("file     %s\nformat   journal of edges, key %016" PRIx64 "\n", path, segment.key);
    if (segment.follows)
        printf("follows  %016" PRIx64 ", after %" PRIu64 " bytes of its records\n", segment.follows,
               segment.follows_bytes);
    printf("\n  %-8s  %-64s  %9s %7s %9s %9s\n", "record", "peer", "round", "epoch", "sequence", "bytes");
    while (gossip_exchange_journal_next(bytes + HEAD_BYTES, count - HEAD_BYTES, &at, &entry)) {
        char id[2 * GOSSIP_ID_BYTES + 1];
        for (size_t i = 0; i < GOSSIP_ID_BYTES; i++)
            snprintf(id + 2 * i, 3, "%02x", entry.peer.bytes[i]);
        printf("  %-8s  %s  %9" PRIu64 " %7" PRIu64 " %9" PRIu64 " %9zu\n", entry.kind, id, entry.round,
               entry.epoch, entry.sequence, entry.bytes);
        records++;
    }
    printf("\nrecords  %zu, %zu bytes%s\n", records, at,
           at < count - HEAD_BYTES ? "; what follows is damaged or incomplete" : "");
    free(bytes);
    if (fflush(stdout) || ferror(stdout))
        return base_fail(why, BASE_EIO, "cannot write to standard output");
    return BASE_OK;
}
