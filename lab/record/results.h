// The results of an experiment, one line per run: results.jsonl and results.csv, and a printed table.
// Read from the files of the runs, whatever made them; values missing in a summary are null. Main thread.
#ifndef LAB_RECORD_RESULTS_H
#define LAB_RECORD_RESULTS_H

#include "base/error.h"

#include <stdio.h>

// Reads DIRECTORY/summary.json, or those of the runs that DIRECTORY/sweep.json names, and writes both files,
// each whole or not at all. `table`: one line for each point with mean and spread over its seeds; NULL: none.
// BASE_ENOTFOUND: there is neither; BASE_EFORMAT: sweep.json cannot be read. A summary that is not there or
// cannot be read leaves nulls in its run.
enum base_error lab_results_write(const char *directory, FILE *table, struct base_reason *why) BASE_CHECK;

#endif
