#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/model/model.h"

#include <errno.h>
#include <string.h>

static enum base_error predict_file(struct lab_model *model, const char *path, struct base_reason *why)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        return base_fail(why, BASE_ENOTFOUND, "%s: cannot be read: %s", path, strerror(errno));
    const enum base_error error = lab_model_predict(model, path, in, stdout, why);
    fclose(in);
    return error;
}

int lab_command_predict(int argc, char **argv)
{
    struct base_reason why = {""};
    struct lab_model model;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return lab_command_about("predict");
    if (argc < 2 || argv[1][0] == '-') {
        fputs(
            "p2pml predict: expected a model, then images, a file of rows, or rows on standard input: p2pml predict MODEL "
            "< rows.csv; try 'p2pml help predict'\n",
            stderr);
        return LAB_EXIT_USAGE;
    }
    enum base_error error = lab_model_open(argv[1], &model, &why);
    if (!error && argc == 3 && !lab_model_takes_images(&model))
        error = predict_file(&model, argv[2], &why);
    else if (!error && argc > 2)
        error =
            lab_model_predict_images(&model, (const char *const *)argv + 2, (size_t)argc - 2, stdout, &why);
    else if (!error)
        error = lab_model_predict(&model, "standard input", stdin, stdout, &why);
    lab_model_close(&model);
    return lab_command_ended("predict", error, &why);
}
