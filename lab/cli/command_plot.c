#include "lab/cli/command.h"
#include "lab/report/report.h"

#include <getopt.h>
#include <stdio.h>

struct wanted {
    const char *out;
    int format; // 1: png, 2: svg, 3: pdf
};

static const struct lab_argument table[] = {
    LAB_ARGUMENT("format", CHOICE, format, .expected = "png, svg or pdf"),
    LAB_ARGUMENT("out", TEXT, out),
};
static const struct lab_arguments arguments = {"plot", table, sizeof table / sizeof *table};

int lab_command_plot(int argc, char **argv)
{
    struct wanted wanted = {.format = 1};
    struct base_reason why = {""};
    unsigned pictures = 0;
    int status;
    if (!lab_command_begin(&arguments, argc, argv, &wanted, &status))
        return status;
    if (argc - optind != 1) {
        fprintf(stderr, "p2pml plot: found %s, expected one directory of a run or of a sweep\n",
                argc > optind ? "several" : "nothing");
        return lab_command_usage("plot");
    }
    static const enum lab_plot_format formats[] = {
        [1] = LAB_PLOT_PNG, [2] = LAB_PLOT_SVG, [3] = LAB_PLOT_PDF};
    const enum lab_plot_format format = formats[wanted.format];
    enum base_error error = lab_plot_write(argv[optind], wanted.out, format, &pictures, &why);
    if (!error)
        printf("%u pictures, with their data and scripts, in %s%s\n", pictures,
               wanted.out ? wanted.out : argv[optind], wanted.out ? "" : "/plots");
    return lab_command_ended("plot", error, &why);
}
