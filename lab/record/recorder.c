#include "lab/record/recorder.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define LINE_BYTES 4096u

static const struct {
    const char *name;
    size_t offset;
    bool real; // a double, null where unknown; else a uint64_t
} fields[] = {
    {"round", offsetof(struct lab_sample, round), false},
    {"step", offsetof(struct lab_sample, step), false},
    {"time", offsetof(struct lab_sample, time), true},
    {"bytes", offsetof(struct lab_sample, bytes), false},
    {"nodes", offsetof(struct lab_sample, nodes), false},
    {"accuracy", offsetof(struct lab_sample, accuracy), true},
    {"loss", offsetof(struct lab_sample, loss), true},
    {"worst", offsetof(struct lab_sample, worst), true},
    {"mean", offsetof(struct lab_sample, mean), true},
    {"best", offsetof(struct lab_sample, best), true},
    {"consensus", offsetof(struct lab_sample, consensus), true},
    {"train_loss", offsetof(struct lab_sample, train_loss), true},
};
#define FIELDS (sizeof fields / sizeof *fields)

enum base_error lab_recorder_open(const char *path, struct lab_recorder *recorder, struct base_reason *why)
{
    *recorder = (struct lab_recorder){.file = fopen(path, "we")};
    if (!recorder->file)
        return base_fail(why, BASE_EIO, "cannot open '%s' to write points: %s", path, strerror(errno));
    return BASE_OK;
}

static void put_real(FILE *file, double value)
{
    if (isfinite(value))
        fprintf(file, "%.15g", value);
    else
        fputs("null", file);
}

// Flushed at once: a reader may follow the file, and a killed run keeps its samples.
enum base_error lab_recorder_add(struct lab_recorder *recorder, const struct lab_sample *sample,
                                 struct base_reason *why)
{
    const char *from = (const char *)sample;
    for (size_t i = 0; i < FIELDS; i++) {
        uint64_t integer;
        double real;
        fprintf(recorder->file, "%s\"%s\":", i ? "," : "{", fields[i].name);
        memcpy(&integer, from + fields[i].offset, sizeof integer);
        memcpy(&real, from + fields[i].offset, sizeof real);
        if (fields[i].real)
            put_real(recorder->file, real);
        else
            fprintf(recorder->file, "%llu", (unsigned long long)integer);
    }
    fputs("}\n", recorder->file);
    if (fflush(recorder->file) || ferror(recorder->file))
        return base_fail(why, BASE_EIO, "cannot write a sample of rounds.jsonl: %s", strerror(errno));
    recorder->points++;
    return BASE_OK;
}

enum base_error lab_recorder_close(struct lab_recorder *recorder, struct base_reason *why)
{
    FILE *file = recorder->file;
    *recorder = (struct lab_recorder){0};
    if (!file || fclose(file) == 0)
        return BASE_OK;
    return base_fail(why, BASE_EIO, "cannot write rounds.jsonl: %s", strerror(errno));
}

static bool take_field(const json_t *object, size_t i, struct lab_sample *sample)
{
    const json_t *found = json_object_get(object, fields[i].name);
    char *to = (char *)sample + fields[i].offset;
    if (!fields[i].real) {
        uint64_t integer = json_is_integer(found) ? (uint64_t)json_integer_value(found) : 0;
        memcpy(to, &integer, sizeof integer);
        return json_is_integer(found) && json_integer_value(found) >= 0;
    }
    double real = json_is_number(found) ? json_number_value(found) : NAN;
    memcpy(to, &real, sizeof real);
    return json_is_number(found) || json_is_null(found);
}

int lab_sample_read(FILE *file, struct lab_sample *sample)
{
    char line[LINE_BYTES];
    struct lab_sample read = {0};
    if (!fgets(line, sizeof line, file))
        return ferror(file) ? BASE_EFORMAT : 0;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    bool good = json_is_object(object);
    for (size_t i = 0; i < FIELDS && good; i++)
        good = take_field(object, i, &read);
    json_decref(object);
    if (!good)
        return BASE_EFORMAT;
    *sample = read;
    return 1;
}
