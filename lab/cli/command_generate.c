#include "lab/cli/command.h"
#include "lab/model/generate.h"
#include "lab/model/model.h"

#include <getopt.h>

#define TOKENS      200u
#define TOKENS_MAX  1000000u
#define TEMPERATURE 0.8

struct wanted {
    struct lab_generate how;
    uint64_t tokens, top_k;
};

static const struct lab_argument table[] = {
    LAB_ARGUMENT("prompt", TEXT, how.prompt),
    LAB_ARGUMENT("vocabulary", TEXT, how.vocabulary),
    LAB_ARGUMENT("scores", FLAG, how.scores),
    LAB_ARGUMENT("tokens", COUNT, tokens, .expected = "a whole number, at most 1000000", .most = TOKENS_MAX),
    LAB_ARGUMENT("temperature", REAL, how.temperature, .expected = "a number, 0 or more"),
    LAB_ARGUMENT("top-k", COUNT, top_k, .expected = "a whole number, at most 65536", .most = LIMIT_CLASSES),
    LAB_ARGUMENT("seed", COUNT, how.seed, .expected = "a whole number, at most 18446744073709551615",
                 .most = UINT64_MAX),
};
static const struct lab_arguments arguments = {"generate", table, sizeof table / sizeof *table};

static enum base_error perform(const char *file, const struct lab_generate *how, struct base_reason *why)
{
    struct node_model_file model;
    enum base_error error = lab_model_read(file, &model, why);
    if (error)
        return error;
    error = lab_generate(&model, how, stdout, why);
    node_model_free(&model);
    return error;
}

int lab_command_generate(int argc, char **argv)
{
    struct wanted wanted = {.how = {.prompt = "", .temperature = TEMPERATURE, .seed = 1}, .tokens = TOKENS};
    struct base_reason why = {""};
    int status;
    if (!lab_command_begin(&arguments, argc, argv, &wanted, &status))
        return status;
    if (argc - optind != 1) {
        fprintf(stderr, "p2pml generate: found %d models, expected one\n", argc - optind);
        return lab_command_usage("generate");
    }
    wanted.how.tokens = (size_t)wanted.tokens;
    wanted.how.top_k = (size_t)wanted.top_k;
    return lab_command_ended("generate", perform(argv[optind], &wanted.how, &why), &why);
}
