// Shared by the files of the results and the report, and private to them.
#ifndef LAB_RECORD_RESULTS_PRIVATE_H
#define LAB_RECORD_RESULTS_PRIVATE_H

#include "lab/record/results.h"

#include <jansson.h>
#include <stdbool.h>

// A line of results.jsonl, owned by the caller. `run`: an entry of sweep.json. `summary` NULL: missing.
json_t *lab_results_row(const json_t *run, const json_t *summary);

// False: the run has not begun, or was interrupted and will be run again. A target counts as reached by a
// setting when all of its runs that have ended have reached it.
bool lab_results_has_ended(const json_t *row);

// True for a regression, whose rows have measure R2: "accuracy", "worst", ... are R2.
bool lab_results_are_r2(const json_t *rows);

// `rows`: a list of objects as in results.jsonl. `keys`: a list of the names of swept settings.
// The keys of a row that are numbers, and those of an entry of its "targets" beside "accuracy"; columns of
// results.csv in this order.
enum { LAB_RESULTS_NUMBERS = 21, LAB_RESULTS_COSTS = 6 };
extern const char *const lab_results_numbers[LAB_RESULTS_NUMBERS],
    *const lab_results_costs[LAB_RESULTS_COSTS];

// malloc'ed; NULL: out of memory.
char *lab_results_csv(const json_t *rows, const json_t *keys);
void lab_results_print(const json_t *rows, FILE *out);

#endif
