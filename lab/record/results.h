// The results of an experiment, one line per run: results.jsonl and results.csv, and a printed table.
// Read from the files of the runs; values missing in a summary are null. Main thread.
#ifndef LAB_RECORD_RESULTS_H
#define LAB_RECORD_RESULTS_H

#include "base/error.h"

#include <stdio.h>

// Reads DIRECTORY/summary.json, or those of the runs in DIRECTORY/sweep.json, and writes both files,
// each whole or not at all. `table`: one line for each point with mean and spread over its seeds; NULL: none.
// BASE_ENOTFOUND: neither exists; BASE_EFORMAT: sweep.json cannot be read. A missing or unreadable summary
// leaves nulls in its run.
enum base_error lab_results_write(const char *directory, FILE *table, struct base_reason *why) BASE_CHECK;

#endif
