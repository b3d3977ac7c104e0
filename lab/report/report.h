// The results of an experiment, for viewing: one self-contained page, and pictures. Blocking.
#ifndef LAB_REPORT_REPORT_H
#define LAB_REPORT_REPORT_H

#include "base/error.h"

// Writes report.html and results.tex (the table for a paper) into the directory of a run or of a sweep, from
// the files there. An earlier report stays if anything fails. BASE_ENOTFOUND: no such directory;
// BASE_EFORMAT: its files are not from a run.
enum base_error lab_report_write(const char *directory, struct base_reason *why) BASE_CHECK;

enum lab_plot_format { LAB_PLOT_PNG, LAB_PLOT_SVG, LAB_PLOT_PDF };
// Writes data, gnuplot scripts and pictures into `out`; NULL: directory/plots. *pictures: how many were
// drawn. BASE_ENOTFOUND also where gnuplot is not installed: data and scripts are there then.
enum base_error lab_plot_write(const char *directory, const char *out, enum lab_plot_format format,
                               unsigned *pictures, struct base_reason *why) BASE_CHECK;

#endif
