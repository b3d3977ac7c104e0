#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/model/onnx.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum form { NO_FORM, TORCH, ONNX };

struct wanted {
    const char *path, *out;
    enum form form;
    bool help;
};

static bool take_form(const char *text, enum form *form)
{
    *form = strcmp(text, "torch") == 0 ? TORCH : strcmp(text, "onnx") == 0 ? ONNX : NO_FORM;
    if (!*form)
        fprintf(stderr, "p2pml export: --format: found '%s', expected torch or onnx\n", text);
    return *form != NO_FORM;
}

static bool parse(int argc, char **argv, struct wanted *wanted)
{
    static const struct option options[] = {{"format", required_argument, NULL, 'f'},
                                            {"out", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    for (int option; (option = getopt_long(argc, argv, "ho:", options, NULL)) != -1;) {
        if (option == 'o')
            wanted->out = optarg;
        else if (option == 'h')
            return wanted->help = true;
        else if (option != 'f' || !take_form(optarg, &wanted->form))
            return false;
    }
    if (argc - optind == 1 && wanted->form && wanted->out) {
        wanted->path = argv[optind];
        return true;
    }
    fprintf(stderr, "p2pml export: found %d models, %s format and %s file to write, expected one of each\n",
            argc - optind, wanted->form ? "one" : "no", wanted->out ? "one" : "no");
    return false;
}

static enum base_error perform(const struct wanted *wanted, struct base_reason *why)
{
    char path[NODE_MODEL_PATH];
    struct node_model_file model;
    enum base_error error = node_model_find(wanted->path, path, why);
    if (!error)
        error = node_model_read(path, NULL, &model, why);
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
    if (!parse(argc, argv, &wanted))
        return lab_command_usage("export");
    if (wanted.help)
        return lab_command_about("export");
    return lab_command_ended("export", perform(&wanted, &why), &why);
}
