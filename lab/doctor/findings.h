// What p2pml doctor has found: a line each, as text or JSON. One owner.
#ifndef LAB_DOCTOR_FINDINGS_H
#define LAB_DOCTOR_FINDINGS_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum lab_finding_level { LAB_FINDING_OK, LAB_FINDING_NOTE, LAB_FINDING_PROBLEM };

struct lab_finding {
    enum lab_finding_level level;
    char about[80]; // "clock", "b.example:7400"
    char *text;
    char *advice; // what to do; NULL: nothing
};

struct lab_findings {
    struct lab_finding *items;
    size_t count, problems;
    bool incomplete; // no memory for one of them
};

// Characters that are not printable become '?': names and reasons come from other hosts.
void lab_finding_add(struct lab_findings *findings, enum lab_finding_level level, const char *about,
                     const char *format, ...) BASE_PRINTF(4, 5);
// To the latest finding.
void lab_finding_advise(struct lab_findings *findings, const char *format, ...) BASE_PRINTF(2, 3);
void lab_findings_free(struct lab_findings *findings);

// False: it cannot be written. The last line of the text says how many problems there are.
bool lab_findings_print(const struct lab_findings *findings, bool json, FILE *out);

#endif
