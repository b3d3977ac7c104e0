#include "lab/cli/arguments.h"

#include "base/error.h"
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 16u
#define FIRST         256 // larger than every letter

bool lab_arguments_refuse(const struct lab_arguments *arguments, const char *name, const char *found,
                          const char *expected)
{
    fprintf(stderr, "p2pml %s: --%s: found '%s', expected %s\n", arguments->command, name, found, expected);
    return false;
}

static bool take_count(const struct lab_argument *argument, const char *text, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long number = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno || number < argument->least || number > argument->most)
        return false;
    *value = number;
    return true;
}

static bool take_real(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end && isfinite(*value) && *value >= 0;
}

static bool take_choice(const char *choices, const char *text, int *value)
{
    int number = 1;
    for (const char *at = choices; *at; number++) {
        const size_t length = strcspn(at, ", ");
        if (strlen(text) == length && strncmp(text, at, length) == 0) {
            *value = number;
            return true;
        }
        at += length;
        at += strncmp(at, " or ", 4) == 0 ? 4 : strspn(at, ", ");
    }
    return false;
}

static bool take(const struct lab_argument *argument, void *field)
{
    struct lab_texts *texts = field;
    switch (argument->kind) {
    case LAB_ARGUMENT_FLAG:
        return *(bool *)field = true;
    case LAB_ARGUMENT_TEXT:
        *(const char **)field = optarg;
        return true;
    case LAB_ARGUMENT_TEXTS:
        texts->items[texts->count++] = optarg;
        return true;
    case LAB_ARGUMENT_COUNT:
        return take_count(argument, optarg, field);
    case LAB_ARGUMENT_REAL:
        return take_real(optarg, field);
    case LAB_ARGUMENT_CHOICE:
        return take_choice(argument->expected, optarg, field);
    }
    return false;
}

// Allocates the lists of repeated options, with a place for each word of the command line.
static bool make_room(const struct lab_arguments *arguments, int argc, char *into)
{
    bool made = true;
    for (size_t i = 0; i < arguments->count; i++) {
        struct lab_texts *texts = (void *)(into + arguments->table[i].offset);
        if (arguments->table[i].kind == LAB_ARGUMENT_TEXTS)
            made = (texts->items = calloc((size_t)argc, sizeof *texts->items)) && made;
    }
    return made;
}

enum lab_arguments_end lab_arguments_read(const struct lab_arguments *arguments, int argc, char **argv,
                                          void *into)
{
    struct option options[ARGUMENTS_MAX + 2] = {{"help", no_argument, NULL, 'h'}};
    char letters[8] = "h"; // one argument at most has a letter
    BASE_ASSERT(arguments->count <= ARGUMENTS_MAX);
    if (!make_room(arguments, argc, into))
        return LAB_ARGUMENTS_WRONG;
    for (size_t i = 0; i < arguments->count; i++) {
        const struct lab_argument *argument = &arguments->table[i];
        const int wants = argument->kind == LAB_ARGUMENT_FLAG ? no_argument : required_argument;
        const int value = argument->letter ? argument->letter : FIRST + (int)i;
        options[i + 1] = (struct option){argument->name, wants, NULL, value};
        if (argument->letter)
            snprintf(letters, sizeof letters, "h%c%s", argument->letter, wants == no_argument ? "" : ":");
    }
    for (int option; (option = getopt_long(argc, argv, letters, options, NULL)) != -1;) {
        if (option == 'h')
            return LAB_ARGUMENTS_HELP;
        size_t i = 0;
        while (i < arguments->count && options[i + 1].val != option)
            i++;
        if (i == arguments->count)
            return LAB_ARGUMENTS_WRONG;
        const struct lab_argument *argument = &arguments->table[i];
        if (!take(argument, (char *)into + argument->offset)) {
            lab_arguments_refuse(arguments, argument->name, optarg, argument->expected);
            return LAB_ARGUMENTS_WRONG;
        }
    }
    return LAB_ARGUMENTS_READ;
}
