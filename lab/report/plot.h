// The parts of p2pml plot: data and scripts for gnuplot, as text. Only lab/report/plot*.c and tests include
// this.
#ifndef LAB_REPORT_PLOT_H
#define LAB_REPORT_PLOT_H

#include "lab/report/report.h"
#include "lab/report/run_results.h"

#include <stdio.h>

// Curves in one picture; all are in curves.dat.
#define LAB_PLOT_CURVES_MAX 16u

enum lab_plot_kind { LAB_PLOT_LINES, LAB_PLOT_TARGET };

struct lab_plot {
    char name[64]; // of its files: "accuracy-over-bytes"
    enum lab_plot_kind kind;
    enum lab_axis axis; // of LINES
    enum lab_line line; // the same
    size_t target;      // of TARGET: block of targets.dat
    double accuracy;    // the same
};

// Lists the plots for which the results have data in plots[most]; returns their number.
size_t lab_plots_of(const struct lab_run_results *results, struct lab_plot *plots, size_t most);

// Writes a script that draws plot->name.png or .svg in the current directory.
void lab_plot_script(const struct lab_run_results *results, const struct lab_plot *plot,
                     enum lab_plot_format format, FILE *out);

// curves.dat: one block per case. targets.dat: one block per target, one line per case, the fewest bytes
// first.
void lab_plot_curves(const struct lab_run_results *results, FILE *out);
enum base_error lab_plot_targets(const struct lab_run_results *results, FILE *out) BASE_CHECK; // BASE_ENOMEM

// Writes a text between single quotes, inside which gnuplot executes nothing.
void lab_plot_quote(const char *text, FILE *out);

#endif
