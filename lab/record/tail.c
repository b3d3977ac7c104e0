#include "lab/record/tail.h"

#include <jansson.h>
#include <math.h>

struct lab_row lab_row_empty(void)
{
    return (struct lab_row){
        .time = NAN, .loss = NAN, .accuracy = NAN, .test_loss = NAN, .consensus = NAN, .rmse = NAN};
}

static bool take_integer(const json_t *object, const char *key, uint64_t *value)
{
    const json_t *found = json_object_get(object, key);
    if (!json_is_integer(found) || json_integer_value(found) < 0)
        return false;
    *value = (uint64_t)json_integer_value(found);
    return true;
}

// null: not measured in this round, the value is kept.
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

// null: the program that trains counts its examples by itself.
static bool take_examples(const json_t *object, uint64_t *value)
{
    if (!json_is_null(json_object_get(object, "own_examples")))
        return take_integer(object, "own_examples", value);
    *value = LAB_NOT_COUNTED;
    return true;
}

static bool take_all(const json_t *object, struct lab_row *row)
{
    return take_integer(object, "round", &row->round) && take_integer(object, "step", &row->step) &&
           take_integer(object, "own_steps", &row->own_steps) && take_examples(object, &row->own_examples) &&
           take_integer(object, "bytes_sent", &row->bytes_sent) &&
           take_integer(object, "bytes_received", &row->bytes_received) &&
           take_integer(object, "exchanges", &row->exchanges) &&
           take_integer(object, "delta_bytes", &row->delta_bytes) &&
           take_integer(object, "dense_bytes", &row->dense_bytes) && take_real(object, "loss", &row->loss) &&
           take_real(object, "accuracy", &row->accuracy) && take_real(object, "test_loss", &row->test_loss) &&
           take_real(object, "consensus", &row->consensus) && take_state(object, row->state);
}

// A regression reports R2 and RMSE instead of an accuracy.
static bool take_regression(const json_t *object, struct lab_row *row)
{
    row->regression = json_object_get(object, "r2") != NULL;
    return !row->regression ||
           (take_real(object, "r2", &row->accuracy) && take_real(object, "rmse", &row->rmse));
}

// Keys that a line may lack.
static void take_marks(const json_t *object, struct lab_row *row)
{
    row->merged = json_is_true(json_object_get(object, "merged"));
    const json_t *own = json_object_get(object, "own_accuracy");
    row->own_accuracy = json_is_number(own) ? json_number_value(own) : (double)NAN;
    row->diverged = json_is_true(json_object_get(object, "diverged"));
    if (!take_integer(object, "returns", &row->returns))
        row->returns = 0;
}

// A line without a time still counts as a round.
static void take_moment(const json_t *object, struct lab_row *row)
{
    const json_t *time = json_object_get(object, "time");
    row->time = json_is_number(time) ? json_number_value(time) : NAN;
    row->measured = json_is_number(json_object_get(object, row->regression ? "r2" : "accuracy"));
}

bool lab_row_parse(const char *line, size_t bytes, struct lab_row *row)
{
    struct lab_row parsed = *row;
    json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
    bool good = json_is_object(object) && take_all(object, &parsed) && take_regression(object, &parsed);
    if (good) {
        take_moment(object, &parsed);
        take_marks(object, &parsed);
    }
    json_decref(object);
    if (good)
        *row = parsed;
    return good;
}

void lab_tail_start(const char *path, struct lab_tail *tail)
{
    *tail = (struct lab_tail){.row = lab_row_empty()};
    lab_lines_start(path, &tail->file);
}

static bool take_line(void *context, const char *line, size_t bytes)
{
    return lab_row_parse(line, bytes, context);
}

void lab_tail_read(struct lab_tail *tail)
{
    lab_lines_read(&tail->file, take_line, &tail->row);
    tail->lines = tail->file.good;
    tail->bad = tail->file.bad;
}

static void add_counters(const struct lab_row *from, struct lab_row *to)
{
    const bool counted = from->own_examples != LAB_NOT_COUNTED && to->own_examples != LAB_NOT_COUNTED;
    to->own_steps += from->own_steps;
    to->own_examples = counted ? to->own_examples + from->own_examples : LAB_NOT_COUNTED;
    to->bytes_sent += from->bytes_sent;
    to->bytes_received += from->bytes_received;
    to->exchanges += from->exchanges;
    to->delta_bytes += from->delta_bytes;
    to->dense_bytes += from->dense_bytes;
}

void lab_tail_again(struct lab_tail *tail)
{
    struct lab_row *row = &tail->row;
    lab_tail_read(tail);
    lab_lines_again(&tail->file);
    add_counters(row, &tail->earlier);
    row->own_steps = row->own_examples = 0;
    row->bytes_sent = row->bytes_received = row->exchanges = row->delta_bytes = row->dense_bytes = 0;
}

struct lab_row lab_tail_row(const struct lab_tail *tail)
{
    struct lab_row row = tail->row;
    add_counters(&tail->earlier, &row);
    return row;
}

void lab_tail_close(struct lab_tail *tail)
{
    lab_lines_close(&tail->file);
}
