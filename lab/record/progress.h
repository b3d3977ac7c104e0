// The display of a run in progress: lines of text for the nodes. Pure functions.
#ifndef LAB_RECORD_PROGRESS_H
#define LAB_RECORD_PROGRESS_H

#include "lab/record/tail.h"
#include <stddef.h>

#define LAB_LINE_BYTES 320u

struct lab_progress {
    const char *name, *state;
    struct lab_row row;
    uint64_t lines; // of metrics so far; 0: the row has no data yet
};

// A line of the table, aligned to the heading; unknown numbers are "-".
void lab_progress_heading(bool regression, char line[LAB_LINE_BYTES]);
void lab_progress_row(const struct lab_progress *progress, char line[LAB_LINE_BYTES]);
// The same in words, for a file or a pipe: "   3.2 s  node-00  round 120  step 480  loss 0.3210 ...".
void lab_progress_plain(const struct lab_progress *progress, double seconds, char line[LAB_LINE_BYTES]);

// Formatted numbers: "12,345"; "93.20%"; "0.1234"; "-" for NAN.
#define LAB_NUMBER_BYTES 32u
void lab_print_count(uint64_t value, char text[LAB_NUMBER_BYTES]);
void lab_print_percent(double fraction, char text[LAB_NUMBER_BYTES]);
// An accuracy in percent; the R2 of a regression unchanged.
void lab_print_accuracy(double value, bool regression, char text[LAB_NUMBER_BYTES]);
void lab_print_real(double value, char text[LAB_NUMBER_BYTES]);
void lab_print_bytes(uint64_t bytes, char text[LAB_NUMBER_BYTES]); // "1.5 MB", powers of 1000

#endif
