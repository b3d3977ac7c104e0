#include "node/store/tensorboard.h"

#include "base/cursor.h"
#include "base/file.h"
#include "base/log.h"
#include "base/protobuf.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CRC32C_POLYNOMIAL 0x82f63b78u // reflected
#define MASK_DELTA        0xa282ead8u
#define EVERY_S           1.0
#define PARTS             1000.0 // two events are at least 1 / PARTS of the time since the start apart

// Fields of the messages.
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2 };

struct node_tensorboard {
    int file;
    bool complained;
    char path[4096];
    double first_s, latest_s; // of the events; 0: none yet
    uint64_t latest_step;
    struct node_metrics_row measured; // of the latest measurement that is not written yet
    bool waits;                       // there is one
};

static uint32_t masked_crc(const uint8_t *bytes, size_t count)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? CRC32C_POLYNOMIAL : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + MASK_DELTA;
}

static void complain(struct node_tensorboard *t, int cause)
{
    BASE_ASSERT(cause > 0);
    if (!t->complained)
        base_log(BASE_LOG_ERROR, "tensorboard", "cannot append to '%s': %s; training continues without it",
                 t->path, strerror(cause));
    t->complained = true;
}

// Whole or not at all.
static void append_record(struct node_tensorboard *t, const uint8_t *data, size_t count)
{
    struct stat status;
    uint8_t *record = malloc(count + 16);
    if (!record)
        return;
    struct base_writer writer = base_writer_of(record, count + 16);
    base_write_u64(&writer, count);
    base_write_u32(&writer, masked_crc(record, 8));
    base_write_bytes(&writer, data, count);
    base_write_u32(&writer, masked_crc(data, count));
    size_t bytes = base_writer_used(&writer);
    bool known = fstat(t->file, &status) == 0;
    ssize_t put = write(t->file, record, bytes);
    free(record);
    if (put == (ssize_t)bytes)
        return;
    complain(t, put < 0 ? errno : ENOSPC);
    if (put > 0 && known && ftruncate(t->file, status.st_size) != 0)
        base_log(BASE_LOG_ERROR, "tensorboard", "half a record stays in '%s'", t->path);
}

static void put_scalar(struct base_protobuf *p, const char *tag, double value)
{
    if (!isfinite(value))
        return;
    size_t opened = base_protobuf_open(p, SUMMARY_VALUE);
    base_protobuf_text(p, VALUE_TAG, tag);
    base_protobuf_float(p, VALUE_SIMPLE, (float)value);
    base_protobuf_close(p, opened);
}

static void put_measurement(struct base_protobuf *p, const struct node_metrics_row *row)
{
    put_scalar(p, row->regression ? "r2/test" : "accuracy/test", row->accuracy);
    if (row->regression)
        put_scalar(p, "rmse/test", row->rmse);
    put_scalar(p, "loss/test", row->test_loss);
}

static void write_event(struct node_tensorboard *t, const struct node_metrics_row *row)
{
    struct base_protobuf p = {0};
    double passed_s = row->time - t->latest_s;
    BASE_ASSERT(t->file >= 0);
    base_protobuf_double(&p, EVENT_WALL_TIME, row->time);
    base_protobuf_number(&p, EVENT_STEP, row->step);
    size_t opened = base_protobuf_open(&p, EVENT_SUMMARY);
    put_scalar(&p, "loss/train", row->loss);
    if (t->waits)
        put_measurement(&p, &t->measured);
    put_scalar(&p, "rate/learning", row->rate);
    if (t->latest_s > 0 && passed_s > 0 && row->step >= t->latest_step)
        put_scalar(&p, "rate/steps_per_second", (double)(row->step - t->latest_step) / passed_s);
    put_scalar(&p, "bytes/sent", (double)row->bytes_sent);
    put_scalar(&p, "bytes/received", (double)row->bytes_received);
    put_scalar(&p, "consensus_distance", row->consensus);
    base_protobuf_close(&p, opened);
    if (!p.error)
        append_record(t, base_buffer_head(&p.bytes), base_buffer_length(&p.bytes));
    base_protobuf_free(&p);
    t->waits = false;
    t->latest_s = row->time;
    t->latest_step = row->step;
}

void node_tensorboard_write(struct node_tensorboard *t, const struct node_metrics_row *row)
{
    BASE_ASSERT(row->state); // it says whether this row is the last
    if (isfinite(row->accuracy) || isfinite(row->test_loss)) {
        t->measured = *row;
        t->waits = true;
    }
    if (t->first_s <= 0)
        t->first_s = row->time;
    double every_s = fmax(EVERY_S, (row->time - t->first_s) / PARTS);
    bool last = strcmp(row->state, "training") != 0;
    if (last || t->latest_s <= 0 || row->time - t->latest_s >= every_s)
        write_event(t, row);
}

static void write_version(struct node_tensorboard *t, double now_s)
{
    struct base_protobuf p = {0};
    base_protobuf_double(&p, EVENT_WALL_TIME, now_s);
    base_protobuf_text(&p, EVENT_FILE_VERSION, "brain.Event:2");
    if (!p.error)
        append_record(t, base_buffer_head(&p.bytes), base_buffer_length(&p.bytes));
    base_protobuf_free(&p);
}

static enum base_error open_file(struct node_tensorboard *t, const char *directory, const char *node,
                                 struct base_reason *why)
{
    struct timespec now;
    BASE_ASSERT(t->file < 0);
    clock_gettime(CLOCK_REALTIME, &now);
    int used = snprintf(t->path, sizeof t->path, "%s/%s", directory, node);
    if (used < 0 || (size_t)used >= sizeof t->path - 96)
        return base_fail(why, BASE_ELIMIT, "the path is too long");
    enum base_error error = base_directory_make(directory, 0777, why);
    if (!error)
        error = base_directory_make(t->path, 0777, why);
    if (error)
        return error;
    snprintf(t->path + used, sizeof t->path - (size_t)used, "/events.out.tfevents.%lld.%s.%ld",
             (long long)now.tv_sec, node, (long)getpid());
    t->file = open(t->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0644);
    if (t->file < 0)
        return base_fail(why, BASE_EIO, "cannot open '%s': %s", t->path, strerror(errno));
    write_version(t, (double)now.tv_sec + (double)now.tv_nsec / 1e9);
    return BASE_OK;
}

enum base_error node_tensorboard_open(const char *directory, const char *node, struct node_tensorboard **out,
                                      struct base_reason *why)
{
    struct node_tensorboard *t = calloc(1, sizeof *t);
    if (!t)
        return base_fail(why, BASE_ENOMEM, "no memory for events of TensorBoard");
    t->file = -1;
    enum base_error error = open_file(t, directory, node, why);
    if (error)
        node_tensorboard_close(t);
    else
        *out = t;
    return error ? base_fail_context(why, error, "metrics.tensorboard") : BASE_OK;
}

void node_tensorboard_close(struct node_tensorboard *t)
{
    if (!t)
        return;
    if (t->file >= 0)
        close(t->file);
    free(t);
}
