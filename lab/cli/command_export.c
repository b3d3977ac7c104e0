#include "lab/cli/command.h"
#include "lab/model/model.h"
#include "lab/model/onnx.h"

#include <getopt.h>
#include <stdio.h>

enum form { NO_FORM, TORCH, ONNX };

struct wanted {
    const char *path, *out;
    int form; // enum form
};

static const struct lab_argument table[] = {
    LAB_ARGUMENT("format", CHOICE, form, .expected = "torch or onnx"),
    LAB_ARGUMENT("out", TEXT, out, .letter = 'o'),
};
static const struct lab_arguments arguments = {"export", table, sizeof table / sizeof *table};

static enum base_error perform(const struct wanted *wanted, struct base_reason *why)
{
    struct node_model_file model;
    enum base_error error = lab_model_read(wanted->path, &model, why);
    if (error)
        return error;
    error = wanted->form == ONNX ? lab_onnx_write(wanted->out, &model, P2PML_VERSION, why)
                                 : node_model_write(wanted->out, &model, why);
    node_model_free(&model);
    return error;
}

int lab_command_export(int argc, char **argv)
{
    struct wanted wanted = {0};
    struct base_reason why = {""};
    int status;
    if (!lab_command_begin(&arguments, argc, argv, &wanted, &status))
        return status;
    if (argc - optind != 1 || !wanted.form || !wanted.out) {
        fprintf(stderr,
                "p2pml export: found %d models, %s format and %s file to write, expected one of each\n",
                argc - optind, wanted.form ? "one" : "no", wanted.out ? "one" : "no");
        return lab_command_usage("export");
    }
    wanted.path = argv[optind];
    return lab_command_ended("export", perform(&wanted, &why), &why);
}
