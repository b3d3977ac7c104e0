#include "lab/cli/command.h"
#include "lab/experiment/options.h"
#include "lab/model/generate.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS      200u
#define TOKENS_MAX  1000000u
#define TEMPERATURE 0.8

struct wanted {
    const char *path;
    struct lab_generate how;
    bool help;
};

static bool take_count(const char *option, const char *text, uint64_t most, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    *value = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (end && !*end && !errno && *value <= most)
        return true;
    fprintf(stderr, "p2pml generate: --%s: found '%.40s', expected a whole number, at most %llu\n", option,
            text, (unsigned long long)most);
    return false;
}

static bool take_temperature(const char *text, double *value)
{
    char *end = NULL;
    *value = strtod(text, &end);
    if (end != text && !*end && isfinite(*value) && *value >= 0)
        return true;
    fprintf(stderr, "p2pml generate: --temperature: found '%.40s', expected a number, 0 or more\n", text);
    return false;
}

static bool take(int option, const char *text, struct wanted *wanted)
{
    uint64_t count = 0;
    switch (option) {
    case 'p':
        wanted->how.prompt = text;
        return true;
    case 'v':
        wanted->how.vocabulary = text;
        return true;
    case 'l':
        wanted->how.scores = true;
        return true;
    case 'n':
        if (!take_count("tokens", text, TOKENS_MAX, &count))
            return false;
        wanted->how.tokens = (size_t)count;
        return true;
    case 't':
        return take_temperature(text, &wanted->how.temperature);
    case 'k':
        if (!take_count("top-k", text, LIMIT_CLASSES, &count))
            return false;
        wanted->how.top_k = (size_t)count;
        return true;
    case 's':
        return take_count("seed", text, UINT64_MAX, &wanted->how.seed);
    default:
        return false;
    }
}

static bool parse(int argc, char **argv, struct wanted *wanted)
{
    static const struct option options[] = {{"prompt", required_argument, NULL, 'p'},
                                            {"tokens", required_argument, NULL, 'n'},
                                            {"temperature", required_argument, NULL, 't'},
                                            {"top-k", required_argument, NULL, 'k'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"vocabulary", required_argument, NULL, 'v'},
                                            {"scores", no_argument, NULL, 'l'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'h')
            return wanted->help = true;
        if (!take(option, optarg, wanted))
            return false;
    }
    if (argc - optind == 1) {
        wanted->path = argv[optind];
        return true;
    }
    fprintf(stderr, "p2pml generate: found %d models, expected one\n", argc - optind);
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
    error = lab_generate(&model, &wanted->how, stdout, why);
    node_model_free(&model);
    return error;
}

int lab_command_generate(int argc, char **argv)
{
    struct wanted wanted = {.how = {.prompt = "", .tokens = TOKENS, .temperature = TEMPERATURE, .seed = 1}};
    struct base_reason why = {""};
    if (!parse(argc, argv, &wanted))
        return lab_command_usage("generate");
    if (wanted.help)
        return lab_command_about("generate");
    return lab_command_ended("generate", perform(&wanted, &why), &why);
}
