#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/report/report.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct wanted {
    const char *directory, *out;
    enum lab_plot_format format;
    bool help;
};

static bool take_format(const char *text, enum lab_plot_format *format)
{
    *format = strcmp(text, "svg") == 0 ? LAB_PLOT_SVG : LAB_PLOT_PNG;
    if (*format == LAB_PLOT_SVG || strcmp(text, "png") == 0)
        return true;
    fprintf(stderr, "p2pml plot: --format: found '%s', expected png or svg\n", text);
    return false;
}

static bool parse(int argc, char **argv, struct wanted *wanted)
{
    static const struct option options[] = {{"format", required_argument, NULL, 'f'},
                                            {"out", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'f' && !take_format(optarg, &wanted->format))
            return false;
        if (option == 'o')
            wanted->out = optarg;
        if (option == 'h')
            return wanted->help = true;
        if (option == '?')
            return false;
    }
    if (argc - optind == 1) {
        wanted->directory = argv[optind];
        return true;
    }
    fprintf(stderr, "p2pml plot: found %s, expected one directory of a run or of a sweep\n",
            argc > optind ? "several" : "nothing");
    return false;
}

int lab_command_plot(int argc, char **argv)
{
    struct wanted wanted = {.format = LAB_PLOT_PNG};
    struct base_reason why = {""};
    unsigned pictures = 0;
    if (!parse(argc, argv, &wanted))
        return lab_command_usage("plot");
    if (wanted.help)
        return lab_command_about("plot");
    enum base_error error = lab_plot_write(wanted.directory, wanted.out, wanted.format, &pictures, &why);
    if (!error)
        printf("%u pictures, with their data and scripts, in %s%s\n", pictures,
               wanted.out ? wanted.out : wanted.directory, wanted.out ? "" : "/plots");
    return lab_command_ended("plot", error, &why);
}
