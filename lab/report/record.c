#include "lab/report/record.h"

#include "base/array.h"
#include "base/file.h"
#include "lab/record/directory.h"
#include "lab/record/results_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SUMMARY_BYTES_MAX ((size_t)256 << 20)

const char *lab_json_text(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

double lab_json_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

// A single run, in the form of an entry of a sweep.
static json_t *row_of(const json_t *summary)
{
    json_t *seed = json_object_get(json_object_get(summary, "settings"), "seed");
    json_t *run = json_pack("{s:s, s:O, s:{}}", "label", "", "seed", seed ? seed : json_null(), "settings");
    json_t *row = lab_results_row(run, summary);
    json_decref(run);
    return row;
}

// Drops the entries of single nodes and witnesses: the largest part of a summary, and not in any report.
static void trim(json_t *summary)
{
    json_object_del(summary, "per_node");
    json_object_del(json_object_get(summary, "lone"), "shards");
    json_t *events = json_object_get(summary, "events"), *event;
    size_t i;
    json_array_foreach(events, i, event)
        json_object_del(event, "witnesses");
}

static enum base_error read_summary(const char *path, json_t **summary, struct base_reason *why)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    json_error_t wrong;
    enum base_error error = base_file_read(path, SUMMARY_BYTES_MAX, &text, &bytes, why);
    if (error == BASE_ENOTFOUND) {
        *summary = NULL;
        return BASE_OK;
    }
    if (error)
        return error;
    json_t *read = json_loadb((const char *)text, bytes, JSON_REJECT_DUPLICATES, &wrong);
    free(text);
    if (!json_is_object(read)) {
        json_decref(read);
        return base_fail(why, BASE_EFORMAT, "%s:%d: found %s, expected the JSON object that p2pml writes",
                         path, read ? 1 : wrong.line, read ? "another value" : wrong.text);
    }
    *summary = read;
    return BASE_OK;
}

static enum base_error add_point(struct lab_record *record, const struct lab_sample *sample)
{
    return base_array_add(&record->points, &record->count, sample, sizeof *sample) ? BASE_OK : BASE_ENOMEM;
}

// Keeps every `stride`-th sample and the last one; when there are too many, drops every second one and
// doubles the stride.
static enum base_error read_points(FILE *file, struct lab_record *record)
{
    struct lab_sample sample, last = {0};
    size_t stride = 1, seen = 0;
    bool last_kept = true;
    for (int got; (got = lab_sample_read(file, &sample)) != 0;) {
        if (got < 0) {
            record->bad_lines++;
            if (ferror(file))
                return BASE_EIO;
            continue;
        }
        last = sample;
        last_kept = seen++ % stride == 0;
        if (last_kept && add_point(record, &sample))
            return BASE_ENOMEM;
        if (record->count < LAB_RECORD_POINTS_MAX - 1)
            continue;
        for (size_t i = 0; 2 * i < record->count; i++)
            record->points[i] = record->points[2 * i];
        last_kept = record->count % 2 == 1 && last_kept;
        record->count = (record->count + 1) / 2;
        stride *= 2;
    }
    return last_kept ? BASE_OK : add_point(record, &last);
}

static enum base_error read_rounds(const char *path, struct lab_record *record, struct base_reason *why)
{
    FILE *file = fopen(path, "re");
    if (!file && errno == ENOENT)
        return BASE_OK;
    if (!file)
        return base_fail(why, BASE_EIO, "cannot open '%s': %s", path, strerror(errno));
    enum base_error error = read_points(file, record);
    fclose(file);
    return error ? base_fail(why, error, "cannot read '%s': %s", path, base_error_name(error)) : BASE_OK;
}

enum base_error lab_record_read(const char *directory, struct lab_record *record, struct base_reason *why)
{
    struct lab_record read = {.row = record->row};
    char *summary = lab_path("%s/summary.json", directory), *rounds = lab_path("%s/rounds.jsonl", directory);
    enum base_error error = read_summary(summary, &read.summary, why);
    if (!error)
        error = read_rounds(rounds, &read, why);
    if (!error && !read.row && !(read.row = row_of(read.summary)))
        error = base_fail(why, BASE_ENOMEM, "no memory to read '%s'", directory);
    trim(read.summary);
    free(summary);
    free(rounds);
    if (!error) {
        *record = read;
        return BASE_OK;
    }
    if (record->row)
        read.row = NULL;
    lab_record_free(&read);
    return error;
}

void lab_record_free(struct lab_record *record)
{
    json_decref(record->row);
    json_decref(record->summary);
    free(record->points);
    *record = (struct lab_record){0};
}
