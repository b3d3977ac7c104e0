#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/model/model.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>

struct wanted {
    const char *path;
    const char **settings; // [n_settings] of --set
    size_t n_settings;
    bool json, help;
};

static bool parse(int argc, char **argv, struct wanted *wanted)
{
    static const struct option options[] = {{"set", required_argument, NULL, 's'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 's')
            wanted->settings[wanted->n_settings++] = optarg;
        else if (option == 'j')
            wanted->json = true;
        else if (option == 'h')
            return wanted->help = true;
        else
            return false;
    }
    if (argc - optind != 1) {
        fprintf(stderr, "p2pml eval: found %d files, expected one model\n", argc - optind);
        return false;
    }
    wanted->path = argv[optind];
    return true;
}

static int print(const struct lab_measured *measured, bool json)
{
    if (measured->regression)
        printf(json ? "{\"r2\": %.17g, \"rmse\": %.17g, \"examples\": %zu}\n"
                    : "R2        %.4f\nRMSE      %.4g\nexamples  %zu\n",
               measured->accuracy, measured->rmse, measured->examples);
    else if (measured->text)
        printf(json ? "{\"loss\": %.17g, \"perplexity\": %.17g, \"accuracy\": %.17g, \"windows\": %zu}\n"
                    : "loss        %.4f\nperplexity  %.4f\naccuracy    %.4f\nwindows     %zu\n",
               measured->loss, exp(measured->loss), measured->accuracy, measured->examples);
    else if (json)
        printf("{\"accuracy\": %.17g, \"loss\": %.17g, \"examples\": %zu}\n", measured->accuracy,
               measured->loss, measured->examples);
    else
        printf("accuracy  %.2f%%\nloss      %.4f\nexamples  %zu\n", 100 * measured->accuracy, measured->loss,
               measured->examples);
    return fflush(stdout) || ferror(stdout) ? LAB_EXIT_FAILED : LAB_EXIT_DONE;
}

static int perform(const struct wanted *wanted)
{
    struct base_reason why = {""};
    struct lab_model model;
    struct lab_measured measured;
    int status = LAB_EXIT_FAILED;
    enum base_error error = lab_model_open(wanted->path, &model, &why);
    if (!error)
        error = lab_model_measure(&model, wanted->settings, wanted->n_settings, &measured, &why);
    if (error)
        fprintf(stderr, "p2pml eval: %s\n", why.text);
    else
        status = print(&measured, wanted->json);
    lab_model_close(&model);
    return error == BASE_EINVAL ? LAB_EXIT_USAGE : status;
}

int lab_command_eval(int argc, char **argv)
{
    struct wanted wanted = {0};
    int status;
    wanted.settings = calloc((size_t)argc, sizeof *wanted.settings);
    if (!wanted.settings)
        return LAB_EXIT_FAILED;
    if (!parse(argc, argv, &wanted))
        status = lab_command_usage("eval");
    else
        status = wanted.help ? lab_command_about("eval") : perform(&wanted);
    free(wanted.settings);
    return status;
}
