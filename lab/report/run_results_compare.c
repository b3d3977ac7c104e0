// Differences between cases, paired by seed.
#include "lab/record/results_private.h"
#include "lab/report/run_results.h"

#include <math.h>
#include <stdlib.h>

static const char *const names[LAB_AGAINST] = {
    [LAB_AGAINST_ACCURACY] = "accuracy", [LAB_AGAINST_WORST] = "worst"};

static const struct lab_record *with_seed(const struct lab_case *c, const json_t *seed)
{
    for (size_t i = 0; i < c->n_records; i++)
        if (json_equal(json_object_get(c->records[i]->row, "seed"), seed))
            return c->records[i];
    return NULL;
}

static size_t find_reference(const struct lab_run_results *results)
{
    size_t best = results->n_cases;
    for (size_t i = 0; i < results->n_cases; i++) {
        const double mean = results->cases[i].values[LAB_VALUE_ACCURACY].mean;
        if (!isnan(mean) &&
            (best == results->n_cases || mean > results->cases[best].values[LAB_VALUE_ACCURACY].mean))
            best = i;
    }
    return best;
}

static void compare(struct lab_case *c, const struct lab_case *reference, double *scratch)
{
    for (size_t v = 0; v < LAB_AGAINST; v++) {
        const char *name = names[v]; // in results.jsonl
        size_t pairs = 0;
        for (size_t i = 0; i < c->n_records; i++) {
            const json_t *seed = json_object_get(c->records[i]->row, "seed");
            const struct lab_record *other = json_is_number(seed) ? with_seed(reference, seed) : NULL;
            if (other)
                scratch[pairs++] =
                    lab_json_number(c->records[i]->row, name) - lab_json_number(other->row, name);
        }
        c->against[v] = lab_band_of(scratch, pairs);
    }
}

enum base_error lab_run_results_compare(struct lab_run_results *results)
{
    double *scratch = malloc((results->n_records + 1) * sizeof *scratch);
    if (!scratch)
        return BASE_ENOMEM;
    results->reference = find_reference(results);
    for (size_t i = 0; i < results->n_cases && results->reference < results->n_cases; i++)
        if (i != results->reference)
            compare(&results->cases[i], &results->cases[results->reference], scratch);
    free(scratch);
    return BASE_OK;
}
