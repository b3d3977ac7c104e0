#include "lab/tail.h"

#include "lab/directory.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MOST  65536u
#define READ_BYTES 16384u

struct lab_row lab_row_empty(void)
{
    return (struct lab_row){.loss = NAN, .accuracy = NAN, .test_loss = NAN, .consensus = NAN};
}

static bool take_integer(const json_t *object, const char *key, uint64_t *value)
{
    const json_t *found = json_object_get(object, key);
    if (!json_is_integer(found) || json_integer_value(found) < 0)
        return false;
    *value = (uint64_t)json_integer_value(found);
    return true;
}

// null: not measured in this round, the value stays.
static bool take_real(const json_t *object, const char *key, double *value)
{
    const json_t *found = json_object_get(object, key);
    if (json_is_null(found))
        return true;
    if (!json_is_number(found))
        return false;
    *value = json_number_value(found);
    return true;
}

static bool take_state(const json_t *object, char state[LAB_STATE_BYTES])
{
    const char *found = json_string_value(json_object_get(object, "state"));
    size_t used = 0;
    for (; found && found[used] && used + 1 < LAB_STATE_BYTES; used++)
        state[used] = found[used] > ' ' && found[used] <= '~' ? found[used] : '?';
    state[used] = 0;
    return found;
}

static bool take_all(const json_t *object, struct lab_row *row)
{
    return take_integer(object, "round", &row->round) && take_integer(object, "step", &row->step) &&
           take_integer(object, "bytes_sent", &row->bytes_sent) &&
           take_integer(object, "bytes_received", &row->bytes_received) &&
           take_integer(object, "exchanges", &row->exchanges) &&
           take_integer(object, "delta_bytes", &row->delta_bytes) &&
           take_integer(object, "dense_bytes", &row->dense_bytes) && take_real(object, "loss", &row->loss) &&
           take_real(object, "accuracy", &row->accuracy) && take_real(object, "test_loss", &row->test_loss) &&
           take_real(object, "consensus", &row->consensus) && take_state(object, row->state);
}

bool lab_row_parse(const char *line, size_t bytes, struct lab_row *row)
{
    struct lab_row parsed = *row;
    json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
    bool good = json_is_object(object) && take_all(object, &parsed);
    json_decref(object);
    if (good)
        *row = parsed;
    return good;
}

void lab_tail_start(const char *path, struct lab_tail *tail)
{
    *tail = (struct lab_tail){.path = lab_path("%s", path), .file = -1, .row = lab_row_empty()};
}

static void end_line(struct lab_tail *tail)
{
    const char *line = (const char *)base_buffer_head(&tail->line);
    size_t bytes = base_buffer_length(&tail->line);
    if (!tail->skipping && line && lab_row_parse(line, bytes, &tail->row))
        tail->lines++;
    else
        tail->bad++;
    tail->skipping = false;
    base_buffer_consume(&tail->line, bytes);
}

static void take(struct lab_tail *tail, const char *bytes, size_t count)
{
    while (count) {
        const char *newline = memchr(bytes, '\n', count);
        size_t part = newline ? (size_t)(newline - bytes) : count, whole = part + (newline ? 1 : 0);
        if (!tail->skipping && base_buffer_append(&tail->line, bytes, part, LINE_MOST) != BASE_OK) {
            tail->skipping = true;
            base_buffer_consume(&tail->line, base_buffer_length(&tail->line));
        }
        if (newline)
            end_line(tail);
        bytes += whole;
        count -= whole;
    }
}

void lab_tail_read(struct lab_tail *tail)
{
    char bytes[READ_BYTES];
    if (tail->file < 0)
        tail->file = open(tail->path, O_RDONLY | O_CLOEXEC);
    if (tail->file < 0)
        return;
    for (ssize_t got; (got = read(tail->file, bytes, sizeof bytes)) > 0;)
        take(tail, bytes, (size_t)got);
}

void lab_tail_close(struct lab_tail *tail)
{
    if (tail->file >= 0)
        close(tail->file);
    free(tail->path);
    base_buffer_free(&tail->line);
    tail->file = -1;
    tail->path = NULL;
}
