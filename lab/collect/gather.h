// What the nodes of a cluster answer, as the summary and the samples of a run. Pure. One owner.
#ifndef LAB_COLLECT_GATHER_H
#define LAB_COLLECT_GATHER_H

#include "lab/record/recorder.h"

#include <jansson.h>

struct lab_answer {
    double at;       // seconds on the collector's clock
    json_t *status;  // of /status; owned
    json_t *history; // of /history; NULL: none; owned
};

struct lab_answers {
    struct lab_answer *items;
    size_t count;
    json_t *silent; // names of living members that have not answered; owned
};

void lab_answers_free(struct lab_answers *answers);
// Takes status and history over. A node that has answered before is left out. BASE_ENOMEM
enum base_error lab_answers_add(struct lab_answers *answers, const struct lab_answer *answer) BASE_CHECK;

// In order of time, malloc'ed; the last one is of the latest /status. BASE_ENOMEM
enum base_error lab_answers_samples(const struct lab_answers *answers, struct lab_sample **samples,
                                    size_t *count) BASE_CHECK;
// summary.json without its times; NULL: out of memory. `seconds`: that the samples cover.
json_t *lab_answers_summary(const struct lab_answers *answers, double seconds);

#endif
