#include "node/store/metrics.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct node_metrics {
    int file;
    bool regular, complained;
    char *node, *path;
};

// A node that was killed while it wrote may have left half a line: cut it, so that all lines are whole.
static bool cut_torn_line(int file)
{
    char block[4096];
    struct stat status;
    if (fstat(file, &status))
        return false;
    off_t end = status.st_size;
    while (end > 0) {
        size_t bytes = end < (off_t)sizeof block ? (size_t)end : sizeof block;
        ssize_t got = pread(file, block, bytes, end - (off_t)bytes);
        if (got != (ssize_t)bytes)
            return false;
        const char *newline = memrchr(block, '\n', bytes);
        if (newline) {
            end -= (off_t)bytes - (newline + 1 - block);
            break;
        }
        end -= (off_t)bytes;
    }
    return end == status.st_size || ftruncate(file, end) == 0;
}

enum base_error node_metrics_open(const char *path, const char *node, struct node_metrics **metrics,
                                  struct base_reason *why)
{
    enum base_error error = BASE_OK;
    struct stat status;
    struct node_metrics *opened = calloc(1, sizeof *opened);
    if (!opened)
        return base_fail(why, BASE_ENOMEM, "no memory to open '%s'", path);
    opened->node = strdup(node);
    opened->path = strdup(path);
    opened->file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (!opened->node || !opened->path)
        error = base_fail(why, BASE_ENOMEM, "no memory to open '%s'", path);
    else if (opened->file < 0 || fstat(opened->file, &status))
        error = base_fail(why, BASE_EIO, "cannot open '%s' to append metrics: %s", path, strerror(errno));
    else {
        opened->regular = S_ISREG(status.st_mode);
        if (opened->regular && !cut_torn_line(opened->file))
            error = base_fail(why, BASE_EIO, "cannot mend the last line of '%s': %s", path, strerror(errno));
    }
    if (error)
        node_metrics_close(opened);
    else
        *metrics = opened;
    return error;
}

void node_metrics_close(struct node_metrics *metrics)
{
    if (!metrics)
        return;
    if (metrics->file >= 0)
        close(metrics->file);
    free(metrics->node);
    free(metrics->path);
    free(metrics);
}

static bool put(json_t *object, const char *name, json_t *value) // takes the value, also NULL
{
    return json_object_set_new(object, name, value) == 0;
}

static bool put_real(json_t *object, const char *name, double value)
{
    return put(object, name, isfinite(value) ? json_real(value) : json_null());
}

static bool put_integer(json_t *object, const char *name, uint64_t value)
{
    return put(object, name, json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

// One line with its newline, malloc'ed; NULL: out of memory, or a name that is not UTF-8.
static char *row_line(const struct node_metrics *metrics, const struct node_metrics_row *row)
{
    char *text = NULL, *line = NULL;
    json_t *object = json_object();
    if (object && put_real(object, "time", row->time) && put(object, "node", json_string(metrics->node)) &&
        put_integer(object, "round", row->round) && put_integer(object, "step", row->step) &&
        put_real(object, "loss", row->loss) &&
        put_real(object, "accuracy", row->regression ? (double)NAN : row->accuracy) &&
        put_real(object, "test_loss", row->test_loss) && put_integer(object, "bytes_sent", row->bytes_sent) &&
        put_integer(object, "bytes_received", row->bytes_received) &&
        put_integer(object, "exchanges", row->exchanges) && put_real(object, "consensus", row->consensus) &&
        put_real(object, "rate", row->rate) && put_integer(object, "delta_bytes", row->delta_bytes) &&
        put_integer(object, "dense_bytes", row->dense_bytes) &&
        put(object, "state", json_string(row->state)) &&
        (!row->regression || (put_real(object, "r2", row->accuracy) && put_real(object, "rmse", row->rmse))))
        text = json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15));
    json_decref(object);
    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    return line;
}

// Whole or not at all: what a full disk took of a line is cut off again.
static enum base_error append(struct node_metrics *metrics, const char *line)
{
    struct stat status;
    size_t bytes = strlen(line);
    ssize_t put;
    bool known = metrics->regular && fstat(metrics->file, &status) == 0;
    do
        put = write(metrics->file, line, bytes);
    while (put < 0 && errno == EINTR);
    if (put == (ssize_t)bytes)
        return BASE_OK;
    int cause = put < 0 ? errno : ENOSPC;
    bool cut = put <= 0 || (known && ftruncate(metrics->file, status.st_size) == 0);
    if (!metrics->complained)
        base_log(BASE_LOG_ERROR, "metrics", "cannot append to '%s': %s; training goes on without%s",
                 metrics->path, strerror(cause), cut ? "" : ", and half a line stays in the file");
    metrics->complained = true;
    return BASE_EIO;
}

enum base_error node_metrics_write(struct node_metrics *metrics, const struct node_metrics_row *row)
{
    char *line = row_line(metrics, row);
    if (!line)
        return BASE_ENOMEM;
    enum base_error error = append(metrics, line);
    free(line);
    return error;
}
