// The settings shared by all runs, from their summaries.
#include "lab/report/run_results.h"

#include <stdlib.h>

static const char *const facts[] = {"kind",      "engine",     "method",         "nodes",
                                    "model",     "parameters", "train_examples", "test_examples",
                                    "simulated", "file",       "version"};

// {"data": {"alpha": 1}} as "data.alpha": 1.
static int flatten(const json_t *object, const char *prefix, json_t *flat)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        char path[256];
        int length = snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (length < 0 || (size_t)length >= sizeof path)
            continue;
        if (json_is_object(value) ? flatten(value, path, flat) : json_object_set(flat, path, value))
            return -1;
    }
    return 0;
}

static json_t *facts_of(const json_t *summary)
{
    json_t *flat = json_object();
    int failed = !flat;
    for (size_t i = 0; i < sizeof facts / sizeof *facts && !failed; i++) {
        json_t *value = json_object_get(summary, facts[i]);
        if (value && !json_is_null(value))
            failed = json_object_set(flat, facts[i], value);
    }
    if (!failed)
        failed = flatten(json_object_get(summary, "settings"), "", flat);
    if (!failed && json_is_object(json_object_get(summary, "changed")))
        failed = json_object_update_missing(flat, json_object_get(summary, "changed"));
    if (!failed)
        return flat;
    json_decref(flat);
    return NULL;
}

// Removes from `common` the entries that `other` lacks or has with another value.
static void intersect(json_t *common, const json_t *other)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(common, next, key, value) {
        const json_t *theirs = json_object_get(other, key);
        if (!theirs || !json_equal(value, theirs))
            json_object_del(common, key);
    }
}

static enum base_error find_common(const struct lab_run_results *results, json_t **common)
{
    *common = NULL;
    for (size_t i = 0; i < results->n_records; i++) {
        if (!results->records[i].summary)
            continue;
        json_t *flat = facts_of(results->records[i].summary);
        if (!flat)
            return BASE_ENOMEM;
        if (!*common) {
            *common = flat;
            continue;
        }
        intersect(*common, flat);
        json_decref(flat);
    }
    return BASE_OK;
}

// A sentence of its own: it is long. (That of a single run is among its notes already.)
static enum base_error note_simulated(struct lab_run_results *results, json_t *common)
{
    const char *simulated = lab_json_text(common, "simulated", NULL);
    json_t *text = simulated && results->sweep ? json_sprintf("Simulated: %s.", simulated) : NULL;
    const bool failed = text && json_array_append_new(results->notes, text);
    json_object_del(common, "simulated");
    return failed ? BASE_ENOMEM : BASE_OK;
}

enum base_error lab_run_results_share(struct lab_run_results *results)
{
    json_t *common = NULL, *value;
    const char *key;
    enum base_error error = find_common(results, &common);
    results->shared = json_array();
    if (!results->shared)
        error = BASE_ENOMEM;
    if (!error)
        error = note_simulated(results, common);
    if (!error)
        json_object_foreach(common, key, value)
            if (json_array_append_new(results->shared, json_pack("[s, O]", key, value)))
                error = BASE_ENOMEM;
    json_decref(common);
    return error;
}
