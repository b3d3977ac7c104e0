// The lines of all nodes: redrawn in place on a terminal, otherwise plain lines at intervals. Main thread.
#ifndef LAB_RECORD_DISPLAY_H
#define LAB_RECORD_DISPLAY_H

#include "lab/record/progress.h"
#include <stdio.h>

struct lab_display {
    FILE *out;
    bool terminal;
    size_t drawn;               // lines of the table on the terminal
    uint64_t start_ns, last_ns; // last_ns: of the latest drawing
};

void lab_display_start(FILE *out, struct lab_display *display);
// Draws when the interval has passed; `now`: always. `nodes` [count].
void lab_display_nodes(struct lab_display *display, const struct lab_progress *nodes, size_t count, bool now);
// One line in the place of the table ("baselines: 3 of 10 done").
void lab_display_line(struct lab_display *display, const char *line, bool now);
// Prints text above the table: whole lines.
void lab_display_say(struct lab_display *display, const char *format, ...) BASE_PRINTF(2, 3);
// Keeps the table in place and continues below it.
void lab_display_keep(struct lab_display *display);

#endif
