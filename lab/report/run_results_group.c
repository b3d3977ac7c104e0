// Groups the runs by their settings, and names each group by the settings that differ.
#include "lab/report/run_results.h"

#include "base/array.h"
#include "lab/record/results_private.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static json_t *settings_less_seed(const json_t *row)
{
    json_t *settings = json_copy(json_object_get(row, "settings"));
    if (!settings)
        return json_object();
    json_object_del(settings, "experiment.seed");
    return settings;
}

static struct lab_case *find_case(struct lab_run_results *results, const json_t *settings)
{
    for (size_t i = 0; i < results->n_cases; i++)
        if (json_equal(results->cases[i].settings, settings))
            return &results->cases[i];
    return NULL;
}

// In a sweep only complete runs are averaged.
static bool counts(const struct lab_run_results *results, const struct lab_record *record)
{
    return !results->sweep || strcmp(lab_json_text(record->row, "status", ""), "complete") == 0;
}

static enum base_error place(struct lab_run_results *results, struct lab_record *record)
{
    json_t *settings = settings_less_seed(record->row);
    if (!settings)
        return BASE_ENOMEM;
    struct lab_case *c = find_case(results, settings);
    if (c) {
        json_decref(settings);
    } else {
        c = &results->cases[results->n_cases++];
        *c = (struct lab_case){.settings = settings};
    }
    c->runs++;
    c->ended += !results->sweep || lab_results_has_ended(record->row);
    if (!counts(results, record))
        return BASE_OK;
    return base_array_add(&c->records, &c->n_records, &record, sizeof(struct lab_record *)) ? BASE_OK
                                                                                            : BASE_ENOMEM;
}

static bool varies(const struct lab_run_results *results, const char *key)
{
    const json_t *first = json_object_get(results->cases[0].settings, key);
    for (size_t i = 1; i < results->n_cases; i++) {
        const json_t *other = json_object_get(results->cases[i].settings, key);
        if (!first != !other || (first && !json_equal(first, other)))
            return true;
    }
    return false;
}

static enum base_error find_varied(struct lab_run_results *results)
{
    json_t *seen = json_object(), *value;
    const char *key;
    enum base_error error = seen ? BASE_OK : BASE_ENOMEM;
    results->varied = json_array();
    for (size_t i = 0; i < results->n_cases && !error; i++) {
        json_object_foreach(results->cases[i].settings, key, value) {
            if (json_object_get(seen, key) || !varies(results, key))
                continue;
            if (json_object_set_new(seen, key, json_true()) ||
                json_array_append_new(results->varied, json_string(key)))
                error = BASE_ENOMEM;
        }
    }
    json_decref(seen);
    return results->varied ? error : BASE_ENOMEM;
}

// "ring" is clear by itself; "4" and "true" need the last part of their key as a prefix.
static bool is_word(const char *value)
{
    return isalpha((unsigned char)*value) && strcmp(value, "true") != 0 && strcmp(value, "false") != 0 &&
           strcmp(value, "none") != 0;
}

static char *append_setting(char *label, const char *key, const char *value)
{
    const char *dot = strrchr(key, '.');
    const char *name = is_word(value) ? "" : dot ? dot + 1 : key;
    char *longer = NULL;
    if (asprintf(&longer, "%s%s%s%s%s", label ? label : "", label ? ", " : "", name, *name ? " " : "",
                 value) < 0)
        longer = NULL;
    free(label);
    return longer;
}

// The values of `keys` except number `without`, as a label.
static enum base_error make_label(const struct lab_case *c, const json_t *keys, size_t without, char **label)
{
    json_t *key;
    size_t i;
    *label = NULL;
    json_array_foreach(keys, i, key) {
        const char *value = lab_json_text(c->settings, json_string_value(key), NULL);
        if (!value || i == without)
            continue;
        *label = append_setting(*label, json_string_value(key), value);
        if (!*label)
            return BASE_ENOMEM;
    }
    return BASE_OK;
}

static enum base_error are_distinct(const struct lab_run_results *results, const json_t *keys, size_t without,
                                    bool *distinct)
{
    json_t *seen = json_object();
    enum base_error error = seen ? BASE_OK : BASE_ENOMEM;
    *distinct = true;
    for (size_t i = 0; i < results->n_cases && !error && *distinct; i++) {
        char *label = NULL;
        error = make_label(&results->cases[i], keys, without, &label);
        *distinct = label && !json_object_get(seen, label);
        if (!error && *distinct && json_object_set_new(seen, label, json_true()))
            error = BASE_ENOMEM;
        free(label);
    }
    json_decref(seen);
    return error;
}

// Drops keys that earlier keys already determine: keys that vary together need one name.
static enum base_error find_names(const struct lab_run_results *results, json_t **names)
{
    enum base_error error = BASE_OK;
    *names = json_copy(results->varied);
    if (!*names)
        return BASE_ENOMEM;
    for (size_t i = json_array_size(*names); i-- > 1 && !error;) {
        bool distinct = false;
        error = are_distinct(results, *names, i, &distinct);
        if (distinct && !error)
            json_array_remove(*names, i);
    }
    return error;
}

static enum base_error make_labels(struct lab_run_results *results)
{
    json_t *names = NULL;
    enum base_error error = find_names(results, &names);
    for (size_t i = 0; i < results->n_cases && !error; i++) {
        struct lab_case *c = &results->cases[i];
        error = make_label(c, names, SIZE_MAX, &c->label);
        if (!error && !c->label && !(c->label = strdup(results->title)))
            error = BASE_ENOMEM;
    }
    json_decref(names);
    return error;
}

static enum base_error note_incomplete(struct lab_run_results *results)
{
    size_t lost = 0;
    char text[128];
    for (size_t i = 0; i < results->n_records; i++)
        lost += !counts(results, &results->records[i]);
    if (!lost)
        return BASE_OK;
    snprintf(text, sizeof text, "Left out of all means, because they are not complete: %zu of %zu runs.",
             lost, results->n_records);
    return json_array_append_new(results->notes, json_string(text)) ? BASE_ENOMEM : BASE_OK;
}

enum base_error lab_run_results_group(struct lab_run_results *results)
{
    enum base_error error = BASE_OK;
    results->cases = calloc(results->n_records, sizeof *results->cases);
    if (!results->cases)
        return BASE_ENOMEM;
    for (size_t i = 0; i < results->n_records && !error; i++)
        error = place(results, &results->records[i]);
    if (!error)
        error = find_varied(results);
    if (!error)
        error = make_labels(results);
    return error ? error : note_incomplete(results);
}
