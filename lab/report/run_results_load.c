// The files of a run or of a sweep.
#include "base/array.h"
#include "lab/report/run_results.h"

#include "base/file.h"
#include "lab/record/directory.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RESULTS_BYTES_MAX ((size_t)64 << 20)

static enum base_error note(struct lab_run_results *results, const char *format, ...) BASE_PRINTF(2, 3);
static enum base_error note(struct lab_run_results *results, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    // A name that was cut inside a character is not valid UTF-8: then the note is omitted.
    json_t *string = json_string(text);
    return string && json_array_append_new(results->notes, string) ? BASE_ENOMEM : BASE_OK;
}

static enum base_error note_faults(struct lab_run_results *results, const json_t *summary)
{
    const char *shortfall = lab_json_text(summary, "shortfall", NULL);
    const char *trouble = lab_json_text(summary, "trouble", NULL);
    const char *unmerged = lab_json_text(summary, "unmerged", NULL);
    enum base_error error = BASE_OK;
    if (shortfall)
        error = note(results,
                     "Incomplete: %s. What is missing was not computed but taken from another node's model.",
                     shortfall);
    if (!error && trouble)
        error = note(results, "Incomplete: %s.", trouble);
    if (!error && unmerged)
        error = note(results, "The nodes hold different models: %s.", unmerged);
    const char *unlearned = lab_json_text(summary, "unlearned", NULL);
    if (!error && unlearned)
        error = note(results, "Not learned: %s.", unlearned);
    return error;
}

// The conditions under which the figures hold.
static enum base_error note_conditions(struct lab_run_results *results, const json_t *summary)
{
    const char *simulated = lab_json_text(summary, "simulated", NULL),
               *seeds = lab_json_text(summary, "seeds", NULL),
               *collected = lab_json_text(summary, "collected", NULL);
    enum base_error error = note_faults(results, summary);
    if (!error && simulated)
        error = note(results, "Simulated: %s.", simulated);
    if (!error && seeds)
        error = note(results, "Seeds: %s.", seeds);
    if (!error && collected)
        error = note(results, "%s.", collected);
    return error;
}

// A label becomes a path: only one component, so that it stays inside runs/.
static bool is_label(const char *label)
{
    return *label && *label != '.' && !strchr(label, '/') && strlen(label) < 256;
}

static bool is_row(const json_t *row)
{
    return json_is_object(row) && is_label(lab_json_text(row, "run", ""));
}

static enum base_error add_row(struct lab_run_results *results, json_t *row)
{
    const struct lab_record record = {.row = row};
    if (base_array_add(&results->records, &results->n_records, &record, sizeof record))
        return BASE_OK;
    json_decref(row);
    return BASE_ENOMEM;
}

// One JSON object per line; the last line may be incomplete while the run is in progress.
static enum base_error read_rows(char *text, struct lab_run_results *results)
{
    size_t bad = 0;
    char *rest = NULL;
    enum base_error error = BASE_OK;
    for (char *line = strtok_r(text, "\n", &rest); line && !error; line = strtok_r(NULL, "\n", &rest)) {
        json_t *row = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        if (is_row(row)) {
            error = add_row(results, row);
        } else {
            json_decref(row);
            bad++;
        }
    }
    if (bad && !error)
        error = note(results, "%zu %s of results.jsonl could not be understood.", bad,
                     bad == 1 ? "line" : "lines");
    return error;
}

// A run of a sweep with damaged files keeps its row in the table.
static enum base_error read_run(const char *directory, struct lab_run_results *results,
                                struct lab_record *record, struct base_reason *why)
{
    struct base_reason problem = {""};
    const char *label = lab_json_text(record->row, "run", "");
    char *path = lab_path("%s/runs/%s", directory, label);
    enum base_error error = lab_record_read(path, record, &problem);
    free(path);
    if (error == BASE_ENOMEM)
        return base_fail(why, error, "%s", problem.text);
    if (error)
        return note(results, "%s", problem.text);
    if (record->bad_lines)
        return note(results, "%zu lines of rounds.jsonl of %s could not be understood.", record->bad_lines,
                    label);
    return BASE_OK;
}

static enum base_error read_runs(const char *directory, struct lab_run_results *results,
                                 struct base_reason *why)
{
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < results->n_records && !error; i++)
        error = read_run(directory, results, &results->records[i], why);
    return error;
}

static enum base_error read_single(const char *directory, struct lab_run_results *results,
                                   struct base_reason *why)
{
    enum base_error error = add_row(results, NULL);
    struct lab_record *record = results->records;
    if (error)
        return base_fail(why, error, "no memory to read '%s'", directory);
    error = lab_record_read(directory, record, why);
    if (error)
        return error;
    if (!record->summary)
        return base_fail(
            why, BASE_ENOTFOUND,
            "'%s' holds neither results.jsonl nor summary.json; expected the directory of a run or "
            "of a sweep, as p2pml run and p2pml sim write it",
            directory);
    if (record->bad_lines)
        return note(results, "%zu lines of rounds.jsonl could not be understood.", record->bad_lines);
    return note_conditions(results, record->summary);
}

// Runs and sweeps have results.jsonl, only runs have a summary.
static bool is_run(const char *directory)
{
    char *path = lab_path("%s/summary.json", directory);
    bool found = access(path, F_OK) == 0;
    free(path);
    return found;
}

static enum base_error read_results(const char *directory, struct lab_run_results *results,
                                    struct base_reason *why)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    if (is_run(directory))
        return read_single(directory, results, why);
    char *path = lab_path("%s/results.jsonl", directory);
    enum base_error error = base_file_read(path, RESULTS_BYTES_MAX, &text, &bytes, why);
    free(path);
    if (error == BASE_ENOTFOUND)
        return read_single(directory, results, why);
    if (error)
        return error;
    results->sweep = true;
    error = read_rows((char *)text, results);
    free(text);
    if (!error && !results->n_records)
        return base_fail(why, BASE_EFORMAT, "'%s/results.jsonl' holds no finished run: nothing to report yet",
                         directory);
    return error ? error : read_runs(directory, results, why);
}

static enum base_error name(const char *directory, struct lab_run_results *results)
{
    const char *title = NULL, *slash;
    for (size_t i = 0; i < results->n_records && !title; i++)
        title = lab_json_text(results->records[i].summary, "experiment", NULL);
    if (!title) {
        slash = strrchr(directory, '/');
        title = slash && slash[1] ? slash + 1 : directory;
    }
    results->title = strdup(title);
    return results->title ? BASE_OK : BASE_ENOMEM;
}

enum base_error lab_run_results_load(const char *directory, struct lab_run_results *results,
                                     struct base_reason *why)
{
    results->notes = json_array();
    if (!results->notes)
        return base_fail(why, BASE_ENOMEM, "no memory to read '%s'", directory);
    enum base_error error = read_results(directory, results, why);
    if (!error)
        error = name(directory, results);
    if (error && !why->text[0])
        base_fail(why, error, "cannot read '%s': %s", directory, base_error_name(error));
    return error;
}
