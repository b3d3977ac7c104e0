#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/model/model.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>

struct wanted {
    const char *path;
    struct lab_texts settings; // of --set
    bool json;
};

static const struct lab_argument table[] = {
    LAB_ARGUMENT("set", TEXTS, settings),
    LAB_ARGUMENT("json", FLAG, json),
};
static const struct lab_arguments arguments = {"eval", table, sizeof table / sizeof *table};

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
        error = lab_model_measure(&model, wanted->settings.items, wanted->settings.count, &measured, &why);
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
    if (!lab_command_begin(&arguments, argc, argv, &wanted, &status))
        goto out;
    if (argc - optind != 1) {
        fprintf(stderr, "p2pml eval: found %d files, expected one model\n", argc - optind);
        status = lab_command_usage("eval");
        goto out;
    }
    wanted.path = argv[optind];
    status = perform(&wanted);
out:
    free(wanted.settings.items);
    return status;
}
