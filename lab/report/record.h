// One run as its files describe it: the row of results.jsonl, summary.json and rounds.jsonl. One owner.
#ifndef LAB_REPORT_RECORD_H
#define LAB_REPORT_RECORD_H

#include "lab/record/recorder.h"

#include <jansson.h>
#include <stdbool.h>

// Points kept for one run; a longer file is thinned while it is read.
#define LAB_RECORD_POINTS_MAX 1600u

struct lab_record {
    json_t *row;     // a line of results.jsonl; NULL: not known yet
    json_t *summary; // without the parts that no report shows; NULL: missing
    struct lab_sample *points;
    size_t count;     // of points
    size_t bad_lines; // of rounds.jsonl
};

// Reads summary.json and rounds.jsonl of a run's directory into *record, and makes a row from them if it has
// none. A missing file is not an error; one that cannot be parsed is, and changes nothing.
enum base_error lab_record_read(const char *directory, struct lab_record *record,
                                struct base_reason *why) BASE_CHECK;
void lab_record_free(struct lab_record *record);

// The text of a key, or `otherwise`. Borrowed.
const char *lab_json_text(const json_t *object, const char *key, const char *otherwise);
// NAN: not a number.
double lab_json_number(const json_t *object, const char *key);

#endif
