// What the files of the results share. Only lab/results*.c include this.
#ifndef LAB_RESULTS_PRIVATE_H
#define LAB_RESULTS_PRIVATE_H

#include "lab/results.h"

#include <jansson.h>

// `rows`: a list of objects as in results.jsonl. `keys`: a list of the names of swept settings.
// malloc'ed; NULL: out of memory.
char *lab_results_csv(const json_t *rows, const json_t *keys);
void lab_results_print(const json_t *rows, FILE *out);

#endif
