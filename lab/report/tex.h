// results.tex: the table of the results for a paper. Pure.
#ifndef LAB_REPORT_TEX_H
#define LAB_REPORT_TEX_H

#include "lab/report/run_results.h"

#include <stdio.h>

// One row for each case, those that reached the highest target with the fewest bytes first. BASE_ENOMEM.
enum base_error lab_tex_write(const struct lab_run_results *results, FILE *out) BASE_CHECK;

#endif
